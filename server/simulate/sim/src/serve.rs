//! `fleetwright-sim serve`: a server of the product on a simulated cloud.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use cloud::simulated::FaultProfile;
use tracing::warn;

use command::exit::{Failure, Status};
use server::cli::serve::{self, ServeFlags};
use server::clouds;
use server::serve::{Server, new_planner, start};
use server_settings::{Config, Provider};
use simulation::CloudInterface;
use simulation::simulated_cloud::{in_process, remote::RemoteCloud};

use crate::simulated_cloud::milliseconds;

/// Flags of `serve`: those of the product, and those of the cloud.
#[derive(Debug, Args)]
pub(crate) struct SimulatedServeFlags {
    #[command(flatten)]
    server: ServeFlags,
    /// Try the server out: state in memory, reachable from this host only
    #[arg(long)]
    dev: bool,
    /// How the server reaches the cloud. With ec2, that is --cloud-endpoint
    #[arg(long, value_enum, default_value_t)]
    cloud: CloudInterface,
    /// Address of a simulated cloud in another process, which survives a restart of this server; without it, the cloud
    /// runs in this process and ends with it
    #[arg(long, value_name = "URL", conflicts_with_all = ["cloud_seed", "cloud_boot", "cloud_no_capacity"])]
    cloud_address: Option<String>,
    /// Random seed of the cloud
    #[arg(long, default_value_t = 0)]
    cloud_seed: u64,
    /// Time from launch to running of an instance
    #[arg(long, default_value = "3s", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    cloud_boot: Duration,
    /// Refuse every launch for insufficient capacity
    #[arg(long)]
    cloud_no_capacity: bool,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub(crate) fn run(flags: SimulatedServeFlags) -> Result<Status, Failure> {
    let SimulatedServeFlags { server, dev, cloud, cloud_address, cloud_seed: seed, cloud_boot, cloud_no_capacity } =
        flags;
    let server = if dev { server.for_trial() } else { server };
    if cloud == CloudInterface::Ec2 {
        return serve::run(server);
    }
    let boot = milliseconds(cloud_boot);
    let faults =
        FaultProfile { seed, boot_ms: (boot, boot), no_capacity: cloud_no_capacity, ..FaultProfile::default() };
    let provider = Provider::Simulated { shared: cloud_address.is_some() };
    serve::run_on(provider, server, |config| serve_simulated(config, cloud_address, faults))
}

async fn serve_simulated(config: Config, address: Option<String>, faults: FaultProfile) -> anyhow::Result<Server> {
    let catalogue = clouds::catalogue(&config.cloud)?;
    let server = match address {
        Some(address) => start(config, catalogue, Arc::new(RemoteCloud::new(&address)?), new_planner).await,
        None => {
            let cloud = in_process(faults, &config.cloud.region, catalogue.as_ref())?;
            start(config, catalogue, Arc::new(cloud), new_planner).await
        }
    }?;
    // A server that does not start says why, and nothing else.
    warn!(
        provider = "simulated",
        "no instance is bought, and no Node joins a real cluster; `fleetwright serve` launches instances"
    );
    Ok(server)
}
