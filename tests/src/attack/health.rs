//! Asking `/healthz` all the time, as a kubelet would, with a connection for each question.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// An answer that takes longer counts as none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody who asks.
#[derive(Debug)]
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Vec<Duration>>,
}

impl Probe {
    /// Asks the server at `address` until told to stop.
    pub(super) fn start(address: &str) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), address.to_owned());
        let stopped = Arc::clone(&stop);
        let asking = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let well = get(&address, "/healthz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
                took.push(if well { begun.elapsed() } else { PATIENCE });
                std::thread::park_timeout(PAUSE);
            }
            took
        });
        Self { stop, asking }
    }

    /// How long the answers took, shortest first; [`PATIENCE`] for those that were none.
    pub(super) fn end(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self.asking.join().unwrap_or_default();
        took.sort_unstable();
        took
    }
}

/// The answer to a GET.
pub(super) fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
