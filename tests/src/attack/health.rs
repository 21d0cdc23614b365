//! Polls `/healthz` continuously, as a kubelet does, with a connection for each request.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(50);

const TIMEOUT: Duration = Duration::from_secs(10);

/// A client that polls the health endpoint.
#[derive(Debug)]
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Vec<Duration>>,
}

impl Probe {
    /// Polls the server at `address` until stopped.
    pub(super) fn start(address: &str) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), address.to_owned());
        let stopped = Arc::clone(&stop);
        let asking = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let well = get(&address, "/healthz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
                took.push(if well { begun.elapsed() } else { TIMEOUT });
                std::thread::park_timeout(PAUSE);
            }
            took
        });
        Self { stop, asking }
    }

    /// Response times, shortest first; the timeout for missing responses.
    pub(super) fn end(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self.asking.join().unwrap_or_default();
        took.sort_unstable();
        took
    }
}

/// The response to a GET request.
pub(super) fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
