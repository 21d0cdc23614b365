//! Offerings that the cloud refused: one refusal excludes the offering in all clusters of the region, and when the
//! exclusion has ended, one launch of the whole fleet probes it.
//!
//! [`RegionState`](crate::RegionState) has one of these for all clusters of a process, and the store has the same for all
//! processes. An exclusion doubles with each refusal in a row. When it ends, the offering stays masked, except for the
//! process that the store gave the probe ([`Effect::ClaimProbes`](crate::Effect::ClaimProbes)); there the first launch
//! that has the offering among its options takes it. [`UnavailableOfferings::record_outcome`] is the one place that learns
//! what became of launches.

mod entries;
mod key;
mod window;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::launch_evidence::{LaunchEvidence, RecentEvidence};
use entries::{Availability, Entries};
use model::offering::SharedCatalogue;
use model::{CapacityType, ClaimName, ClusterName, LaunchOption, Millis, SizeClass, Timestamp};

pub(crate) use key::ProbeHolder;
pub use key::{Offering, OfferingKey, OfferingOutcome, OfferingUpdate, ProbeAnswer, UnavailableOffering};
pub use window::{BASE_WINDOW, FORGOTTEN_AFTER};

/// How long the store gives a probe to a process. A launch takes seconds; a process that died holds it no longer.
pub const PROBE_LEASE: Millis = Millis::from_secs(60);

/// Which plans may use an offering whose probe this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probing {
    /// Those of pods that wait.
    Allowed,
    /// Disruption may not: what runs is not given up for an offering that may be dead.
    Excluded,
}

/// Refused offerings, and catalogues with these offerings masked.
#[derive(Debug)]
pub struct UnavailableOfferings {
    state: Mutex<State>,
    base_window: Millis,
    /// False in guard-off tests: an offering is free for everyone when its exclusion has ended.
    has_one_probe: bool,
    /// What launches showed, successes included.
    evidence: RecentEvidence,
}

#[derive(Debug)]
struct State {
    entries: Entries,
    /// Original and masked catalogues of the present entries. The original is held so that its address is not reused.
    masked: Vec<(SharedCatalogue, Probing, SharedCatalogue)>,
}

impl UnavailableOfferings {
    /// Nothing is refused. The first refusal excludes an offering for `base_window`.
    #[must_use]
    pub(crate) fn new(base_window: Millis, has_one_probe: bool) -> Self {
        let state = State { entries: Entries::new(has_one_probe), masked: Vec::new() };
        Self { state: Mutex::new(state), base_window, has_one_probe, evidence: RecentEvidence::default() }
    }

    /// Records what became of a launch in an offering.
    pub fn record_outcome(&self, outcome: &OfferingOutcome, now: Timestamp) {
        self.evidence.record_outcome(outcome, now);
        let OfferingOutcome { offering, asked, launched, refusal } = outcome;
        let mut state = self.state();
        if let Some(id) = &offering.zone_id {
            state.entries.learn_zone(&offering.zone, id);
        }
        let mut changed = *launched > 0 && state.entries.clear(offering, SizeClass::of(*launched), now);
        if let Some((cause, code)) = refusal
            && launched < asked
        {
            let key = OfferingKey::of_refusal(offering, *cause, SizeClass::of(launched.saturating_add(1)));
            changed |= state.entries.refuse(key, code.clone(), self.base_window, now);
        }
        state.drop_masked_if(changed);
    }

    /// What launches of this process showed.
    pub(crate) fn evidence(&self) -> &RecentEvidence {
        &self.evidence
    }

    /// The outcomes of launches of this process since the last call.
    pub fn take_outcomes(&self) -> Vec<LaunchEvidence> {
        self.evidence.take_outcomes()
    }

    /// Takes over what the store has of all replicas.
    pub fn merge_remote(&self, rows: Vec<UnavailableOffering>, now: Timestamp) {
        let mut state = self.state();
        state.entries.merge(rows, now);
        state.masked.clear();
    }

    /// What other replicas do not know yet, since the last call.
    pub fn take_unpublished(&self) -> Vec<OfferingUpdate> {
        self.state().entries.take_unpublished()
    }

    pub fn expire(&self, now: Timestamp) {
        let mut state = self.state();
        // Without the guard the end of every exclusion changes what may be launched.
        let changed = state.entries.expire(now) || !self.has_one_probe;
        state.drop_masked_if(changed);
    }

