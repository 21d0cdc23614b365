//! Blast radius: how many machines may come or go within a while, in a cluster and in the fleet.
//!
//! Everything that is decided is noted; what is not carried out after all is forgotten again. What has no room waits, and
//! goes on by itself as the window moves.

use std::collections::BTreeMap;

use super::Held;
use super::settings::{Bound, CapRule};
use super::tally::Tally;
use crate::control::ClusterId;
use crate::model::{MicroUsd, Text, Timestamp};

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
pub struct Crowd<'c> {
    /// The cluster.
    pub cluster: &'c ClusterId,
    /// Its machines.
    pub machines: usize,
    /// The machines of all clusters.
    pub fleet: usize,
}

/// What happened lately, in each cluster and in all of them.
#[derive(Debug, Clone, Default)]
pub struct Caps {
    clusters: BTreeMap<ClusterId, Tally>,
    fleet: Tally,
}

impl Caps {
    /// A machine, named by its NodeClaim, comes or goes.
    pub fn note(&mut self, cluster: &ClusterId, claim: &Text, price: MicroUsd, at: Timestamp) {
        self.clusters.entry(cluster.clone()).or_default().note(claim.clone(), price, at);
        self.fleet.note(fleet_key(cluster, claim), price, at);
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
        self.fleet.forget(&fleet_key(cluster, claim));
    }

    /// Forgets what has left the window.
    pub fn forget_past(&mut self, window_ms: i64, now: Timestamp) {
        // Whatever a cluster has noted, the fleet has: nothing leaves anywhere before it leaves there.
        if self.fleet.is_empty() || self.fleet.next_leave(window_ms, now) > now {
            return;
        }
        self.fleet.forget_past(window_ms, now);
        self.clusters.retain(|_, tally| {
            tally.forget_past(window_ms, now);
            !tally.is_empty()
        });
    }

    /// How many there were in the fleet within the window.
    #[must_use]
    pub fn in_fleet(&self) -> usize {
        self.fleet.len()
    }

    /// How many there were in the cluster within the window.
    #[must_use]
    pub fn in_cluster(&self, cluster: &ClusterId) -> usize {
        self.clusters.get(cluster).map_or(0, Tally::len)
    }

    /// How many of the machines with these `prices`, in this order, there is room for, and why not for more.
    #[must_use]
    pub fn room(
        &self,
        rule: &CapRule,
        counted: Counted,
        crowd: Crowd<'_>,
        prices: impl IntoIterator<Item = MicroUsd>,
        now: Timestamp,
    ) -> (usize, Option<Held>) {
        let none = Tally::default();
        let own = self.clusters.get(crowd.cluster).unwrap_or(&none);
        let cluster_name = format!("cluster {}", crowd.cluster);
        let scopes = [
            (cluster_name.as_str(), own, rule.cluster, crowd.machines),
            ("the fleet", &self.fleet, rule.fleet, crowd.fleet),
        ];
        let (mut taken, mut cost) = (0, 0_i64);
        for price in prices {
            cost = cost.saturating_add(price.0);
            for (name, tally, bound, machines) in scopes {
                if let Some(limit) = exceeded(bound, tally, machines, taken + 1, MicroUsd(cost)) {
                    let reason = sentence(counted, name, &limit, rule.window_ms);
                    let until = Some(tally.next_leave(rule.window_ms, now));
                    return (taken, Some(Held { reason: Text::from(reason), until }));
                }
            }
            taken += 1;
        }
        (taken, None)
    }
}

fn fleet_key(cluster: &ClusterId, claim: &Text) -> Text {
    Text::from(format!("{cluster}/{claim}"))
}

/// The limit that `more` machines at `cost` together would exceed. A share is one of all machines that were there when the
/// window began: those that are there and those that went.
fn exceeded(bound: Bound, tally: &Tally, machines: usize, more: usize, cost: MicroUsd) -> Option<String> {
    let count = tally.len() + more;
    let before = machines + tally.len();
    let share = (bound.percent * before).div_ceil(100).max(bound.free);
    if bound.machines > 0 && count > bound.machines {
        return Some(format!("{} machines", bound.machines));
    }
    if bound.percent > 0 && count > share {
        return Some(format!("{} % of its machines ({} at least)", bound.percent, bound.free));
    }
    let dear = tally.cost().0.saturating_add(cost.0) > bound.usd_per_hour.0;
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
