//! The allowance for searches of cheaper plans, which all clusters of a process share.
//!
//! A search may use processors only within a share of them, and never delays a plan: a cluster that
//! gets no allowance is planned with the first packing. Two limits hold:
//!
//! - The steps of all searches within any [`WINDOW`] stay within the share. What a search did not
//!   use is given back when it ends.
//! - A cluster gets at most its part of a window: the steps divided by one more than the number of
//!   clusters that asked within it. So a busy cluster leaves a part for one that has not asked yet.
//!   The part is at least one small search, so that many clusters are served in turn rather than
//!   none of them.
//!
//! Searches in progress are limited too, so that none waits for a thread.

use std::collections::{BTreeMap, VecDeque};

use crate::provisioning::PlanNumber;
use model::{ClusterName, MicroUsd, Millis, Timestamp};

/// Time over which the steps of all searches are limited.
pub const WINDOW: Millis = Millis::from_secs(10);

/// Steps of a search in a second of one processor: the least of the `cost` cases of the benchmark
/// (`server/simulate/bench/README.md`) on an AMD EPYC processor. A larger figure would use more than the share.
pub const STEPS_PER_CPU_SECOND: u64 = 18_000_000;

/// Steps that the packings, the checks and the reasons of a search count for, for each pod and node
/// of its input: 60 microseconds. The `cost` cases take 20 to 52.
const PACKING_STEPS: u64 = STEPS_PER_CPU_SECOND * 60 / 1_000_000;

/// The largest search: half a second of one processor, which no batch window leaves much more than.
pub const MAX_STEPS: u64 = 9_000_000;

/// The smallest search that is worth its packings: 50 milliseconds of one processor.
pub const LEAST_STEPS: u64 = STEPS_PER_CPU_SECOND / 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchSettings {
    /// Steps of all searches in a second, on average over [`WINDOW`]; 0 disables searches.
    pub steps_per_second: u64,
}

impl SearchSettings {
    /// Whether there are searches at all.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.steps_per_second > 0
    }

    /// Searches within `percent` of `processors`.
    #[must_use]
    pub fn with_share(percent: u64, processors: usize) -> Self {
        let processors = u64::try_from(processors).unwrap_or(u64::MAX);
        Self { steps_per_second: STEPS_PER_CPU_SECOND.saturating_mul(processors).saturating_mul(percent) / 100 }
    }

    /// Searches that may be in progress together: the processors of the share, rounded up.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        usize::try_from(self.steps_per_second.div_ceil(STEPS_PER_CPU_SECOND)).unwrap_or(usize::MAX)
    }

    /// Steps of all searches within a window.
    fn capacity(&self) -> u64 {
        let per_milli = u128::from(self.steps_per_second) * u128::from(WINDOW.get().unsigned_abs());
        u64::try_from(per_milli / 1_000).unwrap_or(u64::MAX)
    }
}

/// What searches did since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchTotals {
    pub granted: u64,
    pub granted_steps: u64,
    /// Steps that the searches which ended used.
    pub used_steps: u64,
    /// Batches whose search was skipped because their window closes too early.
    pub skipped_time: u64,
    /// Batches whose search was skipped because the allowance was used up.
    pub skipped_allowance: u64,
    /// Batches whose search was skipped because every search thread was busy.
    pub skipped_busy: u64,
    /// Searches whose plan became the decision.
    pub applied: u64,
    /// Searches that ended after the batch window.
    pub late: u64,
    /// Searches whose pods or nodes changed before the end of the batch window.
    pub outdated: u64,
    /// Searches that the planner could not make.
    pub failed: u64,
    /// Sum of what plans of searches cost less per hour than the first packings.
    pub saved: MicroUsd,
}

/// Why a search ended without becoming a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnusedSearch {
    /// It was in progress at the end of the batch window.
    Late,
    /// Its input differs from that of the plan.
    Outdated,
    /// The planner rejected its input, panicked, or ended before the search.
    Failed,
}

/// The allowance of the searches of all clusters. Time is an argument.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchAllowance {
    settings: SearchSettings,
    /// Steps granted within the window, oldest first.
    grants: VecDeque<Grant>,
    /// When each cluster asked last, within the window.
    asked: BTreeMap<ClusterName, Timestamp>,
    /// Searches in progress. A search whose answer never arrives, because its cluster was released, is forgotten
    /// after the window.
    in_progress: BTreeMap<PlanNumber, SearchInProgress>,
    totals: SearchTotals,
}

#[derive(Debug, Clone)]
struct SearchInProgress {
    cluster: ClusterName,
    at: Timestamp,
    /// Whether pending pods wait for it.
    is_for_pods: bool,
}

#[derive(Debug, Clone)]
struct Grant {
    at: Timestamp,
    search: PlanNumber,
    cluster: ClusterName,
    /// Steps that count, its packings included.
    steps: u64,
}

