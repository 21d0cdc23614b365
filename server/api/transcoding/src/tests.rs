//! A gRPC service that answers messages of any type, and tests by subject.

mod errors;
mod fuzz;
mod json_cache;
mod partial;
mod requests;
mod responses;
mod routes;
mod streams;

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use serde_json::Value;
use tonic::Status;
use tonic::body::Body;
use tower::ServiceExt;

use crate::codec::DynamicCodec;
use crate::{Transcoder, json};

const DOMAIN: &str = "test.example";

/// The descriptor set of a file below `tests/proto`.
fn descriptor_set(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proto");
    let mut compiler = protox::Compiler::new([folder]).expect("the folder of the test's files");
    compiler.include_imports(true).open_file(file).expect("a proto file");
    compiler.encode_file_descriptor_set()
}

/// A call as the service got it.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    method: String,
    /// The request as JSON, with default values.
    request: Value,
    authorization: Option<String>,
    other_headers: Vec<String>,
    marker: Option<Marker>,
}

/// An extension of a request, as a connection adds its peer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Marker(u32);

type Messages = BoxStream<'static, Result<DynamicMessage, Status>>;

/// A gRPC service with the methods of `test.proto`. It answers the next answer that a test has put there, and the request itself
/// without one; a stream is what the test has put there.
#[derive(Clone)]
struct Service {
    pool: DescriptorPool,
    calls: Arc<Mutex<Vec<Call>>>,
    answer: Arc<Mutex<Option<Result<DynamicMessage, Status>>>>,
    messages: Arc<Mutex<Option<Messages>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    fn new() -> Self {
        let pool = DescriptorPool::decode(descriptor_set("test.proto").as_slice()).expect("descriptors");
        Self { pool, calls: Arc::default(), answer: Arc::default(), messages: Arc::default() }
    }

    /// A message of this type from its JSON.
    fn message(&self, name: &str, json: Value) -> DynamicMessage {
        let message = self.pool.get_message_by_name(&format!("test.v1.{name}")).expect(name);
        DynamicMessage::deserialize(message, json).expect(name)
    }

    fn answer_with(&self, answer: Result<DynamicMessage, Status>) {
        *lock(&self.answer) = Some(answer);
    }

    fn stream(&self, messages: impl futures::Stream<Item = Result<DynamicMessage, Status>> + Send + 'static) {
        *lock(&self.messages) = Some(messages.boxed());
    }

    fn record(&self, method: &MethodDescriptor, request: &tonic::Request<DynamicMessage>) {
        let headers = request.metadata().clone().into_headers();
        let sent_by_grpc = ["te", "content-type", "authorization"];
        let others = headers.keys().map(|name| name.as_str().to_owned());
        lock(&self.calls).push(Call {
            method: method.name().to_owned(),
            request: json::to_value(request.get_ref()).expect("JSON"),
            authorization: headers.get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned),
            other_headers: others.filter(|name| !sent_by_grpc.contains(&name.as_str())).collect(),
            marker: request.extensions().get::<Marker>().copied(),
        });
    }

    async fn unary(self, method: MethodDescriptor, request: Request<Body>) -> Response<Body> {
        let codec = DynamicCodec::new(method.input());
        let handler = tower::service_fn(move |request: tonic::Request<DynamicMessage>| {
            self.record(&method, &request);
            let echo = || {
                // The other methods answer a node of this name, or without one.
                let mut message = DynamicMessage::new(method.output());
                if method.output().name() == "Everything" {
                    message = request.get_ref().clone();
                }
                Ok(message)
            };
            let answer = lock(&self.answer).take().unwrap_or_else(echo);
            async move { answer.map(tonic::Response::new) }
        });
        tonic::server::Grpc::new(codec).unary(handler, request).await
    }

    async fn server_streaming(self, method: MethodDescriptor, request: Request<Body>) -> Response<Body> {
        let codec = DynamicCodec::new(method.input());
        let handler = tower::service_fn(move |request: tonic::Request<DynamicMessage>| {
            self.record(&method, &request);
            let refused = lock(&self.answer).take().and_then(Result::err);
            let messages = lock(&self.messages).take();
            async move {
                match refused {
                    Some(status) => Err(status),
                    None => Ok(tonic::Response::new(messages.expect("a stream"))),
                }
            }
        });
        tonic::server::Grpc::new(codec).server_streaming(handler, request).await
    }
}

impl tower::Service<Request<Body>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        let name = request.uri().path().strip_prefix("/test.v1.Nodes/").expect("the service").to_owned();
        let nodes = self.pool.get_service_by_name("test.v1.Nodes").expect("the service");
        let method = nodes.methods().find(|method| method.name() == name).expect("a method");
        Box::pin(async move {
            Ok(match method.is_server_streaming() {
                true => service.server_streaming(method, request).await,
                false => service.unary(method, request).await,
            })
        })
    }
}

/// A transcoder in front of the service.
struct Fixture {
    service: Service,
    transcoder: Transcoder,
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    json: Value,
}

impl Fixture {
    fn new() -> Self {
        let transcoder = Transcoder::new(&descriptor_set("test.proto"), DOMAIN).expect("routes");
        Self { service: Service::new(), transcoder }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        let service = self.transcoder.service(self.service.clone());
        service.oneshot(request).await.unwrap_or_else(|never| match never {})
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Answer {
        let response = self.send(request).await;
        let status = response.status().as_u16();
        assert_eq!(response.headers()["content-type"], "application/json");
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        Answer { status, json: serde_json::from_slice(&bytes).expect("JSON") }
    }

    async fn get(&self, path: &str) -> Answer {
        self.answer(request(Method::GET, path, "")).await
    }

    async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.answer(request(Method::POST, path, body)).await
    }

    /// The request that the service got, after one call; members with these names only.
    fn received(&self, names: &[&str]) -> Value {
        let calls = std::mem::take(&mut *lock(&self.service.calls));
        assert_eq!(calls.len(), 1, "{calls:?}");
        let Value::Object(all) = calls[0].request.clone() else { panic!("{calls:?}") };
        all.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
    }

    fn assert_not_called(&self) {
        assert_eq!(*lock(&self.service.calls), []);
    }
}

fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    request.body(Full::new(body.into())).expect("a request")
}

/// `message` of an error, whose HTTP code and name of the status must be these.
fn problem(answer: &Answer, status: u16, name: &str) -> String {
    let error = &answer.json["error"];
    assert_eq!((answer.status, &error["code"], &error["status"]), (status, &status.into(), &name.into()), "{answer:?}");
    error["message"].as_str().expect("a message").to_owned()
}
