//! Signals that end a process.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at SIGTERM or SIGINT. The handlers are installed by the call, not by the first poll.
/// Where they cannot be installed, the future never resolves, and a signal ends the process at
/// once, as it was asked to.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send {
    let signals =
        signal(SignalKind::terminate()).and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
    async move {
        match signals {
            Err(_) => std::future::pending().await,
            Ok((mut terminate, mut interrupt)) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
        }
    }
}
