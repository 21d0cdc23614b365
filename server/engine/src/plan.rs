//! The result of a decision, and the reasons for it.

use std::sync::Arc;

use crate::model::{CapacityType, Labels, MicroUsd, Resources, Taint, Text};

/// What to do: machines to launch and where each pod goes. Pods, nodes, pools and types are named by their index in the
/// [`PlanningInput`](crate::input::PlanningInput) that the plan was made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "a plan that nobody reads places no pod"]
pub struct Plan {
    /// Machines to launch for pods, in a canonical order.
    pub nodes: Vec<PlannedNode>,
    /// Machines to launch because a static pool lacks them; they carry no planned pods.
    pub static_nodes: Vec<PlannedNode>,
    /// Pods put on nodes of the input: (pod, node), by pod.
    pub placements: Vec<(u32, u32)>,
    /// Pods that fit nowhere, by index.
    pub unschedulable: Vec<u32>,
    /// The order in which pods were placed. Every constraint held when its pod's turn came; rules that depend on the order
    /// (spread, affinity) are checked along it.
    pub order: Vec<u32>,
}

/// A machine to launch. Parts that many nodes have in common are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// A name for this plan: `<pool>-<number>`.
    pub name: Text,
    /// Index of the NodePool.
    pub pool: u32,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Zones that the launch may use; the first is where `price` holds.
    pub zones: Arc<[Text]>,
    /// Launch options as indices into the pool's catalogue, cheapest first, 1 to 60. Every one of them carries all the
    /// node's pods and daemons, and is offered in at least one of `zones`, the first in `zones[0]`.
    pub types: Arc<[u32]>,
    /// Price of the first option in the first zone.
    pub price: MicroUsd,
    /// The reservation that it draws on.
    pub reservation: Option<Text>,
    /// Pods, by index, ascending.
    pub pods: Vec<u32>,
    /// Labels known and common to all options, hostname apart.
    pub labels: Arc<Labels>,
    /// Taints of the running node.
    pub taints: Arc<[Taint]>,
    /// What the pods and the first option's daemons ask for.
    pub requests: Resources,
}

/// Why a pod has no place, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonCode {
    /// Labels, selectors, node affinity.
    Requirements,
    /// A taint is not tolerated.
    Taints,
    /// No machine is large enough.
    Resources,
    /// The pool's limits are used up.
    Limits,
    /// A hard topology spread constraint.
    TopologySpread,
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity, its own or another pod's.
    PodAntiAffinity,
    /// A host port is taken.
    HostPorts,
    /// Volumes: zone, attach limit, missing claim.
    Volumes,
    /// Too few different values among the launch options.
    MinValues,
    /// Nothing is for sale that would do.
    NoOffering,
    /// The pool's NodeClass is missing, unready or being deleted.
    NodeClassNotReady,
    /// The pool is not ready or being deleted.
    NodePoolNotReady,
    /// There is no pool.
    NoNodePool,
    /// The API server accepts the pod, but nobody can schedule it.
    InvalidPod,
    /// A safety rail holds the launch back, or planning had no steps left for the pod.
    HeldBack,
    /// Every plan with the pod failed the program's own check.
    Internal,
    /// Planning had not tried everything for the pod when its steps were spent.
    StepLimit,
}

impl ReasonCode {
    /// The code as it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requirements => "Requirements",
            Self::Taints => "Taints",
            Self::Resources => "Resources",
            Self::Limits => "Limits",
            Self::TopologySpread => "TopologySpread",
            Self::PodAffinity => "PodAffinity",
            Self::PodAntiAffinity => "PodAntiAffinity",
            Self::HostPorts => "HostPorts",
            Self::Volumes => "Volumes",
            Self::MinValues => "MinValues",
            Self::NoOffering => "NoOffering",
            Self::NodeClassNotReady => "NodeClassNotReady",
            Self::NodePoolNotReady => "NodePoolNotReady",
            Self::NoNodePool => "NoNodePool",
            Self::InvalidPod => "InvalidPod",
            Self::HeldBack => "HeldBack",
            Self::Internal => "Internal",
            Self::StepLimit => "StepLimit",
        }
    }
}

/// One reason, for one pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    /// The pool; `None` for reasons that no pool can change.
    pub pool: Option<Text>,
    /// The reason in a word.
    pub code: ReasonCode,
    /// The reason in a sentence: values, the nearest machine, by how much it misses.
    pub message: String,
}

/// Why one pod has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unschedulable {
    /// Index of the pod.
    pub pod: u32,
    /// One reason per pool that could be thought of.
    pub reasons: Vec<Reason>,
    /// The smallest relaxations that would make it fit, as sentences.
    pub fits_if: Vec<String>,
}

/// Why the plan is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "an unread report is not actionable"]
pub struct PlanReport {
    /// Why each unschedulable pod has no place, by pod.
    pub unschedulable: Vec<Unschedulable>,
    /// What the nodes of the plan cost, per hour; static nodes apart.
    pub new_cost: MicroUsd,
    /// No plan that places the same pods under the same rules costs less.
    pub lower_bound: MicroUsd,
    /// Surprises told before they happen, sorted.
    pub notes: Vec<String>,
    /// Steps that the search took.
    pub search_steps: u64,
}
