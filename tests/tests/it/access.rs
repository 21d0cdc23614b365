//! Every method with every scope: the server grants exactly what its table says.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use e2e::{Program, TempDir, authority};
use fleetwright_proto::DESCRIPTOR_SET;
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use crate::replicas::figure;
use crate::{SIMULATOR, TIMEOUT};

/// Scopes, the least first, and the SHA-256 of a token of that name. A scope grants what those before it grant.
const SCOPES: [(&str, &str); 4] = [
    ("read", "3316348dbadfb7b11c7c2ea235949419e23f9fa898ad2c198f999617912a9925"),
    ("plan", "64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525"),
    ("operate", "2c29d39181de8f853de5e48ba983a5c88612b9dbaa5ab32c7748800a0840aeb8"),
    ("admin", "8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918"),
];

/// The least scope of each method that needs more than `read`, by what the method does.
const NEEDED: [(&str, &str); 12] = [
    ("CapacityService/PlanCluster", "plan"),
    ("CapacityService/QuoteClusters", "plan"),
    ("CapacityService/CreateHold", "operate"),
    ("CapacityService/CommitHold", "operate"),
    ("CapacityService/ReleaseHold", "operate"),
    ("FleetService/CreateFreeze", "operate"),
    ("FleetService/DeleteFreeze", "operate"),
    ("FleetService/ReleaseQuarantine", "operate"),
    ("FleetService/AcceptClusterUid", "operate"),
    ("FleetService/ForgetCluster", "operate"),
    ("FleetService/ConfirmRemovals", "operate"),
    ("FleetService/ListAuditEntries", "admin"),
];

/// Methods of the API, as `Service/Method`.
fn methods() -> Vec<String> {
    let set = FileDescriptorSet::decode(DESCRIPTOR_SET).expect("the set that the build script wrote");
    let services = set.file.iter().flat_map(|file| &file.service).filter(|service| service.name() != "AgentService");
    let of_service = |service: &prost_types::ServiceDescriptorProto| {
        let name = service.name().to_owned();
        service.method.iter().map(move |method| format!("{name}/{}", method.name())).collect::<Vec<_>>()
    };
    services.flat_map(of_service).collect()
}

/// The status of a call with an empty message. A stream that goes on is OK once its headers are there.
async fn call(channel: &Channel, method: &str, token: Option<&str>) -> Code {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.expect("the server listens");
    let mut request = Request::new(());
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().expect("a header value");
        request.metadata_mut().insert("authorization", value);
    }
    let path = format!("/fleetwright.v1.{method}").parse().expect("a path");
    let answer = client.server_streaming(request, path, ProstCodec::<(), ()>::default()).await;
    let mut messages = match answer {
        Ok(answer) => answer.into_inner(),
        Err(status) => return status.code(),
    };
    // A watch without changes says nothing for 15 seconds.
    match tokio::time::timeout(Duration::from_millis(500), messages.message()).await {
        Ok(Err(status)) => status.code(),
        Ok(Ok(_)) | Err(_) => Code::Ok,
    }
}

#[tokio::test]
async fn every_method_is_granted_to_the_scopes_of_its_table_and_to_no_other() {
    let folder = TempDir::new();
    let client = |(scope, digest): &(&str, &str)| {
        format!("[[clients]]\nname = '{scope}'\nscope = '{scope}'\ntoken-sha256 = '{digest}'\n")
    };
    let file = folder.write_file("auth.toml", SCOPES.iter().map(client).collect::<String>());
    let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(SIMULATOR, &[&["serve", "--dev", "--auth-file", &file], &listeners[..]].concat()).start();
    let [grpc, _http] = server.wait_for_urls(TIMEOUT);
    let channel = Endpoint::from_shared(grpc).expect("a URL").connect().await.expect("the server listens");
    let all = methods();
    assert!(NEEDED.iter().all(|(method, _)| all.iter().any(|known| known == method)), "{all:?}");
    for method in &all {
        let needed = NEEDED.iter().find(|(known, _)| known == method).map_or("read", |(_, scope)| scope);
        let least = SCOPES.iter().position(|(scope, _)| *scope == needed).expect("it is a scope");
        for token in [None, Some("wrong")] {
            assert_eq!(call(&channel, method, token).await, Code::Unauthenticated, "{method}");
        }
        for (at, (scope, _)) in SCOPES.iter().enumerate() {
            let code = call(&channel, method, Some(scope)).await;
            // What else an empty request fails with is none of this test.
            assert_eq!(code == Code::PermissionDenied, at < least, "{method} with scope {scope}: {code:?}");
        }
    }
    assert_eq!(server.stop(TIMEOUT), 0);
}

