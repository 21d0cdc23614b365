//! What the guardrails count, of this process and of other replicas, and what rate limits admit.

use std::collections::BTreeMap;

use super::fleet_counters::{CounterSnapshot, LocalCounters, bucket};
use super::rate_limits::{LimitBlock, Population, RateLimitKind, RateLimitRoom};
use super::recent_launch::RecentLaunch;
use super::{GuardrailSettings, Guardrails};
use model::{ClusterName, MicroUsd, Millis, Timestamp};

/// What rate limits leave for replacements: launches and removals together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplacementRoom {
    pub removals: RateLimitRoom,
    pub launches: RateLimitRoom,
}

impl Guardrails {
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
