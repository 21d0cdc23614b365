//! Who cannot launch must not remove: while launches fail in a cluster, or machines do not join it, nothing leaves it of free will; and
//! nothing leaves the fleet while they fail in several clusters, whichever replicas decide for those. One cluster whose launches fail
//! does not hold up the others. That an offering is not to be had is no failure: the pods are planned elsewhere.
//!
//! Engaging and releasing have different thresholds, so that a rate in between does not flap. What other replicas tell does not say of
//! which clusters it is: it counts as if it were of several.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::settings::CircuitBreakerRule;
use crate::control::ClusterId;
use crate::model::{Text, Timestamp};

/// Clusters in which launches must fail for the fleet to be braked.
const SEVERAL: usize = 2;

/// Outcomes of launches lately, and where removals are stopped.
#[derive(Debug, Clone, Default)]
pub struct CircuitBreaker {
    /// When, where, and whether it failed; oldest first.
    outcomes: VecDeque<(Timestamp, ClusterId, bool)>,
    /// What other processes told: when, how many machines joined, how many launches failed; oldest first.
    elsewhere: VecDeque<(Timestamp, usize, usize)>,
    /// The fleet is braked, since then.
    fleet: Option<Timestamp>,
    /// Clusters that are braked for themselves, since when.
    clusters: BTreeMap<ClusterId, Timestamp>,
    /// What is counted has changed since it was counted last.
    changed: bool,
}

/// Outcomes that are counted together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    failed: usize,
    all: usize,
}

impl Count {
    fn engages(self, rule: &CircuitBreakerRule) -> bool {
        let Self { failed, all } = self;
        rule.engage_percent > 0 && all >= rule.least && failed * 100 >= rule.engage_percent * all
    }

    fn releases(self, rule: &CircuitBreakerRule) -> bool {
        self.failed * 100 <= rule.release_percent * self.all
    }
}

impl CircuitBreaker {
    /// A machine has joined its cluster.
    pub fn joined(&mut self, cluster: &ClusterId, now: Timestamp) {
        self.outcomes.push_back((now, cluster.clone(), false));
        self.changed = true;
    }

    /// A launch failed, or its machine did not join in time.
    pub fn failed(&mut self, cluster: &ClusterId, now: Timestamp) {
        self.outcomes.push_back((now, cluster.clone(), true));
        self.changed = true;
    }

    /// What other processes told, in place of what they told before; oldest first.
    pub fn hear(&mut self, told: impl Iterator<Item = (Timestamp, usize, usize)>) {
        self.elsewhere = told.filter(|(_, joined, failed)| joined + failed > 0).collect();
        self.changed = true;
    }

    /// What this process saw itself: when, and whether it failed.
    pub fn own(&self) -> impl Iterator<Item = (Timestamp, bool)> {
        self.outcomes.iter().map(|(at, _, failed)| (*at, *failed))
    }

    /// How many machines joined a cluster within the window, and how many launches failed, as far as this process saw.
    #[must_use]
    pub fn in_cluster(&self, cluster: &ClusterId) -> (usize, usize) {
        let here = self.outcomes.iter().filter(|(_, of, _)| of == cluster);
        here.fold((0, 0), |(joined, failed), (_, _, one)| (joined + usize::from(!one), failed + usize::from(*one)))
    }

    /// Forgets what is past, and engages or releases; says whether it did either.
    pub fn settle(&mut self, rule: &CircuitBreakerRule, now: Timestamp) -> bool {
        let is_past = |at: Timestamp| now.millis_since(at) >= rule.window_ms;
        while self.outcomes.front().is_some_and(|(at, ..)| is_past(*at)) {
            self.outcomes.pop_front();
            self.changed = true;
        }
        while self.elsewhere.front().is_some_and(|(at, ..)| is_past(*at)) {
            self.elsewhere.pop_front();
            self.changed = true;
        }
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let fleet = self.settle_fleet(rule, now);
        self.settle_clusters(rule, now) || fleet
    }

    fn settle_fleet(&mut self, rule: &CircuitBreakerRule, now: Timestamp) -> bool {
        let mut count = Count::default();
        let mut failing: BTreeSet<&ClusterId> = BTreeSet::new();
        for (_, cluster, failed) in &self.outcomes {
            count = Count { failed: count.failed + usize::from(*failed), all: count.all + 1 };
            failing.extend(failed.then_some(cluster));
        }
        let heard = self.elsewhere.iter().fold(Count::default(), |heard, (_, joined, failed)| Count {
            failed: heard.failed + failed,
            all: heard.all + joined + failed,
        });
        count = Count { failed: count.failed + heard.failed, all: count.all + heard.all };
        let several = failing.len() >= SEVERAL || heard.failed > 0;
        let before = self.fleet;
        match before {
            None if several && count.engages(rule) => self.fleet = Some(now),
            Some(_) if !several || count.releases(rule) => self.fleet = None,
            _ => {}
        }
        before != self.fleet
    }

    fn settle_clusters(&mut self, rule: &CircuitBreakerRule, now: Timestamp) -> bool {
        let mut counts: BTreeMap<ClusterId, Count> = BTreeMap::new();
        for (_, cluster, failed) in &self.outcomes {
            let count = counts.entry(cluster.clone()).or_default();
            *count = Count { failed: count.failed + usize::from(*failed), all: count.all + 1 };
        }
        let before: Vec<ClusterId> = self.clusters.keys().cloned().collect();
        self.clusters.retain(|cluster, _| counts.get(cluster).is_some_and(|count| !count.releases(rule)));
        for (cluster, _) in counts.iter().filter(|(_, count)| count.engages(rule)) {
            self.clusters.entry(cluster.clone()).or_insert(now);
        }
        !before.iter().eq(self.clusters.keys())
    }

    /// When time alone may release it.
    #[must_use]
    pub fn next_change(&self, rule: &CircuitBreakerRule) -> Option<Timestamp> {
        if self.fleet.is_none() && self.clusters.is_empty() {
            return None;
        }
        let own = self.outcomes.front().map(|(at, ..)| *at);
        let oldest = own.into_iter().chain(self.elsewhere.front().map(|(at, ..)| *at)).min()?;
        Some(Timestamp(oldest.0.saturating_add(rule.window_ms)))
    }

    /// Why nothing is removed in `cluster`, if it is braked or the fleet is.
    #[must_use]
    pub fn reason(&self, rule: &CircuitBreakerRule, cluster: &ClusterId) -> Option<Text> {
        self.engaged_since(cluster)?;
        let place = match self.fleet {
            Some(_) => {
                "launches fail in several clusters, of this replica or of others: nothing is removed in the fleet"
                    .to_owned()
            }
            None => format!("launches fail in cluster {cluster}: nothing is removed there"),
        };
        Some(Text::from(format!(
            "{place} until at most {} % of those of the last {} min have failed",
            rule.release_percent,
            rule.window_ms / 60_000
        )))
    }

    /// Since when removals are stopped in `cluster`.
    #[must_use]
    pub fn engaged_since(&self, cluster: &ClusterId) -> Option<Timestamp> {
        self.fleet.into_iter().chain(self.clusters.get(cluster).copied()).min()
    }
}
