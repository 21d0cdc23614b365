//! A client names the fields that it wants of an answer, over gRPC and over HTTP, and asks for the messages that answers and
//! errors have.

use e2e::{Program, authority};
use fleetwright_proto::v1;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use prost::Message;
use prost_types::FileDescriptorProto;
use serde_json::{Value, json};
use tonic::transport::Endpoint;
use tonic::{Code, Request};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt;

use crate::serve::get;
use crate::{SIMULATOR, TIMEOUT};

fn with_mask<M>(message: M, mask: &'static str) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-goog-fieldmask", mask.parse().expect("ASCII"));
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_the_fields_that_the_client_names() {
    let server =
        Program::new(SIMULATOR, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [grpc, http] = server.wait_for_urls(TIMEOUT);

    let channel = Endpoint::from_shared(grpc).expect("an address").connect().await.expect("the server listens");
    let mut client = FleetServiceClient::new(channel);
    let whole = client.get_server_info(v1::GetServerInfoRequest::default()).await.expect("an answer").into_inner();
    assert!(!whole.version.is_empty() && !whole.replica.is_empty());
    let masked =
        client.get_server_info(with_mask(v1::GetServerInfoRequest::default(), "replica,replicas.reason")).await;
    let expected = v1::ServerInfo { replica: whole.replica.clone(), ..v1::ServerInfo::default() };
    assert_eq!(masked.expect("an answer").into_inner(), expected);

    let clusters = client.list_clusters(v1::ListClustersRequest::default()).await.expect("an answer").into_inner();
    let watch = v1::WatchClustersRequest { resume_token: clusters.resume_token, ..Default::default() };
    let mut watch = client.watch_clusters(with_mask(watch, "resume_token")).await.expect("a watch").into_inner();
    let first = watch.message().await.expect("a message").expect("the first message comes at once");
    assert!(!first.resume_token.is_empty() && first.observe_time.is_none(), "{first:?}");

    let refused =
        client.get_server_info(with_mask(v1::GetServerInfoRequest::default(), "title")).await.expect_err("no field");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let fields = refused.get_details_bad_request().map(|request| request.field_violations).unwrap_or_default();
    assert_eq!(fields.first().map(|violation| violation.field.as_str()), Some("x-goog-fieldmask"));
    assert_eq!(refused.get_details_error_info().map(|info| info.reason), Some("INVALID_FIELD".to_owned()));
    assert!(refused.message().contains("it has version, replica, notices, replicas"), "{}", refused.message());

    let address = authority(&http).to_owned();
    let answered = tokio::task::block_in_place(|| get(&address, "/v1/serverInfo?$fields=version"));
    let body: Value = serde_json::from_str(answered.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!(body, json!({ "version": whole.version }));
    let refused = tokio::task::block_in_place(|| get(&address, "/v1/serverInfo?$fields=title"));
    assert!(refused.starts_with("HTTP/1.1 400 ") && refused.contains("INVALID_FIELD"), "{refused}");
    assert_eq!(server.stop(TIMEOUT), 0);
}

/// A client without our files decodes the details of an error by their type, `google.rpc.BadRequest`.
#[tokio::test(flavor = "multi_thread")]
async fn reflection_knows_the_details_of_errors() {
    let server =
        Program::new(SIMULATOR, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [grpc, _http] = server.wait_for_urls(TIMEOUT);
    let channel = Endpoint::from_shared(grpc).expect("an address").connect().await.expect("the server listens");
    let mut client = ServerReflectionClient::new(channel);
    for detail in ["BadRequest", "ErrorInfo", "QuotaFailure", "RetryInfo"] {
        let asked = MessageRequest::FileContainingSymbol(format!("google.rpc.{detail}"));
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
        let answers = client.server_reflection_info(futures::stream::iter([request])).await.expect("an answer");
        let answer = answers.into_inner().message().await.expect("an answer").expect("one for each request");
        let Some(MessageResponse::FileDescriptorResponse(found)) = &answer.message_response else {
            panic!("{detail}: {answer:?}")
        };
        let files: Vec<FileDescriptorProto> = found
            .file_descriptor_proto
            .iter()
            .map(|bytes| FileDescriptorProto::decode(bytes.as_slice()).expect("a description of a file"))
            .collect();
        let describes = |file: &FileDescriptorProto| {
            let is_declared = file.message_type.iter().any(|message| message.name() == detail);
            file.package() == "google.rpc" && file.name() == "google/rpc/error_details.proto" && is_declared
        };
        assert!(files.iter().any(describes), "{detail}: {files:?}");
    }
    assert_eq!(server.stop(TIMEOUT), 0);
}
