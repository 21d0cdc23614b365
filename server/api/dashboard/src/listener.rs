//! HTTP server with deadlines for request heads.

use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use auth::tls::{Connection, Incoming};

/// Deadline of a request head, from the start of the connection or the previous response; an idle
/// connection is closed by it. A connection that has not selected an HTTP version is closed as idle
/// ([`ConnectionLimits::silence`](auth::connections::ConnectionLimits)).
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 keepalive: ping interval and timeout.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// Maximum concurrent requests per HTTP/2 connection; the dashboard uses a handful.
const MAX_STREAMS: u32 = 16;
/// Maximum bytes of a request head.
const MAX_HEAD_BYTES: u32 = 32 * 1024;

/// Serves until `stop`, then completes the responses in progress.
pub async fn serve(incoming: Incoming, pages: Router, stop: CancellationToken) {
    serve_by(&builder(HEAD_TIMEOUT), incoming, pages, stop).await;
}

async fn serve_by(builder: &Builder<TokioExecutor>, mut incoming: Incoming, pages: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    loop {
        let connection = tokio::select! {
            () = stop.cancelled() => break,
            connection = incoming.next() => connection,
        };
        let Some(connection) = connection else { break };
        let served = serve_one(builder, connection, &pages, &graceful);
        tokio::spawn(served);
    }
    graceful.shutdown().await;
}

fn serve_one(
    builder: &Builder<TokioExecutor>,
    connection: Connection,
    pages: &Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    let peer = connection.peer();
    let address = peer.address;
    let pages = pages.clone().layer(Extension(peer));
    let served = builder.serve_connection(TokioIo::new(connection), TowerToHyperService::new(pages)).into_owned();
    let served = graceful.watch(served);
    async move {
        if let Err(error) = served.await {
            debug!(peer = %address, %error, "HTTP connection failed");
        }
    }
}

fn builder(head_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(MAX_HEAD_BYTES as usize);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(KEEPALIVE.0).keep_alive_timeout(KEEPALIVE.1);
    http2.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD_BYTES);
    builder
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::error::Elapsed;
    use tokio_util::sync::DropGuard;

    use super::*;
    use auth::connections::ConnectionLimits;

    /// Long enough for a busy machine; no test waits for it to pass.
    const DEADLINE: Duration = Duration::from_secs(60);

    const SOON: Duration = Duration::from_millis(100);
    const LATE: Duration = Duration::from_secs(3_600);

    const BEGUN: &str = "GET / HTTP/1.1\r\nHo";

    /// Connection to a server with these deadlines, on which `sent` was sent. The server ends with
    /// the drop guard.
    async fn connect_and_send(sent: &str, head_timeout: Duration, silence: Duration) -> (TcpStream, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [_, limits] = ConnectionLimits::of_this_process();
        let limits = ConnectionLimits { silence, ..limits };
        let incoming = Incoming::new(listener, None, limits);
        let (pages, stop) = (Router::new().route("/", get(|| async { "page" })), CancellationToken::new());
        let stopped = stop.clone().drop_guard();
        tokio::spawn(async move { serve_by(&builder(head_timeout), incoming, pages, stop).await });
        let mut wire = TcpStream::connect(address).await.unwrap();
        wire.write_all(sent.as_bytes()).await.unwrap();
        (wire, stopped)
    }

    /// Response of such a server until it closes the connection.
    async fn answer(text: &str, head_timeout: Duration, silence: Duration) -> Result<String, Elapsed> {
        let (mut wire, _stopped) = connect_and_send(text, head_timeout, silence).await;
        let mut response = String::new();
        tokio::time::timeout(DEADLINE, wire.read_to_string(&mut response)).await.map(|_| response)
    }

    #[tokio::test]
    async fn an_incomplete_head_closes_the_connection() {
        let response = answer(BEGUN, SOON, LATE).await.expect("the connection was not closed");
        assert!(!response.contains("page"), "{response}");
    }

    #[tokio::test]
    async fn a_connection_without_an_http_version_is_closed_as_idle() {
        for sent in ["", "PRI * HT"] {
            let response = answer(sent, LATE, SOON).await.expect("the connection was not closed");
            assert_eq!(response, "");
        }
    }

    #[tokio::test]
    async fn an_idle_keep_alive_connection_is_closed() {
        let response = answer("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", SOON, LATE).await;
        assert!(response.expect("the connection was not closed").ends_with("page"));
    }

    #[tokio::test]
    async fn sabotage_without_the_deadline_an_incomplete_head_outlives_later_ones() {
        let (mut patient, _stopped) = connect_and_send(BEGUN, LATE, LATE).await;
        assert!(answer(BEGUN, SOON, LATE).await.is_ok(), "this one timed out");
        patient.write_all(b"st: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut response = String::new();
        tokio::time::timeout(DEADLINE, patient.read_to_string(&mut response)).await.unwrap().unwrap();
        assert!(response.ends_with("page"), "{response}");
    }
}
