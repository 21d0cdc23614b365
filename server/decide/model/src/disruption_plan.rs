//! A plan of disruption: which nodes are removed or replaced, and what blocks the others.

use crate::input::PlanningInput;
use crate::plan::{Plan, PlannedNode};
use crate::removal::RemovalReason;
use crate::{MicroUsd, NodeName, PodKey};

/// A plan of disruption searches for several groups of nodes, with at most this multiple of the steps of the policy
/// of its input.
pub const SEARCHES: u64 = 4;

/// What consolidation requires, and which features are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisruptionPlanSettings {
    /// What a removal must save per hour at least, beyond the price of the moves; it must save more than 0.
    pub min_savings: MicroUsd,
    /// What a moved pod costs, in micro-dollars per hour that must be saved for it.
    pub churn_price: MicroUsd,
    /// Feature gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// Feature gate `NodeRepair`.
    pub node_repair: bool,
    /// What guardrails let be removed now, all NodePools together; `None` has no limit.
    pub removals: Option<MachineAllowance>,
    /// What guardrails let be launched now; `None` has no limit.
    pub launches: Option<MachineAllowance>,
}

/// How many machines, and at which price together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineAllowance {
    /// Number of machines.
    pub machines: u32,
    /// Sum of their prices per hour.
    pub usd_per_hour: MicroUsd,
}

impl MachineAllowance {
    /// What is left after machines of these prices; `None` if they exceed it.
    #[must_use]
    pub fn without(self, prices: impl IntoIterator<Item = MicroUsd>) -> Option<Self> {
        let mut left = self;
        for price in prices {
            left.machines = left.machines.checked_sub(1)?;
            left.usd_per_hour.0 = left.usd_per_hour.0.checked_sub(price.0).filter(|left| *left >= 0)?;
        }
        Some(left)
    }
}

impl DisruptionPlanSettings {
    /// Whether `saved` per hour is worth moving so many pods.
    #[must_use]
    pub fn is_worth(&self, saved: MicroUsd, moved: usize) -> bool {
        saved.0 > self.least(moved)
    }

    /// What every launch option of machines that replace nodes of `price` must cost less than; `None` if
    /// nothing can be saved.
    #[must_use]
    pub fn most_for_replacement(&self, price: MicroUsd, moved: usize) -> Option<MicroUsd> {
        Some(MicroUsd(price.0.saturating_sub(self.least(moved)))).filter(|most| most.0 > 0)
    }

    /// What must be saved more than.
    fn least(&self, moved: usize) -> i64 {
        let moves = i64::try_from(moved).unwrap_or(i64::MAX).saturating_mul(self.churn_price.0);
        moves.saturating_add(self.min_savings.0).max(0)
    }
}

/// Removals that begin together, and what is launched for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Why.
    pub reason: RemovalReason,
    /// The removed nodes, as indices into [`PlanningInput::nodes`].
    pub nodes: Vec<u32>,
    /// Machines to launch, as indices into the nodes of [`DisruptionPlan::plan`] and then of
    /// [`DisruptionPlan::static_nodes`].
    pub replacements: Vec<u32>,
    /// The pods that move, and the existing node or the replacement, of this or another command, of each.
    pub placements: Vec<(PodKey, NodeName)>,
    /// What is saved per hour; negative if the replacements cost more.
    pub savings: MicroUsd,
}

/// A node that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldNode {
    /// Index into [`PlanningInput::nodes`].
    pub node: u32,
    /// Why it would go.
    pub reason: RemovalReason,
    /// What blocks it; not empty.
    pub by: Vec<Block>,
}

/// Cost per hour of the nodes of the NodePools, those that are being deleted and those that start included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisruptionCosts {
    /// Now.
    pub before: MicroUsd,
    /// After all commands.
    pub after: MicroUsd,
    /// No cluster that runs the same pods, with the nodes that are held, costs less.
    pub lower_bound: MicroUsd,
}

