//! Accounts and regions that a server launches instances in.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_session::PoolReader;
use controller::ClassFacts;
use manifests::Source;
use replica::offerings::region_and_account;
use store::lease::Scope;
use tokio::sync::mpsc;

use crate::agent_service::{Delivery, LoopRoute};
use crate::config::{AccountEntry, AccountRoles, CloudConfig, ClusterRules, LeaseConfig, Provider};
use crate::pools;

/// An account and region, with the cloud that launches there.
#[derive(Debug)]
pub struct RegionComponents<C> {
    /// Lease scope of the account and region.
    pub scope: Scope,
    /// Cloud provider.
    pub cloud: Arc<C>,
    /// Name of the queue that receives notices about instances.
    pub interruption_queue: Option<String>,
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
/// cloud in this process is used by no other replica.
fn single_entry(cloud: &CloudConfig, lease: &LeaseConfig) -> AccountEntry {
    let private = cloud.provider == Provider::Simulated && cloud.address.is_none();
    AccountEntry {
        account: if private { lease.owner.clone() } else { cloud.account.clone() },
        region: cloud.region.clone(),
        roles: AccountRoles::default(),
        interruption_queue: cloud.interruption_queue.clone(),
        api_limit_percent: cloud.api_limit_percent,
        endpoint: None,
    }
}

/// The way to the control loop of each scope, which takes `events`. Loops of one region share what reads NodePools, and so
/// the catalogues that it keeps.
pub(super) fn routes<'s>(
    scopes: impl Iterator<Item = &'s Scope>,
    events: &[mpsc::Sender<Delivery>],
    (catalogue, class_facts): (Option<Source>, ClassFacts),
) -> Vec<LoopRoute> {
    let mut readers: BTreeMap<String, PoolReader> = BTreeMap::new();
    let route = |(scope, events): (&Scope, &mpsc::Sender<Delivery>)| {
        let (region, _) = region_and_account(scope);
        let reader = readers.entry(region.to_owned());
        let reader = reader.or_insert_with(|| pools::reader(region.to_owned(), catalogue.clone(), class_facts));
        LoopRoute { events: events.clone(), pool_reader: reader.clone() }
    };
    scopes.zip(events).map(route).collect()
}
