//! Blast radius: how many machines may come or go within a while, in a cluster and in the fleet, whichever replicas decide for
//! its clusters.
//!
//! Everything that is decided is noted; what is not carried out after all is forgotten again. What has no room waits, and
//! goes on by itself as the window moves.

use std::collections::{BTreeMap, VecDeque};

use super::Held;
use super::fleet_counters::Machines;
use super::settings::{Bound, RateLimitRule};
use super::tally::Tally;
use crate::control::ClusterId;
use crate::model::{MicroUsd, Text, Timestamp};

/// How reasons name the fleet.
const FLEET: &str = "the fleet";

/// What is counted: words for reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Machines are launched.
    Launches,
    /// Machines are removed although nothing forces it.
    Removals,
}

/// Who is counted.
#[derive(Debug, Clone, Copy)]
pub struct Population<'c> {
    /// The cluster.
    pub cluster: &'c ClusterId,
    /// Its machines.
    pub machines: usize,
    /// The machines of all clusters, whoever decides for them.
    pub fleet: usize,
    /// How many clusters this process decides for.
    pub clusters: usize,
}

/// Of the fleet's number of machines so much is kept for clusters that have used less than their share, in percent: a few clusters
/// at their own bound do not use it up for all others.
const KEPT_PERCENT: usize = 25;

/// What happened lately, in each cluster and in all of them.
#[derive(Debug, Clone, Default)]
pub struct RateLimits {
    clusters: BTreeMap<ClusterId, Tally>,
    /// What this process decided, in all clusters.
    own: Tally,
    /// What other processes decided, oldest first.
    elsewhere: VecDeque<(Timestamp, Machines)>,
    /// When the oldest of what `clusters` has happened.
    oldest: Option<Timestamp>,
}

/// What counts against a bound.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    machines: usize,
    cost: i64,
    oldest: Option<Timestamp>,
}

impl From<&Tally> for Used {
    fn from(tally: &Tally) -> Self {
        Self { machines: tally.len(), cost: tally.cost().0, oldest: tally.oldest() }
    }
}

impl RateLimits {
    /// This process has decided that a machine, named by its NodeClaim, comes or goes.
    pub fn note(&mut self, cluster: &ClusterId, claim: &Text, price: MicroUsd, at: Timestamp) {
        self.recall(cluster, claim, price, at);
        self.own.note(fleet_key(cluster, claim), price, at);
    }

