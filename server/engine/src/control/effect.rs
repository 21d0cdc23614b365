//! What is to be done. Effects are exact: whoever carries one out has nothing left to choose.

use std::sync::Arc;

use super::guardrails::quarantine::Extent;
use super::status::{EventOrder, StatusOrder};
use super::{ClusterId, DecidedLaunch, DecisionId, DecisionInput, Finding, PlanRequest};
use crate::cluster::{LaunchedFacts, PodKey};
use crate::model::{CapacityType, Labels, MicroUsd, Requirements, Resources, Taint, Text, Timestamp};
use crate::plan::Reason;

/// Something to be done, answered by an [`Event`](super::Event).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make a plan, which may take long; answered by `Planned`.
    Plan(Box<PlanRequest>),
    /// Make the decision durable; answered by `Recorded`.
    Record(Box<Decision>),
    /// Have the agent do something; answered by `InstructionAcked` or `InstructionFailed`.
    Instruct {
        /// Where.
        cluster: ClusterId,
        /// Names the instruction for its answer; sending it twice is harmless.
        id: InstructionId,
        /// What.
        instruction: Box<Instruction>,
    },
    /// Buy a machine; answered by `Launched` or `LaunchFailed`.
    Launch(Box<LaunchOrder>),
    /// Give a machine back; answered by `InstanceGone` when it has ended, by `TerminateRefused` when it is not the cluster's, and by
    /// `Inspected` when the cloud knows no such machine.
    Terminate {
        /// Where.
        cluster: ClusterId,
        /// UID of the cluster, whose machines alone are given back; empty when it is not known.
        cluster_uid: Text,
        /// The NodeClaim that it was launched for.
        claim: Text,
        /// Its provider id.
        provider_id: Text,
    },
    /// Have the agent send a snapshot; answered by observations.
    Resync {
        /// Where.
        cluster: ClusterId,
        /// Why, for people.
        reason: Text,
    },
    /// Buy a machine in a further attempt, which is written down first; answered as [`Effect::Launch`].
    Relaunch(Box<DecidedLaunch>),
    /// Look at a machine that was bought; answered by `Launched`, by `InstanceGone` when it has ended, or by `Inspected` when the
    /// cloud knows no such machine.
    Describe {
        /// Where.
        cluster: ClusterId,
        /// The NodeClaim that it was launched for.
        claim: Text,
        /// In which attempt.
        attempt: u32,
        /// Its provider id.
        provider_id: Text,
    },
    /// Ask the cloud about one machine by its id; answered by `Inspected`. Waits for nothing else that is under way.
    Inspect {
        /// Where.
        cluster: ClusterId,
        /// UID of the cluster; empty when it is not known.
        cluster_uid: Text,
        /// The NodeClaim that it was launched for.
        claim: Text,
        /// Its provider id.
        provider_id: Text,
    },
    /// Nothing is under way for a NodeClaim any more: close what was written down. Not answered.
    Close {
        /// Where.
        cluster: ClusterId,
        /// NodeClaim.
        claim: Text,
    },
    /// A launch whose end was not written down has given this machine: write it down. Not answered.
    Settle {
        /// Where.
        cluster: ClusterId,
        /// NodeClaim.
        claim: Text,
        /// The attempt.
        attempt: u32,
        /// Provider id.
        provider_id: Text,
    },
    /// Write down how much there is in a cluster, in place of what was written before. Not answered.
    KeepExtent {
        /// Where.
        cluster: ClusterId,
        /// How much; of machines nothing is written.
        extent: Extent,
    },
    /// Tell people. Not answered.
    Report {
        /// Where.
        cluster: ClusterId,
        /// What.
        finding: Finding,
    },
    /// What people see of this cluster has changed; read it with [`RegionController::view`](super::RegionController::view).
    PublishView {
        /// Which.
        cluster: ClusterId,
    },
}

/// Number of an instruction, unique and increasing within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(pub u64);

