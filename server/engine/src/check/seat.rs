//! One pod on one node: usable nodes, taints, node selector, node affinity, reachable volumes.
//!
//! On a node of the input its labels decide, as kube-scheduler reads them. On a machine to launch every outcome must do.

use rustc_hash::FxHashMap;

use super::launch::{Launch, Launches, Outcome, Sure};
use super::roster::Roster;
use super::{Findings, Rule};
use crate::input::PlanningInput;
use crate::model::labels::HOSTNAME;
use crate::model::requirements::label_satisfies;
use crate::model::taints::first_barring;
use crate::model::{
    Effect, Node, NodeSelectorTerm, NodeStage, PodShape, Requirement, Requirements, Taint, Text, Toleration,
    VolumeAlternatives,
};

/// The node selector of a shape as requirements, and its node affinity.
pub(super) struct Demand<'a> {
    selector: Vec<Requirement>,
    terms: &'a [NodeSelectorTerm],
}

impl<'a> Demand<'a> {
    pub(super) fn of(shape: &'a PodShape) -> Self {
        let selector = shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect();
        Self { selector, terms: &shape.node_affinity }
    }

    /// The node selector.
    pub(super) fn selector(&self) -> &[Requirement] {
        &self.selector
    }

    /// Whether any node will do.
    pub(super) fn is_empty(&self) -> bool {
        self.selector.is_empty() && self.terms.is_empty()
    }

    /// Whether a node of the input satisfies this.
    pub(super) fn met_by(&self, node: &Node) -> bool {
        let term_holds = |term: &NodeSelectorTerm| {
            selects(term)
                && term.expressions.iter().all(|requirement| label_satisfies(&node.labels, requirement))
                && term.names.iter().all(|requirement| requirement.has(&node.name))
        };
        self.selector.iter().all(|requirement| label_satisfies(&node.labels, requirement))
            && (self.terms.is_empty() || self.terms.iter().any(term_holds))
    }

    /// Whether a launch satisfies this whatever it ends in.
    pub(super) fn always_met_by(&self, launch: &Launch<'_>) -> bool {
        if !self.selector.iter().all(|requirement| launch.always(requirement)) {
            return false;
        }
        let one_term_does = |term: &NodeSelectorTerm| {
            selects(term) && unborn(term) && term.expressions.iter().all(|requirement| launch.always(requirement))
        };
        self.terms.is_empty()
            || self.terms.iter().any(one_term_does)
            || (self.terms.len() > 1
                && launch.outcomes.iter().all(|outcome| self.terms_hold(launch, outcome, Sure::Certainly)))
    }

    /// Whether one outcome of a launch satisfies this.
    pub(super) fn met_by_outcome(&self, launch: &Launch<'_>, outcome: &Outcome<'_>, sure: Sure) -> bool {
        self.selector.iter().all(|requirement| launch.holds(outcome, requirement, sure))
            && (self.terms.is_empty() || self.terms_hold(launch, outcome, sure))
    }

    fn terms_hold(&self, launch: &Launch<'_>, outcome: &Outcome<'_>, sure: Sure) -> bool {
        self.terms.iter().any(|term| {
            selects(term)
                && unborn(term)
                && term.expressions.iter().all(|requirement| launch.holds(outcome, requirement, sure))
        })
    }
}

/// A term without any expression selects nothing.
fn selects(term: &NodeSelectorTerm) -> bool {
    !(term.expressions.is_empty() && term.names.is_empty())
}

/// Whether a machine whose name nobody knows yet can be meant: no list of names names it.
fn unborn(term: &NodeSelectorTerm) -> bool {
    term.names.iter().all(|requirement| requirement.has("\0"))
}

/// The taint that a cordoned node stands for.
pub(super) fn cordon() -> Taint {
    Taint { key: Text::from("node.kubernetes.io/unschedulable"), value: Text::from(""), effect: Effect::NoSchedule }
}

/// Whether a pod may stand on a node of the input as far as taints go.
pub(super) fn tolerates_node(node: &Node, tolerations: &[Toleration], cordon: &Taint) -> bool {
    first_barring(&node.taints, tolerations).is_none()
        && (!node.unschedulable || tolerations.iter().any(|toleration| toleration.tolerates(cordon)))
}

pub(super) fn check(input: &PlanningInput, roster: &Roster<'_>, launches: &Launches<'_>, found: &mut Findings<'_>) {
    let mut seats =
        Seats { input, launches, demands: input.shapes.iter().map(Demand::of).collect(), known: FxHashMap::default() };
    for party in &roster.parties {
        let name = roster.name(party.host);
        let mut latest = None;
        for pod in &party.pods {
            let (shape, volumes) = (input.pods[*pod as usize].shape, input.pods[*pod as usize].volumes);
            let problems = match latest {
                Some((same, problems)) if same == (shape, volumes) => problems,
                _ => seats.problems(party.host, shape, volumes),
            };
            latest = Some(((shape, volumes), problems));
            for (rule, what) in problems.list() {
                found.pod(rule, *pod, Some(name), what);
            }
        }
    }
}

