use std::collections::HashMap;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::ServiceExt;

use super::{Fixture, problem, request};
use crate::MAX_BODY_BYTES;

#[tokio::test]
async fn each_code_has_its_name_and_its_http_code() {
    let fixture = Fixture::new();
    // google/rpc/code.proto.
    let table = [
        (Code::Cancelled, 499, "CANCELLED"),
        (Code::Unknown, 500, "UNKNOWN"),
        (Code::InvalidArgument, 400, "INVALID_ARGUMENT"),
        (Code::DeadlineExceeded, 504, "DEADLINE_EXCEEDED"),
        (Code::NotFound, 404, "NOT_FOUND"),
        (Code::AlreadyExists, 409, "ALREADY_EXISTS"),
        (Code::PermissionDenied, 403, "PERMISSION_DENIED"),
        (Code::ResourceExhausted, 429, "RESOURCE_EXHAUSTED"),
        (Code::FailedPrecondition, 400, "FAILED_PRECONDITION"),
        (Code::Aborted, 409, "ABORTED"),
        (Code::OutOfRange, 400, "OUT_OF_RANGE"),
        (Code::Unimplemented, 501, "UNIMPLEMENTED"),
        (Code::Internal, 500, "INTERNAL"),
        (Code::Unavailable, 503, "UNAVAILABLE"),
        (Code::DataLoss, 500, "DATA_LOSS"),
        (Code::Unauthenticated, 401, "UNAUTHENTICATED"),
    ];
    for (code, http, name) in table {
        fixture.service.answer_with(Err(Status::new(code, "why, é")));
        let answer = fixture.get("/v1/nodes").await;
        let expected = json!({"error": {"code": http, "status": name, "message": "why, é", "details": []}});
        assert_eq!((answer.status, answer.json), (http, expected));
    }
}

#[tokio::test]
async fn known_details_are_json_and_others_are_base64() {
    let fixture = Fixture::new();
    let mut details =
        ErrorDetails::with_error_info("FROZEN", "test.example", HashMap::from([("cluster".into(), "a".into())]));
    details.set_retry_info(Some(Duration::from_millis(1_500)));
    details.add_bad_request_violation("filter", "unknown field");
    details.add_quota_failure_violation("clusters/a", "too many");
    details.add_precondition_failure_violation("STATE", "clusters/a", "frozen");
    details.set_resource_info("Cluster", "clusters/a", "", "is frozen");
    details.add_help_link("reference", "https://test.example/errors");
    details.set_localized_message("en", "frozen");
    let status = Status::with_error_details(Code::ResourceExhausted, "frozen", details);
    let mut encoded = tonic_types::pb::Status::decode(status.details()).expect("a status");
    let node = fixture.service.message("Node", json!({"name": "n"})).encode_to_vec();
    for (name, value) in [("test.v1.Node", node), ("test.v1.Unknown", vec![1, 2]), ("google.rpc.Help", vec![0xff])] {
        encoded.details.push(prost_types::Any { type_url: format!("type.googleapis.com/{name}"), value });
    }
    let status = Status::with_details(Code::ResourceExhausted, "frozen", encoded.encode_to_vec().into());
    fixture.service.answer_with(Err(status));
    let response = fixture.send(request(http::Method::GET, "/v1/nodes", "")).await;
    // 1.5 s, rounded up.
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"2".parse().expect("a value")));
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let found: Value = serde_json::from_slice(&bytes).expect("JSON");
    let found = found["error"]["details"].as_array().expect("details").clone();
    let of = |name: &str| {
        let url = format!("type.googleapis.com/{name}");
        found.iter().filter(|detail| detail["@type"] == url.as_str()).cloned().collect::<Vec<_>>()
    };
    let url = |name: &str| format!("type.googleapis.com/{name}");
    let info = json!({"@type": url("google.rpc.ErrorInfo"), "reason": "FROZEN", "domain": "test.example", "metadata": {"cluster": "a"}});
    assert_eq!(of("google.rpc.ErrorInfo"), [info]);
    assert_eq!(of("google.rpc.RetryInfo"), [json!({"@type": url("google.rpc.RetryInfo"), "retryDelay": "1.500s"})]);
    assert_eq!(of("google.rpc.BadRequest")[0]["fieldViolations"][0]["field"], "filter");
    assert_eq!(of("google.rpc.QuotaFailure")[0]["violations"][0]["subject"], "clusters/a");
    assert_eq!(of("google.rpc.PreconditionFailure")[0]["violations"][0]["type"], "STATE");
    assert_eq!(of("google.rpc.ResourceInfo")[0]["resourceName"], "clusters/a");
    assert_eq!(of("google.rpc.LocalizedMessage")[0]["locale"], "en");
    let help = of("google.rpc.Help");
    assert_eq!(help[0]["links"][0]["url"], "https://test.example/errors");
    assert_eq!(help[1], json!({"@type": url("google.rpc.Help"), "value": "/w=="}));
    assert_eq!(of("test.v1.Node")[0]["name"], "n");
    assert_eq!(of("test.v1.Unknown"), [json!({"@type": url("test.v1.Unknown"), "value": "AQI="})]);
}

