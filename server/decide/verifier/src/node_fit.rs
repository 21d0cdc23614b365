//! Fit of one pod on one node: schedulable node, taints, node selector, node affinity, reachable
//! volumes.
//!
//! On a node of the input the labels decide, as kube-scheduler reads them. On a planned node every
//! outcome of the launch must satisfy the rules.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::launch::{Certainty, Launch, Launches, Outcome};
use super::placements::Placements;
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE, canonical_key};
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{
    Effect, Node, NodeSelectorTerm, NodeStage, PodShape, Requirement, Requirements, Taint, Text, Toleration,
    VolumeAlternatives, Zone,
};

/// Node selector (as requirements) and required node affinity of a shape.
#[derive(Debug)]
pub struct RequiredNodeAffinity<'a> {
    selector: Vec<Requirement>,
    terms: &'a [NodeSelectorTerm],
}

impl<'a> RequiredNodeAffinity<'a> {
    /// The selector and affinity of `shape`.
    #[must_use]
    pub fn of(shape: &'a PodShape) -> Self {
        let selector = shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect();
        Self { selector, terms: &shape.node_affinity }
    }

    pub(super) fn selector(&self) -> &[Requirement] {
        &self.selector
    }

    pub(super) fn is_empty(&self) -> bool {
        self.selector.is_empty() && self.terms.is_empty()
    }

    /// Whether a node of the input matches.
    #[must_use]
    pub fn matches_node(&self, node: &Node) -> bool {
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

    #[must_use]
    pub fn matches_outcome(&self, launch: &Launch<'_>, outcome: &Outcome<'_>, certainty: Certainty) -> bool {
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

/// Whether node selector and required node affinity allow this value of one label. Other labels and
/// node names are not considered.
pub(super) fn allows_label(shape: &PodShape, key: &str, value: &str) -> bool {
    let holds = |requirement: &Requirement| requirement.key().as_ref() != key || requirement.has(value);
    shape.node_selector.iter().all(|(own, wanted)| canonical_key(own) != key || wanted.as_ref() == value)
        && (shape.node_affinity.is_empty()
            || shape.node_affinity.iter().any(|term| selects(term) && term.expressions.iter().all(holds)))
}

/// Whether node selector, required node affinity and volumes allow nodes in `zone`.
#[must_use]
pub fn allows_zone(shape: &PodShape, volumes: Option<&VolumeAlternatives>, zone: &Zone) -> bool {
    let reachable = |all: &Requirements| all.get(ZONE).is_none_or(|requirement| requirement.has(zone));
    allows_label(shape, ZONE, zone)
        && volumes.is_none_or(|volumes| volumes.any_of.is_empty() || volumes.any_of.iter().any(reachable))
}

/// Whether a rule of a pod, or where its volumes are, may keep it out of one of `zones`.
#[must_use]
pub fn is_bound_to_zones(shape: &PodShape, volumes: Option<&VolumeAlternatives>, zones: &BTreeSet<&Zone>) -> bool {
    shape.has_rules_over_zones() || !zones.iter().all(|zone| allows_zone(shape, volumes, zone))
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
            let conflicts = match latest {
                Some((same, conflicts)) if same == (shape, volumes) => conflicts,
                _ => node_fit.conflicts(node_pods.host, shape, volumes),
            };
            latest = Some(((shape, volumes), conflicts));
            for (rule, what) in conflicts.iter().map(NodeConflict::violation) {
                findings.report_pod(rule, *pod, Some(name), what);
            }
        }
    }
}

/// Why a node cannot run a pod, apart from the other pods there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeConflict {
    Deleting,
    Cordoned,
    /// A taint of the node is not tolerated.
    Taints,
    /// Node selector or required node affinity does not match the node.
    NodeAffinity,
    /// The node cannot reach the volumes.
    Volumes,
    /// No node can reach the volumes.
    BlockedVolumes,
}

impl NodeConflict {
    const ALL: [Self; 6] =
        [Self::Deleting, Self::Cordoned, Self::Taints, Self::NodeAffinity, Self::Volumes, Self::BlockedVolumes];

    /// The rule that is broken, and the end of a sentence that begins with the pod.
    fn violation(self) -> (Rule, &'static str) {
        match self {
            Self::Deleting => (Rule::NodeUsable, "is placed on a node that is being deleted"),
            Self::Cordoned => (Rule::NodeUsable, "is placed on a cordoned node"),
            Self::Taints => (Rule::Taints, "does not tolerate the node's taints"),
            Self::NodeAffinity => (Rule::NodeAffinity, "does not match the node by its node selector or node affinity"),
            Self::Volumes => (Rule::Volumes, "has volumes that the node cannot reach"),
            Self::BlockedVolumes => (Rule::Volumes, "has volumes that no node can reach"),
        }
    }
}

/// All conflicts of a pod with a node, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeConflicts(u8);

impl NodeConflicts {
    fn add_if(&mut self, broken: bool, conflict: NodeConflict) {
        self.0 |= u8::from(broken) << conflict as u8;
    }

    /// Whether the node can run the pod.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The conflicts, in the order of the variants.
    pub fn iter(self) -> impl Iterator<Item = NodeConflict> {
        NodeConflict::ALL.into_iter().filter(move |conflict| self.0 >> *conflict as u8 & 1 == 1)
    }
}

