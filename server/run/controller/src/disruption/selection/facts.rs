//! What machines and NodePools are selected by, whatever the method.

use crate::Removal;
use model::disruption_policy::{DisruptionPolicy, DisruptionReason};
use model::removal::DoNotDisrupt;
use model::{ClaimName, NodeName, PoolName, Text, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MachineNames {
    pub claim: ClaimName,
    /// Its Node; empty while there is none.
    pub node: NodeName,
    /// Its NodePool; empty when no NodeClaim is observed.
    pub pool: PoolName,
}

impl MachineNames {
    pub(super) fn removal(&self, reason: impl Into<Text>) -> Removal {
        Removal { claim: self.claim.clone(), node: self.node.clone(), reason: reason.into() }
    }
}

/// A machine that the cloud announced or recommends to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedMachine {
    pub machine: MachineNames,
    pub why: Text,
}

/// What protects a machine from voluntary disruption: do-not-disrupt on its Node and on its pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protections {
    pub node: Option<Protection>,
    /// Those of pods that have not ended and are not terminating.
    pub pods: Vec<Protection>,
}

/// `karpenter.sh/do-not-disrupt` on a Node or pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Name of the Node, or namespace and name of the pod.
    pub of: Text,
    /// How long it lasts.
    pub lasts: DoNotDisrupt,
    /// When the Node was created or the pod started; one that has not is protected.
    pub from: Option<Timestamp>,
}

impl Protections {
    /// Whether the Node is protected, whatever its pods say.
    pub(super) fn is_node_protected(&self, now: Timestamp) -> bool {
        self.node.as_ref().is_some_and(|one| one.lasts.is_active(one.from, now))
    }

    /// Whether the Node or one of its pods is protected.
    pub(super) fn is_protected(&self, now: Timestamp) -> bool {
        self.is_node_protected(now) || self.pods.iter().any(|one| one.lasts.is_active(one.from, now))
    }

    /// When the first one with a duration ends after `now`.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.node.iter().chain(&self.pods).filter_map(|one| one.lasts.end(one.from)).filter(|end| *end > now).min()
    }
}

/// A NodePool as its budgets are applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolFacts {
    pub policy: DisruptionPolicy,
    /// `spec.replicas` of a static one.
    pub replicas: Option<i64>,
    pub nodes: PoolNodes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolNodes {
    pub total: usize,
    /// Those that are terminating, being replaced or not ready: the NodePool's budgets count them as
    /// disrupted.
    pub unavailable: usize,
    /// Number of these that are only not ready.
    pub not_ready: usize,
}

impl PoolNodes {
    /// Those that budgets for `reason` count as disrupted. Nodes that are only not ready do not hold a repair,
    /// which makes them available again (Karpenter 1.15: repair as voluntary disruption).
    pub(crate) fn unavailable_for(self, reason: DisruptionReason) -> usize {
        self.unavailable - if reason == DisruptionReason::Unhealthy { self.not_ready } else { 0 }
    }
}
