//! Probes of the kubelet: `/healthz` succeeds while the agent's one thread runs, `/readyz` once the
//! cluster's identity was read. No other path exists.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Maximum number of concurrent connections; others wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 8;
/// Timeout of a request and of its response.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a request that is read: the path is at its beginning.
const MAX_REQUEST_BYTES: usize = 1_024;

/// The probe server, which stops when the value is dropped.
pub(crate) struct Probes {
    ready: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Probes {
    /// Starts the probe server at `address`.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) fn listen(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(TcpListener::from_std);
        let listener =
            listener.map_err(|error| anyhow::anyhow!("cannot listen on agent.probe-address {address}: {error}"))?;
        let ready = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(serve(listener, Arc::clone(&ready)));
        Ok(Self { ready, task })
    }

    /// Makes `/readyz` succeed.
    pub(crate) fn mark_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, ready: Arc<AtomicBool>) {
    let permit = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permit).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely out of file descriptors, some of which are released shortly.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let ready = Arc::clone(&ready);
        tokio::spawn(async move {
            let _late = tokio::time::timeout(PROBE_TIMEOUT, answer_probe(stream, &ready)).await;
            drop(permit);
        });
    }
}

async fn answer_probe(mut stream: TcpStream, ready: &AtomicBool) -> std::io::Result<()> {
    let mut asked = Vec::new();
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") && asked.len() < MAX_REQUEST_BYTES {
        let mut chunk = [0; 256];
        match stream.read(&mut chunk).await? {
            0 => break,
            count => asked.extend_from_slice(&chunk[..count]),
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
    async fn an_agent_is_healthy_from_the_start_and_ready_when_marked() {
        // The port is unlikely to be taken in between, and the test fails loudly if it is.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let probes = Probes::listen(address).unwrap();
        assert_eq!(asked(address, "/healthz").await, "HTTP/1.1 200 OK");
        assert_eq!(asked(address, "/readyz").await, "HTTP/1.1 503 Service Unavailable");
        probes.mark_ready();
        assert_eq!(asked(address, "/readyz").await, "HTTP/1.1 200 OK");
        assert_eq!(asked(address, "/metrics").await, "HTTP/1.1 404 Not Found");
        // An idle connection does not block other probes.
        let _silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(asked(address, "/healthz").await, "HTTP/1.1 200 OK");
    }
}
