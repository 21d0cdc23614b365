//! Selects the cloud provider by `cloud.provider`.
//!
//! EC2 is compiled in with the cargo feature `ec2`. Only this module depends on the feature;
//! without it the key is known, and the error names the build with EC2.

pub mod discovery;
pub mod queue_setup;
pub mod remote;
pub mod simulated_account;
pub mod wire;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use cloud::catalogue::{RegionOptions, Snapshot};
use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use manifests::Source;
use model::node_class::NodeClassSettings;

use tracing::warn;

#[cfg(feature = "ec2")]
use crate::api_budget::StoreBudget;
use crate::config::{CloudConfig, Config, Provider};
#[cfg(feature = "ec2")]
use crate::interruptions::receiver::Receiver;
#[cfg(feature = "ec2")]
use crate::serve::ServerComponents;
use crate::serve::{self, Server};
use crate::suggest::nearest;
use store::clock;
#[cfg(feature = "ec2")]
use store::{Store, lease::Scope};

/// Starts a server with the cloud of `config`.
///
/// # Errors
/// When the catalogue is unreadable, a setting of the cloud is missing, the cloud is not in this
/// build, or a resource cannot be opened.
pub async fn start(config: Config) -> anyhow::Result<Server> {
    let catalogue = config.cloud.catalogue.as_deref().map(read_catalogue).transpose()?;
    if config.cloud.provider == Provider::Simulated {
        warn!(
            provider = "simulated",
            "no instance is bought, and no Node joins a real cluster; cloud.provider = ec2 launches instances"
        );
    }
    match config.cloud.provider {
        Provider::Simulated if config.cloud.address.is_some() => {
            let cloud = remote::RemoteCloud::new(config.cloud.address.as_deref().unwrap_or_default())?;
            serve::start(config, catalogue, cloud).await
        }
        Provider::Simulated => {
            let cloud = simulated(fault_profile(&config.cloud), &config.cloud.region, catalogue.as_ref())?;
            serve::start(config, catalogue, cloud).await
        }
        Provider::Ec2 => start_on_ec2(config, catalogue).await,
    }
}

fn read_catalogue(path: &Path) -> anyhow::Result<Source> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the catalogue {}", path.display()))?;
    Ok(Source { name: path.display().to_string(), bytes })
}

fn fault_profile(config: &CloudConfig) -> FaultProfile {
    let boot_ms = i64::try_from(config.boot.as_millis()).unwrap_or(i64::MAX);
    FaultProfile {
        seed: config.seed,
        boot_ms: (boot_ms, boot_ms),
        no_capacity: config.no_capacity,
        ..FaultProfile::default()
    }
}

/// A simulated cloud with the offerings of the catalogue in `region`.
///
/// # Errors
/// When the catalogue is unreadable.
pub fn simulated(faults: FaultProfile, region: &str, catalogue: Option<&Source>) -> anyhow::Result<ClockedCloud> {
    let snapshot = read_snapshot(catalogue)?;
    let built = cloud::catalogue::build(&snapshot, &RegionOptions::new(region), &NodeClassSettings::default());
    Ok(ClockedCloud::new(SimulatedCloud::new(faults, Some(Arc::new(built.catalogue))), clock::now))
}

/// Checks that the cloud of `config` is in this build and has its settings.
///
/// # Errors
/// The missing setting or build feature, or a region that the catalogue lacks.
pub fn check(config: &CloudConfig) -> anyhow::Result<()> {
    match config.provider {
        Provider::Simulated if config.interruption_queue.is_some() => Err(anyhow!(
            "interruption.queue is set, and only EC2 has a queue: remove it, or set cloud.provider to \"ec2\""
        )),
        Provider::Simulated => check_region(config),
        Provider::Ec2 if cfg!(feature = "ec2") => Ok(()),
        Provider::Ec2 => Err(not_built("cloud.provider = \"ec2\"", "set cloud.provider to \"simulated\"")),
    }
}

/// The simulated cloud has only the zones of its catalogue.
fn check_region(config: &CloudConfig) -> anyhow::Result<()> {
    let catalogue = config.catalogue.as_deref().map(read_catalogue).transpose()?;
    let snapshot = read_snapshot(catalogue.as_ref())?;
    let region = &config.region;
    if !snapshot.zones(region).is_empty() {
        return Ok(());
    }
    let known = snapshot.regions().iter().filter(|known| !snapshot.zones(&known.name).is_empty());
    let known: Vec<String> = known.map(|known| known.name.to_string()).collect();
    let remedy = match nearest(region, known.iter().cloned()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it has {}", known.join(", ")),
    };
    Err(anyhow!("cloud.region is {region:?}; the catalogue has no zones of this region; {remedy}"))
}

fn read_snapshot(catalogue: Option<&Source>) -> anyhow::Result<Snapshot> {
    match catalogue {
        Some(source) => Snapshot::parse(&source.bytes).map_err(|error| anyhow!("{}: {error}", source.name)),
        None => Ok(Snapshot::builtin().map_err(|error| anyhow!("the built-in catalogue is damaged: {error}"))?.clone()),
    }
}

/// The error that names the build with EC2. `asked` is what asks for EC2, and `otherwise` what to do without it.
fn not_built(asked: &str, otherwise: &str) -> anyhow::Error {
    anyhow!(
        "{asked}: this program was built without EC2; build it with \
         `cargo build --release -p fleetwright --features ec2`, or {otherwise}"
    )
}

#[cfg(feature = "ec2")]
async fn start_on_ec2(config: Config, catalogue: Option<Source>) -> anyhow::Result<Server> {
    let settings = cloud_ec2::Settings {
        region: config.cloud.region.clone(),
        endpoint: config.cloud.endpoint.clone(),
        ..cloud_ec2::Settings::default()
    };
    let queue = config.cloud.interruption_queue.clone();
    let (process, limit_percent) = (process_name(&config.lease.owner), config.cloud.api_limit_percent);
    let connect = async |store: &Arc<dyn Store>, scope: &Scope| {
        let budget = StoreBudget::new(Arc::clone(store), scope.clone(), process).with_percent(limit_percent);
        let budget = Arc::new(budget);
        cloud_ec2::Ec2Cloud::connect_within(settings, clock::now, budget).await
    };
    let components = serve::components(config, catalogue, connect).await?;
    let queue = queue.map(|name| components.cloud.interruption_queue(&name));
    start_with_queue(components, queue).await
}

/// Starts a server that receives the notices of `queue`.
#[cfg(feature = "ec2")]
async fn start_with_queue(
    components: ServerComponents<cloud_ec2::Ec2Cloud>,
    queue: Option<cloud_ec2::interruption::queue::Queue>,
) -> anyhow::Result<Server> {
    let receiver = queue.map(|queue| Receiver::new(queue, Arc::clone(&components.store), components.scope.clone()));
    let mut server = Server::start(components).await?;
    if let Some(receiver) = receiver {
        server.run_beside(|stop| receiver.run(stop));
    }
    Ok(server)
}

/// A name of this run of the replica: what an earlier run of the same replica waited for is not this one's.
#[cfg(feature = "ec2")]
fn process_name(owner: &str) -> String {
    format!("{owner}/{:x}", clock::now().as_millis())
}

#[cfg(not(feature = "ec2"))]
async fn start_on_ec2(_: Config, _: Option<Source>) -> anyhow::Result<Server> {
    Err(not_built("cloud.provider = \"ec2\"", "set cloud.provider to \"simulated\""))
}

#[cfg(test)]
mod tests;
