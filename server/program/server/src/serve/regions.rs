//! Accounts and regions that a server launches instances in.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_session::PoolReader;
use cloud::provider::CloudProvider;
use controller::ClassFacts;
use manifests::Source;
use replica::offerings::region_and_account;
use store::lease::Scope;
use tokio::sync::mpsc;

use crate::agent_service::LoopRoute;
use crate::pools::{self, CatalogueSources, PublishedCatalogue};
use fleet_api::questions::Delivery;
use server_settings::{AccountEntry, AccountRoles, CloudConfig, ClusterRules, LeaseConfig, Provider};

/// An account and region, with the cloud that launches there.
pub struct RegionComponents {
    /// Lease scope of the account and region.
    pub scope: Scope,
    pub cloud: Arc<dyn CloudProvider>,
    /// Name of the queue that receives notices about instances.
    pub interruption_queue: Option<String>,
    /// What is read of the cloud's catalogue; `None` when the catalogue stays that of the start.
    pub(crate) published: Option<PublishedCatalogue>,
}

impl RegionComponents {
    /// An account and region without a queue, whose catalogue stays that of the start.
    pub fn new(scope: Scope, cloud: Arc<dyn CloudProvider>) -> Self {
        Self { scope, cloud, interruption_queue: None, published: None }
    }
}

/// An account and region, as configured.
#[derive(Debug)]
pub(crate) struct CloudRegion {
    pub(crate) scope: Scope,
    pub(crate) entry: AccountEntry,
}

/// The accounts and regions of `cloud`, at least one, and which clusters belong to each.
pub(super) fn configured(cloud: &CloudConfig, lease: &LeaseConfig) -> (Vec<CloudRegion>, ClusterRules) {
    let region = |entry: &AccountEntry| {
        let scope = Scope::Region { account: entry.account.clone(), region: entry.region.clone() };
        CloudRegion { scope, entry: entry.clone() }
    };
    match &cloud.accounts {
        Some(accounts) => (accounts.entries().iter().map(region).collect(), accounts.rules().clone()),
        None => (vec![region(&single_entry(cloud, lease))], ClusterRules::all_in_one()),
    }
}

/// The account and region of a server without a file of accounts. Replicas on the same cloud share the scope; a simulated
/// cloud that is not shared is used by no other replica.
fn single_entry(cloud: &CloudConfig, lease: &LeaseConfig) -> AccountEntry {
    let private = cloud.provider == Provider::Simulated { shared: false };
    AccountEntry {
        account: if private { lease.owner.clone() } else { cloud.account.clone() },
        region: cloud.region.clone(),
        roles: AccountRoles::default(),
        interruption_queue: cloud.interruption_queue.clone(),
        api_limit_percent: cloud.api_limit_percent,
        endpoint: None,
    }
}

/// The way to the control loop of each account and region, which takes `events`. Loops of one region whose catalogue stays
/// as it is share what reads NodePools, and so the catalogues that it keeps.
pub(super) fn routes(
    regions: &[RegionComponents],
    events: &[mpsc::Sender<Delivery>],
    (file, class_facts): (Option<Source>, ClassFacts),
) -> Vec<LoopRoute> {
    let new = |region: &str, published: Option<PublishedCatalogue>| {
        let sources = CatalogueSources { file: file.clone(), published };
        pools::reader(region.to_owned(), sources, class_facts)
    };
    let mut shared: BTreeMap<String, PoolReader> = BTreeMap::new();
    let route = |(component, events): (&RegionComponents, &mpsc::Sender<Delivery>)| {
        let (region, _) = region_and_account(&component.scope);
        let pool_reader = match &component.published {
            Some(published) => new(region, Some(published.clone())),
            None => shared.entry(region.to_owned()).or_insert_with(|| new(region, None)).clone(),
        };
        LoopRoute { events: events.clone(), pool_reader, catalogue: component.published.clone() }
    };
    regions.iter().zip(events).map(route).collect()
}
