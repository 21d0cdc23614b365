//! Effects of the controller. Every effect is exact: its executor has no choices left.

use std::sync::Arc;

use super::guardrails::quarantine::ObjectCounts;
use super::status::{EventOrder, StatusOrder};
use super::{ClusterId, DecidedLaunch, DecisionId, DecisionInput, Finding, PlanRequest};
use crate::cluster::{LaunchedFacts, PodKey};
use model::plan::Reason;
use model::{Labels, LaunchOrder, MicroUsd, Millis, Requirements, Resources, Taint, Text, Timestamp};

/// An operation to execute, answered by [`Event`](super::Event)s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Compute a plan, which may take seconds; answered by `Planned`.
    Plan(Box<PlanRequest>),
    /// Make the decision durable; answered by `Recorded`.
    RecordDecision(Box<Decision>),
    /// Send an instruction to the agent; answered by `InstructionAcked` or `InstructionFailed`.
    Instruct {
        /// The target cluster.
        cluster: ClusterId,
        /// Correlates the answer; sending the instruction twice is harmless.
        id: InstructionId,
        /// The instruction.
        instruction: Box<Instruction>,
    },
    /// Launch an instance; answered by `Launched` or `LaunchFailed`.
    Launch(Box<LaunchOrder>),
    /// Terminate an instance; answered by `InstanceGone` when it has ended, by `TerminateRefused`
    /// when its tags name another cluster, and by `Inspected` when the cloud does not know it.
    Terminate {
        /// The target cluster.
        cluster: ClusterId,
        /// UID of the cluster, the only one whose instances are terminated; empty when unknown.
        cluster_uid: Text,
        /// Name of the NodeClaim.
        claim: Text,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Request a snapshot from the agent; answered by observations.
    Resync {
        /// The target cluster.
        cluster: ClusterId,
        /// Why, for logs.
        reason: Text,
    },
    /// Launch an instance in a further attempt, which is recorded first; answered as
    /// [`Effect::Launch`].
    Relaunch(Box<DecidedLaunch>),
    /// Describe a launched instance; answered by `Launched`, by `InstanceGone` when it has ended,
    /// or by `Inspected` when the cloud does not know it.
    Describe {
        /// The target cluster.
        cluster: ClusterId,
        /// Name of the NodeClaim.
        claim: Text,
        /// Launch attempt, from 1.
        attempt: u32,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Ask the cloud about one instance by its id; answered by `Inspected`. Not ordered after other
    /// calls in progress.
    Inspect {
        /// The target cluster.
        cluster: ClusterId,
        /// UID of the cluster; empty when unknown.
        cluster_uid: Text,
        /// Name of the NodeClaim.
        claim: Text,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Close the launch record of a NodeClaim: no operation is in progress for it. Not answered.
    CloseLaunch {
        /// The target cluster.
        cluster: ClusterId,
        /// Name of the NodeClaim.
        claim: Text,
    },
    /// Record the instance of a launch whose outcome was not recorded. Not answered.
    RecordLaunched {
        /// The target cluster.
        cluster: ClusterId,
        /// Name of the NodeClaim.
        claim: Text,
        /// Launch attempt, from 1.
        attempt: u32,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Persist the object counts of a cluster, replacing the previous ones. Not answered.
    PersistCounts {
        /// The target cluster.
        cluster: ClusterId,
        /// The counts, without machines.
        counts: ObjectCounts,
    },
    /// Report a finding to users. Not answered.
    ReportFinding {
        /// The target cluster.
        cluster: ClusterId,
        /// The finding.
        finding: Finding,
    },
    /// The view of this cluster has changed; read it with
    /// [`RegionController::view`](super::RegionController::view).
    PublishView {
        /// The target cluster.
        cluster: ClusterId,
    },
}

impl Effect {
    /// The cluster that the effect concerns.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        match self {
            Self::Plan(request) => &request.cluster,
            Self::RecordDecision(decision) => &decision.cluster,
            Self::Launch(order) => &order.cluster,
            Self::Relaunch(decided) => &decided.machine.launch.cluster,
            Self::Instruct { cluster, .. }
            | Self::Terminate { cluster, .. }
            | Self::Resync { cluster, .. }
            | Self::Describe { cluster, .. }
            | Self::Inspect { cluster, .. }
            | Self::CloseLaunch { cluster, .. }
            | Self::RecordLaunched { cluster, .. }
            | Self::PersistCounts { cluster, .. }
            | Self::ReportFinding { cluster, .. }
            | Self::PublishView { cluster } => cluster,
        }
    }
}

/// Id of an instruction, unique and increasing within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(pub u64);

/// An instruction to the agent. All instructions are idempotent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Create this NodeClaim; an existing one of that name is accepted.
    CreateClaim(ClaimOrder),
    /// Write the launched instance into the NodeClaim's labels and status.
    MarkLaunched {
        /// Name of the NodeClaim.
        claim: Text,
        /// Facts of the launched instance.
        facts: LaunchedFacts,
    },
    /// Copy labels and taints to the Node, then remove `karpenter.sh/unregistered` and set
    /// `karpenter.sh/registered`.
    RegisterNode {
        /// Name of the NodeClaim.
        claim: Text,
        /// Name of the Node.
        node: Text,
        /// Labels to set, overriding existing ones.
        labels: Labels,
        /// Ordinary and startup taints to add unless the Node has them (by key and effect).
        taints: Vec<Taint>,
        /// Pending pods planned onto this Node, nominated before kube-scheduler can bind other pods
        /// there.
        nominations: Vec<PodNomination>,
    },
    /// Nominate pods for this Node, which is registered already.
    NominatePods {
        /// Name of the Node.
        node: Text,
        /// Pods that are still pending.
        nominations: Vec<PodNomination>,
    },
    /// Set `karpenter.sh/initialized` on Node and NodeClaim.
    InitializeNode {
        /// Name of the NodeClaim.
        claim: Text,
        /// Name of the Node.
        node: Text,
    },
    /// Taint the Node `karpenter.sh/disrupted` and evict its pods; answered when no pod is left
    /// that needs eviction.
    Drain {
        /// Name of the NodeClaim.
        claim: Text,
        /// Name of the Node.
        node: Text,
        /// Provider id of the instance: a Node of that name on another instance is not drained.
        /// Empty when unknown.
        provider_id: Text,
        /// When pods are deleted regardless of budgets; `None` has no deadline.
        deadline: Option<Timestamp>,
        /// The cloud reclaims the instance.
        interruption: bool,
        /// The Node is removed because it is empty: if the API server lists a pod on it that would
        /// need eviction, the drain does not begin.
        only_if_empty: bool,
        /// The reason, one sentence.
        reason: Text,
    },
    /// Remove the finalizers of Node (if any) and NodeClaim and delete both. The instance is gone.
    DeleteClaim {
        /// Name of the NodeClaim.
        claim: Text,
        /// Name of the Node, if there is one.
        node: Option<Text>,
        /// Provider id of the instance: a Node of that name on another instance is not deleted.
        /// Empty when unknown.
        provider_id: Text,
        /// The reason, one sentence.
        reason: Text,
    },
    /// Patch the status or finalizers of an object.
    WriteStatus(StatusOrder),
    /// Record a Kubernetes event.
    RecordEvent(EventOrder),
}

