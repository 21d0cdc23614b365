//! Invariants that hold at every step, and invariants that hold at the end of a run.

use std::collections::BTreeSet;
use std::fmt;

use cloud::provider::InstanceState;
use engine::model::resources::NODES;
use engine::model::{Resources, Text, Timestamp};

use super::Simulation;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// An instance was launched for a NodeClaim that the cluster does not have.
    LaunchBeforeClaim {
        /// Cluster of the launch.
        cluster: Text,
        /// NodeClaim of the launch.
        claim: Text,
    },
    /// Two instances were launched for one NodeClaim.
    LaunchedTwice {
        /// Cluster of the launches.
        cluster: Text,
        /// NodeClaim of the launches.
        claim: Text,
    },
    /// NodeClaims of a NodePool exceed its limits.
    OverLimit {
        /// Cluster of the NodePool.
        cluster: Text,
        /// Name of the NodePool.
        pool: Text,
    },
    /// At the end: an instance runs without a NodeClaim.
    Leaked {
        /// Cluster that owns the instance.
        cluster: Text,
        /// Id of the instance.
        instance: Text,
    },
    /// Events repeat without progress of time.
    Stuck {
        /// Time at which the clock stopped.
        at: Timestamp,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaunchBeforeClaim { cluster, claim } => {
                write!(f, "an instance was launched for {cluster}/{claim}, which is no NodeClaim of that cluster")
            }
            Self::LaunchedTwice { cluster, claim } => write!(f, "two instances were launched for {cluster}/{claim}"),
            Self::OverLimit { cluster, pool } => write!(f, "NodePool {pool} of {cluster} is over its limits"),
            Self::Leaked { cluster, instance } => write!(f, "{instance} of {cluster} runs without a NodeClaim"),
            Self::Stuck { at } => write!(f, "the clock does not advance beyond {} ms", at.0),
        }
    }
}

impl Simulation {
    pub(super) fn check_invariants(&mut self) {
        if self.cloud.ledger().launched_count() == self.launched_count {
            return;
        }
        self.launched_count = self.cloud.ledger().launched_count();
        for (cluster, claim) in self.cloud.ledger().duplicate_launches() {
            self.violations.insert(Violation::LaunchedTwice { cluster, claim });
        }
        let over = self.over_limit();
        self.violations.extend(over);
    }

    fn over_limit(&self) -> Vec<Violation> {
        let mut over = Vec::new();
        for (cluster, managed) in &self.clusters {
            for record in self.pools_of(cluster) {
                let mut used = Resources::new();
                for claim in managed.cluster.claims().filter(|claim| claim.pool == record.pool.name) {
                    used.add(&claim.capacity);
                    used.add(&Resources::from_iter([(NODES, i64::from(!claim.provider_id.is_empty()))]));
                }
                if record.pool.limits.iter().any(|(name, limit)| used.get(name) > limit) {
                    over.push(Violation::OverLimit { cluster: cluster.clone(), pool: record.pool.name.clone() });
                }
            }
        }
        over
    }

    /// Instances that run without a NodeClaim.
    pub(super) fn leaked_instances(&self) -> Vec<Violation> {
        let going = |id: &str| self.cloud.describe(id).is_ok_and(|known| known.state == InstanceState::ShuttingDown);
        let mut leaked = Vec::new();
        for entry in self.cloud.ledger().active().filter(|entry| !going(&entry.instance.id)) {
            let instance = &entry.instance;
            let managed = self.clusters.get(&instance.cluster);
            let claims: BTreeSet<&Text> =
                managed.into_iter().flat_map(|managed| managed.cluster.claims()).map(|claim| &claim.name).collect();
            if !claims.contains(&instance.claim) {
                leaked.push(Violation::Leaked { cluster: instance.cluster.clone(), instance: instance.id.clone() });
            }
        }
        leaked
    }
}
