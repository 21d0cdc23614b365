//! What must hold at every step, and what must hold once things have come to rest.

use std::collections::BTreeSet;
use std::fmt;

use cloud::provider::InstanceState;
use engine::model::resources::NODES;
use engine::model::{Resources, Text, Timestamp};

use super::Simulation;

/// Something that must never be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// A machine was ordered for a NodeClaim that the cluster does not have.
    LaunchBeforeClaim {
        /// Where.
        cluster: Text,
        /// Which.
        claim: Text,
    },
    /// Two machines were sold for one NodeClaim.
    LaunchedTwice {
        /// Where.
        cluster: Text,
        /// Which.
        claim: Text,
    },
    /// NodeClaims of a pool hold more than its limits allow.
    OverLimit {
        /// Where.
        cluster: Text,
        /// NodePool.
        pool: Text,
    },
    /// At rest: a machine is paid for that no NodeClaim stands for.
    Leaked {
        /// Where.
        cluster: Text,
        /// Instance id.
        instance: Text,
    },
    /// Something happens again and again without time passing.
    Stuck {
        /// When.
        at: Timestamp,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaunchBeforeClaim { cluster, claim } => {
                write!(f, "a machine was ordered for {cluster}/{claim}, which is no NodeClaim of that cluster")
            }
            Self::LaunchedTwice { cluster, claim } => write!(f, "two machines were sold for {cluster}/{claim}"),
            Self::OverLimit { cluster, pool } => write!(f, "NodePool {pool} of {cluster} is over its limits"),
            Self::Leaked { cluster, instance } => write!(f, "{instance} of {cluster} runs without a NodeClaim"),
            Self::Stuck { at } => write!(f, "time does not get past {} ms", at.0),
        }
    }
}

impl Simulation {
    pub(super) fn check_each_step(&mut self) {
        if self.cloud.book().sold() == self.bought {
            return;
        }
        self.bought = self.cloud.book().sold();
        for (cluster, claim) in self.cloud.book().doubles() {
            self.violations.insert(Violation::LaunchedTwice { cluster, claim });
        }
        let over = self.over_limit();
        self.violations.extend(over);
    }

    fn over_limit(&self) -> Vec<Violation> {
        let mut over = Vec::new();
        for (cluster, scene) in &self.clusters {
            for record in self.pools_of(cluster) {
                let mut used = Resources::new();
                for claim in scene.cluster.claims().filter(|claim| claim.pool == record.pool.name) {
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

    /// Machines that run although no NodeClaim stands for them.
    pub(super) fn leaked(&self) -> Vec<Violation> {
        let going = |id: &str| self.cloud.describe(id).is_ok_and(|known| known.state == InstanceState::ShuttingDown);
        let mut leaked = Vec::new();
        for entry in self.cloud.book().alive().filter(|entry| !going(&entry.instance.id)) {
            let instance = &entry.instance;
            let scene = self.clusters.get(&instance.cluster);
            let claims: BTreeSet<&Text> =
                scene.into_iter().flat_map(|scene| scene.cluster.claims()).map(|claim| &claim.name).collect();
            if !claims.contains(&instance.claim) {
                leaked.push(Violation::Leaked { cluster: instance.cluster.clone(), instance: instance.id.clone() });
            }
        }
        leaked
    }
}
