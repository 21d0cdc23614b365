//! Decisions: machines to launch and to remove, pods without a node, and why.

use std::sync::Arc;

use super::decision_input::DecisionInput;
use super::disruption::selection::RemovalRecord;
use super::holds::HoldStatus;
use super::removal::Removal;
use cluster::replacement::RecordedReplacement;
use cluster::{ClaimDriftFacts, DecidedMoves, HoldId};
use drift::VersionedHash;
use model::plan::Reason;
use model::removal::RemovalReason;
use model::{
    ClaimName, ClusterName, Labels, LaunchOrder, MicroUsd, Millis, NodeName, PodKey, PoolName, Requirements, Resources,
    Taint, Text, Timestamp,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionReason {
    /// Pods are pending, or a NodePool has fewer nodes than its replicas.
    Provision,
    Hold,
    Disruption(RemovalReason),
}

impl DecisionReason {
    /// The kind of the decision in the decision log, the API and the dashboard.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Hold => "hold",
            Self::Disruption(reason) => reason.kind(),
        }
    }

    /// Whether neither budgets nor guardrails hold the decision back.
    #[must_use]
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::Disruption(reason) if reason.is_urgent())
    }
}

/// Number of a decision, unique and increasing within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub u64);

/// A decision as it is recorded: machines to launch, to remove, or to replace by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Unique and increasing within one controller.
    pub id: DecisionId,
    pub cluster: ClusterName,
    /// When it was made.
    pub at: Timestamp,
    /// When it was due: the end of its batch window or wait. The time from `due` to `at` was spent
    /// in queues and planning.
    pub due: Timestamp,
    pub reason: DecisionReason,
    /// It is recorded only, in shadow mode.
    pub shadow: bool,
    /// Version of the cluster state that it was made from.
    pub state_version: u64,
    pub launches: Vec<PlannedMachine>,
    pub removals: Vec<Removal>,
    /// What is removed, in the order of `removals`.
    pub removed: Vec<OutgoingNode>,
    /// Nodes that it puts under replacement: their pods get other places by it, and later decisions remove them.
    pub replaced: Vec<OutgoingNode>,
    /// What the removals move: all pods if consolidation decided them, otherwise those that a decision to save has moved before.
    pub moves: Vec<DecidedMoves>,
    /// Pods assigned to existing or launching capacity, and the name of the Node or NodeClaim.
    pub assignments: Vec<(PodKey, NodeName)>,
    /// Pods without a node.
    pub unplaced: Vec<UnplacedPod>,
    /// Replacements under way that are new since the last decision, or whose pods have other places.
    pub replacements: Vec<RecordedReplacement>,
    /// Holds that it gives room to, and what is recorded of them with it.
    pub holds: Vec<(HoldId, HoldStatus)>,
    /// Price per hour of the machines to launch.
    pub new_cost: MicroUsd,
    /// Price per hour of the machines to remove.
    pub removed_cost: MicroUsd,
    /// Lower bound of the price per hour of any plan for the same pods.
    pub lower_bound: MicroUsd,
    /// Date of the prices of the machines to launch, if known.
    pub price_date: Option<Text>,
    /// What would have been executed without shadow mode, one sentence each.
    pub would: Vec<String>,
    /// NodeClaims of earlier decisions that the API server refused, one sentence each.
    pub refused: Vec<String>,
    /// Warnings about consequences that may surprise.
    pub notes: Vec<String>,
    /// Input of its plan, to be recorded with it; `None` for decisions without a plan.
    pub basis: Option<Arc<DecisionInput>>,
    /// What its removals were selected and checked from, to be recorded with them; `None` for decisions by a plan.
    pub removal_record: Option<Arc<RemovalRecord>>,
}

impl Decision {
    /// A decision made and due at `at` that changes nothing.
    #[must_use]
    pub fn new(
        id: DecisionId,
        cluster: ClusterName,
        reason: DecisionReason,
        state_version: u64,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            cluster,
            at,
            due: at,
            reason,
            shadow: false,
            state_version,
            launches: Vec::new(),
            removals: Vec::new(),
            removed: Vec::new(),
            replaced: Vec::new(),
            moves: Vec::new(),
            assignments: Vec::new(),
            unplaced: Vec::new(),
            replacements: Vec::new(),
            holds: Vec::new(),
            new_cost: MicroUsd(0),
            removed_cost: MicroUsd(0),
            lower_bound: MicroUsd(0),
            price_date: None,
            would: Vec::new(),
            refused: Vec::new(),
            notes: Vec::new(),
            basis: None,
            removal_record: None,
        }
    }
}

/// A node that a decision removes, or puts under replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingNode {
    pub claim: ClaimName,
    /// Its Node; empty before it joins.
    pub node: NodeName,
    pub pool: PoolName,
    /// Instance type; empty if it is not known.
    pub instance_type: Text,
    /// Capacity type; empty if it is not known.
    pub capacity_type: Text,
    /// Price per hour.
    pub price: MicroUsd,
    /// The decision that put it under replacement, if one of this process has.
    pub planned_by: Option<DecisionId>,
}

impl Decision {
    /// Pods that it moves off the nodes that it puts under replacement; 0 if there are none.
    #[must_use]
    pub fn moved_pods(&self) -> usize {
        let launched: usize = self.launches.iter().map(|machine| machine.pods.len()).sum();
        if self.replaced.is_empty() { 0 } else { launched + self.assignments.len() }
    }

    /// What it saves an hour once the nodes that it puts under replacement are removed.
    #[must_use]
    pub fn savings(&self) -> MicroUsd {
        let replaced: i64 = self.replaced.iter().map(|node| node.price.0).sum();
        MicroUsd(if self.replaced.is_empty() { 0 } else { replaced - self.new_cost.0 })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMachine {
    pub claim: ClaimOrder,
    pub launch: LaunchOrder,
    /// Pods assigned to it.
    pub pods: Vec<PodKey>,
    /// The reason, one sentence.
    pub reason: Text,
}

/// Specification of a NodeClaim to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimOrder {
    /// `metadata.name`.
    pub name: ClaimName,
    pub pool: PoolName,
    /// EC2NodeClass of the NodePool.
    pub node_class: Text,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// Taints that are removed before the node is initialized.
    pub startup_taints: Vec<Taint>,
    /// Requirements, restricted to the launch options.
    pub requirements: Requirements,
    /// Sum of the requests of pods and daemons.
    pub requests: Resources,
    /// `spec.expireAfter`; `None` is `Never`.
    pub expire_after: Option<Millis>,
    /// `spec.terminationGracePeriod`.
    pub termination_grace_period: Option<Millis>,
    /// The hash of the NodePool's template and its version, for its annotations.
    pub pool_hash: Option<VersionedHash>,
    /// The hash of the EC2NodeClass and its version, for its annotations.
    pub class_hash: Option<VersionedHash>,
}

impl ClaimOrder {
    /// What drift of its NodeClaim is found by.
    #[must_use]
    pub fn drift_facts(&self) -> ClaimDriftFacts {
        ClaimDriftFacts {
            own_hash: self.pool_hash.clone(),
            own_class_hash: self.class_hash.clone(),
            ..ClaimDriftFacts::default()
        }
    }
}

/// A pod without a node, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedPod {
    pub pod: PodKey,
    /// One reason for each NodePool considered.
    pub reasons: Arc<[Reason]>,
}
