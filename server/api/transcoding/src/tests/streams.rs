use std::time::Duration;

use futures::future::poll_fn;
use futures::{FutureExt, Stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use prost_reflect::DynamicMessage;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;

use super::{Fixture, request};

const PATH: &str = "/v1/clusters/a/nodes:watch";

/// Longer than any step takes; only a hanging test waits for it.
const DEADLINE: Duration = Duration::from_secs(60);

type Item = Result<DynamicMessage, Status>;

fn stream(mut receiver: Receiver<Item>) -> impl Stream<Item = Item> + Send {
    futures::stream::poll_fn(move |context| receiver.poll_recv(context))
}

/// A fixture whose next stream has what is sent here.
fn fixture() -> (Fixture, Sender<Item>) {
    let fixture = Fixture::new();
    let (sender, receiver) = channel(8);
    fixture.service.stream(stream(receiver));
    (fixture, sender)
}

fn node(fixture: &Fixture, name: &str) -> Item {
    Ok(fixture.service.message("Node", json!({"name": name})))
}

const NODE_A: &str = r#"{"name":"a","priceMicroUsd":"0","state":"STATE_UNSPECIFIED","zones":[],"labels":{}}"#;

fn events(path: &str) -> Request<Full<prost::bytes::Bytes>> {
    let mut request = request(Method::GET, path, "");
    request.headers_mut().insert("accept", "text/html, Text/Event-Stream;q=0.9".parse().expect("a value"));
    request
}

async fn next(response: &mut Response<Body>) -> Option<String> {
    let frame = timeout(DEADLINE, response.body_mut().frame()).await.expect("a frame in time")?;
    let bytes = frame.expect("a frame").into_data().expect("data");
    Some(String::from_utf8(bytes.to_vec()).expect("text"))
}

#[tokio::test]
async fn each_message_is_a_line_that_is_sent_at_once() {
    let (fixture, sender) = fixture();
    let mut response = fixture.send(request(Method::GET, PATH, "")).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    for _ in 0..2 {
        sender.send(node(&fixture, "a")).await.expect("a receiver");
        // The stream is still open, and the line is complete.
        assert_eq!(next(&mut response).await, Some(format!("{{\"result\":{NODE_A}}}\n")));
        assert!(response.body_mut().frame().now_or_never().is_none());
    }
    drop(sender);
    assert_eq!(next(&mut response).await, None);
    assert_eq!(fixture.received(&["parent"]), json!({"parent": "clusters/a"}));
}

#[tokio::test]
async fn an_error_is_the_last_line() {
    let (fixture, sender) = fixture();
    let mut response = fixture.send(request(Method::GET, PATH, "")).await;
    sender.send(node(&fixture, "a")).await.expect("a receiver");
    sender.send(Err(Status::out_of_range("too old"))).await.expect("a receiver");
    assert_eq!(next(&mut response).await, Some(format!("{{\"result\":{NODE_A}}}\n")));
    let error = r#"{"error":{"code":400,"status":"OUT_OF_RANGE","message":"too old","details":[]}}"#;
    assert_eq!(next(&mut response).await, Some(format!("{error}\n")));
    assert_eq!(next(&mut response).await, None);
}

#[tokio::test]
async fn a_client_that_accepts_events_gets_events() {
    let (fixture, sender) = fixture();
    let mut response = fixture.send(events(PATH)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    sender.send(node(&fixture, "a")).await.expect("a receiver");
    assert_eq!(next(&mut response).await, Some(format!("data: {NODE_A}\n\n")));
    sender.send(Err(Status::unavailable("moved"))).await.expect("a receiver");
    let error = r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"moved","details":[]}}"#;
    assert_eq!(next(&mut response).await, Some(format!("event: error\ndata: {error}\n\n")));
    assert_eq!(next(&mut response).await, None);
}

