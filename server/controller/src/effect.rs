//! Effects of the controller. Every effect is exact: its executor has no choices left.

use std::sync::Arc;

use super::guardrails::quarantine::ObjectCounts;
use super::status::{EventOrder, StatusOrder};
use super::{DecidedLaunch, DecisionId, DecisionInput, Finding, PlanRequest};
use crate::cluster::LaunchedFacts;
use model::plan::Reason;
use model::removal::RemovalReason;
use model::{
    ClaimName, ClusterName, Labels, LaunchOrder, MicroUsd, Millis, NodeName, PodKey, PoolName, ProviderId,
    Requirements, Resources, Taint, Text, Timestamp,
};

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
        cluster: ClusterName,
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
        cluster: ClusterName,
        /// UID of the cluster, the only one whose instances are terminated; empty when unknown.
        cluster_uid: Text,
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Provider id of the instance.
        provider_id: ProviderId,
    },
    /// Request a snapshot from the agent; answered by observations.
    Resync {
        /// The target cluster.
        cluster: ClusterName,
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
        cluster: ClusterName,
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Launch attempt, from 1.
        attempt: u32,
        /// Provider id of the instance.
        provider_id: ProviderId,
    },
    /// Ask the cloud about one instance by its id; answered by `Inspected`. Not ordered after other
    /// calls in progress.
    Inspect {
        /// The target cluster.
        cluster: ClusterName,
        /// UID of the cluster; empty when unknown.
        cluster_uid: Text,
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Provider id of the instance.
        provider_id: ProviderId,
    },
    /// Close the launch record of a NodeClaim: no operation is in progress for it. Not answered.
    CloseLaunch {
        /// The target cluster.
        cluster: ClusterName,
        /// Name of the NodeClaim.
        claim: ClaimName,
    },
    /// Record the instance of a launch whose outcome was not recorded. Not answered.
    RecordLaunched {
        /// The target cluster.
        cluster: ClusterName,
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Launch attempt, from 1.
        attempt: u32,
        /// Provider id of the instance.
        provider_id: ProviderId,
    },
    /// Persist the object counts of a cluster, replacing the previous ones. Not answered.
    PersistCounts {
        /// The target cluster.
        cluster: ClusterName,
        /// The counts, without machines.
        counts: ObjectCounts,
    },
    /// Report a finding to users. Not answered.
    ReportFinding {
        /// The target cluster.
        cluster: ClusterName,
        /// The finding.
        finding: Finding,
    },
    /// The view of this cluster has changed; read it with
    /// [`RegionController::view`](super::RegionController::view).
    PublishView {
        /// The target cluster.
        cluster: ClusterName,
    },
}

impl Effect {
    /// The cluster that the effect concerns.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
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
        claim: ClaimName,
        /// Facts of the launched instance.
        facts: LaunchedFacts,
    },
    /// Copy labels and taints to the Node, then remove `karpenter.sh/unregistered` and set
    /// `karpenter.sh/registered`.
    RegisterNode {
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Name of the Node.
        node: NodeName,
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
        node: NodeName,
        /// Pods that are still pending.
        nominations: Vec<PodNomination>,
    },
    /// Set `karpenter.sh/initialized` on Node and NodeClaim.
    InitializeNode {
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Name of the Node.
        node: NodeName,
    },
    /// Taint the Node `karpenter.sh/disrupted` and evict its pods; answered when no pod is left
    /// that needs eviction.
    Drain {
        /// Name of the NodeClaim.
        claim: ClaimName,
        /// Name of the Node.
        node: NodeName,
        /// Provider id of the instance: a Node of that name on another instance is not drained.
        /// Empty when unknown.
        provider_id: ProviderId,
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
        claim: ClaimName,
        /// Name of the Node, if there is one.
        node: Option<NodeName>,
        /// Provider id of the instance: a Node of that name on another instance is not deleted.
        /// Empty when unknown.
        provider_id: ProviderId,
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
    pub fn claim(&self) -> Option<&ClaimName> {
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
            other => format!("nodeclaim/{}", other.claim().map_or("", |claim| claim.as_ref())),
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
    pub name: ClaimName,
    /// NodePool of the NodeClaim.
    pub pool: PoolName,
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

/// Why a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionReason {
    /// Pods are pending, or a NodePool has fewer nodes than its replicas.
    Provision,
    /// A disruption method removes nodes.
    Disruption(MethodReason),
}

impl DecisionReason {
    /// The kind of the decision in the decision log, the API and the dashboard.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Disruption(reason) => reason.kind,
        }
    }

    /// Whether neither budgets nor guardrails hold the decision back.
    #[must_use]
    pub fn is_forceful(self) -> bool {
        matches!(self, Self::Disruption(reason) if reason.is_forceful())
    }
}

/// Why a disruption method removes nodes, and how its decisions are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MethodReason {
    /// Kind of its decisions in the decision log, the API and the dashboard.
    pub kind: &'static str,
    /// Why the nodes are removed, in summaries of its decisions.
    pub summary: &'static str,
    /// What the verifier judges its removals by. Budgets and guardrails do not hold a forceful
    /// reason back (Karpenter: graceful and forceful methods).
    pub removal: RemovalReason,
}

impl MethodReason {
    /// Whether neither budgets nor guardrails hold its removals back.
    #[must_use]
    pub fn is_forceful(self) -> bool {
        self.removal.is_forceful()
    }
}

/// A decision as it is recorded: machines to launch, to remove, or to replace by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Unique and increasing within one controller.
    pub id: DecisionId,
    /// The cluster of the decision.
    pub cluster: ClusterName,
    /// When it was made.
    pub at: Timestamp,
    /// When it was due: the end of its batch window or wait. The time from `due` to `at` was spent
    /// in queues and planning.
    pub due: Timestamp,
    /// Why it was made.
    pub reason: DecisionReason,
    /// It is recorded only, in shadow mode.
    pub shadow: bool,
    /// Version of the cluster state that it was made from.
    pub state_version: u64,
    /// Machines to launch.
    pub launches: Vec<PlannedMachine>,
    /// Machines to remove.
    pub removals: Vec<Removal>,
    /// Pods assigned to existing or launching capacity, and the name of the Node or NodeClaim.
    pub assignments: Vec<(PodKey, NodeName)>,
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
            assignments: Vec::new(),
            unplaced: Vec::new(),
            new_cost: MicroUsd(0),
            lower_bound: MicroUsd(0),
            would: Vec::new(),
            notes: Vec::new(),
            basis: None,
        }
    }
}

/// A machine of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMachine {
    /// The NodeClaim to create.
    pub claim: ClaimOrder,
    /// The instance to launch.
    pub launch: LaunchOrder,
    /// Pods assigned to it.
    pub pods: Vec<PodKey>,
    /// The reason, one sentence.
    pub reason: Text,
}

/// A machine to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Name of the NodeClaim.
    pub claim: ClaimName,
    /// Name of the Node.
    pub node: NodeName,
    /// The reason, one sentence.
    pub reason: Text,
}

/// A pod without a node, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedPod {
    /// The pod.
    pub pod: PodKey,
    /// One reason for each NodePool considered.
    pub reasons: Vec<Reason>,
}
