//! Authorization of methods and pages, and its duration.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures::{Stream, stream};
use http_body::Body as _;
use http_body_util::{BodyExt, StreamBody};
use prost::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tests::issuer::Folder;

/// Upper bound for every wait, on the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A trust file with one client. SHA-256 of "abc", from FIPS 180-2, appendix B.1.
const DASHBOARD: &str = "[[clients]]\nname = 'dashboard'\nscope = 'read'\n\
     token-sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'\n";

#[test]
fn requests_for_other_hosts_and_from_other_origins_are_rejected() {
    let is_accepted = |uri: &str, headers: &[(header::HeaderName, &str)]| {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name.clone(), value.parse().unwrap());
        }
        check_local(&uri.parse().unwrap(), &all).is_ok()
    };
    for host in [
        "localhost",
        "localhost:7480",
        "LocalHost:1",
        "127.0.0.1",
        "127.0.0.1:7480",
        "127.8.9.1",
        "[::1]:7480",
        "[::1]",
    ] {
        assert!(is_accepted("/v1/clusters", &[(header::HOST, host)]), "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:7480",
        "10.0.0.1",
        "[::2]:1",
        "0.0.0.0",
        "",
        "localhost:1@evil.example",
        "localhost:",
        "evil@localhost",
    ] {
        assert!(!is_accepted("/v1/clusters", &[(header::HOST, host)]), "{host}");
    }
    let from = |origin| is_accepted("/v1/clusters", &[(header::HOST, "localhost"), (header::ORIGIN, origin)]);
    assert!(from("http://localhost:7480") && from("http://127.0.0.1:1"));
    assert!(!from("http://evil.example") && !from("null"));
    let twice = [(header::HOST, "localhost"), (header::HOST, "evil.example")];
    assert!(
        !is_accepted("/v1/clusters", &twice) && !is_accepted("/v1/clusters", &[twice[0].clone(), twice[0].clone()])
    );
    assert!(!is_accepted("http://localhost/", &[(header::HOST, "evil.example")]), "both say which host is asked");
    assert!(is_accepted("http://127.0.0.1:7450/method", &[]) && !is_accepted("http://evil.example/method", &[]));
}

#[test]
fn both_versions_of_reflection_require_the_scope_read() {
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        assert_eq!(requirement_for(&path), Some(AccessRequirement::Client(Scope::Read)), "{version}");
    }
}

fn request<B: Default>(uri: &str, host: &str) -> Request<B> {
    let request = Request::builder().uri(uri).header(header::HOST, host).header(header::AUTHORIZATION, "Bearer abc");
    request.body(B::default()).unwrap()
}

/// Response of a method that streams `frames`.
async fn method<S>(authorizer: &Arc<Authorizer>, host: &str, frames: fn() -> S) -> Response<Body>
where
    S: Stream<Item = Result<Frame<Bytes>, Status>> + Send + 'static,
{
    let service = tower::service_fn(move |_: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(Body::new(StreamBody::new(frames()))))
    });
    let uri = format!("http://{host}/fleetwright.v1.FleetService/WatchNodes");
    AuthLayer(Arc::clone(authorizer)).layer(service).call(request(&uri, host)).await.unwrap()
}

/// Response of a page that streams `frames`.
async fn page<S>(authorizer: &Arc<Authorizer>, host: &str, frames: fn() -> S) -> axum::response::Response
where
    S: Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
{
    let pages =
        Router::new().route("/v1/clusters:watch", get(move || async move { axum::body::Body::from_stream(frames()) }));
    let mut pages =
        pages.layer(axum::middleware::from_fn_with_state(PageAccess::in_text(Arc::clone(authorizer)), authorize_page));
    pages.call(request::<axum::body::Body>("/v1/clusters:watch", host)).await.unwrap()
}

fn status_of(head: &HeaderMap) -> Option<Code> {
    Status::from_header_map(head).map(|status| status.code())
}

#[tokio::test]
async fn other_hosts_reach_no_method_and_no_page_without_authentication() {
    let open = Arc::new(Authorizer::allow_all());
    let refused = async |authorizer: &Arc<Authorizer>, host: &str| {
        let method = method(authorizer, host, stream::empty).await;
        let page = page(authorizer, host, stream::empty).await;
        (status_of(method.headers()), page.status())
    };
    assert_eq!(refused(&open, "localhost").await, (None, StatusCode::OK));
    let denied = (Some(Code::PermissionDenied), StatusCode::FORBIDDEN);
    assert_eq!(refused(&open, "evil.example").await, denied);
    // With a trust file any host name is accepted, but a request without a token is rejected.
    let folder = Folder::new("middleware-hosts");
    let asks = Arc::new(Authorizer::read(folder.write("auth.toml", DASHBOARD)).unwrap());
    assert_eq!(refused(&asks, "evil.example").await, (None, StatusCode::OK));
}

