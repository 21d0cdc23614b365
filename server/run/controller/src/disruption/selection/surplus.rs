//! Selection of machines of static NodePools that have more than their replicas.

use std::collections::BTreeMap;

use super::facts::{MachineNames, Protections};
use super::result::Selection;
use model::{Millis, PoolName, Timestamp};

/// How much a machine is missed, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    NotLaunched,
    /// Without pods that run elsewhere again, and without active do-not-disrupt.
    Empty,
    InUse {
        is_protected: bool,
        /// Sum of the costs of evicting its pods, by the part of its lifetime that is left.
        cost: i128,
    },
}

/// How many of `machines` are more than `replicas`.
pub(crate) fn surplus(machines: usize, replicas: i64) -> usize {
    machines.saturating_sub(usize::try_from(replicas).unwrap_or(0))
}

/// Static NodePools with more machines than replicas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SurplusMachines {
    pub pools: BTreeMap<PoolName, SurplusPool>,
}

/// A static NodePool with more machines than replicas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SurplusPool {
    /// `spec.replicas`.
    pub replicas: i64,
    /// Its machines that stay so far, those that are being replaced left out.
    pub machines: Vec<RankedMachine>,
}

/// A machine of a static NodePool, with what it is missed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedMachine {
    pub machine: MachineNames,
    pub is_launched: bool,
    /// When its NodeClaim was created.
    pub created: Option<Timestamp>,
    /// `spec.expireAfter` of its NodeClaim.
    pub expire_after: Option<Millis>,
    pub protections: Protections,
    /// Whether it has pods that run elsewhere again.
    pub has_pods: bool,
    /// Sum of the costs of evicting them.
    pub cost: i128,
}

impl SurplusMachines {
    pub(super) fn select(&self, now: Timestamp) -> Selection {
        let mut selection = Selection::default();
        for (pool, SurplusPool { replicas, machines }) in &self.pools {
            let mut missed: Vec<&RankedMachine> = machines.iter().collect();
            missed.sort_by_cached_key(|one| (one.rank(now), &one.machine.claim));
            let reason = format!("NodePool {pool} has more machines than its replicas, {replicas}");
            let surplus = missed.iter().take(surplus(machines.len(), *replicas));
            selection.removals.extend(surplus.map(|one| one.machine.removal(reason.as_str())));
        }
        selection
    }
}

impl RankedMachine {
    fn rank(&self, now: Timestamp) -> Rank {
        let is_protected = self.protections.is_protected(now);
        if !self.is_launched {
            Rank::NotLaunched
        } else if !self.has_pods && !is_protected {
            Rank::Empty
        } else {
            Rank::InUse { is_protected, cost: self.cost * i128::from(self.lifetime_left_per_mille(now)) / 1_000 }
        }
    }

    /// All of it for a NodeClaim that never expires.
    fn lifetime_left_per_mille(&self, now: Timestamp) -> i64 {
        let (Some(created), Some(lifetime)) = (self.created, self.expire_after) else { return 1_000 };
        let left = (lifetime - now.duration_since(created)).get();
        (left * 1_000 / lifetime.get().max(1)).clamp(0, 1_000)
    }
}
