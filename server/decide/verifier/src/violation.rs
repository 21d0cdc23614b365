//! The rules of plans, and what breaks them.

use std::fmt;

use model::NodeName;
use model::input::PlanningInput;

/// The rules that a plan must satisfy, one variant per invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every pod is in exactly one place; every index is in range.
    Placement,
    /// Invalid pods are not placed.
    InvalidPod,
    /// `order` contains every placed pod exactly once, and no other pod.
    Order,
    /// Names of planned nodes are unique, also among nodes of the input.
    Names,
    /// Pods are placed on schedulable nodes: not being deleted, not cordoned.
    NodeUsable,
    /// Pods tolerate the taints of their node.
    Taints,
    /// The node matches node selector and required node affinity.
    NodeAffinity,
    /// Pods and DaemonSet pods fit, whichever option launches.
    Resources,
    /// A node attaches no more volumes than its CSI drivers allow.
    AttachLimits,
    /// Every host port of a node is used once.
    HostPorts,
    /// The node can reach the pod's volumes.
    Volumes,
    TopologySpread,
    PodAffinity,
    /// Required pod anti-affinity holds: that of the pod, and that of pods already placed.
    PodAntiAffinity,
    /// A pod with a hard topology rule is on a node whose domain is decided.
    OpenDomain,
    /// The pool exists, is ready, and is used for its kind of pods.
    Pool,
    /// 1 to 60 distinct options, each in the catalogue of the pool, cheapest first; the first has the
    /// least price and credits.
    Options,
    /// Every option and every zone has an available offering.
    Offering,
    /// `price` is the price of the first option in the first zone.
    Price,
    /// `credits` are what the requests of the node cost beyond the baseline of the first option.
    Credits,
    /// Options and offerings satisfy the pool's requirements.
    PoolRequirements,
    /// The pool's limits hold, whichever options launch.
    Limits,
    /// No reservation is used by more nodes than it has instances left.
    Reservations,
    /// `minValues` hold over the options of each node.
    MinValues,
    /// The labels of a planned node are correct and complete.
    Labels,
    /// The taints of a planned node are those of its pool.
    NodeTaints,
    /// The requests of a planned node are those of its pods and DaemonSet pods.
    Requests,
    /// Static pools get exactly their missing nodes, spread over zones.
    StaticNodes,
    /// `fleetwright.dev/zone-balance`.
    ZoneBalance,
    /// `fleetwright.dev/safe-architectures`.
    SafeArchitectures,
    /// `fleetwright.dev/spot-fallback-after`.
    SpotFallback,
    /// `fleetwright.dev/max-price-per-vcpu` and `fleetwright.dev/max-node-price`.
    PriceCeiling,
    /// `fleetwright.dev/spot-max-percent`.
    SpotShare,
    /// `fleetwright.dev/on-demand-min-nodes`.
    OnDemandFloor,
    /// `fleetwright.dev/max-node-vcpu`.
    NodeSize,
    /// `fleetwright.dev/min-nodes`.
    NodeCount,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// Index of the offending pod, if one pod breaks the rule.
    pub pod: Option<u32>,
    /// Name of the existing or planned node, if one node breaks the rule.
    pub node: Option<NodeName>,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.rule)?;
        if let Some(node) = &self.node {
            write!(f, " on {node}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The violations that the rules of this check have found.
pub(super) struct Findings<'a> {
    pub(super) input: &'a PlanningInput,
    pub(super) violations: Vec<Violation>,
}

impl<'a> Findings<'a> {
    /// No violation of a plan for `input`.
    pub(super) fn new(input: &'a PlanningInput) -> Self {
        Self { input, violations: Vec::new() }
    }

    /// Records a violation by a node.
    pub(super) fn report_node(&mut self, rule: Rule, node: &NodeName, message: String) {
        self.violations.push(Violation { rule, pod: None, node: Some(node.clone()), message });
    }

    /// Records a violation by a pod, on a node if it has one. `what` continues a sentence that
    /// begins with the name of the pod.
    pub(super) fn report_pod(&mut self, rule: Rule, pod: u32, node: Option<&NodeName>, what: &str) {
        let name = &self.input.pods[pod as usize];
        let message = format!("pod {}/{} {what}", name.namespace, name.name);
        self.violations.push(Violation { rule, pod: Some(pod), node: node.cloned(), message });
    }

    /// Records a violation by the plan as a whole.
    pub(super) fn report_plan(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation { rule, pod: None, node: None, message });
    }
}
