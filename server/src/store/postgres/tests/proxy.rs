//! A wire between the store and PostgreSQL that is cut at a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixStream, unix};
use tokio::sync::oneshot;

/// A simple query, `COMMIT`, as it travels: kind, length (4 + 7), text with its end.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// When the wire is cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut {
    /// The server never hears of the commit.
    BeforeCommit = 1,
    /// The server has committed; the store never hears of it.
    AfterCommit = 2,
}

pub(super) struct Proxy {
    pub(super) url: String,
    armed: Arc<AtomicU8>,
}

impl Proxy {
    /// Stands in front of the server at `url`.
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

    /// The next commit is cut.
    pub(super) fn arm(&self, cut: Cut) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }

    pub(super) fn fired(&self) -> bool {
        self.armed.load(Ordering::SeqCst) == 0
    }
}

async fn accept(listener: TcpListener, server: String, armed: Arc<AtomicU8>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = UnixStream::connect(&server).await else { continue };
        tokio::spawn(carry(client, server, Arc::clone(&armed)));
    }
}

async fn carry(client: TcpStream, server: UnixStream, armed: Arc<AtomicU8>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (cut, cutting) = oneshot::channel();
    tokio::join!(requests(from_client, to_server, armed, cut), answers(from_server, to_client, cutting));
}

/// Passes requests on until the wire is to be cut; says how.
async fn requests(
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
        // The answers stop first, so that the answer to the commit is lost.
        let _gone_already = cut.send(());
        if how == Cut::AfterCommit as u8 {
            let _gone_already = to.write_all(&bytes[..count]).await;
        }
        return;
    }
}

/// Passes answers on until the wire is cut. What the server has been told before it has done: it reads its input to the end.
async fn answers(mut from: unix::OwnedReadHalf, mut to: OwnedWriteHalf, cutting: oneshot::Receiver<()>) {
    let told = async {
        if cutting.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let cut = tokio::select! {
        biased;
        () = told => true,
        _ = copy(&mut from, &mut to) => false,
    };
    if cut {
        drop(to);
        // The connection stays open to the server until it has answered, and so has committed.
        let mut rest = vec![0; 4096];
        let _answer = from.read(&mut rest).await;
    }
}
