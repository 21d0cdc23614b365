//! The verifier: an independent check that a plan breaks no rule.
//!
//! [`check`] shares no code with the scheduler. It answers two questions. Would kube-scheduler, by
//! its documented rules, bind every pod where the plan places it, whichever launch option each node
//! turns out to be? Does the plan satisfy the pool rules, prices, limits and opt-in rules? A plan
//! with a violation is never carried out.
//!
//! Reading order: `placements` (the host of each pod), `launch` (the possible outcomes of a
//! launch), `node_fit` (one pod on one node), `capacity`, `ports_and_volumes`, `topology` (rules
//! between pods, in the order of the plan); then the rules per planned node (`purchase`,
//! `metadata`) and per pool (`limits`, `opt_in_rules`, `static_pools`). [`check_removals`] judges the
//! removal of nodes in the same way (`removals`).
//!
//! Chosen interpretations:
//! - Spread: the global minimum is taken over the domains of future nodes: nodes of the input that
//!   are not being deleted, and the plan's nodes for pods, both as far as the inclusion policies of
//!   the constraint admit them.
//! - If the value of a topology key is undecided on a planned node, the node counts in every domain
//!   that it may end up in where this tightens a rule, and in none where it would relax one. A pod
//!   with a hard constraint on a key needs a node whose value of that key is decided.
//! - DaemonSet pods that a node of the input still lacks reserve the smaller of two amounts there:
//!   the requests of the DaemonSets without a pod, and the expected sum less the bound sum.

mod capacity;
mod class;
pub mod kernel;
mod launch;
mod limits;
mod metadata;
mod node_fit;
mod opt_in_rules;
mod placements;
mod ports_and_volumes;
mod purchase;
mod removals;
mod static_pools;
mod topology;

pub use self::removals::{RemovalRule, RemovalViolation, check_removals};

use std::fmt;

use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::{NodeName, Resources};

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
    /// Hard topology spread constraints hold.
    TopologySpread,
    /// Required pod affinity holds.
    PodAffinity,
    /// Required pod anti-affinity holds: that of the pod, and that of pods already placed.
    PodAntiAffinity,
    /// A pod with a hard topology rule is on a node whose domain is decided.
    OpenDomain,
    /// The pool exists, is ready, and is used for its kind of pods.
    Pool,
    /// 1 to 60 distinct options, each in the catalogue of the pool, cheapest first.
    Options,
    /// Every option and every zone has an available offering.
    Offering,
    /// `price` is the price of the first option in the first zone.
    Price,
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

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// Index of the offending pod, if one pod breaks the rule.
    pub pod: Option<u32>,
    /// Name of the existing or planned node, if one node breaks the rule.
    pub node: Option<NodeName>,
    /// Explanation for the operator.
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

/// All violations of `plan`, in a canonical order; empty for a valid plan. Accepts any plan,
/// however broken: an index out of range is reported and excluded from the other rules.
#[must_use]
pub fn check(input: &PlanningInput, plan: &Plan) -> Vec<Violation> {
    let mut findings = Findings { input, violations: Vec::new() };
    // Placements and launches come first: they report bad indices, and every later check relies on
    // valid ones.
    let placements = placements::collect(input, plan, &mut findings);
    let launches = launch::Launches::of(input, plan);
    purchase::check(plan, &launches, &mut findings);
    let daemons = capacity::Daemons::new(input, &launches);
    metadata::check(plan, &launches, &daemons, &mut findings);
    node_fit::check(input, &placements, &launches, &mut findings);
    capacity::check(input, plan, &placements, &launches, &daemons, &mut findings);
    ports_and_volumes::check(input, &placements, &launches, &daemons, &mut findings);
    topology::check(input, plan, &placements, &launches, &mut findings);
    limits::check(input, &launches, &mut findings);
    opt_in_rules::check(input, plan, &launches, &mut findings);
    static_pools::check(input, plan, &launches, &mut findings);
    findings.violations
}

/// Requests of the DaemonSet pods on each of `nodes` if its first option launches in its first
/// zone.
pub fn daemon_requests(input: &PlanningInput, nodes: Vec<PlannedNode>) -> Vec<Resources> {
    let plan = Plan { nodes, ..Plan::default() };
    let launches = launch::Launches::of(input, &plan);
    let daemons = capacity::Daemons::new(input, &launches);
    let of = |number: &Option<u32>| {
        let number = number.map(|number| number as usize)?;
        Some(daemons.requests_of_first(number, launches.list.get(number)?))
    };
    launches.of_node.iter().map(|number| of(number).unwrap_or_default()).collect()
}

/// The violations that the rules of this check have found.
struct Findings<'a> {
    input: &'a PlanningInput,
    violations: Vec<Violation>,
}

impl Findings<'_> {
    /// Records a violation by a node.
    fn report_node(&mut self, rule: Rule, node: &NodeName, message: String) {
        self.violations.push(Violation { rule, pod: None, node: Some(node.clone()), message });
    }

    /// Records a violation by a pod, on a node if it has one. `what` continues a sentence that
    /// begins with the name of the pod.
    fn report_pod(&mut self, rule: Rule, pod: u32, node: Option<&NodeName>, what: &str) {
        let name = &self.input.pods[pod as usize];
        let message = format!("pod {}/{} {what}", name.namespace, name.name);
        self.violations.push(Violation { rule, pod: Some(pod), node: node.cloned(), message });
    }

    /// Records a violation by the plan as a whole.
    fn report_plan(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation { rule, pod: None, node: None, message });
    }
}
