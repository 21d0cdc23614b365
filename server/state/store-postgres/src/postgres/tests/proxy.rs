//! A proxy between the store and PostgreSQL that disconnects at a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixStream, unix};
use tokio::sync::oneshot;

/// The simple query `COMMIT` on the wire: type, length (4 + 7), text with its terminator.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// When the proxy disconnects.
#[derive(Debug, Clone, Copy)]
pub(super) enum DisconnectAt {
    /// The server never receives the commit.
    BeforeCommit = 1,
    /// The server commits; the store never receives the response.
    AfterCommit = 2,
}

pub(super) struct Proxy {
    pub(super) url: String,
    armed: Arc<AtomicU8>,
}

impl Proxy {
    /// Starts a proxy for the server at `url`.
    pub(super) async fn start(url: &str) -> Self {
        let (before, rest) = url.split_once('@').unwrap();
        let (_, rest) = rest.split_once('/').unwrap();
        let (database, folder) = rest.split_once("?host=").unwrap();
        let socket = format!("{folder}/.s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("{before}@{}/{database}", listener.local_addr().unwrap());
        let armed = Arc::new(AtomicU8::new(0));
        tokio::spawn(accept(listener, socket, Arc::clone(&armed)));
        Self { url: proxy, armed }
    }

    pub(super) fn disconnect_at_next_commit(&self, cut: DisconnectAt) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }

    pub(super) fn fired(&self) -> bool {
        self.armed.load(Ordering::SeqCst) == 0
    }
}

async fn accept(listener: TcpListener, server: String, armed: Arc<AtomicU8>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = UnixStream::connect(&server).await else { continue };
        tokio::spawn(forward(client, server, Arc::clone(&armed)));
    }
}

async fn forward(client: TcpStream, server: UnixStream, armed: Arc<AtomicU8>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (cut, disconnect) = oneshot::channel();
    tokio::join!(
        forward_requests(from_client, to_server, armed, cut),
        forward_responses(from_server, to_client, disconnect)
    );
}

/// Forwards forward_requests until the proxy disconnects.
async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: unix::OwnedWriteHalf,
    armed: Arc<AtomicU8>,
    cut: oneshot::Sender<()>,
) {
    let mut bytes = vec![0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let commit = bytes[..count].windows(COMMIT.len()).any(|window| window == COMMIT);
        let how = if commit { armed.swap(0, Ordering::SeqCst) } else { 0 };
        if how == 0 {
            if to.write_all(&bytes[..count]).await.is_err() {
                return;
            }
            continue;
        }
        // Responses stop first, so that the response to the commit is lost.
        let _gone_already = cut.send(());
        if how == DisconnectAt::AfterCommit as u8 {
            let _gone_already = to.write_all(&bytes[..count]).await;
        }
        return;
    }
}

/// Forwards responses until the proxy disconnects. Requests already forwarded still take effect:
/// the server reads its input to the end.
async fn forward_responses(mut from: unix::OwnedReadHalf, mut to: OwnedWriteHalf, disconnect: oneshot::Receiver<()>) {
    let disconnected = async {
        if disconnect.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let cut = tokio::select! {
        biased;
        () = disconnected => true,
        _ = copy(&mut from, &mut to) => false,
    };
    if cut {
        drop(to);
        // The server connection stays open until the server has answered, and so has committed.
        let mut rest = vec![0; 4096];
        let _answer = from.read(&mut rest).await;
    }
}