/// What an agent can be told to do. All of them may be carried out twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Create this NodeClaim. One of that name that exists already will do.
    CreateClaim(ClaimOrder),
    /// Write what was launched into the NodeClaim's labels and status.
    MarkLaunched {
        /// NodeClaim.
        claim: Text,
        /// What was launched.
        facts: LaunchedFacts,
    },
    /// Copy labels and taints to the Node, then take `karpenter.sh/unregistered` off and set `karpenter.sh/registered`.
    RegisterNode {
        /// NodeClaim.
        claim: Text,
        /// Node.
        node: Text,
        /// Labels to set; they overlay what is there.
        labels: Labels,
        /// Taints to add unless the Node has them (by key and effect): ordinary and startup taints.
        taints: Vec<Taint>,
        /// Pods that the plan puts on this Node and that still wait: kube-scheduler is told before it may bind anything here.
        hints: Vec<PodNomination>,
    },
    /// Tell kube-scheduler that these pods are to be bound to this Node, which is open already.
    HintPods {
        /// Node.
        node: Text,
        /// Pods that still wait.
        hints: Vec<PodNomination>,
    },
    /// Set `karpenter.sh/initialized` on Node and NodeClaim.
    InitializeNode {
        /// NodeClaim.
        claim: Text,
        /// Node.
        node: Text,
    },
    /// Taint the Node `karpenter.sh/disrupted`, evict its pods, and answer when none are left that need eviction.
    Drain {
        /// NodeClaim.
        claim: Text,
        /// Node.
        node: Text,
        /// Which machine is meant: a Node of that name on another one is left alone. Empty when it is not known.
        provider_id: Text,
        /// When pods are deleted regardless of budgets; `None` waits for ever.
        deadline: Option<Timestamp>,
        /// The cloud takes the machine away.
        interruption: bool,
        /// The Node goes because it is empty: if the API server lists a pod on it that would have to move, nothing is begun.
        only_if_empty: bool,
        /// Why, in a sentence.
        reason: Text,
    },
    /// Remove finalizers of Node (if there is one) and NodeClaim and delete both. The machine is gone.
    DeleteClaim {
        /// NodeClaim.
        claim: Text,
        /// Node.
        node: Option<Text>,
        /// Which machine is meant: a Node of that name on another one is left alone. Empty when it is not known.
        provider_id: Text,
        /// Why, in a sentence.
        reason: Text,
    },
    /// Write the status of an object, or its finalizers.
    WriteStatus(StatusOrder),
    /// Tell people what happened to an object.
    RecordEvent(EventOrder),
}

impl Instruction {
    /// The NodeClaim whose machine it moves on; `None` for what only tells somebody something.
    #[must_use]
    pub fn claim(&self) -> Option<&Text> {
        match self {
            Self::CreateClaim(order) => Some(&order.name),
            Self::MarkLaunched { claim, .. }
            | Self::RegisterNode { claim, .. }
            | Self::InitializeNode { claim, .. }
            | Self::Drain { claim, .. }
            | Self::DeleteClaim { claim, .. } => Some(claim),
            Self::HintPods { .. } | Self::WriteStatus(_) | Self::RecordEvent(_) => None,
        }
    }

    /// What it is about, as `<kind>/<name>` in lower case: instructions with the same subject take turns, and a later one
    /// makes an earlier one stale. What is told about a NodeClaim waits for no drain and outdates none.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::HintPods { node, .. } => format!("hints/{node}"),
            Self::WriteStatus(order) => format!("status/{}", order.subject),
            Self::RecordEvent(order) => format!("event/{}/{}", order.subject, order.reason),
            other => format!("nodeclaim/{}", other.claim().map_or("", |claim| claim)),
        }
    }
}

/// A pod that is to be bound to a certain Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNomination {
    /// Namespace and name.
    pub pod: PodKey,
    /// Identity; another pod of that name is left alone.
    pub uid: Text,
}

