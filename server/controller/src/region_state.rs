//! What all clusters of an account and region share: settings, guardrails, unavailable offerings,
//! and numbers.
//!
//! Each cluster is decided for on its own, and several at the same time. A step of a cluster locks
//! the guardrails at its first access and until it has counted what it decided, so that two
//! clusters cannot both take the last machine of a fleet limit. Most steps access them never.

use std::cell::{Cell, LazyCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::catalogue_zones::CatalogueZones;
use crate::disruption_allowance::{DisruptionAllowance, DisruptionTotals};
use crate::guardrails::fleet_counters::CounterSnapshot;
use crate::guardrails::{DisabledGuards, Guard, Guardrails};
use crate::instance_owners::InstanceOwners;
use crate::provisioning::PlanNumber;
use crate::search_allowance::{SearchAllowance, SearchTotals};
use crate::unavailable_offerings::{OfferingUpdate, UnavailableOfferings};
use crate::{Event, Settings};
use model::{ClusterName, ProviderId, Timestamp};

/// What all clusters of an account and region share.
#[derive(Debug)]
pub struct RegionState {
    settings: Settings,
    disabled_guards: DisabledGuards,
    guardrails: Mutex<Guardrails>,
    offerings: UnavailableOfferings,
    zones: CatalogueZones,
    searches: Mutex<SearchAllowance>,
    disruption_plans: Mutex<DisruptionAllowance>,
    instances: Mutex<InstanceOwners>,
    /// Number of changes of the instances.
    instances_version: AtomicU64,
    next_number: AtomicU64,
    next_plan: AtomicU64,
    /// Number of changes of the limits of the whole fleet.
    limits_version: AtomicU64,
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
    /// The state of a process that has just started.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_disabled_guards(settings, DisabledGuards::default())
    }

    /// The same without `disabled_guards`, for guard-off tests.
    pub(crate) fn with_disabled_guards(settings: Settings, disabled_guards: DisabledGuards) -> Self {
        Self {
            next_number: AtomicU64::new(settings.first_number),
            searches: Mutex::new(SearchAllowance::new(settings.search)),
            disruption_plans: Mutex::new(DisruptionAllowance::new(settings.disruption_share)),
            offerings: UnavailableOfferings::new(settings.unavailable_ttl, disabled_guards.is_enabled(Guard::OneProbe)),
            settings,
            disabled_guards,
            guardrails: Mutex::default(),
            zones: CatalogueZones::default(),
            instances: Mutex::default(),
            instances_version: AtomicU64::new(0),
            next_plan: AtomicU64::new(1),
            limits_version: AtomicU64::new(0),
        }
    }

    /// The settings of every cluster.
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

    /// The allowance for searches.
    pub(crate) fn searches(&self) -> MutexGuard<'_, SearchAllowance> {
        // Every change of the allowance is complete in itself, so a poisoned lock guards
        // consistent counts.
        self.searches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What searches for cheaper plans did since the process started.
    #[must_use]
    pub fn search_totals(&self) -> SearchTotals {
        self.searches().totals()
    }

    /// The allowance for plans of disruption.
    pub(crate) fn disruption_plans(&self) -> MutexGuard<'_, DisruptionAllowance> {
        // Every change of the allowance is complete in itself, as with searches.
        self.disruption_plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What plans of disruption did since the process started, and what waits.
    #[must_use]
    pub fn disruption_totals(&self) -> DisruptionTotals {
        self.disruption_plans().totals()
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
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_plan_number(&self) -> PlanNumber {
        PlanNumber(self.next_plan.fetch_add(1, Ordering::Relaxed))
    }

    /// Changes whenever the limits of the whole fleet do. A cluster whose last step saw another
    /// version is due.
    pub fn limits_version(&self) -> u64 {
        self.limits_version.load(Ordering::Acquire)
    }

    /// Locks the guardrails as of `now`.
    pub(crate) fn lock_guardrails(&self, now: Timestamp) -> MutexGuard<'_, Guardrails> {
        // Every change of the guardrails is complete in itself, so a poisoned lock guards
        // consistent counts.
        let mut guardrails = self.guardrails.lock().unwrap_or_else(PoisonError::into_inner);
        if guardrails.advance(&self.settings.guardrails, now) {
            self.limits_version.fetch_add(1, Ordering::Release);
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
        let guardrails = self.guardrails.lock().unwrap_or_else(PoisonError::into_inner);
        guardrails.next_change(&self.settings.guardrails)
    }

    /// Applies an event of the region: freezes of the store, and what other processes found.
    /// Events of a cluster change nothing.
    pub fn apply(&self, event: Event, now: Timestamp) {
        match event {
            Event::FreezesChanged { freezes } => {
                let changed = self.lock_guardrails(now).replace_freezes(freezes, now);
                self.limits_version.fetch_add(u64::from(changed), Ordering::Release);
            }
            Event::OfferingsUnavailable { refusals } => self.offerings.merge_remote(refusals, now),
            Event::RemoteCounters { machines, parts } => self.lock_guardrails(now).merge_remote(machines, &parts),
            _ => {}
        }
        self.advance(now);
    }

    /// What launches of this process showed of offerings since the last call, for other replicas in the same region.
    pub fn take_offering_updates(&self) -> Vec<OfferingUpdate> {
        self.offerings.take_unpublished()
    }

    /// What this process saw of its own clusters, for the guardrails of all others.
    #[must_use]
    pub fn counter_snapshot(&self) -> CounterSnapshot {
        let guardrails = self.guardrails.lock().unwrap_or_else(PoisonError::into_inner);
        guardrails.counter_snapshot(&self.settings.guardrails)
    }

    /// Forgets the machines of a cluster that this process does not own any more.
    pub fn forget_cluster(&self, cluster: &ClusterName) {
        let mut guardrails = self.guardrails.lock().unwrap_or_else(PoisonError::into_inner);
        guardrails.forget_cluster(cluster);
        drop(guardrails);
        self.disruption_plans().forget(cluster);
        self.instances().remove(cluster);
        self.offerings.forget_cluster(cluster);
    }
}

#[cfg(test)]
mod tests;