/// What an HTTP/2 client gets of `answer` behind the authorization: its head, whether that has END_STREAM, and its data.
async fn frames_on_the_wire(answer: fn() -> Response<Body>) -> (HeaderMap, bool, Vec<Bytes>) {
    let folder = Folder::new("middleware-frames");
    let authorizer = Arc::new(Authorizer::read(folder.write("auth.toml", DASHBOARD)).unwrap());
    let method = tower::service_fn(move |_: Request<Body>| async move { Ok::<_, Infallible>(answer()) });
    let service = AuthLayer(authorizer).layer(method);
    let service =
        tower::service_fn(move |request: Request<hyper::body::Incoming>| service.clone().call(request.map(Body::new)));
    let (client, server) = tokio::io::duplex(64 * 1024);
    let http = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
    let service = hyper_util::service::TowerToHyperService::new(service);
    tokio::spawn(async move { drop(http.serve_connection(hyper_util::rt::TokioIo::new(server), service).await) });
    let (mut requests, connection) = h2::client::handshake(client).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let asked = request::<()>("http://fleet.example/fleetwright.v1.FleetService/GetCluster", "fleet.example");
    let (response, _sent) = requests.send_request(asked, true).unwrap();
    let (head, mut body) = tokio::time::timeout(TIMEOUT, response).await.unwrap().unwrap().into_parts();
    let ends_with_head = body.is_end_stream();
    let mut data = Vec::new();
    while let Some(part) = tokio::time::timeout(TIMEOUT, body.data()).await.unwrap() {
        data.push(part.unwrap());
    }
    (head.headers, ends_with_head, data)
}

#[tokio::test]
async fn the_headers_of_an_error_without_a_message_end_the_stream() {
    let (head, ends, data) = frames_on_the_wire(|| Status::not_found("there is no cluster").into_http()).await;
    assert_eq!(status_of(&head), Some(Code::NotFound));
    assert!(ends && data.is_empty(), "headers with END_STREAM and nothing else, not {data:?}");
    // A message is not cut off, and a page of a known size says it.
    let message = || Response::new(Body::new(http_body_util::Full::new(Bytes::from_static(b"message"))));
    let (head, ends, data) = frames_on_the_wire(message).await;
    assert!(!ends);
    assert_eq!(data.concat(), b"message");
    assert_eq!(head.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()), Some("7"));
}

/// Server whose only client is revoked: its responses continue until it reloads the trust file, if
/// `follows` is set.
struct Revoking {
    folder: Folder,
    authorizer: Arc<Authorizer>,
    stop: CancellationToken,
}

impl Revoking {
    fn new(name: &str, follows: bool) -> Self {
        let folder = Folder::new(name);
        let authorizer = Arc::new(Authorizer::read(folder.write("auth.toml", DASHBOARD)).unwrap());
        let stop = CancellationToken::new();
        if follows {
            tokio::spawn(Arc::clone(&authorizer).watch_files(stop.clone()));
        }
        Self { folder, authorizer, stop }
    }

    fn revoke(&self) {
        self.folder.change("auth.toml", &DASHBOARD.replace("ba7816bf", "00000000"));
    }
}

impl Drop for Revoking {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn next<B>(answer: &mut Response<B>) -> Option<Frame<Bytes>>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: fmt::Debug,
{
    let next = tokio::time::timeout(TIMEOUT, answer.body_mut().frame()).await;
    next.expect("the response ended").transpose().unwrap()
}

#[tokio::test]
async fn responses_end_when_the_client_is_removed_from_the_trust_file() {
    let server = Revoking::new("middleware-revoked", true);
    let mut method = method(&server.authorizer, "fleet.example", stream::pending).await;
    let mut page = page(&server.authorizer, "fleet.example", stream::pending).await;
    assert!(!method.body().is_end_stream() && page.status() == StatusCode::OK);
    server.revoke();
    let last = next(&mut method).await.and_then(|frame| frame.into_trailers().ok()).unwrap();
    assert_eq!(status_of(&last), Some(Code::Unauthenticated));
    assert!(next(&mut method).await.is_none() && next(&mut page).await.is_none());
}

#[tokio::test]
async fn sabotage_without_reloading_responses_to_a_revoked_client_continue() {
    let stale = Revoking::new("middleware-stale", false);
    let mut method =
        method(&stale.authorizer, "fleet.example", || stream::repeat_with(|| Ok(Frame::data(Bytes::from("x"))))).await;
    let mut page = page(&stale.authorizer, "fleet.example", || stream::repeat_with(|| Ok(Bytes::from("x")))).await;
    stale.revoke();
    // In the meantime another server has closed a response to a client that was revoked later.
    let reloading = Revoking::new("middleware-reloading", true);
    let mut other = self::page(&reloading.authorizer, "fleet.example", stream::pending).await;
    reloading.revoke();
    assert!(next(&mut other).await.is_none());
    assert!(next(&mut method).await.is_some_and(|frame| frame.is_data()) && next(&mut page).await.is_some());
}
