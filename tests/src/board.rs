//! A switchboard: the one address that agents know, and whoever is behind it. Wires can be cut, or left to hang: a wire that
//! hangs carries nothing either way, and neither end is told.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// What holds for the wires.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Where a wire that is opened leads.
    to: SocketAddr,
    /// How many wires were opened before they were cut last, and before they were left to hang last.
    cut: u64,
    hanging: u64,
}

/// The switchboard.
#[derive(Debug)]
pub struct Board {
    /// Where agents connect, as `http://host:port`.
    pub address: String,
    state: watch::Sender<State>,
    opened: watch::Receiver<u64>,
    _runtime: Runtime,
}

impl Board {
    /// One that leads to `to`, at first.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn to(to: SocketAddr) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        let state = watch::Sender::new(State { to, cut: 0, hanging: 0 });
        let (count, opened) = watch::channel(0);
        runtime.spawn(accept(listener, state.subscribe(), count));
        Self { address, state, opened, _runtime: runtime }
    }

    /// Wires that are opened from here on lead there.
    pub fn lead_to(&self, to: SocketAddr) {
        self.state.send_modify(|state| state.to = to);
    }

    /// Cuts every wire that there is.
    pub fn cut(&self) {
        let opened = *self.opened.borrow();
        self.state.send_modify(|state| state.cut = opened);
    }

    /// Has every wire that there is hang.
    pub fn hang(&self) {
        let opened = *self.opened.borrow();
        self.state.send_modify(|state| state.hanging = opened);
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>, count: watch::Sender<u64>) {
    while let Ok((caller, _)) = listener.accept().await {
        let mut number = 0;
        count.send_modify(|count| {
            *count += 1;
            number = *count;
        });
        let to = state.borrow().to;
        tokio::spawn(carry(caller, to, number, state.clone()));
    }
}

async fn carry(mut caller: TcpStream, to: SocketAddr, number: u64, mut state: watch::Receiver<State>) {
    let Ok(mut called) = TcpStream::connect(to).await else { return };
    let mut until = state.clone();
    tokio::select! {
        _ = copy_bidirectional(&mut caller, &mut called) => return,
        _ = until.wait_for(|state| number <= state.cut || number <= state.hanging) => {}
    }
    // Both ends stay open: nobody is told that nothing arrives any more.
    let _cut = state.wait_for(|state| number <= state.cut).await;
}
