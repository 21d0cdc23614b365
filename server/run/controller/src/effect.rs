//! Effects of the controller. Every effect is exact: its executor has no choices left.

use super::decision::{ClaimOrder, Decision};
use super::finding::Finding;
use super::guardrails::ObjectCounts;
use super::holds::HoldStatus;
use super::nodeclaim::DecidedLaunch;
use super::provisioning::PlanJob;
use super::status::{EventOrder, StatusOrder};
use super::unavailable_offerings::OfferingKey;
use cluster::replacement::ReplacementWait;
use cluster::{HoldId, LaunchedFacts};
use cost::CostInterval;
use model::interruption::InterruptionKind;
use model::node_class::NodeClassQuery;
use model::{ClaimName, Labels, LaunchOrder, NodeName, PodKey, PoolName, ProviderId, Taint, Text, Timestamp};

/// What the process of a [`ClusterController`](super::ClusterController) has to do for its cluster, answered by
/// [`Event`](super::Event)s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Compute a plan, which may take seconds; answered by `Planned`.
    Plan(Box<PlanJob>),
    /// Request a snapshot from the agent, for this reason; answered by observations.
    Resync(Text),
    /// Ask the store for the probes of offerings; answered by `ProbesAnswered`, or not at all.
    ClaimProbes(Vec<OfferingKey>),
    /// Report a finding to users. Not answered.
    ReportFinding(Finding),
    /// The view of the cluster has changed; read it with
    /// [`ClusterController::view`](super::ClusterController::view).
    PublishView,
    /// Send an instruction to the agent; answered by `InstructionAcked` or `InstructionFailed`.
    Instruct {
        /// Correlates the answer; sending the instruction twice is harmless.
        id: InstructionId,
        instruction: Box<Instruction>,
    },
    Call(ClusterCall),
}

/// A call to the store or the cloud, which is made under the lease of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterCall {
    /// Make the decision durable; answered by `Recorded`.
    RecordDecision(Box<Decision>),
    /// Launch an instance; answered by `Launched` or `LaunchFailed`.
    Launch(Box<LaunchOrder>),
    /// Launch an instance in a further attempt, which is recorded first; answered as
    /// [`ClusterCall::Launch`].
    Relaunch(Box<DecidedLaunch>),
    /// Terminate an instance; answered by `InstanceGone` when it has ended, by `TerminateRefused`
    /// when its tags name another cluster, and by `Inspected` when the cloud does not know it.
    Terminate {
        /// UID of the cluster, the only one whose instances are terminated; empty when unknown.
        cluster_uid: Text,
        claim: ClaimName,
        provider_id: ProviderId,
    },
    /// Describe a launched instance; answered by `Launched`, by `InstanceGone` when it has ended,
    /// or by `Inspected` when the cloud does not know it.
    Describe {
        claim: ClaimName,
        /// Launch attempt, from 1.
        attempt: u32,
        provider_id: ProviderId,
    },
    /// Resolve an EC2NodeClass: look up what it selects; answered by `NodeClassResolved`.
    ResolveNodeClass(Box<NodeClassQuery>),
    /// Ask the cloud about one instance by its id; answered by `Inspected`. Not ordered after other
    /// calls in progress.
    Inspect {
        /// UID of the cluster; empty when unknown.
        cluster_uid: Text,
        claim: ClaimName,
        provider_id: ProviderId,
    },
    /// Ask the cloud what it says itself about the instances that notices name; answered by `NoticesAnswered`. Not ordered
    /// after other calls in progress.
    ConfirmNotices(Vec<(ProviderId, InterruptionKind)>),
    /// Close the launch record of a NodeClaim: no operation is in progress for it. Not answered.
    CloseLaunch(ClaimName),
    /// Record the instance of a launch whose outcome was not recorded. Not answered.
    RecordLaunched {
        claim: ClaimName,
        /// Launch attempt, from 1.
        attempt: u32,
        provider_id: ProviderId,
    },
    /// Delete the records of replacements that have ended, and write the waits of NodePools that have changed. Not
    /// answered.
    EndReplacements {
        claims: Vec<ClaimName>,
        /// The wait of each NodePool; `None` when it waits no longer.
        waits: Vec<(PoolName, Option<ReplacementWait>)>,
        /// When they ended.
        at: Timestamp,
    },
    /// Write what has become of a hold. Not answered.
    WriteHold { hold: HoldId, status: Box<HoldStatus> },
    /// Persist the object counts, without machines, replacing the previous ones. Not answered.
    PersistCounts(ObjectCounts),
    /// Write what machines have cost: intervals that are over, and those of machines that run as far as they are charged;
    /// answered by `CostsRecorded`.
    RecordCosts(Vec<CostInterval>),
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
    MarkLaunched { claim: ClaimName, facts: LaunchedFacts },
    /// Copy labels and taints to the Node, then remove `karpenter.sh/unregistered` and set
    /// `karpenter.sh/registered`.
    RegisterNode {
        claim: ClaimName,
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
    NominatePods { node: NodeName, nominations: Vec<PodNomination> },
    /// Set `karpenter.sh/initialized` on Node and NodeClaim.
    InitializeNode { claim: ClaimName, node: NodeName },
    /// Taint the Node `karpenter.sh/disrupted` and evict its pods; answered when no pod is left
    /// that needs eviction.
    Drain {
        claim: ClaimName,
        node: NodeName,
        /// Provider id of the instance: a Node of that name on another instance is not drained.
        /// Empty when unknown.
        provider_id: ProviderId,
        /// When pods are deleted regardless of budgets; `None` has no deadline.
        deadline: Option<Timestamp>,
        interruption: bool,
        /// The Node is removed because it is empty: if the API server lists a pod on it that would
        /// need eviction, the drain does not begin.
        only_if_empty: bool,
        /// The reason, one sentence.
        reason: Text,
    },
    /// Take the taint `karpenter.sh/disrupted` off a Node that records no drain of this NodeClaim.
    RemoveDisruptedTaint {
        claim: ClaimName,
        node: NodeName,
        /// Provider id of the instance: a Node of that name on another instance is not changed.
        provider_id: ProviderId,
    },
    /// Remove the finalizers of Node (if any) and NodeClaim and delete both. The instance is gone.
    DeleteClaim {
        claim: ClaimName,
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
            | Self::RemoveDisruptedTaint { claim, .. }
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