#[tokio::test]
async fn a_caller_without_credentials_gets_a_challenge() {
    let fixture = Fixture::new();
    fixture.service.answer_with(Err(Status::unauthenticated("no token")));
    let response = fixture.send(request(http::Method::GET, "/v1/nodes", "")).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["www-authenticate"]),
        (401, &"Bearer".parse().expect("a value"))
    );
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
}

/// A layer in front of the services that answers without gRPC, or services that answer something else.
#[tokio::test]
async fn an_answer_that_is_no_grpc_is_an_error() {
    let transcoder = Fixture::new().transcoder;
    let cases = [
        (StatusCode::FORBIDDEN, &b""[..], 403, "PERMISSION_DENIED"),
        (StatusCode::SERVICE_UNAVAILABLE, b"", 503, "UNAVAILABLE"),
        // Without a grpc-status, and also after a frame of 1 byte, which is none of the message.
        (StatusCode::OK, b"", 500, "UNKNOWN"),
        (StatusCode::OK, b"\0\0\0\0\x01\xff", 500, "UNKNOWN"),
        // A frame that is not complete.
        (StatusCode::OK, b"\0\0\0\0\x05a", 500, "INTERNAL"),
    ];
    for (status, body, expected, name) in cases {
        let inner = tower::service_fn(move |_: Request<tonic::body::Body>| async move {
            let mut response = Response::new(Full::new(Bytes::from_static(body)));
            *response.status_mut() = status;
            Ok::<_, std::convert::Infallible>(response)
        });
        let response = transcoder.service(inner).oneshot(request(http::Method::GET, "/v1/nodes", "")).await;
        let response = response.unwrap_or_else(|never| match never {});
        let http = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        let json: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!((http, &json["error"]["status"]), (expected, &name.into()), "{status} {body:?} {json}");
    }
}

#[tokio::test]
async fn a_service_that_fails_or_is_not_ready_is_unavailable() {
    let transcoder = Fixture::new().transcoder;
    let broken = tower::service_fn(|_: Request<tonic::body::Body>| async {
        Err::<Response<Full<Bytes>>, _>(std::io::Error::other("broken"))
    });
    let response = transcoder.service(broken).oneshot(request(http::Method::GET, "/v1/nodes", "")).await;
    let response = response.unwrap_or_else(|never| match never {});
    assert!(response.status().is_server_error());
}

/// A body that announces nothing and never ends is cut off at the limit.
#[tokio::test]
async fn a_body_without_end_is_cut_off_and_a_broken_one_is_refused() {
    let fixture = Fixture::new();
    let chunk = Bytes::from(vec![b' '; 64 * 1024]);
    let endless = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(http_body::Frame::data(chunk.clone())));
    let sent = Request::post("/v1/echo").header("content-type", "application/json");
    let sent = sent.body(http_body_util::StreamBody::new(endless)).expect("a request");
    let service = fixture.transcoder.service(fixture.service.clone());
    let response = service.clone().oneshot(sent).await.unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{MAX_BODY_BYTES}");
    let frames = [Ok(http_body::Frame::data(Bytes::from_static(b"{"))), Err(std::io::Error::other("reset"))];
    let sent = Request::post("/v1/echo").header("content-type", "application/json");
    let sent = sent.body(http_body_util::StreamBody::new(futures::stream::iter(frames))).expect("a request");
    let response = service.oneshot(sent).await.unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    fixture.assert_not_called();
}

#[tokio::test]
async fn a_refusal_before_the_first_message_of_a_stream_has_its_own_code() {
    let fixture = Fixture::new();
    fixture.service.answer_with(Err(Status::permission_denied("not yours")));
    let answer = fixture.get("/v1/clusters/a/nodes:watch").await;
    assert_eq!(problem(&answer, 403, "PERMISSION_DENIED"), "not yours");
}