/// What is wrong with a pod's seat, a bit for each kind.
#[derive(Clone, Copy, Default)]
struct Problems(u8);

impl Problems {
    const KINDS: [(Rule, &'static str); 6] = [
        (Rule::NodeUsable, "is placed on a node that is being deleted"),
        (Rule::NodeUsable, "is placed on a cordoned node"),
        (Rule::Taints, "does not tolerate the node's taints"),
        (Rule::NodeAffinity, "is refused by its node selector or node affinity"),
        (Rule::Volumes, "has volumes that the node cannot reach"),
        (Rule::Volumes, "has volumes that no node can reach"),
    ];

    fn note(&mut self, kind: u8, broken: bool) {
        self.0 |= u8::from(broken) << kind;
    }

    fn list(self) -> impl Iterator<Item = (Rule, &'static str)> {
        Self::KINDS.into_iter().enumerate().filter(move |(kind, _)| self.0 >> kind & 1 == 1).map(|(_, problem)| problem)
    }
}

struct Seats<'a, 'b> {
    input: &'a PlanningInput,
    launches: &'b Launches<'a>,
    demands: Vec<Demand<'a>>,
    /// Answers for (launch, shape, volumes).
    known: FxHashMap<(u32, u32, Option<u32>), Problems>,
}

impl Seats<'_, '_> {
    fn problems(&mut self, host: u32, shape: u32, volumes: Option<u32>) -> Problems {
        if let Some(node) = self.input.nodes.get(host as usize) {
            return self.on_node(node, shape, volumes);
        }
        let Some(number) = self.launches.number_of_host(self.input.nodes.len(), host) else {
            return Problems::default();
        };
        if let Some(problems) = self.known.get(&(number, shape, volumes)) {
            return *problems;
        }
        let problems = self.on_launch(&self.launches.list[number as usize], shape, volumes);
        self.known.insert((number, shape, volumes), problems);
        problems
    }

    fn on_node(&self, node: &Node, shape: u32, volumes: Option<u32>) -> Problems {
        let mut problems = Problems::default();
        let tolerations = &self.input.shapes[shape as usize].tolerations;
        problems.note(0, node.stage == NodeStage::Deleting);
        problems.note(1, !tolerates_cordon(node, tolerations));
        problems.note(2, first_barring(&node.taints, tolerations).is_some());
        problems.note(3, !self.demands[shape as usize].met_by(node));
        if let Some(volumes) = volumes.map(|set| &self.input.volume_sets[set as usize]) {
            let holds = |all: &Requirements| all.iter().all(|requirement| label_satisfies(&node.labels, requirement));
            problems.note(4, !volumes.any_of.is_empty() && !volumes.any_of.iter().any(holds));
            problems.note(5, volumes.blocked.is_some());
        }
        problems
    }

    fn on_launch(&self, launch: &Launch<'_>, shape: u32, volumes: Option<u32>) -> Problems {
        let mut problems = Problems::default();
        let tolerations = &self.input.shapes[shape as usize].tolerations;
        problems.note(2, first_barring(&launch.pool.taints, tolerations).is_some());
        problems.note(3, !self.demands[shape as usize].always_met_by(launch));
        if let Some(volumes) = volumes.map(|set| &self.input.volume_sets[set as usize]) {
            problems.note(4, !always_reaches(launch, volumes));
            problems.note(5, volumes.blocked.is_some());
        }
        problems
    }
}

fn tolerates_cordon(node: &Node, tolerations: &[Toleration]) -> bool {
    let cordon = cordon();
    !node.unschedulable || tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
}

/// Whether one alternative does for every outcome, or each outcome has one of its own.
fn always_reaches(launch: &Launch<'_>, volumes: &VolumeAlternatives) -> bool {
    let on = |all: &Requirements, outcome: &Outcome<'_>| {
        all.iter().all(|requirement| launch.holds(outcome, requirement, Sure::Certainly))
    };
    let hostbound = |all: &Requirements| all.get(HOSTNAME).is_some();
    volumes.any_of.is_empty()
        || volumes.any_of.iter().any(|all| !hostbound(all) && all.iter().all(|requirement| launch.always(requirement)))
        || launch.outcomes.iter().all(|outcome| volumes.any_of.iter().any(|all| on(all, outcome)))
}
