//! `fleetwright-sim simulated-cloud`: the simulated cloud as a separate process, so that its ledger
//! outlives every server.
//!
//! Each call has a request delay and a response delay ([`Latency`]). Once received it is executed
//! even if the caller disconnects, as in a real network.
//!
//! Reading order: [`in_process`], [`serve`], [`service`] (the calls), [`call_log`] (their records), [`remote`] (its client).

mod call_log;
pub mod remote;
mod service;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cloud::catalogue::{RegionOptions, Snapshot};
use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use fleetwright_rpc::simulation::v1::simulated_cloud_service_server::SimulatedCloudServiceServer;
use manifests::Source;
use model::node_class::NodeClassSettings;
use store::clock;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

pub use call_log::OtherLaunch;
pub use service::Latency;
use service::Service;

const TICK: Duration = Duration::from_millis(50);

/// A simulated cloud with the offerings of the catalogue, or else of the built-in one, in `region`.
///
/// # Errors
/// When the catalogue is unreadable.
pub fn in_process(faults: FaultProfile, region: &str, catalogue: Option<&Source>) -> anyhow::Result<ClockedCloud> {
    let given =
        catalogue.map(|source| Snapshot::parse(&source.bytes).map_err(|error| anyhow!("{}: {error}", source.name)));
    let snapshot = match given.transpose()? {
        Some(snapshot) => snapshot,
        None => Snapshot::builtin().map_err(|error| anyhow!("the built-in catalogue is damaged: {error}"))?.clone(),
    };
    let built = cloud::catalogue::build(&snapshot, &RegionOptions::new(region), &NodeClassSettings::default());
    Ok(ClockedCloud::new(SimulatedCloud::new(faults, Some(Arc::new(built.catalogue))), clock::now))
}

/// Serves `cloud` on `listener` until `stop`, and records the launches of `others` with its own. Another interface may serve the same cloud.
///
/// # Errors
/// When the server fails.
pub async fn serve(
    listener: TcpListener,
    cloud: Arc<ClockedCloud>,
    latency: Latency,
    seed: u64,
    mut others: UnboundedReceiver<OtherLaunch>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let service = Arc::new(Service::new(cloud, latency, seed));
    let record_others = async {
        while let Some(launch) = others.recv().await {
            service.record_other(launch);
        }
        // No other interface is served.
        std::future::pending::<()>().await;
    };
    let server = Server::builder()
        .tcp_nodelay(true)
        .add_service(SimulatedCloudServiceServer::from_arc(Arc::clone(&service)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::select! {
        ended = server => ended.context("the simulated cloud's server failed"),
        () = tick(&service) => Ok(()),
        () = record_others => Ok(()),
        () = stop => Ok(()),
    }
}

/// Advances the cloud's time, until cancelled.
async fn tick(service: &Service) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        service.advance_time();
    }
}

#[cfg(test)]
mod tests;
