//! Guardrail state of the fleet, as far as this process counts it and other replicas publish it.

use std::collections::BTreeMap;

use super::circuit_breaker::{CircuitBreaker, EngagedBreaker};
use super::fleet_counters::{CounterSnapshot, LocalCounters, bucket};
use super::freeze::{Freeze, Freezes};
use super::rate_limits::{LimitBlock, Population, RateLimitKind, RateLimitRoom, RateLimits};
use super::recent_launch::RecentLaunch;
use super::settings::GuardrailSettings;
use model::{ClaimName, ClusterName, MicroUsd, Millis, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Guardrails {
    launches: RateLimits,
    removals: RateLimits,
    circuit_breaker: CircuitBreaker,
    freezes: Freezes,
    /// Machines of each local cluster that are not marked for removal.
    machines: BTreeMap<ClusterName, usize>,
    /// The same, summed over clusters of other replicas.
    remote_machines: usize,
    /// Time of the last event.
    now: Timestamp,
}

/// What rate limits leave for replacements: launches and removals together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplacementRoom {
    pub removals: RateLimitRoom,
    pub launches: RateLimitRoom,
}

impl Guardrails {
    /// Advances the clock; returns whether that changes what the whole fleet may do.
    pub fn advance(&mut self, settings: &GuardrailSettings, now: Timestamp) -> bool {
        self.now = now;
        self.launches.expire(settings.launches.window, now);
        self.removals.expire(settings.removals.window, now);
        let breaker = self.circuit_breaker.evaluate(&settings.circuit_breaker, now);
        self.freezes.expire(now) || breaker
    }

    /// When time alone changes what the whole fleet may do.
    pub fn next_change(&self, settings: &GuardrailSettings) -> Option<Timestamp> {
        [self.circuit_breaker.next_change(&settings.circuit_breaker), self.freezes.next_end()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Restores the rate limits of `cluster` from its recent launches.
    pub fn restore_rate_limits(
        &mut self,
        cluster: &ClusterName,
        past: &[RecentLaunch],
        settings: &GuardrailSettings,
        now: Timestamp,
    ) {
        let within = |at: Timestamp, window: Millis| now.duration_since(at) < window;
        for launch in past {
            let (claim, free) = (&launch.claim, MicroUsd(0));
            if within(launch.begun, settings.launches.window) && !self.launches.contains(cluster, claim) {
                self.launches.restore(cluster, claim, free, launch.begun);
            }
            let went = launch.closed.filter(|_| launch.launched == Some(true));
            if let Some(at) = went.filter(|at| within(*at, settings.removals.window))
                && !self.removals.contains(cluster, claim)
            {
                self.removals.restore(cluster, claim, free, at);
            }
        }
    }

    pub fn counter_snapshot(&self, settings: &GuardrailSettings) -> CounterSnapshot {
        let mut buckets: BTreeMap<i64, LocalCounters> = BTreeMap::new();
        for (at, failed) in self.circuit_breaker.local() {
            let counters = bucket(&mut buckets, at);
            *if failed { &mut counters.failed } else { &mut counters.joined } += 1;
        }
        self.launches.local().for_each(|(at, price)| bucket(&mut buckets, at).launched.add(price));
        self.removals.local().for_each(|(at, price)| bucket(&mut buckets, at).removed.add(price));
        let windows = [settings.launches.window, settings.removals.window, settings.circuit_breaker.window];
        let window = windows.into_iter().max().unwrap_or_default();
        // A machine whose removal is reserved counts as removed for the others.
        let machines = self.machines.values().sum::<usize>().saturating_sub(self.removals.reservations());
        CounterSnapshot { machines, buckets, window }
    }

    /// Replaces the counters of all other processes; oldest first.
    pub fn merge_remote(&mut self, machines: usize, buckets: &[(Timestamp, LocalCounters)]) {
        self.remote_machines = machines;
        self.circuit_breaker.merge_remote(buckets.iter().map(|(at, counters)| (*at, counters.joined, counters.failed)));
        self.launches.merge_remote(buckets.iter().map(|(at, counters)| (*at, counters.launched)));
        self.removals.merge_remote(buckets.iter().map(|(at, counters)| (*at, counters.removed)));
    }
}

impl Guardrails {
    pub fn record_launch(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, at: Timestamp) {
        self.launches.record(cluster, claim, price, at);
    }

    /// Counts a launch of another process for the cluster's limit.
    pub fn restore_launch(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, at: Timestamp) {
        self.launches.restore(cluster, claim, price, at);
    }

    /// Removes a decided launch that is not carried out.
    pub fn cancel_launch(&mut self, cluster: &ClusterName, claim: &ClaimName) {
        self.launches.remove(cluster, claim);
    }

    /// Whether the launch of `claim` is counted.
    pub fn contains_launch(&self, cluster: &ClusterName, claim: &ClaimName) -> bool {
        self.launches.contains(cluster, claim)
    }

    /// How many launches at these `prices`, in this order, the rate limits admit, and why not more.
    pub fn admit_launches(
        &self,
        settings: &GuardrailSettings,
        population: Population<'_>,
        prices: impl IntoIterator<Item = MicroUsd>,
        now: Timestamp,
    ) -> (usize, Option<LimitBlock>) {
        self.launches.admit(&settings.launches, RateLimitKind::Launches, population, prices, now)
    }

    pub fn record_removal(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, at: Timestamp) {
        self.removals.record(cluster, claim, price, at);
    }

    /// Reserves the removal of a machine whose replacement begins.
    pub fn reserve_removal(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, since: Timestamp) {
        self.removals.reserve(cluster, claim, price, since);
    }

    /// Ends the reservations of the machines that `goes_on` does not accept: they stay, or leave for another reason.
    pub fn retain_reserved_removals(&mut self, cluster: &ClusterName, goes_on: impl Fn(&ClaimName) -> bool) {
        self.removals.retain_reservations(cluster, goes_on);
    }

    /// Whether the removal of `claim` is reserved.
    pub fn is_removal_reserved(&self, cluster: &ClusterName, claim: &ClaimName) -> bool {
        self.removals.is_reserved(cluster, claim)
    }

    /// What the rate limits leave for up to so many launches, and for removals of all machines of the cluster.
    pub fn replacement_room(
        &self,
        settings: &GuardrailSettings,
        population: Population<'_>,
        launches: usize,
        now: Timestamp,
    ) -> ReplacementRoom {
        let removed = population.machines;
        ReplacementRoom {
            removals: self.removals.room(&settings.removals, RateLimitKind::Removals, population, removed, now),
            launches: self.launches.room(&settings.launches, RateLimitKind::Launches, population, launches, now),
        }
    }

    /// Counts a removal of another process for the cluster's limit.
    pub fn restore_removal(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, at: Timestamp) {
        self.removals.restore(cluster, claim, price, at);
    }

    /// Removes a decided removal that is not carried out.
    pub fn cancel_removal(&mut self, cluster: &ClusterName, claim: &ClaimName) {
        self.removals.remove(cluster, claim);
    }

    /// Whether the removal of `claim` is counted.
    pub fn contains_removal(&self, cluster: &ClusterName, claim: &ClaimName) -> bool {
        self.removals.contains(cluster, claim)
    }

    /// As [`Guardrails::admit_launches`], for removals.
    pub fn admit_removals(
        &self,
        settings: &GuardrailSettings,
        population: Population<'_>,
        prices: impl IntoIterator<Item = MicroUsd>,
        now: Timestamp,
    ) -> (usize, Option<LimitBlock>) {
        self.removals.admit(&settings.removals, RateLimitKind::Removals, population, prices, now)
    }

    /// Launches and removals in the cluster within the windows.
    pub fn window_counts(&self, cluster: &ClusterName) -> (usize, usize) {
        (self.launches.cluster_count(cluster), self.removals.cluster_count(cluster))
    }

    /// Records the machines of a cluster of this process.
    pub fn record_machines(&mut self, cluster: &ClusterName, machines: usize) {
        self.machines.insert(cluster.clone(), machines);
    }

    /// Forgets a cluster that this process does not own any more.
    pub fn forget_cluster(&mut self, cluster: &ClusterName) {
        self.machines.remove(cluster);
        self.removals.forget_reservations(cluster);
    }

    /// The machines that percentages refer to, `machines` of which are in `cluster`.
    pub fn population<'c>(&self, cluster: &'c ClusterName, machines: usize) -> Population<'c> {
        let others = self.machines.iter().filter(|(other, _)| *other != cluster).map(|(_, count)| count);
        let fleet = machines + others.sum::<usize>() + self.remote_machines;
        Population { cluster, machines, fleet, clusters: self.machines.len().max(1) }
    }
}

