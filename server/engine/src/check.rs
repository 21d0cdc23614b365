//! The second pair of eyes: does a plan keep every rule?
//!
//! [`check`] shares no code with the scheduler. It asks two questions: would kube-scheduler, by its documented rules,
//! put every pod where the plan puts it, whichever launch option each machine turns out to be; and does the plan keep
//! what it promises about machines, prices, limits and opt-in rules. A plan that fails is never carried out.
//!
//! Reading order: `roster` (who is where), `launch` (what a machine may turn out to be), `seat` (one pod on one node),
//! `room`, `occupancy`, `topology` (pods among each other, along the plan's order), then what holds per machine (`offer`,
//! `announce`) and per pool (`budget`, `rules`, `statics`).
//!
//! Chosen readings:
//! - Spread: the global minimum runs over the domains of nodes that will be there: nodes of the input that are not being
//!   deleted and nodes of the plan for pods, both as far as the constraint's inclusion policies admit them.
//! - A machine whose value of a topology key is open counts in every domain that it may end up in when that hurts, and in
//!   none when it would help. A pod with a hard constraint on a key stands only where that key's value is settled.
//! - DaemonSet pods that a node of the input still expects take room there only as far as both ways of counting say so: by
//!   DaemonSet, and by sums (expected less bound).

mod announce;
mod budget;
mod class;
mod launch;
mod occupancy;
mod offer;
mod room;
mod roster;
mod rules;
mod seat;
mod statics;
mod topology;

pub(crate) use self::offer::different_values;

use std::fmt;

use crate::input::PlanningInput;
use crate::model::{Resources, Text};
use crate::plan::{Plan, PlannedNode};

/// What a plan must keep, one value per invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every planned pod is in exactly one place; every index names something.
    Roster,
    /// Pods that nobody can schedule are not placed.
    InvalidPod,
    /// `order` names every placed pod once and no other.
    Order,
    /// Names of machines are unique, also among nodes of the input.
    Names,
    /// Pods go to nodes that take pods: not being deleted, not cordoned.
    NodeUsable,
    /// Taints are tolerated.
    Taints,
    /// Node selector and required node affinity hold.
    NodeAffinity,
    /// Pods and daemons fit, whichever option launches.
    Resources,
    /// No more volumes than the CSI driver can attach.
    AttachLimits,
    /// No host port is taken twice.
    HostPorts,
    /// The node can reach the pod's volumes.
    Volumes,
    /// Hard topology spread constraints hold.
    TopologySpread,
    /// Required pod affinity holds.
    PodAffinity,
    /// Required pod anti-affinity holds, the pod's own and that of pods already there.
    PodAntiAffinity,
    /// A pod that depends on a domain stands on a machine whose domain is settled.
    OpenDomain,
    /// The pool exists, is ready and is used for what it is for.
    Pool,
    /// 1 to 60 different options, each in the pool's catalogue, cheapest first.
    Options,
    /// Every option and every zone can be bought as the node says.
    Offering,
    /// `price` is what the first option costs in the first zone.
    Price,
    /// Options and offerings satisfy the pool's requirements.
    PoolRequirements,
    /// The pool's limits hold, whichever options launch.
    Limits,
    /// No reservation is drawn on more often than it has machines.
    Reservations,
    /// `minValues` hold over each node's options.
    MinValues,
    /// A machine's labels are right and complete.
    Labels,
    /// A machine's taints are the pool's.
    NodeTaints,
    /// A machine's requests are its pods' and daemons'.
    Requests,
    /// Static pools get the nodes that they lack, spread over zones, and no more.
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
    /// Which rule.
    pub rule: Rule,
    /// The pod, by index, when one pod is at fault.
    pub pod: Option<u32>,
    /// The node or machine, by name, when one is at fault.
    pub node: Option<Text>,
    /// What was found, in words.
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

/// Every rule that `plan` breaks, in a canonical order; empty for a sound plan. Any plan can be checked, however broken:
/// what cannot be looked up is reported and left out of the rest.
#[must_use]
pub fn check(input: &PlanningInput, plan: &Plan) -> Vec<Violation> {
    let mut found = Findings { input, violations: Vec::new() };
    let roster = roster::call(input, plan, &mut found);
    let launches = launch::Launches::of(input, plan, &mut found);
    offer::check(&launches, &mut found);
    let daemons = room::Daemons::new(input, &launches);
    announce::check(plan, &launches, &daemons, &mut found);
    seat::check(input, &roster, &launches, &mut found);
    room::check(input, plan, &roster, &launches, &daemons, &mut found);
    occupancy::check(input, &roster, &launches, &daemons, &mut found);
    topology::check(input, plan, &roster, &launches, &mut found);
    budget::check(input, &launches, &mut found);
    rules::check(input, plan, &launches, &mut found);
    statics::check(input, plan, &launches, &mut found);
    found.violations
}

/// What DaemonSets ask for on each of `nodes` when its first option launches in its first zone.
pub(crate) fn daemon_requests(input: &PlanningInput, nodes: Vec<PlannedNode>) -> Vec<Resources> {
    let plan = Plan { nodes, ..Plan::default() };
    let launches = launch::Launches::of(input, &plan, &mut Findings { input, violations: Vec::new() });
    let daemons = room::Daemons::new(input, &launches);
    let of = |number: &Option<u32>| {
        let number = number.map(|number| number as usize)?;
        Some(daemons.requests_of_first(number, launches.list.get(number)?))
    };
    launches.of_node.iter().map(|number| of(number).unwrap_or_default()).collect()
}

/// Where the rooms of this check write down what they find.
struct Findings<'a> {
    input: &'a PlanningInput,
    violations: Vec<Violation>,
}

impl Findings<'_> {
    /// A rule broken by a machine.
    fn node(&mut self, rule: Rule, node: &Text, message: String) {
        self.violations.push(Violation { rule, pod: None, node: Some(node.clone()), message });
    }

    /// A rule broken by a pod, on a node if it has one. `what` continues a sentence that begins with the pod's name.
    fn pod(&mut self, rule: Rule, pod: u32, node: Option<&Text>, what: &str) {
        let name = &self.input.pods[pod as usize];
        let message = format!("pod {}/{} {what}", name.namespace, name.name);
        self.violations.push(Violation { rule, pod: Some(pod), node: node.cloned(), message });
    }

    /// A rule broken by the plan as a whole.
    fn plan(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation { rule, pod: None, node: None, message });
    }
}
