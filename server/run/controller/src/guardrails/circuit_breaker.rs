//! Circuit breaker on voluntary removals: while launches fail in a cluster, or its machines do not
//! join, no machine is removed there voluntarily; while they fail in several clusters of any
//! replica, none is removed in the fleet. One failing cluster does not stop the others.
//! Insufficient capacity is no failure: the pods are planned elsewhere.
//!
//! Engaging and releasing have different thresholds, so that a rate in between does not flap.
//! Counters of other replicas carry no cluster names and count as several clusters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::block::Block;
use model::disruption_plan::BlockCode;
use model::{ClusterName, Millis, Timestamp};

/// Thresholds of the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerRule {
    /// Window in which outcomes count.
    pub window: Millis,
    /// Minimum number of outcomes for a decision.
    pub least: usize,
    /// Percentage of failures at which the breaker engages; 0 disables it.
    pub engage_percent: usize,
    /// Percentage of failures at which the breaker releases.
    pub release_percent: usize,
}

impl Default for CircuitBreakerRule {
    fn default() -> Self {
        Self { window: Millis::from_mins(10), least: 5, engage_percent: 50, release_percent: 20 }
    }
}

/// Number of clusters with failing launches from which on the breaker may engage for the fleet.
const MIN_FAILING_CLUSTERS: usize = 2;

/// Recent launch outcomes, and where the breaker is engaged.
#[derive(Debug, Clone, Default)]
pub struct CircuitBreaker {
    /// Time, cluster and whether the launch failed; oldest first.
    outcomes: VecDeque<(Timestamp, ClusterName, bool)>,
    /// Counters of other replicas: time, machines that joined, launches that failed; oldest first.
    remote: VecDeque<(Timestamp, usize, usize)>,
    /// Since when the breaker is engaged for the fleet.
    fleet: Option<Timestamp>,
    /// Since when the breaker is engaged for single clusters.
    clusters: BTreeMap<ClusterName, Timestamp>,
    /// Whether the counts have changed since the last evaluation.
    changed: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct OutcomeCount {
    failed: usize,
    all: usize,
}

impl OutcomeCount {
    fn engages(self, rule: &CircuitBreakerRule) -> bool {
        let Self { failed, all } = self;
        rule.engage_percent > 0 && all >= rule.least && failed * 100 >= rule.engage_percent * all
    }

    fn releases(self, rule: &CircuitBreakerRule) -> bool {
        self.failed * 100 <= rule.release_percent * self.all
    }
}

/// The breaker is engaged: no machine is removed voluntarily.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngagedBreaker {
    /// The cluster whose launches fail; `None` when removals are stopped in the fleet.
    pub cluster: Option<ClusterName>,
    /// Percentage of failed launches at which the breaker releases.
    pub release_percent: usize,
    /// Length of the window, in minutes.
    pub window_minutes: i64,
}

impl fmt::Display for EngagedBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "launches fail in cluster {cluster}: nothing is removed there"),
            None => f.write_str(
                "launches fail in several clusters, of this replica or of others: nothing is removed in the fleet",
            ),
        }?;
        let Self { release_percent, window_minutes, .. } = self;
        write!(f, " until at most {release_percent} % of those of the last {window_minutes} min have failed")
    }
}

impl CircuitBreaker {
    /// Records that a machine has joined its cluster.
    pub fn record_success(&mut self, cluster: &ClusterName, now: Timestamp) {
        self.outcomes.push_back((now, cluster.clone(), false));
        self.changed = true;
    }

    /// Records that a launch failed, or that its machine did not join in time.
    pub fn record_failure(&mut self, cluster: &ClusterName, now: Timestamp) {
        self.outcomes.push_back((now, cluster.clone(), true));
        self.changed = true;
    }

    /// Replaces the counters of other replicas; oldest first.
    pub fn merge_remote(&mut self, counters: impl Iterator<Item = (Timestamp, usize, usize)>) {
        self.remote = counters.filter(|(_, joined, failed)| joined + failed > 0).collect();
        self.changed = true;
    }

    /// Outcomes that this process counted: time, and whether the launch failed.
    pub fn local(&self) -> impl Iterator<Item = (Timestamp, bool)> {
        self.outcomes.iter().map(|(at, _, failed)| (*at, *failed))
    }

    /// Machines that joined a cluster within the window and launches that failed, as counted by
    /// this process.
    #[must_use]
    pub fn cluster_outcomes(&self, cluster: &ClusterName) -> (usize, usize) {
        let here = self.outcomes.iter().filter(|(_, of, _)| of == cluster);
        here.fold((0, 0), |(joined, failed), (_, _, one)| (joined + usize::from(!one), failed + usize::from(*one)))
    }