/// A NodeClaim to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimOrder {
    /// Name.
    pub name: Text,
    /// NodePool.
    pub pool: Text,
    /// EC2NodeClass.
    pub node_class: Text,
    /// Labels.
    pub labels: Labels,
    /// Taints of the running node.
    pub taints: Vec<Taint>,
    /// Taints that go away before pods come.
    pub startup_taints: Vec<Taint>,
    /// Requirements, narrowed to the launch options.
    pub requirements: Requirements,
    /// What pods and daemons ask for.
    pub requests: Resources,
    /// `spec.expireAfter` in milliseconds; `None` is `Never`.
    pub expire_after_ms: Option<i64>,
    /// `spec.terminationGracePeriod` in milliseconds.
    pub termination_grace_period_ms: Option<i64>,
}

/// A machine to buy. The same order is sent again byte for byte when its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOrder {
    /// For which cluster.
    pub cluster: ClusterId,
    /// UID of that cluster, for the machine's tags; empty when it is not known.
    pub cluster_uid: Text,
    /// For which NodeClaim.
    pub claim: Text,
    /// Counts from 1; a definitive failure makes the next one.
    pub attempt: u32,
    /// `<claim>-<attempt>`: the cloud gives one machine per token.
    pub token: Text,
    /// NodePool.
    pub pool: Text,
    /// EC2NodeClass.
    pub node_class: Text,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// 1 to 60 ways to fill the order, best first.
    pub options: Vec<LaunchOption>,
    /// The reservation that it draws on.
    pub reservation: Option<Text>,
    /// What the cloud's own settings added when the order was written down (subnets, launch template, tags), in the cloud's words;
    /// empty until then, and where the cloud adds nothing.
    pub terms: Text,
    /// An earlier call of this attempt may have been carried out, although its answer did not arrive. A refusal of this call
    /// then does not say that there is no machine.
    pub repeats: bool,
}

/// One way to fill an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOption {
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
    /// Price per hour, for the record.
    pub price: MicroUsd,
}

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionKind {
    /// Machines for pending pods.
    Provision,
    /// Machines that nobody needs.
    Empty,
    /// The cloud takes a machine back.
    Interruption,
}

/// A decision as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Number.
    pub id: DecisionId,
    /// For which cluster.
    pub cluster: ClusterId,
    /// When.
    pub at: Timestamp,
    /// When it was due: the end of the batch window that led to it, or of a wait. What lies between this and `at` is how long
    /// it waited for its turn.
    pub due: Timestamp,
    /// What it is about.
    pub kind: DecisionKind,
    /// It is only written down; the notes say what would have been done.
    pub shadow: bool,
    /// Version of the state that it was made from.
    pub state_version: u64,
    /// Machines to buy.
    pub machines: Vec<PlannedMachine>,
    /// Machines to remove.
    pub removals: Vec<Removal>,
    /// Pods that were given room on capacity that exists or is on its way: (`namespace/name`, node).
    pub placed: Vec<(Text, Text)>,
    /// Pods without a place.
    pub unplaced: Vec<UnplacedPod>,
    /// What the machines to buy cost per hour.
    pub new_cost: MicroUsd,
    /// No plan for the same pods costs less per hour.
    pub lower_bound: MicroUsd,
    /// Surprises told before they happen.
    pub notes: Vec<String>,
    /// What its plan was made from, on the way to be written down; `None` for decisions without a plan.
    pub basis: Option<Arc<DecisionInput>>,
}

/// A machine of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMachine {
    /// The NodeClaim to create.
    pub claim: ClaimOrder,
    /// The order for the machine.
    pub launch: LaunchOrder,
    /// Pods that it is for, as `namespace/name`.
    pub pods: Vec<Text>,
    /// Why it is wanted, in a sentence.
    pub reason: Text,
}

/// A machine that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// NodeClaim.
    pub claim: Text,
    /// Node.
    pub node: Text,
    /// Why, in a sentence.
    pub reason: Text,
}

/// A pod without a place, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedPod {
    /// `namespace/name`.
    pub pod: Text,
    /// One reason per pool that could be thought of.
    pub reasons: Vec<Reason>,
}
