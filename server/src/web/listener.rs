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

/// A request's head comes within this time, the first after it was begun and each further one after the answer before it: a
/// connection that asks for nothing more is closed. One that has not said which HTTP it speaks is closed as silent
/// ([`ConnectionLimits::silence`](crate::trust::connections::ConnectionLimits)).
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
    use tokio::time::error::Elapsed;
    use tokio_util::sync::DropGuard;

    use super::*;
    use crate::trust::connections::ConnectionLimits;

    /// Long enough for a busy machine; nothing waits for it to pass.
    const DEADLINE: Duration = Duration::from_secs(60);

    const SOON: Duration = Duration::from_millis(100);
    const LATE: Duration = Duration::from_secs(3_600);

    /// Half a request.
    const BEGUN: &str = "GET / HTTP/1.1\r\nHo";

    /// A connection to a server that wants a head within `head_within` and lets peers be silent for `silence`, on which `said`
    /// was sent. The server ends with the guard.
    async fn said(said: &str, head_within: Duration, silence: Duration) -> (TcpStream, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [_, limits] = ConnectionLimits::of_this_process();
        let limits = ConnectionLimits { silence, ..limits };
        let incoming = Incoming::new(listener, None, limits);
        let (pages, stop) = (Router::new().route("/", get(|| async { "page" })), CancellationToken::new());
        let stopped = stop.clone().drop_guard();
        tokio::spawn(async move { serve_by(&builder(head_within), incoming, pages, stop).await });
        let mut wire = TcpStream::connect(address).await.unwrap();
        wire.write_all(said.as_bytes()).await.unwrap();
        (wire, stopped)
    }

    /// What such a server answers, until it closes the connection.
    async fn answer(text: &str, head_within: Duration, silence: Duration) -> Result<String, Elapsed> {
        let (mut wire, _stopped) = said(text, head_within, silence).await;
        let mut heard = String::new();
        tokio::time::timeout(DEADLINE, wire.read_to_string(&mut heard)).await.map(|_| heard)
    }

    #[tokio::test]
    async fn a_head_that_does_not_end_ends_the_connection() {
        let heard = answer(BEGUN, SOON, LATE).await.expect("the connection stays open");
        assert!(!heard.contains("page"), "{heard}");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_say_which_http_it_speaks_is_silent() {
        for said in ["", "PRI * HT"] {
            let heard = answer(said, LATE, SOON).await.expect("the connection stays open");
            assert_eq!(heard, "");
        }
    }

    #[tokio::test]
    async fn a_reader_that_asks_for_nothing_more_is_let_go() {
        let heard = answer("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", SOON, LATE).await;
        assert!(heard.expect("the connection stays open").ends_with("page"));
    }

    #[tokio::test]
    async fn sabotage_without_the_deadline_a_head_is_waited_for_after_later_ones_were_given_up() {
        let (mut patient, _stopped) = said(BEGUN, LATE, LATE).await;
        assert!(answer(BEGUN, SOON, LATE).await.is_ok(), "this one was given up");
        patient.write_all(b"st: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut heard = String::new();
        tokio::time::timeout(DEADLINE, patient.read_to_string(&mut heard)).await.unwrap().unwrap();
        assert!(heard.ends_with("page"), "{heard}");
    }
}
