use std::path::Path;

use http::Method;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver};
use serde_json::json;

use super::{DOMAIN, Fixture, lock, problem, request};
use crate::Transcoder;
use crate::template::{PathTemplate, RequestPath};

/// Captured texts of a path, or `None` when it does not match.
fn captured(template: &str, path: &str) -> Option<Vec<(String, Option<String>)>> {
    let template = PathTemplate::parse(template).unwrap_or_else(|problem| panic!("{template}: {problem}"));
    let captures = template.matched(&RequestPath::new(path)?)?;
    Some(captures.into_iter().map(|capture| (capture.field_path.to_owned(), capture.value)).collect())
}

fn one(field: &str, value: &str) -> Option<Vec<(String, Option<String>)>> {
    Some(vec![(field.to_owned(), Some(value.to_owned()))])
}

#[test]
fn templates_capture_segments() {
    assert_eq!(captured("/v1/{name=clusters/*/nodes/*}", "/v1/clusters/a/nodes/b"), one("name", "clusters/a/nodes/b"));
    assert_eq!(captured("/v1/{name=clusters/*/nodes/*}", "/v1/clusters/a/pods/b"), None);
    assert_eq!(captured("/v1/{name=clusters/*/nodes/*}", "/v1/clusters/a/nodes/b/c"), None);
    assert_eq!(captured("/v1/{name=clusters/*/nodes/*}", "/v1/clusters/a/nodes"), None);
    assert_eq!(captured("/v1/{name=clusters/*}", "/v1/clusters/"), None);
    assert_eq!(captured("/v1/{parent=clusters/*}/nodes", "/v1/clusters/a/nodes"), one("parent", "clusters/a"));
    assert_eq!(captured("/v1/{text}", "/v1/a"), one("text", "a"));
    assert_eq!(captured("/v1/{text=**}", "/v1/a/b/c"), one("text", "a/b/c"));
    assert_eq!(captured("/v1/{text=**}", "/v1"), one("text", ""));
    assert_eq!(captured("/v1/x/*", "/v1/x/y"), Some(vec![]));
    let two = vec![("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), Some("x/2".to_owned()))];
    assert_eq!(captured("/v1/{a}/{b=x/*}", "/v1/1/x/2"), Some(two));
}

#[test]
fn a_verb_is_after_the_last_colon_of_the_path_and_must_be_the_same() {
    assert_eq!(captured("/v1/{name=clusters/*}:freeze", "/v1/clusters/a:freeze"), one("name", "clusters/a"));
    assert_eq!(captured("/v1/{name=clusters/*}:freeze", "/v1/clusters/a"), None);
    assert_eq!(captured("/v1/{name=clusters/*}:freeze", "/v1/clusters/a:thaw"), None);
    assert_eq!(captured("/v1/{name=clusters/*}", "/v1/clusters/a:freeze"), None);
    assert_eq!(captured("/v1/{name=clusters/*}", "/v1/clusters/a%3Afreeze"), one("name", "clusters/a:freeze"));
    assert_eq!(captured("/v1/{a}/nodes", "/v1/a:b/nodes"), one("a", "a:b"));
    assert_eq!(captured("/v1/nodes:watch", "/v1/nodes:watch"), Some(vec![]));
}

#[test]
fn segments_are_decoded_and_a_slash_makes_no_other_name() {
    assert_eq!(captured("/v1/{text}", "/v1/a%20b%2Fc+%C3%A9"), one("text", "a b/c+é"));
    assert_eq!(captured("/v1/{name=clusters/*}", "/v1/clusters/a%2fnodes%2Fb"), one("name", "clusters/a%2Fnodes%2Fb"));
    assert_eq!(captured("/v1/{name=clusters/*}", "/v1/cluster%73/%61"), one("name", "clusters/a"));
    assert_eq!(captured("/v1/{text=**}", "/v1/a%2Fb"), one("text", "a%2Fb"));
    for malformed in ["%", "%4", "%zz", "%ff", "%+1"] {
        assert_eq!(
            captured("/v1/{text}", &format!("/v1/{malformed}")),
            Some(vec![("text".to_owned(), None)]),
            "{malformed}"
        );
    }
}

#[test]
fn wrong_templates_are_refused() {
    let problem = |template: &str| PathTemplate::parse(template).expect_err(template);
    assert_eq!(problem("v1"), "it must begin with a slash");
    assert_eq!(problem("/"), "it has no segments");
    assert_eq!(problem("/v1/"), "it ends with a slash");
    assert_eq!(problem("/v1//a"), "a segment is empty");
    assert_eq!(problem("/v1/{a"), "a brace is not closed");
    assert_eq!(problem("/v1/{a}b"), "a slash must be after a brace");
    assert_eq!(problem("/v1/{a=**}/b"), "** must be the last segment");
    assert_eq!(problem("/v1/{a}/{a}"), "it captures a twice");
    assert_eq!(problem("/v1/{a=x/{b}}"), "the segment \"{b\" is not *, ** or letters, digits and -_.~");
    assert_eq!(problem("/v1/a b"), "the segment \"a b\" is not *, ** or letters, digits and -_.~");
    assert_eq!(problem("/v1/a:"), "a verb is letters, digits and -_.~");
}

/// A file that is not on disk.
struct Source(String);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == "p.proto" { File::from_source(name, &self.0) } else { Err(protox::Error::file_not_found(name)) }
    }
}

