//! `fleetwright simulated-cloud`: the simulated cloud as a process of its own, so that its book outlives every server.
//!
//! A call takes time on its way there and on its way back ([`Latency`]). Once it is on its way it is carried out, whether or
//! not its caller is still there to hear the answer, as a real network would have it.
//!
//! Reading order: [`serve`], [`service`] (the calls), [`log`] (what they leave behind).

mod log;
mod service;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cloud::simulated::ClockedCloud;
use fleetwright_proto::simulation::v1::simulated_cloud_service_server::SimulatedCloudServiceServer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use service::Service;

/// How often the cloud looks whether something has happened by itself.
const TICK: Duration = Duration::from_millis(50);

/// How long calls take, in milliseconds: least and most; chance picks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latency {
    /// From sending to taking effect.
    pub(crate) arrival_ms: (i64, i64),
    /// From taking effect to the answer.
    pub(crate) answer_ms: (i64, i64),
}

/// Serves `cloud` on `listener` until `stop`.
///
/// # Errors
/// When the server breaks.
pub(crate) async fn serve(
    listener: TcpListener,
    cloud: ClockedCloud,
    latency: Latency,
    seed: u64,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let service = Arc::new(Service::new(cloud, latency, seed));
    let server = Server::builder()
        .tcp_nodelay(true)
        .add_service(SimulatedCloudServiceServer::from_arc(Arc::clone(&service)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::select! {
        ended = server => ended.context("the simulated cloud's server failed"),
        () = tick(&service) => Ok(()),
        () = stop => Ok(()),
    }
}

/// Lets the cloud's time pass, for ever.
async fn tick(service: &Service) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        service.let_time_pass();
    }
}

#[cfg(test)]
mod tests;