    /// Another process had decided so, and has told it as its share of the fleet's.
    pub fn recall(&mut self, cluster: &ClusterId, claim: &Text, price: MicroUsd, at: Timestamp) {
        self.clusters.entry(cluster.clone()).or_default().note(claim.clone(), price, at);
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    /// What other processes decided, in place of what they told before; oldest first.
    pub fn hear(&mut self, told: impl Iterator<Item = (Timestamp, Machines)>) {
        self.elsewhere = told.filter(|(_, machines)| machines.count > 0).collect();
    }

    /// What this process decided itself: when, and what the machine costs per hour.
    pub fn own(&self) -> impl Iterator<Item = (Timestamp, MicroUsd)> {
        self.own.each()
    }

    /// Whether it is noted that the machine of `claim` comes or goes.
    #[must_use]
    pub fn has(&self, cluster: &ClusterId, claim: &Text) -> bool {
        self.clusters.get(cluster).is_some_and(|tally| tally.has(claim))
    }

    /// It does not after all.
    pub fn forget(&mut self, cluster: &ClusterId, claim: &Text) {
        if let Some(tally) = self.clusters.get_mut(cluster) {
            tally.forget(claim);
        }
        self.own.forget(&fleet_key(cluster, claim));
    }

    /// Forgets what has left the window.
    pub fn forget_past(&mut self, window_ms: i64, now: Timestamp) {
        let is_past = |at: Timestamp| now.millis_since(at) >= window_ms;
        self.own.forget_past(window_ms, now);
        while self.elsewhere.front().is_some_and(|(at, _)| is_past(*at)) {
            self.elsewhere.pop_front();
        }
        if !self.oldest.is_some_and(is_past) {
            return;
        }
        self.clusters.retain(|_, tally| {
            tally.forget_past(window_ms, now);
            !tally.is_empty()
        });
        self.oldest = self.clusters.values().filter_map(Tally::oldest).min();
    }

    /// How many there were in the fleet within the window.
    #[must_use]
    pub fn in_fleet(&self) -> usize {
        self.fleet().machines
    }

    /// How many there were in the cluster within the window.
    #[must_use]
    pub fn in_cluster(&self, cluster: &ClusterId) -> usize {
        self.clusters.get(cluster).map_or(0, Tally::len)
    }

    /// What all processes decided.
    fn fleet(&self) -> Used {
        let mut used = Used::from(&self.own);
        for (at, machines) in &self.elsewhere {
            used.machines += machines.count;
            used.cost = used.cost.saturating_add(machines.cost.0);
            used.oldest = Some(used.oldest.map_or(*at, |oldest| oldest.min(*at)));
        }
        used
    }

    /// How many of the machines with these `prices`, in this order, there is room for, and why not for more.
    #[must_use]
    pub fn room(
        &self,
        rule: &RateLimitRule,
        counted: Counted,
        crowd: Population<'_>,
        prices: impl IntoIterator<Item = MicroUsd>,
        now: Timestamp,
    ) -> (usize, Option<Held>) {
        let own = self.clusters.get(crowd.cluster).map(Used::from).unwrap_or_default();
        let cluster_name = format!("cluster {}", crowd.cluster);
        let scopes = [
            (cluster_name.as_str(), own, rule.cluster, crowd.machines),
            (FLEET, self.fleet(), rule.fleet, crowd.fleet),
        ];
        let (mut taken, mut cost) = (0, 0_i64);
        for price in prices {
            cost = cost.saturating_add(price.0);
            for (name, used, bound, machines) in scopes {
                let bound = if name == FLEET { fair(bound, own.machines + taken + 1, crowd.clusters) } else { bound };
                if let Some(limit) = exceeded(bound, used, machines, taken + 1, MicroUsd(cost)) {
                    let reason = sentence(counted, name, &limit, rule.window_ms);
                    let oldest = used.oldest.unwrap_or(now);
                    let until = Some(Timestamp(oldest.0.saturating_add(rule.window_ms)));
                    return (taken, Some(Held { reason: Text::from(reason), until }));
                }
            }
            taken += 1;
        }
        (taken, None)
    }
}

/// The fleet's bound for a cluster that has used so many machines of it, with the next one.
fn fair(bound: Bound, used: usize, clusters: usize) -> Bound {
    let share = bound.machines.div_ceil(clusters.max(1));
    let kept = if used > share { bound.machines * KEPT_PERCENT / 100 } else { 0 };
    Bound { machines: bound.machines - kept, ..bound }
}

fn fleet_key(cluster: &ClusterId, claim: &Text) -> Text {
    Text::from(format!("{cluster}/{claim}"))
}

/// The limit that `more` machines at `cost` together would exceed. A share is one of all machines that were there when the
/// window began: those that are there and those that went.
fn exceeded(bound: Bound, used: Used, machines: usize, more: usize, cost: MicroUsd) -> Option<String> {
    let count = used.machines + more;
    let before = machines + used.machines;
    let share = (bound.percent * before).div_ceil(100).max(bound.free);
    if bound.machines > 0 && count > bound.machines {
        return Some(format!("{} machines", bound.machines));
    }
    if bound.percent > 0 && count > share {
        return Some(format!("{} % of its machines ({} at least)", bound.percent, bound.free));
    }
    let dear = used.cost.saturating_add(cost.0) > bound.usd_per_hour.0;
    (bound.usd_per_hour.0 > 0 && dear).then(|| format!("${} an hour of machines", bound.usd_per_hour))
}

fn sentence(counted: Counted, scope: &str, limit: &str, window_ms: i64) -> String {
    let minutes = window_ms / 60_000;
    match counted {
        Counted::Launches => format!(
            "{scope} may launch no more than {limit} within {minutes} min; the rest waits until the window moves on"
        ),
        Counted::Removals => format!(
            "{scope} may lose no more than {limit} within {minutes} min; the rest stays until the window moves on"
        ),
    }
}