/// A descriptor set with one service `S`, whose methods have these declarations.
fn set(methods: &str) -> Vec<u8> {
    let file = format!(
        "syntax = \"proto3\"; package p; import \"google/api/annotations.proto\";\n\
         message M {{ string text = 1; repeated string texts = 2; M child = 3; string other_text = 4; }}\n\
         service S {{ {methods} }}"
    );
    let mut files = ChainFileResolver::new();
    files.add(Source(file));
    files.add(IncludeFileResolver::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proto")));
    files.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(files);
    compiler.include_imports(true).open_file("p.proto").unwrap_or_else(|error| panic!("{methods}: {error}"));
    compiler.encode_file_descriptor_set()
}

#[test]
fn wrong_options_are_refused_with_the_method() {
    let problem = |rpc: &str| Transcoder::new(&set(rpc), DOMAIN).expect_err(rpc).to_string();
    let of = |option: &str| format!("rpc A(M) returns (M) {{ option (google.api.http) = {{{option}}}; }}");
    let wrong = |text: &str| format!("the option google.api.http of p.S.A is wrong: {text}");
    assert_eq!(problem(&of("get: \"/v1/{nothing}\"")), wrong("p.M has no field \"nothing\""));
    assert_eq!(problem(&of("get: \"/v1/{texts}\"")), wrong("the path captures texts, which is not one text"));
    assert_eq!(problem(&of("get: \"/v1/{child}\"")), wrong("the path captures child, which is not one text"));
    let spelling = wrong("the path captures otherText: write the name of the proto file, other_text");
    assert_eq!(problem(&of("get: \"/v1/{otherText}\"")), spelling);
    assert_eq!(problem(&of("get: \"v1\"")), wrong("v1: it must begin with a slash"));
    assert_eq!(problem(&of("get: \"/v1\" body: \"*\"")), wrong("a GET has a body: use the query"));
    assert_eq!(problem(&of("post: \"/v1\" body: \"text\"")), wrong("the body text is not a message"));
    assert_eq!(problem(&of("post: \"/v1\" body: \"no\"")), wrong("p.M has no field \"no\""));
    assert_eq!(problem(&of("body: \"*\"")), wrong("the rule has no path"));
    let response = wrong("response_body is not supported: the response is the whole message");
    assert_eq!(problem(&of("get: \"/v1\" response_body: \"text\"")), response);
    let nested = "get: \"/v1\" additional_bindings {get: \"/v2\" additional_bindings {get: \"/v3\"}}";
    assert_eq!(
        problem(&of(nested)),
        wrong("additional_bindings have additional_bindings: put all of them into the rule")
    );
    let custom = "custom {kind: \"A B\" path: \"/v1\"}";
    assert_eq!(problem(&of(custom)), wrong("the custom kind \"A B\" is not an HTTP method"));
    let stream = "rpc A(stream M) returns (M) { option (google.api.http) = {post: \"/v1\"}; }";
    assert_eq!(problem(stream), wrong("a stream of requests has no path: remove the option"));
    let two = "rpc A(M) returns (M) { option (google.api.http) = {get: \"/v1/{text}\"}; }\
               rpc B(M) returns (M) { option (google.api.http) = {get: \"/v1/{other_text=*}\"}; }";
    assert_eq!(problem(two), "p.S.A and p.S.B have the same path GET /v1/{other_text=*}: change one of them");
    let garbage = Transcoder::new(b"garbage", DOMAIN).expect_err("no set").to_string();
    assert!(garbage.starts_with("the descriptor set cannot be read: "), "{garbage}");
}

#[test]
fn every_binding_is_a_route_and_methods_without_an_option_have_none() {
    let transcoder = Fixture::new().transcoder;
    let mut routes: Vec<_> = transcoder.routes().map(|(method, path, rpc)| format!("{method} {path} {rpc}")).collect();
    routes.sort();
    assert_eq!(routes.len(), 16);
    assert_eq!(routes[0], "DELETE /v1/{name=clusters/*/nodes/*} test.v1.Nodes.DeleteNode");
    assert!(routes.contains(&"QUERY /v1/echo test.v1.Nodes.Echo".to_owned()));
    assert!(!routes.iter().any(|route| route.contains("WithoutPath")));
}

/// A descriptor set need not have the file of the option: its bytes are in the options all the same.
#[test]
fn options_are_read_from_descriptors_that_do_not_know_them() {
    const OPTION: &str = "google/api/annotations.proto";
    let set = super::descriptor_set("test.proto");
    let pool = DescriptorPool::decode(set.as_slice()).expect("descriptors");
    let of_sets = pool.get_message_by_name("google.protobuf.FileDescriptorSet").expect("an import");
    let mut files = DynamicMessage::decode(of_sets, set.as_slice()).expect("a set");
    let files_mut = files.get_field_by_name_mut("file").and_then(Value::as_list_mut).expect("files");
    files_mut.retain(|file| {
        file.as_message().and_then(|file| file.get_field_by_name("name")?.as_str().map(|name| name != OPTION))
            == Some(true)
    });
    for file in files_mut.iter_mut().filter_map(Value::as_message_mut) {
        let imports = file.get_field_by_name_mut("dependency").and_then(Value::as_list_mut).expect("imports");
        imports.retain(|import| import.as_str() != Some(OPTION));
    }
    let reduced = files.encode_to_vec();
    assert!(
        DescriptorPool::decode(reduced.as_slice())
            .expect("descriptors")
            .get_extension_by_name("google.api.http")
            .is_none()
    );
    let routes = Transcoder::new(&reduced, DOMAIN).expect("routes").routes().count();
    assert_eq!(routes, Fixture::new().transcoder.routes().count());
}

/// `Everything` contains itself.
#[test]
fn a_transcoder_can_be_logged() {
    let shown = format!("{:?}", Fixture::new().transcoder);
    assert!(shown.contains("\"/v1/echo/{text}\", \"test.v1.Nodes.Echo\""), "{shown}");
}

#[tokio::test]
async fn the_most_exact_path_is_preferred() {
    let fixture = Fixture::new();
    fixture.get("/v1/clusters/default/nodes/default").await;
    fixture.get("/v1/clusters/default/nodes/other").await;
    fixture.get("/v1/clusters/default/nodes").await;
    let calls: Vec<String> = lock(&fixture.service.calls).iter().map(|call| call.method.clone()).collect();
    assert_eq!(calls, ["GetDefault", "GetNode", "ListNodes"]);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_the_same_form() {
    let fixture = Fixture::new();
    for path in ["/", "/v1", "/v2/nodes", "/v1/nodes/", "//v1/nodes", "/v1/clusters/a:thaw", "/test.v1.Nodes/Echo"] {
        let message = problem(&fixture.get(path).await, 404, "NOT_FOUND");
        assert_eq!(message, format!("no method has the path {path:?}: see the reference of the API"));
    }
    for method in [Method::HEAD, Method::OPTIONS, Method::PUT, Method::from_bytes(b"BREW").expect("a method")] {
        let response = fixture.send(request(method.clone(), "/v1/clusters/a/nodes/b", "")).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["allow"]),
            (405, &"DELETE, GET, PATCH".parse().expect("a value"))
        );
    }
    // Two methods have this path with GET.
    let answer = fixture.answer(request(Method::PUT, "/v1/clusters/default/nodes/default", "")).await;
    assert!(problem(&answer, 405, "UNIMPLEMENTED").ends_with(": use DELETE, GET, PATCH"), "{answer:?}");
    let answer = fixture.answer(request(Method::PUT, "/v1/nodes", "")).await;
    assert_eq!(problem(&answer, 405, "UNIMPLEMENTED"), "/v1/nodes has no method PUT: use GET");
    let details = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "METHOD_NOT_ALLOWED", "domain": DOMAIN, "metadata": {}
    }]);
    assert_eq!(answer.json["error"]["details"], details);
    fixture.assert_not_called();
}
