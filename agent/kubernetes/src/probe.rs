//! What the kubelet asks: `/healthz` is answered as long as the agent's one thread turns, `/readyz` once the API server has told which
//! cluster this is. Nothing else is said, to nobody.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Questions that are answered at one time; more of them wait in the kernel's queue.
const AT_ONCE: usize = 8;
/// A question that has not come, and an answer that is not taken, within this time are given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest question that is read: the path stands at its beginning.
const LONGEST: usize = 1_024;

/// The answers to probes, until the value is dropped.
pub(crate) struct Probes {
    ready: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Probes {
    /// Answers at `address`.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(TcpListener::from_std);
        let listener = listener
            .map_err(|error| anyhow::anyhow!("cannot answer probes at agent.probe-address {address}: {error}"))?;
        let ready = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(serve(listener, Arc::clone(&ready)));
        Ok(Self { ready, task })
    }

    /// The agent is ready.
    pub(crate) fn ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, ready: Arc<AtomicBool>) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: some are given back within a moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let ready = Arc::clone(&ready);
        tokio::spawn(async move {
            let _late = tokio::time::timeout(PATIENCE, answer(stream, &ready)).await;
            drop(turn);
        });
    }
}

async fn answer(mut stream: TcpStream, ready: &AtomicBool) -> std::io::Result<()> {
    let mut asked = Vec::new();
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") && asked.len() < LONGEST {
        let mut piece = [0; 256];
        match stream.read(&mut piece).await? {
            0 => break,
            count => asked.extend_from_slice(&piece[..count]),
        }
    }
    let status = status(&asked, ready.load(Ordering::Relaxed));
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn status(asked: &[u8], ready: bool) -> &'static str {
    let line = asked.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/healthz")) => "200 OK",
        (Some(b"GET"), Some(b"/readyz")) if ready => "200 OK",
        (Some(b"GET"), Some(b"/readyz")) => "503 Service Unavailable",
        _ => "404 Not Found",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn an_agent_is_healthy_from_the_start_and_ready_when_it_says_so() {
        // Nothing else takes a port in the moment between, and the test fails loudly when something does.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let probes = Probes::open(address).unwrap();
        assert_eq!(asked(address, "/healthz").await, "HTTP/1.1 200 OK");
        assert_eq!(asked(address, "/readyz").await, "HTTP/1.1 503 Service Unavailable");
        probes.ready();
        assert_eq!(asked(address, "/readyz").await, "HTTP/1.1 200 OK");
        assert_eq!(asked(address, "/metrics").await, "HTTP/1.1 404 Not Found");
        // A connection that asks nothing keeps nobody from being answered.
        let _silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(asked(address, "/healthz").await, "HTTP/1.1 200 OK");
    }
}