/// The conflicts of a pod with a node of the input. `node_affinity` is that of `shape`.
#[must_use]
pub fn conflicts_on_node(
    node: &Node,
    shape: &PodShape,
    node_affinity: &RequiredNodeAffinity<'_>,
    volumes: Option<&VolumeAlternatives>,
) -> NodeConflicts {
    let mut conflicts = NodeConflicts::default();
    conflicts.add_if(node.stage == NodeStage::Deleting, NodeConflict::Deleting);
    conflicts.add_if(!tolerates_cordon(node, &shape.tolerations), NodeConflict::Cordoned);
    conflicts.add_if(first_untolerated(&node.taints, &shape.tolerations).is_some(), NodeConflict::Taints);
    conflicts.add_if(!node_affinity.matches_node(node), NodeConflict::NodeAffinity);
    if let Some(volumes) = volumes {
        let holds = |all: &Requirements| all.iter().all(|requirement| label_satisfies(&node.labels, requirement));
        let reached = volumes.any_of.is_empty() || volumes.any_of.iter().any(holds);
        conflicts.add_if(!reached, NodeConflict::Volumes);
        conflicts.add_if(volumes.blocked.is_some(), NodeConflict::BlockedVolumes);
    }
    conflicts
}

/// The conflicts of a pod with one outcome of a launch. `node_affinity` is that of `shape`.
#[must_use]
pub fn conflicts_on_outcome<'a>(
    launch: &Launch<'a>,
    outcome: &Outcome<'a>,
    shape: &PodShape,
    node_affinity: &RequiredNodeAffinity<'_>,
    volumes: Option<&VolumeAlternatives>,
) -> NodeConflicts {
    let mut conflicts = NodeConflicts::default();
    conflicts.add_if(first_untolerated(&launch.pool.taints, &shape.tolerations).is_some(), NodeConflict::Taints);
    let matches = node_affinity.matches_outcome(launch, outcome, Certainty::Certain);
    conflicts.add_if(!matches, NodeConflict::NodeAffinity);
    if let Some(volumes) = volumes {
        let reached = volumes.any_of.is_empty() || reaches(launch, outcome, volumes);
        conflicts.add_if(!reached, NodeConflict::Volumes);
        conflicts.add_if(volumes.blocked.is_some(), NodeConflict::BlockedVolumes);
    }
    conflicts
}

struct NodeFit<'a, 'b> {
    input: &'a PlanningInput,
    launches: &'b Launches<'a>,
    node_affinities: Vec<RequiredNodeAffinity<'a>>,
    /// Cached results by (launch, shape, volumes).
    known: FxHashMap<(u32, u32, Option<u32>), NodeConflicts>,
}

impl NodeFit<'_, '_> {
    fn conflicts(&mut self, host: u32, shape: u32, volumes: Option<u32>) -> NodeConflicts {
        if let Some(node) = self.input.nodes.get(host as usize) {
            return self.on_node(node, shape, volumes);
        }
        let Some(number) = self.launches.number_of_host(self.input.nodes.len(), host) else {
            return NodeConflicts::default();
        };
        if let Some(conflicts) = self.known.get(&(number, shape, volumes)) {
            return *conflicts;
        }
        let conflicts = self.on_launch(&self.launches.list[number as usize], shape, volumes);
        self.known.insert((number, shape, volumes), conflicts);
        conflicts
    }

    fn on_node(&self, node: &Node, shape: u32, volumes: Option<u32>) -> NodeConflicts {
        let volumes = volumes.map(|set| &self.input.volume_sets[set as usize]);
        conflicts_on_node(node, &self.input.shapes[shape as usize], &self.node_affinities[shape as usize], volumes)
    }

    /// The conflicts on some outcome of the launch.
    fn on_launch(&self, launch: &Launch<'_>, shape: u32, volumes: Option<u32>) -> NodeConflicts {
        let mut conflicts = NodeConflicts::default();
        let tolerations = &self.input.shapes[shape as usize].tolerations;
        conflicts.add_if(first_untolerated(&launch.pool.taints, tolerations).is_some(), NodeConflict::Taints);
        let matches = self.node_affinities[shape as usize].always_matches(launch);
        conflicts.add_if(!matches, NodeConflict::NodeAffinity);
        if let Some(volumes) = volumes.map(|set| &self.input.volume_sets[set as usize]) {
            conflicts.add_if(!always_reaches(launch, volumes), NodeConflict::Volumes);
            conflicts.add_if(volumes.blocked.is_some(), NodeConflict::BlockedVolumes);
        }
        conflicts
    }
}

fn tolerates_cordon(node: &Node, tolerations: &[Toleration]) -> bool {
    !node.unschedulable || first_untolerated(&[cordon_taint()], tolerations).is_none()
}

/// Whether the volumes are reachable on every outcome of the launch, by one alternative for all or
/// by one per outcome.
fn always_reaches(launch: &Launch<'_>, volumes: &VolumeAlternatives) -> bool {
    let hostbound = |all: &Requirements| all.get(HOSTNAME).is_some();
    volumes.any_of.is_empty()
        || volumes.any_of.iter().any(|all| !hostbound(all) && all.iter().all(|requirement| launch.always(requirement)))
        || launch.outcomes.iter().all(|outcome| reaches(launch, outcome, volumes))
}

/// Whether some alternative of the volumes holds on one outcome of the launch.
fn reaches<'a>(launch: &Launch<'a>, outcome: &Outcome<'a>, volumes: &VolumeAlternatives) -> bool {
    let holds =
        |all: &Requirements| all.iter().all(|requirement| launch.holds(outcome, requirement, Certainty::Certain));
    volumes.any_of.iter().any(holds)
}
