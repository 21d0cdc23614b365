//! A server on EC2, and the checks of its settings. A program with another cloud gives it to [`serve::start`].
//!
//! EC2 is compiled in with the cargo feature `ec2`. Only this module depends on the feature;
//! without it, the error names the build with EC2.

pub mod discovery;
pub(crate) mod measured;
pub mod queue_setup;
pub mod simulated_account;

use std::path::Path;
#[cfg(feature = "ec2")]
use std::sync::Arc;

use anyhow::{Context, anyhow};
use cloud::catalogue::Snapshot;
#[cfg(feature = "ec2")]
use cloud::provider::CloudProvider;
#[cfg(feature = "ec2")]
use cloud_ec2::Ec2Cloud;
use manifests::Source;

#[cfg(feature = "ec2")]
use tracing::info;

#[cfg(feature = "ec2")]
use crate::api_budget::StoreBudget;
#[cfg(feature = "ec2")]
use crate::catalogue_refresh::refresher::{Refresher, StartCatalogue};
#[cfg(feature = "ec2")]
use crate::interruptions::receiver::Receiver;
use crate::serve::Server;
#[cfg(feature = "ec2")]
use crate::serve::{self, CloudRegion, RegionComponents, ServerComponents};
#[cfg(feature = "ec2")]
use server_settings::{AccountEntry, AccountRoles, RefreshConfig};
use server_settings::{CloudConfig, Config, Provider};
use settings::suggest::nearest;
#[cfg(feature = "ec2")]
use store::{Store, clock};

/// Starts a server on EC2 with the settings of `config`.
///
/// # Errors
/// When the catalogue is unreadable, a setting of the cloud is missing, EC2 is not in this build, or a resource cannot be
/// opened.
pub async fn start(config: Config) -> anyhow::Result<Server> {
    let catalogue = catalogue(&config.cloud)?;
    start_on_ec2(config, catalogue).await
}

/// The catalogue of `config`; `None` for the built-in one.
///
/// # Errors
/// When it is unreadable.
pub fn catalogue(config: &CloudConfig) -> anyhow::Result<Option<Source>> {
    config.catalogue.as_deref().map(read_catalogue).transpose()
}

fn read_catalogue(path: &Path) -> anyhow::Result<Source> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the catalogue {}", path.display()))?;
    Ok(Source { name: path.display().to_string(), bytes })
}

/// Checks that the cloud of `config` is in this build and has its settings.
///
/// # Errors
/// The missing setting or build feature, or a region that the catalogue lacks.
pub fn check(config: &CloudConfig) -> anyhow::Result<()> {
    match config.provider {
        Provider::Simulated { .. } if config.interruption_queue.is_some() => {
            Err(anyhow!("interruption.queue is set, and only EC2 has a queue: remove it"))
        }
        Provider::Simulated { .. } if config.accounts.is_some() => {
            Err(anyhow!("cloud.accounts-file is set, and only EC2 has accounts: remove it"))
        }
        Provider::Ec2 if !cfg!(feature = "ec2") => Err(not_built("serve")),
        // EC2 may have regions that the catalogue does not know yet.
        Provider::Ec2 if config.accounts.is_none() && is_region_name(&config.region) => Ok(()),
        Provider::Simulated { .. } | Provider::Ec2 => match &config.accounts {
            None => check_regions(config.catalogue.as_deref(), [config.region.as_str()].into_iter(), |region| {
                format!("cloud.region is {region:?}")
            }),
            Some(accounts) => {
                let regions = accounts.entries().iter().map(|entry| entry.region.as_str());
                check_regions(config.catalogue.as_deref(), regions, |region| {
                    format!("in {}, the region of an [[account]] is {region:?}", accounts.path().display())
                })
            }
        },
    }
}

/// Whether the name has the form of those of AWS regions, such as `us-gov-east-1`.
fn is_region_name(region: &str) -> bool {
    let Some((place, number)) = region.rsplit_once('-') else { return false };
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    place.contains('-') && place.split('-').all(is_word) && number.parse::<u8>().is_ok()
}

/// Checks that the catalogue has zones of each region, without which nothing can be launched. `subject` says which setting
/// has the region.
fn check_regions<'r>(
    catalogue: Option<&Path>,
    mut regions: impl Iterator<Item = &'r str>,
    subject: impl Fn(&str) -> String,
) -> anyhow::Result<()> {
    let snapshot = read_snapshot(catalogue.map(read_catalogue).transpose()?.as_ref())?;
    let Some(region) = regions.find(|region| snapshot.zones(region).is_empty()) else { return Ok(()) };
    let known = snapshot.regions().iter().filter(|known| !snapshot.zones(&known.name).is_empty());
    let known: Vec<String> = known.map(|known| known.name.to_string()).collect();
    let remedy = match nearest(region, known.iter().cloned()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it has {}", known.join(", ")),
    };
    Err(anyhow!("{}; the catalogue has no zones of this region; {remedy}", subject(region)))
}