impl Guardrails {
    /// Records that a machine has joined its cluster.
    pub fn record_launch_success(&mut self, cluster: &ClusterName, now: Timestamp) {
        self.circuit_breaker.record_success(cluster, now);
    }

    /// Records that a launch failed, or that its machine did not join in time.
    pub fn record_launch_failure(&mut self, cluster: &ClusterName, now: Timestamp) {
        self.circuit_breaker.record_failure(cluster, now);
    }

    /// Machines that joined a cluster, and launches that failed, as counted by this process.
    pub fn launch_outcomes(&self, cluster: &ClusterName) -> (usize, usize) {
        self.circuit_breaker.cluster_outcomes(cluster)
    }

    /// Why the circuit breaker stops removals in `cluster`; `None` while it does not.
    pub fn engaged_breaker(&self, settings: &GuardrailSettings, cluster: &ClusterName) -> Option<EngagedBreaker> {
        self.circuit_breaker.engaged(&settings.circuit_breaker, cluster)
    }

    /// Whether the circuit breaker stops removals in `cluster`.
    pub fn is_breaker_engaged(&self, cluster: &ClusterName) -> bool {
        self.circuit_breaker.engaged_since(cluster).is_some()
    }

    /// Replaces the freezes by those of the store; returns whether they differ.
    pub fn replace_freezes(&mut self, freezes: Vec<Freeze>, now: Timestamp) -> bool {
        self.freezes.replace(freezes, now)
    }

    pub fn freezes(&self) -> &Freezes {
        &self.freezes
    }

    /// Time of the last event.
    pub fn now(&self) -> Timestamp {
        self.now
    }
}