    /// Expires old outcomes, then engages or releases; returns whether either happened.
    pub fn evaluate(&mut self, rule: &CircuitBreakerRule, now: Timestamp) -> bool {
        let is_past = |at: Timestamp| now.duration_since(at) >= rule.window;
        while self.outcomes.front().is_some_and(|(at, ..)| is_past(*at)) {
            self.outcomes.pop_front();
            self.changed = true;
        }
        while self.remote.front().is_some_and(|(at, ..)| is_past(*at)) {
            self.remote.pop_front();
            self.changed = true;
        }
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let fleet = self.evaluate_fleet(rule, now);
        self.evaluate_clusters(rule, now) || fleet
    }

    fn evaluate_fleet(&mut self, rule: &CircuitBreakerRule, now: Timestamp) -> bool {
        let mut count = OutcomeCount::default();
        let mut failing: BTreeSet<&ClusterName> = BTreeSet::new();
        for (_, cluster, failed) in &self.outcomes {
            count = OutcomeCount { failed: count.failed + usize::from(*failed), all: count.all + 1 };
            failing.extend(failed.then_some(cluster));
        }
        let remote = self.remote.iter().fold(OutcomeCount::default(), |remote, (_, joined, failed)| OutcomeCount {
            failed: remote.failed + failed,
            all: remote.all + joined + failed,
        });
        count = OutcomeCount { failed: count.failed + remote.failed, all: count.all + remote.all };
        let several = failing.len() >= MIN_FAILING_CLUSTERS || remote.failed > 0;
        let before = self.fleet;
        match before {
            None if several && count.engages(rule) => self.fleet = Some(now),
            Some(_) if !several || count.releases(rule) => self.fleet = None,
            _ => {}
        }
        before != self.fleet
    }

    fn evaluate_clusters(&mut self, rule: &CircuitBreakerRule, now: Timestamp) -> bool {
        let mut counts: BTreeMap<ClusterName, OutcomeCount> = BTreeMap::new();
        for (_, cluster, failed) in &self.outcomes {
            let count = counts.entry(cluster.clone()).or_default();
            *count = OutcomeCount { failed: count.failed + usize::from(*failed), all: count.all + 1 };
        }
        let before: Vec<ClusterName> = self.clusters.keys().cloned().collect();
        self.clusters.retain(|cluster, _| counts.get(cluster).is_some_and(|count| !count.releases(rule)));
        for (cluster, _) in counts.iter().filter(|(_, count)| count.engages(rule)) {
            self.clusters.entry(cluster.clone()).or_insert(now);
        }
        !before.iter().eq(self.clusters.keys())
    }

    /// When time alone may release the breaker.
    #[must_use]
    pub fn next_change(&self, rule: &CircuitBreakerRule) -> Option<Timestamp> {
        if self.fleet.is_none() && self.clusters.is_empty() {
            return None;
        }
        let own = self.outcomes.front().map(|(at, ..)| *at);
        let oldest = own.into_iter().chain(self.remote.front().map(|(at, ..)| *at)).min()?;
        Some(oldest + rule.window)
    }

    /// Why removals are stopped in `cluster`, if the breaker is engaged for it or for the fleet.
    #[must_use]
    pub fn engaged(&self, rule: &CircuitBreakerRule, cluster: &ClusterName) -> Option<EngagedBreaker> {
        self.engaged_since(cluster)?;
        Some(EngagedBreaker {
            cluster: self.fleet.is_none().then(|| cluster.clone()),
            release_percent: rule.release_percent,
            window_minutes: rule.window.as_mins(),
        })
    }

    /// What holds all removals in `cluster`, until launches succeed again.
    #[must_use]
    pub fn removal_block(&self, rule: &CircuitBreakerRule, cluster: &ClusterName) -> Option<Block> {
        let engaged = self.engaged(rule, cluster)?;
        let block = Block::new(BlockCode::Guardrail, Some("CircuitBreaker/fleet".into()), &engaged);
        Some(Block { setting: "guardrails.circuit-breaker-percent", ..block })
    }

    /// Whether removals are stopped in `cluster`.
    #[must_use]
    pub fn is_engaged(&self, cluster: &ClusterName) -> bool {
        self.engaged_since(cluster).is_some()
    }

    /// Since when removals are stopped in `cluster`.
    #[must_use]
    pub fn engaged_since(&self, cluster: &ClusterName) -> Option<Timestamp> {
        self.fleet.into_iter().chain(self.clusters.get(cluster).copied()).min()
    }
}