impl Instruction {
    /// The NodeClaim whose lifecycle it advances; `None` for reports only.
    #[must_use]
    pub fn claim(&self) -> Option<&Text> {
        match self {
            Self::CreateClaim(order) => Some(&order.name),
            Self::MarkLaunched { claim, .. }
            | Self::RegisterNode { claim, .. }
            | Self::InitializeNode { claim, .. }
            | Self::Drain { claim, .. }
            | Self::DeleteClaim { claim, .. } => Some(claim),
            Self::NominatePods { .. } | Self::WriteStatus(_) | Self::RecordEvent(_) => None,
        }
    }

    /// Ordering key, `<kind>/<name>` in lower case: instructions with the same key are serialized,
    /// and a later one supersedes an earlier one. Reports about a NodeClaim have their own key:
    /// they neither wait for a drain nor supersede it.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::NominatePods { node, .. } => format!("hints/{node}"),
            Self::WriteStatus(order) => format!("status/{}", order.subject),
            Self::RecordEvent(order) => format!("event/{}/{}", order.subject, order.reason),
            other => format!("nodeclaim/{}", other.claim().map_or("", |claim| claim)),
        }
    }
}

/// A pod to nominate for a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNomination {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// UID; another pod of that name is not nominated.
    pub uid: Text,
}

/// Specification of a NodeClaim to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimOrder {
    /// `metadata.name`.
    pub name: Text,
    /// NodePool of the NodeClaim.
    pub pool: Text,
    /// EC2NodeClass of the NodePool.
    pub node_class: Text,
    /// Labels of NodeClaim and Node.
    pub labels: Labels,
    /// Taints of the initialized node.
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
}

/// Purpose of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionKind {
    /// Launches for pending pods.
    Provision,
    /// Removal of empty nodes.
    Empty,
    /// The cloud reclaims an instance.
    Interruption,
}

/// A decision as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Unique and increasing within one controller.
    pub id: DecisionId,
    /// The cluster of the decision.
    pub cluster: ClusterId,
    /// When it was made.
    pub at: Timestamp,
    /// When it was due: the end of its batch window or wait. The time from `due` to `at` was spent
    /// in queues and planning.
    pub due: Timestamp,
    /// Its purpose.
    pub kind: DecisionKind,
    /// It is recorded only, in shadow mode.
    pub shadow: bool,
    /// Version of the cluster state that it was made from.
    pub state_version: u64,
    /// Machines to launch.
    pub machines: Vec<PlannedMachine>,
    /// Machines to remove.
    pub removals: Vec<Removal>,
    /// Pods assigned to existing or launching capacity: (`namespace/name`, node).
    pub placed: Vec<(Text, Text)>,
    /// Pods without a node.
    pub unplaced: Vec<UnplacedPod>,
    /// Price per hour of the machines to launch.
    pub new_cost: MicroUsd,
    /// Lower bound of the price per hour of any plan for the same pods.
    pub lower_bound: MicroUsd,
    /// What would have been executed without shadow mode, one sentence each.
    pub would: Vec<String>,
    /// Warnings about consequences that may surprise.
    pub notes: Vec<String>,
    /// Input of its plan, to be recorded with it; `None` for decisions without a plan.
    pub basis: Option<Arc<DecisionInput>>,
}

/// A machine of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMachine {
    /// The NodeClaim to create.
    pub claim: ClaimOrder,
    /// The instance to launch.
    pub launch: LaunchOrder,
    /// Pods assigned to it, as `namespace/name`.
    pub pods: Vec<Text>,
    /// The reason, one sentence.
    pub reason: Text,
}

/// A machine to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Name of the NodeClaim.
    pub claim: Text,
    /// Name of the Node.
    pub node: Text,
    /// The reason, one sentence.
    pub reason: Text,
}

/// A pod without a node, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedPod {
    /// `namespace/name`.
    pub pod: Text,
    /// One reason for each NodePool considered.
    pub reasons: Vec<Reason>,
}