    /// Number of offerings that are excluded or wait for a probe, and how many of them a launch of this process probes.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.state().entries.counts()
    }

    /// `catalogue` with unavailable offerings marked as not available.
    pub(crate) fn mask_catalogue(
        &self,
        catalogue: &SharedCatalogue,
        probing: Probing,
        now: Timestamp,
    ) -> SharedCatalogue {
        let mut state = self.state();
        if state.entries.is_empty() {
            return SharedCatalogue::clone(catalogue);
        }
        let is_it = |(base, with, _): &&(SharedCatalogue, Probing, SharedCatalogue)| {
            SharedCatalogue::ptr_eq(base, catalogue) && *with == probing
        };
        if let Some((.., masked)) = state.masked.iter().find(is_it) {
            return SharedCatalogue::clone(masked);
        }
        let mut copy = catalogue.as_ref().clone();
        for kind in &mut copy.types {
            for offering in &mut kind.offerings {
                let id = offering.labels.get(model::labels::ZONE_ID);
                if let Some(id) = id {
                    state.entries.learn_zone(&offering.zone, id);
                }
                let zone = (&offering.zone, id);
                let found = state.entries.availability(&kind.name, zone, offering.capacity_type, None, now);
                offering.available &= self.is_launchable(found, probing);
            }
        }
        let masked = SharedCatalogue::new(copy);
        state.masked.push((SharedCatalogue::clone(catalogue), probing, SharedCatalogue::clone(&masked)));
        masked
    }

    /// Whether the launch of `holder` may use the option; without one, whether a launch to come may.
    pub(crate) fn is_available(
        &self,
        option: &LaunchOption,
        capacity_type: CapacityType,
        holder: Option<&ProbeHolder>,
        now: Timestamp,
    ) -> bool {
        let found = self.availability(&self.state(), option, capacity_type, holder, now);
        found != Availability::Excluded
    }

    /// Whether the option may be used by one launch at most.
    pub(crate) fn is_probe(&self, option: &LaunchOption, capacity_type: CapacityType, now: Timestamp) -> bool {
        self.availability(&self.state(), option, capacity_type, None, now) == Availability::Probe
    }

    /// Leaves the options that the launch of `holder` may use, which takes the probes of those that need one.
    pub(crate) fn take_options(
        &self,
        options: &mut Vec<LaunchOption>,
        capacity_type: CapacityType,
        holder: &ProbeHolder,
        now: Timestamp,
    ) {
        let mut state = self.state();
        let mut taken = false;
        options.retain(|option| {
            let found = self.availability(&state, option, capacity_type, Some(holder), now);
            if found == Availability::Probe {
                state.entries.take_probes(&option.instance_type, &option.zone, capacity_type, holder);
                taken = true;
            }
            found != Availability::Excluded
        });
        state.drop_masked_if(taken);
    }

    /// The launch of `holder` has ended, or never begins: gives back probes without an outcome.
    pub(crate) fn release_probes(&self, holder: &ProbeHolder) {
        let mut state = self.state();
        let released = state.entries.release_probes(holder);
        state.drop_masked_if(released);
    }

    /// Probes to request for `cluster`: due ones of offerings that `is_wanted`, and those that its launches have taken and
    /// need longer. `is_under_way` tells whether the launch of a NodeClaim has not ended.
    pub(crate) fn probes_to_claim(
        &self,
        cluster: &ClusterName,
        is_wanted: impl FnMut(&OfferingKey) -> bool,
        is_under_way: impl Fn(&ClaimName) -> bool,
        now: Timestamp,
    ) -> Vec<OfferingKey> {
        if !self.has_one_probe {
            return Vec::new();
        }
        self.state().entries.probes_to_claim(cluster, is_wanted, is_under_way, now)
    }

    /// When a probe that a launch of `cluster` has taken is to be extended.
    pub(crate) fn next_renewal(&self, cluster: &ClusterName) -> Option<Timestamp> {
        self.state().entries.next_renewal(cluster)
    }

    /// Handles the store's answers; granted probes last until `until`. Returns whether one may be taken.
    pub(crate) fn record_answers(
        &self,
        answers: Vec<(OfferingKey, ProbeAnswer)>,
        until: Timestamp,
        now: Timestamp,
    ) -> bool {
        let mut state = self.state();
        let granted = state.entries.record_answers(answers, until, now);
        state.masked.clear();
        granted
    }

    /// Another process owns the cluster from now on.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterName) {
        let mut state = self.state();
        state.entries.forget_cluster(cluster);
        state.masked.clear();
    }

    fn availability(
        &self,
        state: &State,
        option: &LaunchOption,
        capacity_type: CapacityType,
        holder: Option<&ProbeHolder>,
        now: Timestamp,
    ) -> Availability {
        let LaunchOption { instance_type, zone, .. } = option;
        state.entries.availability(instance_type, (zone, None), capacity_type, holder, now)
    }

    fn is_launchable(&self, found: Availability, probing: Probing) -> bool {
        match found {
            Availability::Free => true,
            Availability::Probe => probing == Probing::Allowed,
            Availability::Excluded => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A method that panicked has at most left a masked catalogue out, so a poisoned lock guards consistent entries.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn drop_masked_if(&mut self, changed: bool) {
        if changed {
            self.masked.clear();
        }
    }
}

#[cfg(test)]
mod tests;
