use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;

use super::{Fixture, Marker, lock, problem, request};
use crate::{MAX_BODY_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES, MAX_QUERY_BYTES};

#[tokio::test]
async fn fields_come_from_the_path_the_query_and_the_body() {
    let fixture = Fixture::new();
    fixture.get("/v1/clusters/a/nodes/b?showDeleted=true").await;
    assert_eq!(fixture.received(&["name", "showDeleted"]), json!({"name": "clusters/a/nodes/b", "showDeleted": true}));
    fixture.get("/v1/nodes?page_size=7&filter=a%3Db+c%26d").await;
    assert_eq!(
        fixture.received(&["parent", "pageSize", "filter"]),
        json!({"parent": "", "pageSize": 7, "filter": "a=b c&d"})
    );
    fixture.post("/v1/clusters/a/nodes?validateOnly=true", r#"{"zones": ["z"], "priceMicroUsd": "5"}"#).await;
    let node = json!({"name": "", "priceMicroUsd": "5", "state": "STATE_UNSPECIFIED", "zones": ["z"], "labels": {}});
    assert_eq!(
        fixture.received(&["parent", "node", "validateOnly"]),
        json!({"parent": "clusters/a", "node": node, "validateOnly": true})
    );
    let patch = request(Method::PATCH, "/v1/clusters/a/nodes/b?updateMask=zones,priceMicroUsd", r#"{"zones": []}"#);
    fixture.answer(patch).await;
    let received = fixture.received(&["node", "updateMask"]);
    assert_eq!(
        (&received["node"]["name"], &received["updateMask"]),
        (&"clusters/a/nodes/b".into(), &"zones,priceMicroUsd".into())
    );
    fixture.post("/v1/clusters/a:freeze", r#"{"reason": "r"}"#).await;
    assert_eq!(fixture.received(&["name", "reason"]), json!({"name": "clusters/a", "reason": "r"}));
    // Without a body.
    fixture.post("/v1/clusters/a:freeze", "").await;
    assert_eq!(fixture.received(&["name", "reason"]), json!({"name": "clusters/a", "reason": ""}));
    fixture.post("/v1/clusters/a:unfreeze?reason=r", "").await;
    assert_eq!(fixture.received(&["name", "reason"]), json!({"name": "clusters/a", "reason": "r"}));
    fixture.answer(request(Method::PUT, "/v1/echo/t?flag=true", r#"{"text": "c"}"#)).await;
    let received = fixture.received(&["text", "flag", "child"]);
    assert_eq!(
        (&received["text"], &received["flag"], &received["child"]["text"]),
        (&"t".into(), &true.into(), &"c".into())
    );
    fixture.get("/v1/files/a/b%2Fc%20d").await;
    assert_eq!(fixture.received(&["text"]), json!({"text": "a/b%2Fc d"}));
}

#[tokio::test]
async fn a_query_has_values_of_all_types() {
    let fixture = Fixture::new();
    let cases = [
        ("text=a%20b+c", json!({"text": "a b c"})),
        ("text=", json!({"text": ""})),
        ("text", json!({"text": ""})),
        ("flag=true", json!({"flag": true})),
        ("small=-2147483648", json!({"small": i32::MIN})),
        ("large=-9223372036854775808", json!({"large": "-9223372036854775808"})),
        ("small_positive=4294967295", json!({"smallPositive": u32::MAX})),
        ("largePositive=18446744073709551615", json!({"largePositive": "18446744073709551615"})),
        ("fraction=-1.5e3", json!({"fraction": -1500.0})),
        ("fraction=NaN", json!({"fraction": "NaN"})),
        ("smallFraction=-Infinity", json!({"smallFraction": "-Infinity"})),
        // The bytes fb ff: "+/8=" in the standard alphabet, "-_8" in the one for URLs.
        ("data=-_8", json!({"data": "+/8="})),
        ("data=%2B/8%3D", json!({"data": "+/8="})),
        ("state=ACTIVE", json!({"state": "ACTIVE"})),
        ("state=2", json!({"state": "DELETING"})),
        ("numbers=1&text=t&numbers=-2", json!({"numbers": ["1", "-2"], "text": "t"})),
        ("states=ACTIVE&states=DELETING", json!({"states": ["ACTIVE", "DELETING"]})),
        ("second=3", json!({"second": "3"})),
        ("present=0", json!({"present": 0})),
        ("time=2026-01-31T08:00:00.5Z", json!({"time": "2026-01-31T08:00:00.500Z"})),
        ("wait=1.5s", json!({"wait": "1.500s"})),
        ("mask=text,childText", json!({"mask": "text,childText"})),
        ("maybe=false", json!({"maybe": false})),
        ("maybeLarge=5", json!({"maybeLarge": "5"})),
        ("&text=a&&", json!({"text": "a"})),
    ];
    for (query, expected) in cases {
        let answer = fixture.get(&format!("/v1/echo?{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        let names: Vec<&str> = expected.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fixture.received(&names), expected, "{query}");
    }
    fixture.get("/v1/echo?child.child.text=a&child.small=3").await;
    let received = fixture.received(&["child"]);
    assert_eq!((&received["child"]["child"]["text"], &received["child"]["small"]), (&"a".into(), &3.into()));
}

#[tokio::test]
async fn wrong_fields_are_refused_with_their_name() {
    let fixture = Fixture::new();
    let cases = [
        ("/v1/nodes?pageSise=3", "pageSise", "test.v1.ListNodesRequest has no field \"pageSise\""),
        ("/v1/nodes?pageSize=x", "pageSize", "\"x\" is not a whole number of 32 bits"),
        ("/v1/nodes?pageSize=1&page_size=2", "page_size", "it is there twice, and has one value"),
        ("/v1/clusters/a/nodes?parent=b", "parent", "it is in the path: remove it from the query"),
        ("/v1/clusters/%ff/nodes", "parent", "its text in the path is not percent-encoded UTF-8"),
        ("/v1/echo?flag=yes", "flag", "\"yes\" is not true or false"),
        ("/v1/echo?large=9223372036854775808", "large", "\"9223372036854775808\" is not a whole number of 64 bits"),
        ("/v1/echo?smallPositive=-1", "smallPositive", "\"-1\" is not a whole number of 32 bits without a sign"),
        ("/v1/echo?largePositive=-1", "largePositive", "\"-1\" is not a whole number of 64 bits without a sign"),
        ("/v1/echo?fraction=inf", "fraction", "\"inf\" is not a number"),
        ("/v1/echo?smallFraction=1e999", "smallFraction", "\"1e999\" is not a number"),
        ("/v1/echo?data=!", "data", "\"!\" is not base64"),
        ("/v1/echo?state=active", "state", "\"active\" is not one of STATE_UNSPECIFIED, ACTIVE, DELETING"),
        ("/v1/echo?child=x", "child", "it is a test.v1.Everything: name one of its fields, after a dot"),
        ("/v1/echo?text.x=1", "text.x", "text has no fields"),
        ("/v1/echo?children.text=1", "children.text", "children has no fields"),
        ("/v1/echo?counts=1", "counts", "it is a map, which the query cannot have"),
        ("/v1/echo?first=a&second=1", "second", "only one of second and first can be there"),
        ("/v1/echo/a?text=b", "text", "it is in the path: remove it from the query"),
        ("/v1/echo?a.b.c.d.e.f.g.h.i=1", "a.b.c.d.e.f.g.h.i", "it has more than 8 segments"),
        ("/v1/echo?=1", "", "test.v1.Everything has no field \"\""),
    ];
    for (path, field, expected) in cases {
        let answer = fixture.get(path).await;
        let message = problem(&answer, 400, "INVALID_ARGUMENT");
        assert_eq!(message, format!("the field {field} is invalid: {expected}"), "{path}");
        let details = &answer.json["error"]["details"];
        assert_eq!(details[0]["reason"], "INVALID_FIELD", "{path}");
        assert_eq!(details[1]["@type"], "type.googleapis.com/google.rpc.BadRequest", "{path}");
        assert_eq!(details[1]["fieldViolations"][0]["field"], field, "{path}");
    }
    for path in ["/v1/echo?time=yesterday", "/v1/echo?wait=1", "/v1/echo?maybe=1", "/v1/echo?maybeLarge=x"] {
        let message = problem(&fixture.get(path).await, 400, "INVALID_ARGUMENT");
        assert!(message.starts_with("the field "), "{path}: {message}");
    }
    let put = fixture.answer(request(Method::PUT, "/v1/echo/t?child.text=x", "{}")).await;
    let expected = "the field child.text is invalid: it is the body: remove it from the query";
    assert_eq!(problem(&put, 400, "INVALID_ARGUMENT"), expected);
    assert_eq!(
        problem(&fixture.get("/v1/echo?text=%f").await, 400, "INVALID_ARGUMENT"),
        "\"text=%f\" is not percent-encoded UTF-8"
    );
    fixture.assert_not_called();
}

#[tokio::test]
async fn wrong_bodies_are_refused_with_the_place() {
    let fixture = Fixture::new();
    let cases = [
        (r#"{"txt": "a"}"#, "unrecognized field name 'txt'"),
        (r#"{"child": {"child": {"txt": 1}}}"#, "child.child"),
        (r#"{"children": [{}, {"small": "x"}]}"#, "children[1].small"),
        (r#"{"state": "GONE"}"#, "unrecognized enum value 'GONE'"),
        (r#"{"flag": "true"}"#, "the field flag is invalid: invalid type: string \"true\", expected a boolean"),
        (r#"{"first": "a", "second": 1}"#, "multiple fields provided for oneof 'choice'"),
        (r#"{"text": "a", "text": "b"}"#, "the member \"text\" is there twice"),
        (r#"{"counts": {"a": 1, "a": 2}}"#, "the member \"a\" is there twice"),
        (r#"{"text": "a"} {}"#, "trailing characters"),
        (r#"{"text": "a""#, "EOF while parsing"),
        ("[]", "invalid type: sequence"),
        ("null", "invalid type: null"),
        ("\"a\"", "invalid type: string"),
        ("text=a", "expected ident"),
        ("\u{feff}{}", "expected value"),
        ("{\"text\": \"\\ud800\"}", "end of hex escape"),
    ];
    for (body, expected) in cases {
        let message = problem(&fixture.post("/v1/echo", body).await, 400, "INVALID_ARGUMENT");
        assert!(message.contains(expected), "{body}: {message}");
    }
    let invalid = fixture.post("/v1/echo", &b"{\"text\": \"\xff\"}"[..]).await;
    assert!(problem(&invalid, 400, "INVALID_ARGUMENT").contains("invalid unicode code point"));
    fixture.assert_not_called();
}

#[tokio::test]
async fn a_field_of_path_and_body_must_be_the_same() {
    let fixture = Fixture::new();
    let answer = fixture.post("/v1/clusters/a:freeze", r#"{"name": "clusters/b"}"#).await;
    let expected = "the field name is invalid: it differs between path and body: send it in the path only";
    assert_eq!(problem(&answer, 400, "INVALID_ARGUMENT"), expected);
    fixture.assert_not_called();
    fixture.post("/v1/clusters/a:freeze", r#"{"name": "clusters/a"}"#).await;
    assert_eq!(fixture.received(&["name"]), json!({"name": "clusters/a"}));
    let patch =
        fixture.answer(request(Method::PATCH, "/v1/clusters/a/nodes/b", r#"{"name": "clusters/a/nodes/c"}"#)).await;
    assert!(problem(&patch, 400, "INVALID_ARGUMENT").starts_with("the field node.name is invalid: it differs"));
}

#[tokio::test]
async fn bodies_and_queries_where_none_belongs_are_refused() {
    let fixture = Fixture::new();
    let get = fixture.answer(request(Method::GET, "/v1/nodes", "{}")).await;
    assert_eq!(problem(&get, 400, "INVALID_ARGUMENT"), "this method takes no body: use path and query");
    let post = fixture.post("/v1/echo?text=a", "{}").await;
    assert_eq!(problem(&post, 400, "INVALID_ARGUMENT"), "this method takes no query: use the body");
    fixture.assert_not_called();
}

#[tokio::test]
async fn sizes_and_depths_are_bounded() {
    let fixture = Fixture::new();
    // The quotation marks and the name are 11 characters.
    let body = |length: usize| format!("{{\"text\":\"{}\"}}", "a".repeat(length - 11));
    assert_eq!(fixture.post("/v1/echo", body(MAX_BODY_BYTES)).await.status, 200);
    let answer = fixture.post("/v1/echo", body(MAX_BODY_BYTES + 1)).await;
    let expected = "the body has more than 4194304 bytes: send less in one request";
    assert_eq!(problem(&answer, 413, "INVALID_ARGUMENT"), expected);
    let query = |length: usize| format!("/v1/echo?text={}", "a".repeat(length - 5));
    assert_eq!(fixture.get(&query(MAX_QUERY_BYTES)).await.status, 200);
    let answer = fixture.get(&query(MAX_QUERY_BYTES + 1)).await;
    let expected = "the query has 16385 bytes and may have at most 16384: shorten it";
    assert_eq!(problem(&answer, 414, "INVALID_ARGUMENT"), expected);
    // A Struct nests three messages for each object: the value, the struct and the entry.
    let nested = |depth: usize| format!("{{\"object\":{}1{}}}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    assert_eq!(fixture.post("/v1/echo", nested(MAX_JSON_DEPTH)).await.status, 200);
    let answer = fixture.post("/v1/echo", nested(MAX_JSON_DEPTH + 1)).await;
    assert!(problem(&answer, 400, "INVALID_ARGUMENT").contains("it has more than 32 nested objects and arrays"));
    // The whole, the member and its elements.
    let elements = |count: usize| format!("{{\"numbers\":[{}0]}}", "0,".repeat(count - 1));
    assert_eq!(fixture.post("/v1/echo", elements(MAX_JSON_VALUES - 2)).await.status, 200);
    let answer = fixture.post("/v1/echo", elements(MAX_JSON_VALUES - 1)).await;
    assert!(problem(&answer, 400, "INVALID_ARGUMENT").contains("it has more than 50000 values"));
    // A message in a message, on a thread with the stack of a worker.
    let nested = |depth: usize| format!("{}{{}}{}", "{\"child\":".repeat(depth - 1), "}".repeat(depth - 1));
    assert_eq!(fixture.post("/v1/echo", nested(MAX_JSON_DEPTH)).await.status, 200);
    let answer = fixture.post("/v1/echo", "[".repeat(MAX_BODY_BYTES)).await;
    assert!(problem(&answer, 400, "INVALID_ARGUMENT").contains("it has more than 32 nested objects and arrays"));
}

#[tokio::test]
async fn only_json_may_change_something() {
    let fixture = Fixture::new();
    let types = [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data"),
        Some("application/jsonp"),
    ];
    for (method, path) in [
        (Method::POST, "/v1/clusters/a:unfreeze"),
        (Method::PATCH, "/v1/clusters/a/nodes/b"),
        (Method::PUT, "/v1/echo/a"),
    ] {
        for content_type in types {
            let mut request = Request::builder().method(&method).uri(path);
            if let Some(content_type) = content_type {
                request = request.header("content-type", content_type);
            }
            let answer = fixture.answer(request.body(Full::default()).expect("a request")).await;
            let expected = format!("a {method} must have Content-Type: application/json, also without a body");
            assert_eq!(problem(&answer, 415, "INVALID_ARGUMENT"), expected, "{content_type:?}");
        }
    }
    fixture.assert_not_called();
    let request = Request::post("/v1/clusters/a:unfreeze").header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(fixture.answer(request.body(Full::default()).expect("a request")).await.status, 200);
    // A GET needs none, and the response allows no other site to read it.
    let response = fixture.send(Request::get("/v1/nodes").body(Full::default()).expect("a request")).await;
    assert!(response.status().is_success());
    assert!(response.headers().keys().all(|name| !name.as_str().starts_with("access-control")));
    let zipped =
        Request::post("/v1/echo").header("content-type", "application/json").header("content-encoding", "gzip");
    let answer = fixture.answer(zipped.body(Full::from("{}")).expect("a request")).await;
    assert!(problem(&answer, 415, "INVALID_ARGUMENT").contains("Content-Encoding"));
}

#[tokio::test]
async fn the_call_has_the_caller_and_nothing_else_of_the_request() {
    let fixture = Fixture::new();
    let request = Request::get("/v1/nodes").header("authorization", "Bearer t").header("cookie", "session=1");
    let request = request.header("traceparent", "00-1").header("grpc-timeout", "1S").header("x-forwarded-for", "::1");
    let request = request.extension(Marker(7)).body(Full::default()).expect("a request");
    assert_eq!(fixture.answer(request).await.status, 200);
    let calls = lock(&fixture.service.calls).clone();
    assert_eq!((calls[0].authorization.as_deref(), calls[0].marker), (Some("Bearer t"), Some(Marker(7))));
    assert_eq!(calls[0].other_headers, ["traceparent"]);
}