/// Everything that may start now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "an unread disruption plan removes nothing"]
pub struct DisruptionPlan {
    /// The commands, in their order.
    pub commands: Vec<Command>,
    /// The nodes of the NodePools that stay, in the order of the input.
    pub held: Vec<HeldNode>,
    /// What it costs.
    pub cost: DisruptionCosts,
    /// What was planned: removed nodes are being deleted in it, and pods that move are pending.
    pub input: PlanningInput,
    /// The plan for `input`, which the verifier accepts.
    pub plan: Plan,
    /// Machines that static NodePools launch instead of drifted nodes. They are nodes of `input`, which `plan` places
    /// pods on.
    pub static_nodes: Vec<PlannedNode>,
    /// Commands that the verifier refused: a bug, which the caller must report.
    pub refused: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl DisruptionPlan {
    /// The machines that `command` launches.
    pub fn launched_by<'p>(&'p self, command: &'p Command) -> impl Iterator<Item = &'p PlannedNode> {
        let machine = |at: &u32| self.plan.nodes.iter().chain(&self.static_nodes).nth(*at as usize);
        command.replacements.iter().filter_map(machine)
    }
}

/// Why a node stays, as a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockCode {
    /// The budgets of its NodePool allow no further removal for the reason now, or none of its disruption
    /// windows is open.
    Budget,
    /// A PodDisruptionBudget allows no eviction now, several select a pod, or it allows fewer evictions
    /// than several nodes together need.
    PodDisruptionBudget,
    /// `karpenter.sh/do-not-disrupt` on the Node or a pod.
    DoNotDisrupt,
    /// A pod came or went within `consolidateAfter`, or that is `Never`.
    ConsolidateAfter,
    /// The node is not initialized.
    NotInitialized,
    /// A pod is nominated for the node.
    Nominated,
    /// The node is being deleted already.
    Deleting,
    /// `consolidationPolicy` excludes the node, or the savings are too small for it.
    Policy,
    /// A pod fits on no other node and no machine.
    NoCapacity,
    /// No removal or replacement costs less.
    NoSavings,
    /// Cheaper machines are too few for `minValues`.
    MinValues,
    /// A spot node is replaced by spot only where enough cheaper machines are left to choose from.
    SpotFlexibility,
    /// Pods that wait are planned on the node.
    PendingPods,
    /// The NodePool has a fixed number of nodes.
    Static,
    /// The agent is not connected, or the state of the cluster is not synced. Of a live cluster alone, as
    /// those that follow.
    NotSynced,
    /// The node is of no NodeClaim or NodePool of this server.
    NotManaged,
    /// An operator froze removals.
    Frozen,
    /// Removals are recorded and not carried out.
    Shadow,
    /// A guardrail stops or limits removals.
    Guardrail,
    /// A replacement in the NodePool failed lately.
    BackOff,
    /// The node is being replaced, and its pods wait for capacity.
    Replacing,
    /// No plan of disruption has judged the node yet.
    NotPlanned,
    /// Consolidation has moved a pod of the node lately.
    RecentlyMoved,
    /// A scheduler whose pods are not planned placed a pod on the node.
    OtherScheduler,
    /// A PersistentVolume of a pod is on the disk of the node.
    LocalVolume,
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"` on a pod. Of repacking alone, as that which follows.
    SafeToEvict,
    /// A pod has no owner that would start it again.
    NoOwner,
}

impl BlockCode {
    /// The code as printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "Budget",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::ConsolidateAfter => "ConsolidateAfter",
            Self::NotInitialized => "NotInitialized",
            Self::Nominated => "Nominated",
            Self::Deleting => "Deleting",
            Self::Policy => "Policy",
            Self::NoCapacity => "NoCapacity",
            Self::NoSavings => "NoSavings",
            Self::MinValues => "MinValues",
            Self::SpotFlexibility => "SpotFlexibility",
            Self::PendingPods => "PendingPods",
            Self::Static => "Static",
            Self::NotSynced => "NotSynced",
            Self::NotManaged => "NotManaged",
            Self::Frozen => "Frozen",
            Self::Shadow => "Shadow",
            Self::Guardrail => "Guardrail",
            Self::BackOff => "BackOff",
            Self::Replacing => "Replacing",
            Self::NotPlanned => "NotPlanned",
            Self::RecentlyMoved => "RecentlyMoved",
            Self::OtherScheduler => "OtherScheduler",
            Self::LocalVolume => "LocalVolume",
            Self::SafeToEvict => "SafeToEvict",
            Self::NoOwner => "NoOwner",
        }
    }

    /// What an operator can do about it, or what ends it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Budget => "raise or remove the budget, or wait for its window and for the nodes that leave",
            Self::PodDisruptionBudget => "have more replicas ready, or raise maxUnavailable of the PodDisruptionBudget",
            Self::DoNotDisrupt | Self::SafeToEvict => "remove the annotation, or wait for its end",
            Self::ConsolidateAfter => "wait, or lower consolidateAfter of the NodePool",
            Self::NotInitialized => "wait for the node: kubectl describe nodeclaim shows its conditions",
            Self::Nominated | Self::PendingPods => "wait until the pod runs, or delete it",
            Self::Deleting => "nothing: it leaves",
            Self::Policy => "change the disruption settings that are named",
            Self::NoCapacity => "allow more machines in the NodePools, or relax the rules of the pod",
            Self::NoSavings => "nothing: it is the cheapest way to run its pods, as far as was found",
            Self::MinValues => "lower minValues of the NodePool",
            Self::SpotFlexibility => "allow more instance types in the NodePool",
            Self::Static => "lower replicas of the NodePool",
            Self::NotSynced => "start the agent, and read its log",
            Self::NotManaged => "remove it by what manages it",
            Self::Frozen => "fleetwright thaw, with the number of the freeze",
            Self::Shadow => "leave shadow mode: guardrails.mode, disruption.mode and their lists of clusters",
            Self::Guardrail => {
                "read fleetwright clusters list and fleetwright removals; the limit ends by itself or by an operator"
            }
            Self::BackOff => "wait; the log of the server states why the replacement failed",
            Self::Replacing => "wait until the nodes for its pods are initialized",
            Self::NotPlanned => "wait for the next plan of disruption",
            Self::RecentlyMoved => "wait, or shorten disruption.move-interval of the server",
            Self::OtherScheduler => {
                "name the scheduler in control.schedulers, if it places pods by kube-scheduler's rules"
            }
            Self::NoOwner => "delete the pod, or have a workload own it",
            Self::LocalVolume => "move the data, or delete the pod and its PersistentVolumeClaim",
        }
    }
}

/// An object that blocks a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Why.
    pub code: BlockCode,
    /// `Kind/name` or `Kind/namespace/name`.
    pub object: String,
    /// The reason as a sentence whose subject is the object.
    pub message: String,
}

impl Block {
    /// A block by `object`.
    pub fn new(code: BlockCode, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, object: object.into(), message: message.into() }
    }
}