/// The clock of the runtime is virtual: it goes to the next timer when nothing else happens.
#[tokio::test(start_paused = true)]
async fn comments_keep_events_alive_when_no_message_is_sent() {
    let (fixture, sender) = fixture();
    let mut response = fixture.send(events(PATH)).await;
    let start = tokio::time::Instant::now();
    for seconds in [15, 30] {
        assert_eq!(next(&mut response).await.as_deref(), Some(": keep-alive\n\n"));
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    sender.send(node(&fixture, "a")).await.expect("a receiver");
    assert_eq!(next(&mut response).await, Some(format!("data: {NODE_A}\n\n")));
    // The message at 40 s is as good as a comment.
    assert_eq!(next(&mut response).await.as_deref(), Some(": keep-alive\n\n"));
    assert_eq!(start.elapsed(), Duration::from_secs(55));
}

#[tokio::test]
async fn a_message_without_json_ends_the_stream_with_an_error() {
    let fixture = Fixture::new();
    let (sender, receiver) = channel(8);
    fixture.service.stream(stream(receiver));
    let mut response = fixture.send(request(Method::GET, PATH, "")).await;
    // Seconds beyond the year 9999 have no text.
    let mut message = fixture.service.message("Node", json!({"createTime": "2026-01-31T08:00:00Z"}));
    let time =
        message.get_field_by_name_mut("create_time").and_then(prost_reflect::Value::as_message_mut).expect("a time");
    time.set_field_by_name("seconds", prost_reflect::Value::I64(i64::MAX));
    sender.send(Ok(message)).await.expect("a receiver");
    let line = next(&mut response).await.expect("a line");
    assert!(
        line.starts_with(r#"{"error":{"code":500,"status":"INTERNAL","message":"a message has no JSON: "#),
        "{line}"
    );
    assert_eq!(next(&mut response).await, None);
    timeout(DEADLINE, sender.closed()).await.expect("the call is dropped");
}

#[tokio::test]
async fn a_response_that_is_dropped_ends_the_call() {
    let (fixture, sender) = fixture();
    let mut response = fixture.send(request(Method::GET, PATH, "")).await;
    sender.send(node(&fixture, "a")).await.expect("a receiver");
    next(&mut response).await;
    assert!(!sender.is_closed());
    drop(response);
    timeout(DEADLINE, sender.closed()).await.expect("the call is dropped");
}

/// The same over a socket: a server of axum on HTTP/1.1, whose client closes the connection after the first message.
#[tokio::test]
async fn a_client_that_disconnects_ends_the_call() {
    let (fixture, sender) = fixture();
    let router = axum::Router::new().fallback_service(fixture.transcoder.service(fixture.service.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut client = BufReader::new(TcpStream::connect(address).await.expect("a connection"));
    let head = format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.get_mut().write_all(head.as_bytes()).await.expect("a request");
    sender.send(node(&fixture, "a")).await.expect("a receiver");
    let mut line = String::new();
    while !line.contains("result") {
        line.clear();
        timeout(DEADLINE, client.read_line(&mut line)).await.expect("a line in time").expect("a line");
    }
    assert_eq!(line, format!("{{\"result\":{NODE_A}}}\n"));
    assert!(!sender.is_closed());
    drop(client);
    timeout(DEADLINE, sender.closed()).await.expect("the call is dropped");
    server.abort();
}

/// A unary call too ends with its request.
#[tokio::test]
async fn a_request_that_is_dropped_ends_its_call() {
    let fixture = Fixture::new();
    let (sender, receiver) = channel::<()>(1);
    let receiver = std::sync::Arc::new(std::sync::Mutex::new(Some(receiver)));
    let inner = tower::service_fn(move |_: Request<Body>| {
        let receiver = receiver.lock().expect("a lock").take();
        async move {
            let mut receiver = receiver.expect("one call");
            poll_fn(|context| receiver.poll_recv(context)).await;
            Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
        }
    });
    let mut service = fixture.transcoder.service(inner);
    let mut call = tower::Service::call(&mut service, request(Method::GET, "/v1/nodes", ""));
    assert!((&mut call).now_or_never().is_none());
    assert!(!sender.is_closed());
    drop(call);
    timeout(DEADLINE, sender.closed()).await.expect("the call is dropped");
}
