//! The result of a decision, and the reasons for it.

use std::sync::Arc;

use crate::{CapacityType, Labels, MicroUsd, NodeName, NodePool, Offering, PoolName, Resources, Taint, Text, Zone};

/// Machines to launch, and the node of each pod. Pods, nodes, pools and types are given by their
/// index in the [`PlanningInput`](crate::input::PlanningInput) that the plan was made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "an unread plan places no pod"]
pub struct Plan {
    /// Machines to launch for pods, in a canonical order.
    pub nodes: Vec<PlannedNode>,
    /// Machines to launch because a static pool misses them; they carry no planned pods.
    pub static_nodes: Vec<PlannedNode>,
    /// Pods placed on nodes of the input: (pod, node), by pod.
    pub placements: Vec<(u32, u32)>,
    /// Pods that fit nowhere, by index.
    pub unschedulable: Vec<u32>,
    /// The order in which pods were placed. Every constraint held when its pod was placed; rules
    /// that depend on the order (spread, affinity) are checked along it.
    pub order: Vec<u32>,
}

/// A machine to launch. Values common to many nodes are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// Name within this plan: `<pool>-<number>`.
    pub name: NodeName,
    /// Index of the NodePool.
    pub pool: u32,
    /// Capacity type of the launch.
    pub capacity_type: CapacityType,
    /// Zones that the launch may use; the first is where `price` holds.
    pub zones: Arc<[Zone]>,
    /// Launch options as indices into the pool's catalogue, cheapest first, 1 to 60. Every one
    /// carries all the node's pods and DaemonSets, and is offered in at least one of `zones`, the
    /// first in `zones[0]`.
    pub types: Arc<[u32]>,
    /// Price of the first option in the first zone.
    pub price: MicroUsd,
    /// Surplus credits per hour if the first option launches: what `requests` take of its CPU
    /// beyond its baseline. 0 unless it is burstable.
    pub credits: MicroUsd,
    /// The capacity reservation that it uses.
    pub reservation: Option<Text>,
    /// Pods, by index, ascending.
    pub pods: Vec<u32>,
    /// Labels known and common to all options, hostname excluded.
    pub labels: Arc<Labels>,
    /// Taints of the running node.
    pub taints: Arc<[Taint]>,
    /// Requests of the pods, and of the DaemonSets of the first option.
    pub requests: Resources,
}

impl PlannedNode {
    /// Price and credits, per hour.
    #[must_use]
    pub fn cost(&self) -> MicroUsd {
        MicroUsd(self.price.0.saturating_add(self.credits.0))
    }

    /// What the node, of `pool`, counts per hour, credits excluded: its price, and no less than that of the catalogue for
    /// its first option, where overlays have changed that ([`Offering::charged_price`]).
    #[must_use]
    pub fn charged_price(&self, pool: &NodePool) -> MicroUsd {
        let first = self.types.first().and_then(|at| pool.catalogue.types.get(*at as usize));
        let is_chosen = |offering: &&Offering| {
            Some(&offering.zone) == self.zones.first()
                && offering.capacity_type == self.capacity_type
                && offering.reservation.as_ref().map(|reservation| &reservation.id) == self.reservation.as_ref()
        };
        let offered = first.into_iter().flat_map(|kind| &kind.offerings).filter(is_chosen);
        offered.filter_map(|offering| offering.catalogue_price).fold(self.price, MicroUsd::max)
    }

    /// [`Self::charged_price`] and credits, per hour.
    #[must_use]
    pub fn charged_cost(&self, pool: &NodePool) -> MicroUsd {
        MicroUsd(self.charged_price(pool).0.saturating_add(self.credits.0))
    }
}

/// Why a pod is unschedulable, as a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonCode {
    /// Labels, selectors, node affinity.
    Requirements,
    /// A taint is not tolerated.
    Taints,
    /// No machine is large enough.
    Resources,
    /// The pool's limits are exhausted.
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
    /// No suitable offering is available.
    NoOffering,
    /// The pool's NodeClass is missing, unready or being deleted.
    NodeClassNotReady,
    /// The pool is not ready or being deleted.
    NodePoolNotReady,
    /// There is no pool.
    NoNodePool,
    /// The API server accepts the pod, but no scheduler can place it.
    InvalidPod,
    /// A guardrail holds the launch back, or the step limit left the pod out.
    HeldBack,
    /// Every plan with the pod failed the check.
    Internal,
    /// The step budget was exhausted before everything was tried for the pod.
    StepLimit,
}

impl ReasonCode {
    /// The code as printed.
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
    pub pool: Option<PoolName>,
    /// The reason as a code.
    pub code: ReasonCode,
    /// The reason as a sentence: values, the nearest machine, and what it misses.
    pub message: String,
}

/// Why one pod is unschedulable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unschedulable {
    /// Index of the pod.
    pub pod: u32,
    /// One reason per pool considered. Pods that are alike share them: ten thousand pods and a thousand pools have ten million.
    pub reasons: Arc<[Reason]>,
    /// The smallest relaxations that would make it fit, as sentences.
    pub fits_if: Arc<[String]>,
}

/// Why the plan is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "an unread report is not actionable"]
pub struct PlanReport {
    /// Why each unschedulable pod is unschedulable, by pod.
    pub unschedulable: Vec<Unschedulable>,
    /// Hourly cost of the nodes of the plan, credits included, static nodes excluded.
    pub new_cost: MicroUsd,
    /// Lower bound on the cost of any plan that places the same pods under the same rules.
    pub lower_bound: MicroUsd,
    /// Hourly cost that the launch is expected to end at: nodes for pods that find their planned
    /// node taken included. `None` if it was not computed.
    pub realised_cost: Option<MicroUsd>,
    /// Hourly cost of the first packing, by the rules of `new_cost`; `None` without a search.
    pub first_cost: Option<MicroUsd>,
    /// Warnings about unexpected effects of the plan, sorted.
    pub notes: Vec<String>,
    /// Steps of the search.
    pub search_steps: u64,
}
