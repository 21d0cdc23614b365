//! HTTP runs on threads of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use controller::FleetState;

use super::*;
use store::memory::MemoryStore;

/// Upper bound for every wait, on the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pages of an empty server, and its runtime with one thread.
struct TestBed {
    address: SocketAddr,
    threads: tokio::runtime::Runtime,
    _pages: BackgroundRuntime,
    _stop: tokio_util::sync::DropGuard,
}

impl TestBed {
    /// Serves pages on threads of their own, or on that of the server.
    fn new(apart: bool) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let threads = builder.worker_threads(1).enable_all().build().unwrap();
        let pages = BackgroundRuntime::start("pages", PAGE_THREADS, None).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (_publisher, views) = views::channel();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let api = CapacityApi::new(
            FleetApi::alone(views, Default::default(), store),
            CapacityThreads::start(&Arc::default()).unwrap(),
        );
        let process = ProcessMetrics {
            fleet: Arc::new(FleetState::new(&controller::Settings::default())),
            latencies: Arc::default(),
            heartbeats: vec![Arc::default()],
            replicas: Arc::default(),
        };
        let page_data = process.pages(api);
        let [_, limits] = ConnectionLimits::of_this_process();
        let stop = CancellationToken::new();
        let serving = serve_http((listener, limits), None, page_data, Arc::new(Authorizer::allow_all()), stop.clone());
        let _task = if apart { pages.spawn(serving) } else { threads.spawn(serving) };
        Self { address, threads, _pages: pages, _stop: stop.drop_guard() }
    }

    /// Keeps the server's thread busy until the returned sender is dropped.
    fn occupy(&self) -> mpsc::Sender<()> {
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        self.threads.spawn(async move {
            begun.send(()).unwrap();
            let _ended = ends.recv();
        });
        has_begun.recv_timeout(TIMEOUT).unwrap();
        end
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut wire = TcpStream::connect(self.address).unwrap();
        write!(wire, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        wire
    }
}

/// Head of the response within that time, if any.
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
fn pages_and_health_respond_while_every_thread_of_the_server_is_busy() {
    let bed = TestBed::new(true);
    let _busy = bed.occupy();
    for path in ["/healthz", "/readyz", "/metrics", "/v1/clusters", "/v1/clusters/-/nodes", "/"] {
        assert_eq!(answer(&mut bed.ask(path), TIMEOUT).as_deref(), Some(FOUND), "{path}");
    }
}

#[test]
fn sabotage_on_the_threads_of_the_server_they_wait_for_its_work() {
    let bed = TestBed::new(false);
    let busy = bed.occupy();
    let mut health = bed.ask("/healthz");
    // No wait would suffice: the only thread that could respond is blocked.
    assert_eq!(answer(&mut health, Duration::from_millis(200)), None);
    drop(busy);
    assert_eq!(answer(&mut health, TIMEOUT).as_deref(), Some(FOUND));
}
