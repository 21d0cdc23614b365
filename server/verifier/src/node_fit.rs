//! Fit of one pod on one node: schedulable node, taints, node selector, node affinity, reachable
//! volumes.
//!
//! On a node of the input the labels decide, as kube-scheduler reads them. On a planned node every
//! outcome of the launch must satisfy the rules.

use rustc_hash::FxHashMap;

use super::launch::{Certainty, Launch, Launches, Outcome};
use super::placements::Placements;
use super::{Findings, Rule};
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{
    Effect, Node, NodeSelectorTerm, NodeStage, PodShape, Requirement, Requirements, Taint, Text, Toleration,
    VolumeAlternatives,
};

/// Node selector (as requirements) and required node affinity of a shape.
pub(super) struct RequiredNodeAffinity<'a> {
    selector: Vec<Requirement>,
    terms: &'a [NodeSelectorTerm],
}

impl<'a> RequiredNodeAffinity<'a> {
    pub(super) fn of(shape: &'a PodShape) -> Self {
        let selector = shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect();
        Self { selector, terms: &shape.node_affinity }
    }

    /// The node selector.
    pub(super) fn selector(&self) -> &[Requirement] {
        &self.selector
    }

    /// Whether every node matches.
    pub(super) fn is_empty(&self) -> bool {
        self.selector.is_empty() && self.terms.is_empty()
    }

    /// Whether a node of the input matches.
    pub(super) fn matches_node(&self, node: &Node) -> bool {
        let term_holds = |term: &NodeSelectorTerm| {
            selects(term)
                && term.expressions.iter().all(|requirement| label_satisfies(&node.labels, requirement))
                && term.names.iter().all(|requirement| requirement.has(&node.name))
        };
        self.selector.iter().all(|requirement| label_satisfies(&node.labels, requirement))
            && (self.terms.is_empty() || self.terms.iter().any(term_holds))
    }

    /// Whether every outcome of a launch matches.
    pub(super) fn always_matches(&self, launch: &Launch<'_>) -> bool {
        if !self.selector.iter().all(|requirement| launch.always(requirement)) {
            return false;
        }
        let one_term_does = |term: &NodeSelectorTerm| {
            selects(term)
                && allows_unnamed(term)
                && term.expressions.iter().all(|requirement| launch.always(requirement))
        };
        self.terms.is_empty()
            || self.terms.iter().any(one_term_does)
            || (self.terms.len() > 1
                && launch.outcomes.iter().all(|outcome| self.terms_hold(launch, outcome, Certainty::Certain)))
    }

    /// Whether one outcome of a launch matches.
    pub(super) fn matches_outcome(&self, launch: &Launch<'_>, outcome: &Outcome<'_>, certainty: Certainty) -> bool {
        self.selector.iter().all(|requirement| launch.holds(outcome, requirement, certainty))
            && (self.terms.is_empty() || self.terms_hold(launch, outcome, certainty))
    }

    fn terms_hold(&self, launch: &Launch<'_>, outcome: &Outcome<'_>, certainty: Certainty) -> bool {
        self.terms.iter().any(|term| {
            selects(term)
                && allows_unnamed(term)
                && term.expressions.iter().all(|requirement| launch.holds(outcome, requirement, certainty))
        })
    }
}

/// Whether the term selects anything; a term without expressions selects nothing.
fn selects(term: &NodeSelectorTerm) -> bool {
    !(term.expressions.is_empty() && term.names.is_empty())
}

/// Whether the term can select a node that has no name yet: no `matchFields` lists names.
fn allows_unnamed(term: &NodeSelectorTerm) -> bool {
    term.names.iter().all(|requirement| requirement.has("\0"))
}

/// The taint equivalent to `spec.unschedulable`.
pub(super) fn cordon_taint() -> Taint {
    Taint { key: Text::from("node.kubernetes.io/unschedulable"), value: Text::from(""), effect: Effect::NoSchedule }
}

/// Whether the tolerations cover the taints and the cordon of a node of the input.
pub(super) fn tolerates_node(node: &Node, tolerations: &[Toleration], cordon: &Taint) -> bool {
    first_untolerated(&node.taints, tolerations).is_none()
        && (!node.unschedulable || tolerations.iter().any(|toleration| toleration.tolerates(cordon)))
}

