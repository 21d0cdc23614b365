//! Serves the pages on connections as they come, with deadlines for what a reader sends.

use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::trust::tls::{Connection, Incoming};

/// A request's head comes within this time, the first after the connection was opened and each further one after the answer
/// before it: a connection that asks for nothing is closed.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Probes of an HTTP/2 connection, and how long it may take to answer one.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// Requests of one HTTP/2 connection at a time; a page makes a handful.
const STREAMS_MAX: u32 = 16;
/// Bytes of a request's head.
const HEAD_MAX: u32 = 32 * 1024;

/// Serves until `stop`, and then until every answer that was begun is given.
pub(crate) async fn serve(incoming: Incoming, pages: Router, stop: CancellationToken) {
    serve_by(&builder(HEAD_WITHIN), incoming, pages, stop).await;
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
            debug!(peer = %address, %error, "a connection of a reader has ended");
        }
    }
}

fn builder(head_within: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_within).max_buf_size(HEAD_MAX as usize);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(KEEPALIVE.0).keep_alive_timeout(KEEPALIVE.1);
    http2.max_concurrent_streams(STREAMS_MAX).max_header_list_size(HEAD_MAX);
    builder
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::trust::connections::ConnectionLimits;

    /// Long enough for a busy machine; nothing waits for it to pass.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// What a server that wants a head within `head_within` says to somebody who sends `said` and then nothing, until it
    /// closes the connection.
    async fn answer(said: &str, head_within: Duration) -> Result<String, tokio::time::error::Elapsed> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [_, limits] = ConnectionLimits::of_this_process();
        let incoming = Incoming::new(listener, None, limits);
        let (pages, stop) = (Router::new().route("/", get(|| async { "page" })), CancellationToken::new());
        let _stopped = stop.clone().drop_guard();
        tokio::spawn(async move { serve_by(&builder(head_within), incoming, pages, stop).await });
        let mut wire = TcpStream::connect(address).await.unwrap();
        wire.write_all(said.as_bytes()).await.unwrap();
        let mut text = String::new();
        let patience = if head_within == Duration::MAX { Duration::from_secs(1) } else { DEADLINE };
        let heard = tokio::time::timeout(patience, wire.read_to_string(&mut text)).await;
        heard.map(|_| text)
    }

    const SOON: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_head_that_does_not_end_ends_the_connection() {
        for said in ["", "GET / HTTP/1.1\r\nHo"] {
            let heard = answer(said, SOON).await.expect("the connection stays open");
            assert!(!heard.contains("page"), "{heard}");
        }
    }

    #[tokio::test]
    async fn a_reader_that_asks_for_nothing_more_is_let_go() {
        let heard = answer("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", SOON).await;
        assert!(heard.expect("the connection stays open").ends_with("page"));
    }
}
