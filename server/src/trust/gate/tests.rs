//! What passes the gate, to methods and to pages alike, and for how long.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures::Stream;
use futures::stream;
use http_body::Body as _;
use http_body_util::BodyExt;
use prost::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::trust::tests::doors::Folder;

/// Whatever is waited for comes within this, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A trust file with one client. SHA-256 of "abc", from FIPS 180-2, appendix B.1.
const DASHBOARD: &str = "[[clients]]\nname = 'dashboard'\nscope = 'read'\n\
     token-sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'\n";

#[test]
fn requests_for_other_hosts_and_from_other_pages_are_refused() {
    let judged = |uri: &str, headers: &[(header::HeaderName, &str)]| {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        local(&uri.parse().unwrap(), &headers.collect()).is_ok()
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
        assert!(judged("/api/fleet", &[(header::HOST, host)]), "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7480", "10.0.0.1", "[::2]:1", "0.0.0.0", ""]
    {
        assert!(!judged("/api/fleet", &[(header::HOST, host)]), "{host}");
    }
    let from = |origin| judged("/api/fleet", &[(header::HOST, "localhost"), (header::ORIGIN, origin)]);
    assert!(from("http://localhost:7480") && from("http://127.0.0.1:1"));
    assert!(!from("http://evil.example") && !from("null"));
    assert!(judged("http://127.0.0.1:7450/method", &[]) && !judged("http://evil.example/method", &[]));
}

fn request<B: Default>(uri: &str, host: &str) -> Request<B> {
    let request = Request::builder().uri(uri).header(header::HOST, host).header(header::AUTHORIZATION, "Bearer abc");
    request.body(B::default()).unwrap()
}

/// What a method answers, which sends `frames`.
async fn method<S>(book: &Arc<Book>, host: &str, frames: fn() -> S) -> Response<Body>
where
    S: Stream<Item = Result<Frame<Bytes>, Status>> + Send + 'static,
{
    let service = tower::service_fn(move |_: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(Body::new(StreamBody::new(frames()))))
    });
    let uri = format!("http://{host}/fleetwright.v1.FleetService/Watch");
    GateLayer(Arc::clone(book)).layer(service).call(request(&uri, host)).await.unwrap()
}

/// What a page answers, which sends `frames`.
async fn page<S>(book: &Arc<Book>, host: &str, frames: fn() -> S) -> axum::response::Response
where
    S: Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
{
    let pages =
        Router::new().route("/api/fleet/events", get(move || async move { axum::body::Body::from_stream(frames()) }));
    let mut pages = pages.layer(axum::middleware::from_fn_with_state(Arc::clone(book), before_pages));
    pages.call(request::<axum::body::Body>("/api/fleet/events", host)).await.unwrap()
}

fn status_of(head: &HeaderMap) -> Option<tonic::Code> {
    Status::from_header_map(head).map(|status| status.code())
}

#[tokio::test]
async fn another_host_reaches_no_method_and_no_page_of_a_server_that_asks_nobody() {
    let open = Arc::new(Book::open());
    let refused = async |book: &Arc<Book>, host: &str| {
        let method = method(book, host, stream::empty).await;
        let page = page(book, host, stream::empty).await;
        (status_of(method.headers()), page.status())
    };
    assert_eq!(refused(&open, "localhost").await, (None, StatusCode::OK));
    let denied = (Some(tonic::Code::PermissionDenied), StatusCode::FORBIDDEN);
    assert_eq!(refused(&open, "evil.example").await, denied);
    // A server with a trust file has a name that others know, and who shows no token hears nothing.
    let folder = Folder::new("gate-hosts");
    let asks = Arc::new(Book::read(folder.write("trust.toml", DASHBOARD)).unwrap());
    assert_eq!(refused(&asks, "evil.example").await, (None, StatusCode::OK));
}

/// A server whose only client is one no more: its answers go on until it looks at the trust file, if it `follows` that.
struct Revoking {
    folder: Folder,
    book: Arc<Book>,
    stop: CancellationToken,
}

impl Revoking {
    fn new(name: &str, follows: bool) -> Self {
        let folder = Folder::new(name);
        let book = Arc::new(Book::read(folder.write("trust.toml", DASHBOARD)).unwrap());
        let stop = CancellationToken::new();
        if follows {
            tokio::spawn(Arc::clone(&book).follow(stop.clone()));
        }
        Self { folder, book, stop }
    }

    fn revoke(&self) {
        self.folder.change("trust.toml", &DASHBOARD.replace("ba7816bf", "00000000"));
    }
}

impl Drop for Revoking {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What comes next of an answer.
async fn next<B>(answer: &mut Response<B>) -> Option<Frame<Bytes>>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    let next = tokio::time::timeout(PATIENCE, answer.body_mut().frame()).await;
    next.expect("the answer goes on").transpose().unwrap()
}

#[tokio::test]
async fn answers_to_a_client_end_when_the_trust_file_names_it_no_longer() {
    let server = Revoking::new("gate-revoked", true);
    let mut method = method(&server.book, "fleet.example", stream::pending).await;
    let mut page = page(&server.book, "fleet.example", stream::pending).await;
    assert!(!method.body().is_end_stream() && page.status() == StatusCode::OK);
    server.revoke();
    let last = next(&mut method).await.and_then(|frame| frame.into_trailers().ok()).unwrap();
    assert_eq!(status_of(&last), Some(tonic::Code::Unauthenticated));
    assert!(next(&mut method).await.is_none() && next(&mut page).await.is_none());
}

#[tokio::test]
async fn sabotage_without_looking_for_changes_answers_to_a_client_go_on_that_is_one_no_more() {
    let blind = Revoking::new("gate-blind", false);
    let mut method =
        method(&blind.book, "fleet.example", || stream::repeat_with(|| Ok(Frame::data(Bytes::from("x"))))).await;
    let mut page = page(&blind.book, "fleet.example", || stream::repeat_with(|| Ok(Bytes::from("x")))).await;
    blind.revoke();
    // In the time that this takes another server has ended an answer to a client that was revoked later.
    let seeing = Revoking::new("gate-seeing", true);
    let mut other = self::page(&seeing.book, "fleet.example", stream::pending).await;
    seeing.revoke();
    assert!(next(&mut other).await.is_none());
    assert!(next(&mut method).await.is_some_and(|frame| frame.is_data()) && next(&mut page).await.is_some());
}