pub(super) fn check(
    input: &PlanningInput,
    placements: &Placements<'_>,
    launches: &Launches<'_>,
    findings: &mut Findings<'_>,
) {
    let mut node_fit = NodeFit {
        input,
        launches,
        node_affinities: input.shapes.iter().map(RequiredNodeAffinity::of).collect(),
        known: FxHashMap::default(),
    };
    for node_pods in &placements.by_host {
        let name = placements.host_name(node_pods.host);
        let mut latest = None;
        for pod in &node_pods.pods {
            let (shape, volumes) = (input.pods[*pod as usize].shape, input.pods[*pod as usize].volumes);
            let problems = match latest {
                Some((same, problems)) if same == (shape, volumes) => problems,
                _ => node_fit.problems(node_pods.host, shape, volumes),
            };
            latest = Some(((shape, volumes), problems));
            for (rule, what) in problems.list() {
                findings.report_pod(rule, *pod, Some(name), what);
            }
        }
    }
}

/// Problems of a pod on its node, one bit per kind.
#[derive(Clone, Copy, Default)]
struct Problems(u8);

impl Problems {
    const KINDS: [(Rule, &'static str); 6] = [
        (Rule::NodeUsable, "is placed on a node that is being deleted"),
        (Rule::NodeUsable, "is placed on a cordoned node"),
        (Rule::Taints, "does not tolerate the node's taints"),
        (Rule::NodeAffinity, "does not match the node by its node selector or node affinity"),
        (Rule::Volumes, "has volumes that the node cannot reach"),
        (Rule::Volumes, "has volumes that no node can reach"),
    ];

    fn set_if(&mut self, kind: u8, broken: bool) {
        self.0 |= u8::from(broken) << kind;
    }

    fn list(self) -> impl Iterator<Item = (Rule, &'static str)> {
        Self::KINDS.into_iter().enumerate().filter(move |(kind, _)| self.0 >> kind & 1 == 1).map(|(_, problem)| problem)
    }
}

struct NodeFit<'a, 'b> {
    input: &'a PlanningInput,
    launches: &'b Launches<'a>,
    node_affinities: Vec<RequiredNodeAffinity<'a>>,
    /// Cached results by (launch, shape, volumes).
    known: FxHashMap<(u32, u32, Option<u32>), Problems>,
}

impl NodeFit<'_, '_> {
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
        problems.set_if(0, node.stage == NodeStage::Deleting);
        problems.set_if(1, !tolerates_cordon(node, tolerations));
        problems.set_if(2, first_untolerated(&node.taints, tolerations).is_some());
        problems.set_if(3, !self.node_affinities[shape as usize].matches_node(node));
        if let Some(volumes) = volumes.map(|set| &self.input.volume_sets[set as usize]) {
            let holds = |all: &Requirements| all.iter().all(|requirement| label_satisfies(&node.labels, requirement));
            problems.set_if(4, !volumes.any_of.is_empty() && !volumes.any_of.iter().any(holds));
            problems.set_if(5, volumes.blocked.is_some());
        }
        problems
    }

    fn on_launch(&self, launch: &Launch<'_>, shape: u32, volumes: Option<u32>) -> Problems {
        let mut problems = Problems::default();
        let tolerations = &self.input.shapes[shape as usize].tolerations;
        problems.set_if(2, first_untolerated(&launch.pool.taints, tolerations).is_some());
        problems.set_if(3, !self.node_affinities[shape as usize].always_matches(launch));
        if let Some(volumes) = volumes.map(|set| &self.input.volume_sets[set as usize]) {
            problems.set_if(4, !always_reaches(launch, volumes));
            problems.set_if(5, volumes.blocked.is_some());
        }
        problems
    }
}

fn tolerates_cordon(node: &Node, tolerations: &[Toleration]) -> bool {
    let cordon = cordon_taint();
    !node.unschedulable || tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
}

/// Whether the volumes are reachable on every outcome of the launch, by one alternative for all or
/// by one per outcome.
fn always_reaches(launch: &Launch<'_>, volumes: &VolumeAlternatives) -> bool {
    let on = |all: &Requirements, outcome: &Outcome<'_>| {
        all.iter().all(|requirement| launch.holds(outcome, requirement, Certainty::Certain))
    };
    let hostbound = |all: &Requirements| all.get(HOSTNAME).is_some();
    volumes.any_of.is_empty()
        || volumes.any_of.iter().any(|all| !hostbound(all) && all.iter().all(|requirement| launch.always(requirement)))
        || launch.outcomes.iter().all(|outcome| volumes.any_of.iter().any(|all| on(all, outcome)))
}
