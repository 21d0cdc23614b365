//! A TCP load balancer between agents and replicas: each connection goes to the next replica that
//! accepts it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A running balancer; dropping it stops it.
pub(super) struct Balancer {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    replicas: Vec<SocketAddr>,
    next: usize,
    cut: CancellationToken,
}

impl Shared {
    /// Every critical section leaves a consistent state, so a poisoned lock guards one.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replicas in round-robin order.
    fn rotation(&self) -> Vec<SocketAddr> {
        let mut state = self.state();
        state.next += 1;
        let mut replicas = state.replicas.clone();
        let first = state.next % replicas.len().max(1);
        replicas.rotate_left(first);
        replicas
    }
}

impl Balancer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port is free")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _accepting: AbortOnDropHandle::new(accepting) })
    }

    pub(super) fn add(&self, replica: SocketAddr) {
        self.shared.state().replicas.push(replica);
    }

    /// Closes every connection; agents reconnect.
    pub(super) fn cut(&self) {
        std::mem::take(&mut self.shared.state().cut).cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((agent, _)) => {
                tokio::spawn(forward(agent, Arc::clone(&shared)));
            }
            // Running out of file descriptors is transient; a local listener has no other error.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Copies bytes in both directions until either side closes.
async fn forward(mut agent: TcpStream, shared: Arc<Shared>) {
    let cut = shared.state().cut.clone();
    for replica in shared.rotation() {
        let Ok(mut server) = TcpStream::connect(replica).await else { continue };
        let _undelayed = (agent.set_nodelay(true), server.set_nodelay(true));
        let _ended = cut.run_until_cancelled(tokio::io::copy_bidirectional(&mut agent, &mut server)).await;
        return;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Answers every connection with `letter` and keeps it open.
    async fn replica(letter: u8) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(&[letter]).await.unwrap();
                open.push(stream);
            }
        });
        address
    }

    async fn connect(balancer: &Balancer) -> (u8, TcpStream) {
        let mut stream = TcpStream::connect(balancer.address).await.unwrap();
        (stream.read_u8().await.unwrap(), stream)
    }

    #[tokio::test]
    async fn connections_are_balanced_round_robin_and_skip_dead_replicas() {
        let balancer = Balancer::start().await.unwrap();
        balancer.add(replica(b'a').await);
        balancer.add(replica(b'b').await);
        let (first, _one) = connect(&balancer).await;
        let (second, _other) = connect(&balancer).await;
        assert_ne!(first, second);
        let alone = Balancer::start().await.unwrap();
        alone.add("127.0.0.1:1".parse().unwrap());
        alone.add(replica(b'c').await);
        assert_eq!([connect(&alone).await.0, connect(&alone).await.0], [b'c', b'c']);
    }

    #[tokio::test]
    async fn a_cut_closes_the_current_connections() {
        let balancer = Balancer::start().await.unwrap();
        balancer.add(replica(b'a').await);
        let (_, mut stream) = connect(&balancer).await;
        balancer.cut();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the stream has ended");
        assert_eq!(connect(&balancer).await.0, b'a');
    }
}