/// What a client sends and then says no more: a request with a long body of which one byte comes, or a watch that is not read.
fn hang(address: &str, token: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let (line, rest) = request.split_once("\r\n").expect("a request");
    write!(stream, "{line}\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{rest}").expect("the server reads");
    stream
}

/// The first line of the answer to a freeze of the fleet.
fn freeze(address: &str, token: &str) -> String {
    let body = r#"{"reason": "test", "ttl": "1s"}"#;
    let mut stream = hang(
        address,
        token,
        &format!(
            "POST /v1/freezes HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ),
    );
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout above zero");
    let mut answer = String::new();
    let _ended = stream.read_to_string(&mut answer);
    answer.lines().next().unwrap_or_default().to_owned()
}

/// With 1,024 files the HTTP listener has 64 places for clients.
#[test]
fn a_client_with_slow_bodies_and_silent_watches_takes_no_place_of_those_who_operate() {
    let folder = TempDir::new();
    let client = |(scope, digest): &(&str, &str)| {
        format!("[[clients]]\nname = '{scope}'\nscope = '{scope}'\ntoken-sha256 = '{digest}'\n")
    };
    let file = folder.write_file("auth.toml", SCOPES.iter().map(client).collect::<String>());
    let serve = format!(
        "ulimit -n 1024; exec {SIMULATOR} serve --dev --auth-file {file} --listen-grpc 127.0.0.1:0 --listen-http 127.0.0.1:0"
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let server = Program::new("/bin/sh", &["-c", &serve]).env("PATH", &path).start();
    let [_grpc, http] = server.wait_for_urls(TIMEOUT);
    let address = authority(&http).to_owned();
    let slow = "POST /v1/clusters:quote HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n{";
    // What the scope does not allow is refused at once, although its body never comes. This comes first: later, the
    // closed connections may still take the places of this client.
    let mut refused = hang(
        &address,
        "read",
        &slow.replace("/v1/clusters:quote", "/v1/freezes").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
    );
    refused.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout above zero");
    let mut answer = [0; 12];
    refused.read_exact(&mut answer).expect("an answer before the body");
    assert_eq!(&answer, b"HTTP/1.1 403");
    let mut listed = hang(&address, "read", "GET /v1/clusters HTTP/1.1\r\nConnection: close\r\n\r\n");
    let mut list = String::new();
    listed.read_to_string(&mut list).expect("a list");
    let token = list.split("\"resumeToken\":").nth(1).and_then(|rest| rest.split('"').nth(1)).expect("a token");
    let watch = format!("GET /v1/clusters:watch?resumeToken={token} HTTP/1.1\r\n\r\n");
    for (scope, request) in [("plan", slow), ("read", &*watch)] {
        let hanging: Vec<TcpStream> = (0..120).map(|_| hang(&address, scope, request)).collect();
        let mut longest = Duration::ZERO;
        for _ in 0..3 {
            let asked = Instant::now();
            assert_eq!(freeze(&address, "operate"), "HTTP/1.1 200 OK", "beside 120 connections of {scope}");
            longest = longest.max(asked.elapsed());
        }
        figure(&format!("a freeze took {longest:.2?} at most beside 120 connections of {scope}"));
        drop(hanging);
    }
    assert_eq!(server.stop(TIMEOUT), 0);
}
