//! What all clusters of an account and region share: settings, unavailable offerings and instances; and, with all other
//! clusters of the process, guardrails, allowances and numbers ([`FleetState`]).
//!
//! Each cluster is decided for on its own, and several at the same time. A step of a cluster locks
//! the guardrails at its first access and until it has counted what it decided, so that two
//! clusters cannot both take the last machine of a fleet limit. Most steps access them never.

use std::cell::{Cell, LazyCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalogue_zones::CatalogueZones;
use crate::disruption_allowance::DisruptionAllowance;
use crate::fleet_state::FleetState;
use crate::guardrails::fleet_counters::CounterSnapshot;
use crate::guardrails::{DisabledGuards, Guard, Guardrails};
use crate::instance_owners::InstanceOwners;
use crate::launch_evidence::{LaunchEvidence, ReadyNode};
use crate::provisioning::PlanNumber;
use crate::search_allowance::{SearchAllowance, SearchTotals};
use crate::unavailable_offerings::{OfferingUpdate, UnavailableOfferings};
use crate::{RegionEvent, Settings};
use model::{ClusterName, ProviderId, Text, Timestamp};

/// What all clusters of an account and region share.
#[derive(Debug)]
pub struct RegionState {
    settings: Settings,
    disabled_guards: DisabledGuards,
    fleet: Arc<FleetState>,
    /// Name of the region, if provider ids show which region an instance is in.
    region: Option<Text>,
    offerings: UnavailableOfferings,
    zones: CatalogueZones,
    instances: Mutex<InstanceOwners>,
    /// Number of changes of the instances.
    instances_version: AtomicU64,
}

/// The guardrails, locked from the first access on.
pub(crate) type LazyGuardrails<'r> =
    LazyCell<MutexGuard<'r, Guardrails>, Box<dyn FnOnce() -> MutexGuard<'r, Guardrails> + 'r>>;

impl Default for RegionState {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl RegionState {
    /// The state of a process that has just started and serves one account and region.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_disabled_guards(settings, DisabledGuards::default())
    }

    /// The same beside other accounts and regions, whose clusters share `fleet`.
    #[must_use]
    pub fn with_fleet(settings: Settings, fleet: Arc<FleetState>) -> Self {
        Self { fleet, ..Self::new(settings) }
    }

    /// The same in the region of this name, whose zones have names that begin with it.
    #[must_use]
    pub fn in_region(self, region: Text) -> Self {
        Self { region: Some(region), ..self }
    }

    /// Name of the region, if provider ids show which region an instance is in.
    pub(crate) fn region(&self) -> Option<&Text> {
        self.region.as_ref()
    }

    /// Whether the zone in `provider_id` is in another region than this one.
    pub(crate) fn is_elsewhere(&self, provider_id: &ProviderId) -> bool {
        let zone = provider_id.strip_prefix("aws:///").and_then(|rest| rest.split_once('/')).map(|(zone, _)| zone);
        let (Some(region), Some(zone)) = (&self.region, zone) else { return false };
        // `eu-west-1a`, and `us-east-1-bos-1a` of a local zone; `us-east-1` is not the region of `us-east-11a`.
        let is_here = zone.strip_prefix(&**region).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        !is_here && self.disabled_guards.is_enabled(Guard::OtherRegion)
    }

    /// The same without `disabled_guards`, for guard-off tests.
    pub(crate) fn with_disabled_guards(settings: Settings, disabled_guards: DisabledGuards) -> Self {
        Self {
            fleet: Arc::new(FleetState::new(&settings)),
            region: None,
            offerings: UnavailableOfferings::new(settings.unavailable_ttl, disabled_guards.is_enabled(Guard::OneProbe)),
            settings,
            disabled_guards,
            zones: CatalogueZones::default(),
            instances: Mutex::default(),
            instances_version: AtomicU64::new(0),
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn disabled_guards(&self) -> &DisabledGuards {
        &self.disabled_guards
    }

    pub(crate) fn offerings(&self) -> &UnavailableOfferings {
        &self.offerings
    }

    pub(crate) fn zones(&self) -> &CatalogueZones {
        &self.zones
    }

    pub(crate) fn searches(&self) -> MutexGuard<'_, SearchAllowance> {
        self.fleet.searches()
    }

    /// What searches for cheaper plans did since the process started.
    #[must_use]
    pub fn search_totals(&self) -> SearchTotals {
        self.searches().totals()
    }

    pub(crate) fn disruption_plans(&self) -> MutexGuard<'_, DisruptionAllowance> {
        self.fleet.disruption_plans()
    }

    /// The cluster of this process that has a NodeClaim for the instance, and the NodeClaim's provider id.
    #[must_use]
    pub fn owner_of_instance(&self, instance: &str) -> Option<(ClusterName, ProviderId)> {
        self.instances().get(instance).cloned()
    }

    /// Changes whenever [`RegionState::owner_of_instance`] may answer otherwise.
    #[must_use]
    pub fn instances_version(&self) -> u64 {
        self.instances_version.load(Ordering::Acquire)
    }

    /// Replaces the instances of the NodeClaims of a cluster.
    pub(crate) fn replace_instances(&self, cluster: &ClusterName, provider_ids: Vec<ProviderId>) {
        self.instances().replace(cluster, provider_ids);
        self.instances_version.fetch_add(1, Ordering::Release);
    }

    fn instances(&self) -> MutexGuard<'_, InstanceOwners> {
        // A cluster replaces its instances at its next change, so a poisoned lock guards usable ones.
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.fleet.next_number()
    }

    pub(crate) fn next_plan_number(&self) -> PlanNumber {
        self.fleet.next_plan_number()
    }

    /// Changes whenever the limits of the whole fleet do. A cluster whose last step saw another
    /// version is due.
    pub fn limits_version(&self) -> u64 {
        self.fleet.limits_version()
    }

    /// Locks the guardrails as of `now`.
    pub(crate) fn lock_guardrails(&self, now: Timestamp) -> MutexGuard<'_, Guardrails> {
        let mut guardrails = self.fleet.guardrails();
        if guardrails.advance(&self.settings.guardrails, now) {
            self.fleet.record_change_of_limits();
        }
        guardrails
    }

    /// The guardrails for one step, which sets `locked` once it has locked them.
    pub(crate) fn guardrails<'r>(&'r self, locked: &'r Cell<bool>, now: Timestamp) -> LazyGuardrails<'r> {
        LazyCell::new(Box::new(move || {
            locked.set(true);
            self.lock_guardrails(now)
        }))
    }

    /// Applies what time and the last steps change in the limits of the whole fleet.
    pub fn advance(&self, now: Timestamp) {
        self.offerings.expire(now);
        drop(self.lock_guardrails(now));
    }

    /// When time alone changes the limits of the whole fleet.
    #[must_use]
    pub fn next_change(&self) -> Option<Timestamp> {
        self.fleet.guardrails().next_change(&self.settings.guardrails)
    }

    /// Applies an event of the region: freezes of the store, and what other processes found.
    pub fn apply(&self, event: RegionEvent, now: Timestamp) {
        match event {
            RegionEvent::FreezesChanged(freezes) => {
                let changed = self.lock_guardrails(now).freezes.replace(freezes, now);
                if changed {
                    self.fleet.record_change_of_limits();
                }
            }
            RegionEvent::OfferingsUnavailable(refusals) => self.offerings.merge_remote(refusals, now),
            RegionEvent::RemoteCounters { machines, parts } => self.lock_guardrails(now).merge_remote(machines, &parts),
        }
        self.advance(now);
    }

    /// What launches of this process showed of offerings since the last call, for other replicas in the same region.
    pub fn take_offering_updates(&self) -> Vec<OfferingUpdate> {
        self.offerings.take_unpublished()
    }

    /// What became of launches of this process since the last call.
    #[must_use]
    pub fn take_launch_outcomes(&self) -> Vec<LaunchEvidence> {
        self.offerings.take_outcomes()
    }

    /// Nodes of this process that became ready since the last call.
    #[must_use]
    pub fn take_ready_nodes(&self) -> Vec<ReadyNode> {
        self.offerings.evidence().take_ready()
    }

    /// What this process saw of its own clusters, for the guardrails of all others.
    #[must_use]
    pub fn counter_snapshot(&self) -> CounterSnapshot {
        self.fleet.guardrails().counter_snapshot(&self.settings.guardrails)
    }

    /// Forgets the machines of a cluster that this process does not own any more.
    pub fn forget_cluster(&self, cluster: &ClusterName) {
        self.fleet.guardrails().forget_cluster(cluster);
        self.disruption_plans().forget(cluster);
        self.instances().remove(cluster);
        self.offerings.forget_cluster(cluster);
    }
}

#[cfg(test)]
mod tests;