/// A search that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchDemand<'d> {
    pub cluster: &'d ClusterName,
    pub search: PlanNumber,
    /// Number of pods and nodes of the input.
    pub objects: usize,
    /// When the plan is due: a later answer is of no use. `None` for a plan of disruption, which no pod waits for: it
    /// keeps no search for pods of its cluster from beginning.
    pub deadline: Option<Timestamp>,
}

impl SearchAllowance {
    pub fn new(settings: SearchSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Grants a search. Returns its steps; `None` if there is no allowance for it, or no time.
    pub fn grant(&mut self, demand: SearchDemand<'_>, now: Timestamp) -> Option<u64> {
        let SearchDemand { cluster, search, objects, deadline } = demand;
        let packing = packing_steps(objects);
        let least = packing.saturating_add(LEAST_STEPS);
        let within = deadline.map_or(u64::MAX, |deadline| steps_within(deadline.duration_since(now)));
        let wanted = within.min(packing.saturating_add(MAX_STEPS));
        if wanted < least {
            self.totals.skipped_time += 1;
            return None;
        }
        if !self.has_room(cluster, now) {
            return None;
        }
        let allowed = wanted.min(self.allowed_steps(cluster, least));
        if allowed < least {
            self.totals.skipped_allowance += 1;
            return None;
        }
        let steps = allowed - packing;
        self.totals.granted += 1;
        self.totals.granted_steps += steps;
        self.grants.push_back(Grant { at: now, search, cluster: cluster.clone(), steps: allowed });
        let begun = SearchInProgress { cluster: cluster.clone(), at: now, is_for_pods: deadline.is_some() };
        self.in_progress.insert(search, begun);
        Some(steps)
    }

    /// Whether `cluster` might be granted a search. It counts as asking for one, and a search that is
    /// refused here as skipped; under load this saves making its input.
    pub fn has_room(&mut self, cluster: &ClusterName, now: Timestamp) -> bool {
        self.expire(now);
        self.asked.insert(cluster.clone(), now);
        let is_searching = self.in_progress.values().any(|one| one.is_for_pods && one.cluster == *cluster);
        if is_searching || self.in_progress.len() >= self.settings.concurrency() {
            self.totals.skipped_busy += 1;
            return false;
        }
        let is_left = self.allowed_steps(cluster, LEAST_STEPS) >= LEAST_STEPS;
        self.totals.skipped_allowance += u64::from(!is_left);
        is_left
    }

    /// A search ended after `used` of the `granted` steps: the rest is given back. A search does
    /// not count the steps of its lower bound, at most a quarter of those granted.
    pub fn settle(&mut self, search: PlanNumber, objects: usize, granted: u64, used: u64) {
        self.in_progress.remove(&search);
        let searched = used.saturating_add(granted / 4).min(granted);
        self.totals.used_steps += searched;
        if let Some(grant) = self.grants.iter_mut().rfind(|grant| grant.search == search) {
            grant.steps = grant.steps.min(packing_steps(objects).saturating_add(searched));
        }
    }

    /// Counts a search whose plan became the decision, and what it saves per hour.
    pub fn record_applied(&mut self, saved: MicroUsd) {
        self.totals.applied += 1;
        self.totals.saved = MicroUsd(self.totals.saved.0.saturating_add(saved.0));
    }

    /// Counts a search whose plan is not used.
    pub fn record_unused(&mut self, unused: UnusedSearch) {
        match unused {
            UnusedSearch::Late => self.totals.late += 1,
            UnusedSearch::Outdated => self.totals.outdated += 1,
            UnusedSearch::Failed => self.totals.failed += 1,
        }
    }

    pub fn totals(&self) -> SearchTotals {
        self.totals
    }

    /// Steps that are left within the window, and of the part of `cluster`.
    fn allowed_steps(&self, cluster: &ClusterName, least: u64) -> u64 {
        let capacity = self.settings.capacity();
        let granted: u64 = self.grants.iter().map(|grant| grant.steps).sum();
        let own: u64 = self.grants.iter().filter(|grant| grant.cluster == *cluster).map(|grant| grant.steps).sum();
        let clusters = u64::try_from(self.asked.len()).unwrap_or(u64::MAX);
        let part = (capacity / clusters.saturating_add(1)).max(least);
        capacity.saturating_sub(granted).min(part.saturating_sub(own))
    }

    fn expire(&mut self, now: Timestamp) {
        let is_over = |at: Timestamp| now.duration_since(at) >= WINDOW;
        while self.grants.front().is_some_and(|grant| is_over(grant.at)) {
            self.grants.pop_front();
        }
        self.asked.retain(|_, at| !is_over(*at));
        self.in_progress.retain(|_, one| !is_over(one.at));
    }
}

/// Steps that the packings of an input with this number of pods and nodes count for.
fn packing_steps(objects: usize) -> u64 {
    PACKING_STEPS.saturating_mul(u64::try_from(objects).unwrap_or(u64::MAX))
}

/// Steps of one processor within `time`.
fn steps_within(time: Millis) -> u64 {
    STEPS_PER_CPU_SECOND.saturating_mul(u64::try_from(time.get()).unwrap_or(0)) / 1_000
}

#[cfg(test)]
mod tests;
