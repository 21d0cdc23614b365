//! Pages have threads of their own.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use super::*;
use crate::store::memory::MemoryStore;

/// Whatever is waited for comes within this, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages of an empty server, and its threads, of which there is one.
struct Stand {
    address: SocketAddr,
    threads: Runtime,
    _pages: PageThreads,
    _stop: tokio_util::sync::DropGuard,
}

impl Stand {
    /// With pages on threads of their own, or on that of the server.
    fn new(apart: bool) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let threads = builder.worker_threads(1).enable_all().build().unwrap();
        let pages = PageThreads::start().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (_publisher, views) = views::channel();
        let shown = Pages {
            views,
            store: Arc::new(MemoryStore::new()),
            latencies: Arc::default(),
            heartbeat: Arc::default(),
            replicas: Arc::default(),
        };
        let [_, limits] = ConnectionLimits::of_this_process();
        let stop = CancellationToken::new();
        let serving = serve_http((listener, limits), None, shown, Arc::new(Book::open()), stop.clone());
        let runtime = if apart { pages.0.as_ref().unwrap() } else { &threads };
        runtime.spawn(serving);
        Self { address, threads, _pages: pages, _stop: stop.drop_guard() }
    }

    /// Keeps the server's thread at work until the returned end is dropped.
    fn occupy(&self) -> mpsc::Sender<()> {
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        self.threads.spawn(async move {
            begun.send(()).unwrap();
            let _ended = ends.recv();
        });
        has_begun.recv_timeout(PATIENCE).unwrap();
        end
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut wire = TcpStream::connect(self.address).unwrap();
        write!(wire, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        wire
    }
}

/// The head of what is answered within that time, if anything is.
fn answer(wire: &mut TcpStream, within: Duration) -> Option<String> {
    wire.set_read_timeout(Some(within)).unwrap();
    let mut head = [0; 15];
    match wire.read_exact(&mut head) {
        Ok(()) => Some(String::from_utf8_lossy(&head).into_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

const FOUND: &str = "HTTP/1.1 200 OK";

#[test]
fn pages_and_health_are_answered_while_every_thread_of_the_server_is_at_work() {
    let stand = Stand::new(true);
    let _busy = stand.occupy();
    for path in ["/healthz", "/readyz", "/metrics", "/api/fleet", "/api/fleet/events", "/"] {
        assert_eq!(answer(&mut stand.ask(path), PATIENCE).as_deref(), Some(FOUND), "{path}");
    }
}

#[test]
fn sabotage_on_the_threads_of_the_server_they_wait_until_its_work_is_done() {
    let stand = Stand::new(false);
    let busy = stand.occupy();
    let mut health = stand.ask("/healthz");
    // However long it is waited for: the only thread that could answer stands still.
    assert_eq!(answer(&mut health, Duration::from_millis(200)), None);
    drop(busy);
    assert_eq!(answer(&mut health, PATIENCE).as_deref(), Some(FOUND));
}