fn read_snapshot(catalogue: Option<&Source>) -> anyhow::Result<Snapshot> {
    match catalogue {
        Some(source) => Snapshot::parse(&source.bytes).map_err(|error| anyhow!("{}: {error}", source.name)),
        None => Ok(Snapshot::builtin().map_err(|error| anyhow!("the built-in catalogue is damaged: {error}"))?.clone()),
    }
}

/// The error of `asked`, which needs EC2, in a program without it.
fn not_built(asked: &str) -> anyhow::Error {
    anyhow!("{asked}: this program was built without EC2; build it with the cargo feature `ec2`")
}

#[cfg(feature = "ec2")]
async fn start_on_ec2(config: Config, catalogue: Option<Source>) -> anyhow::Result<Server> {
    let process = process_name(&config.lease.owner);
    let refreshes = Refreshes { config: config.cloud.refresh, process: process.clone() };
    let default_endpoint = config.cloud.endpoint.clone();
    let mut clouds = Vec::new();
    let connect = async |store: &Arc<dyn Store>, regions: &[CloudRegion]| {
        for CloudRegion { scope, entry } in regions {
            let budget = StoreBudget::new(Arc::clone(store), scope.clone(), process.clone());
            let budget = Arc::new(budget.with_percent(entry.api_limit_percent));
            let settings = cloud_settings(entry, default_endpoint.as_deref());
            clouds.push(Arc::new(Ec2Cloud::connect_within(settings, clock::now, budget).await));
        }
        clouds.iter().map(|cloud| Arc::clone(cloud) as Arc<dyn CloudProvider>).collect()
    };
    let components = serve::components(config, catalogue, connect).await?;
    let refreshers = refreshes.of(&components, &clouds)?;
    let mut server = start_with_queues(components, &clouds).await?;
    for refresher in refreshers {
        server.run_beside(|stop| refresher.run(stop));
    }
    Ok(server)
}

/// How the catalogues of all accounts and regions are refreshed.
#[cfg(feature = "ec2")]
struct Refreshes {
    config: RefreshConfig,
    process: String,
}

#[cfg(feature = "ec2")]
impl Refreshes {
    /// The refreshers of those accounts and regions whose catalogue is read.
    fn of(&self, components: &ServerComponents, clouds: &[Arc<Ec2Cloud>]) -> anyhow::Result<Vec<Refresher>> {
        let start =
            StartCatalogue { prices: read_snapshot(components.catalogue.as_ref())?, hardware: read_snapshot(None)? };
        if let Some(file) = &components.catalogue {
            info!(
                file = file.name,
                "cloud.catalogue is used until the catalogue was read from AWS; set cloud.*-refresh-interval to 0s to keep it"
            );
        }
        let refresher = |(region, cloud): (&RegionComponents, &Arc<Ec2Cloud>)| {
            let of = (region.scope.clone(), Arc::clone(cloud), region.published.clone()?);
            let conditions = Arc::clone(&components.conditions);
            Some(Refresher::new(of, start.clone(), self.config, (&self.process, conditions)))
        };
        Ok(components.regions.iter().zip(clouds).filter_map(refresher).collect())
    }
}

#[cfg(feature = "ec2")]
fn cloud_settings(entry: &AccountEntry, default_endpoint: Option<&str>) -> cloud_ec2::Settings {
    let AccountRoles { account, cluster, external_id } = entry.roles.clone();
    cloud_ec2::Settings {
        region: entry.region.clone(),
        endpoint: entry.endpoint.as_deref().or(default_endpoint).map(str::to_owned),
        roles: cloud_ec2::Roles { account, cluster, external_id },
    }
}

/// Starts a server that receives the notices of the queue of each account and region.
#[cfg(feature = "ec2")]
async fn start_with_queues(components: ServerComponents, clouds: &[Arc<Ec2Cloud>]) -> anyhow::Result<Server> {
    let receiver = |(region, cloud): (&RegionComponents, &Arc<Ec2Cloud>)| {
        let queue = cloud.interruption_queue(region.interruption_queue.as_deref()?);
        let conditions = Arc::clone(&components.conditions);
        Some(Receiver::new(queue, Arc::clone(&components.store), region.scope.clone(), conditions))
    };
    let receivers: Vec<Arc<Receiver>> = components.regions.iter().zip(clouds).filter_map(receiver).collect();
    let mut server = Server::start(components).await?;
    for receiver in receivers {
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
    Err(not_built("serve"))
}

#[cfg(test)]
mod tests;
