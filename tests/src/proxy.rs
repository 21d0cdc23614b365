//! A TCP proxy with a constant address and a changeable target. Its connections can be dropped, or
//! stalled: a stalled connection stays open and transfers nothing.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

#[derive(Debug, Clone, Copy)]
struct ProxyState {
    target: SocketAddr,
    /// Number of connections opened before the last drop, and before the last stall.
    dropped_up_to: u64,
    stalled_up_to: u64,
}

/// A TCP proxy on a free port of the loopback interface.
#[derive(Debug)]
pub struct TcpProxy {
    /// Address of the proxy, as `http://host:port`.
    pub address: String,
    state: watch::Sender<ProxyState>,
    opened: watch::Receiver<u64>,
    _runtime: Runtime,
}

impl TcpProxy {
    /// Starts a proxy with the initial target `to`.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        let state = watch::Sender::new(ProxyState { target, dropped_up_to: 0, stalled_up_to: 0 });
        let (count, opened) = watch::channel(0);
        runtime.spawn(accept(listener, state.subscribe(), count));
        Self { address, state, opened, _runtime: runtime }
    }

    /// Sets the target of new connections.
    pub fn set_target(&self, target: SocketAddr) {
        self.state.send_modify(|state| state.target = target);
    }

    pub fn drop_connections(&self) {
        let opened = *self.opened.borrow();
        self.state.send_modify(|state| state.dropped_up_to = opened);
    }

    pub fn stall_connections(&self) {
        let opened = *self.opened.borrow();
        self.state.send_modify(|state| state.stalled_up_to = opened);
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<ProxyState>, count: watch::Sender<u64>) {
    while let Ok((client, _)) = listener.accept().await {
        let mut number = 0;
        count.send_modify(|count| {
            *count += 1;
            number = *count;
        });
        let target = state.borrow().target;
        tokio::spawn(forward(client, target, number, state.clone()));
    }
}

async fn forward(mut client: TcpStream, target: SocketAddr, number: u64, mut state: watch::Receiver<ProxyState>) {
    let Ok(mut upstream) = TcpStream::connect(target).await else { return };
    let mut until = state.clone();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut upstream) => return,
        _ = until.wait_for(|state| number <= state.dropped_up_to || number <= state.stalled_up_to) => {}
    }
    // Both ends stay open and observe no error.
    let _cut = state.wait_for(|state| number <= state.dropped_up_to).await;
}
