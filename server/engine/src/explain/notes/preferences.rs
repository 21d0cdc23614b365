//! Notes about preferences that could not be kept.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::explain::ask::{Alternative, alternatives};
use crate::explain::topology::selects_pod;
use crate::explain::world::{Place, World};
use crate::input::{PlanningInput, PreferencePolicy};
use crate::model::taints::{discouraged, first_barring};
use crate::model::{Effect, NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, SpreadConstraint, Text, Toleration};

use super::{Workloads, named, tell_about};

/// Whether some placed pod prefers anything, or some node would rather not be used.
pub(super) fn are_stated(input: &PlanningInput, workloads: &Workloads<'_>) -> bool {
    let soft_taint = |taints: &[crate::model::Taint]| taints.iter().any(|t| t.effect == Effect::PreferNoSchedule);
    let prefers = |(pod, _): &(u32, Place)| states_any(&input.shapes[input.pods[*pod as usize].shape as usize]);
    input.policy.preferences == PreferencePolicy::Respect
        && (input.pools.iter().any(|pool| soft_taint(&pool.taints))
            || input.nodes.iter().any(|node| soft_taint(&node.taints))
            || workloads.values().flatten().any(prefers))
}

/// Preferences beyond those that scheduling looks at.
pub(super) fn tell_of_the_bound(input: &PlanningInput, notes: &mut BTreeSet<String>) {
    let most = input.policy.preferred_terms_most();
    let beyond = |pod: &&Pod| input.shapes[pod.shape as usize].preferences() > most;
    let first = input.pods.iter().find(beyond);
    if let Some(first) = first.filter(|_| input.policy.preferences == PreferencePolicy::Respect) {
        let pods = input.pods.iter().filter(beyond).count();
        notes.insert(format!(
            "{pods} pods state more than {most} preferences, {}/{} among them: only their {most} heaviest are looked at",
            first.namespace, first.name
        ));
    }
}

fn states_any(shape: &PodShape) -> bool {
    !shape.preferred_node_affinity.is_empty()
        || !shape.preferred_pod_affinity.is_empty()
        || !shape.preferred_pod_anti_affinity.is_empty()
        || shape.spread.iter().any(|constraint| !constraint.hard)
}

/// One note for each kind of preference.
pub(super) fn tell<'w>(world: &'w World<'w>, workloads: &Workloads<'_>, notes: &mut BTreeSet<String>) {
    if world.input.policy.preferences == PreferencePolicy::Ignore {
        return;
    }
    let mut judge = Judge { world, counts: BTreeMap::new(), spreads: BTreeMap::new(), grounds: BTreeMap::new() };
    let kinds: [(&str, Verdict<'w>); 5] = [
        ("preferred node affinity could not be kept", Judge::breaks_node_affinity),
        ("preferred pod affinity could not be kept", Judge::breaks_affinity),
        ("preferred pod anti-affinity could not be kept", Judge::breaks_anti_affinity),
        ("ScheduleAnyway topology spread could not be kept", Judge::breaks_spread),
        ("pods stand on nodes with a PreferNoSchedule taint that they do not tolerate", Judge::is_discouraged),
    ];
    for (subject, breaks) in kinds {
        let mut broken = Vec::new();
        for (name, pods) in workloads {
            let number =
                pods.iter().filter(|(pod, place)| breaks(&mut judge, &world.input.pods[*pod as usize], *place));
            let number = number.count();
            if number > 0 {
                broken.push(named(*name, number, &format!(" of {}", pods.len())));
            }
        }
        tell_about(subject, &broken, "", notes);
    }
}

/// Whether a pod that stands there breaks one kind of preference.
type Verdict<'w> = fn(&mut Judge<'w>, &Pod, Place) -> bool;

/// Pods in the domains of one key.
#[derive(Debug, Default)]
struct Counts<'w> {
    /// Domains with pods that the term selects.
    pods: BTreeMap<&'w Text, i64>,
    /// The least number in any domain that has a node.
    least: i64,
}

/// The places that count, and how many domains of a key they are in.
#[derive(Debug)]
struct Ground {
    /// Whether a node of the input counts, by index; then the same of planned nodes.
    nodes: Vec<bool>,
    planned: Vec<bool>,
    domains: usize,
}

/// Judges pods where they stand. Counts are made once for each term and namespace, grounds once for each set of
/// constraints that decide which nodes count.
struct Judge<'w> {
    world: &'w World<'w>,
    counts: BTreeMap<(PodAffinityTerm, Text), Counts<'w>>,
    /// The same for spread constraints, by shape, place in the shape, and namespace.
    spreads: BTreeMap<(u32, usize, Text), Counts<'w>>,
    grounds: BTreeMap<(&'w Text, Scope<'w>), Rc<Ground>>,
}

/// What a pod says about nodes: node selector, node affinity, tolerations.
type Scope<'w> = (&'w BTreeMap<Text, Text>, &'w [NodeSelectorTerm], &'w [Toleration]);

impl<'w> Judge<'w> {
    fn shape(&self, pod: &Pod) -> &'w PodShape {
        &self.world.input.shapes[pod.shape as usize]
    }

    fn breaks_node_affinity(&mut self, pod: &Pod, place: Place) -> bool {
        let kept = |term: &NodeSelectorTerm| term.expressions.iter().all(|e| self.world.satisfies(place, e));
        !self.shape(pod).preferred_node_affinity.iter().all(|preferred| kept(&preferred.term))
    }

    fn breaks_affinity(&mut self, pod: &Pod, place: Place) -> bool {
        let shape = self.shape(pod);
        shape.preferred_pod_affinity.iter().any(|preferred| self.company(&preferred.term, pod, place) == 0)
    }

    fn breaks_anti_affinity(&mut self, pod: &Pod, place: Place) -> bool {
        let shape = self.shape(pod);
        shape.preferred_pod_anti_affinity.iter().any(|preferred| self.company(&preferred.term, pod, place) > 0)
    }

    /// How many other pods that the term selects share the pod's domain.
    fn company(&mut self, term: &PodAffinityTerm, pod: &Pod, place: Place) -> i64 {
        let world = self.world;
        let own = world.domains(place, &term.topology_key);
        let [domain] = own.as_slice() else { return 0 };
        let labels = &world.input.label_sets[pod.labels as usize];
        let itself = i64::from(selects_pod(world, term, &pod.namespace, &pod.namespace, labels));
        let counts = self.counts.entry((term.clone(), pod.namespace.clone()));
        let counts = counts.or_insert_with(|| counts_of(world, term, &pod.namespace, None));
        counts.pods.get(*domain).copied().unwrap_or(0) - itself
    }

    /// Whether the pod's own domain has more than `maxSkew` pods more than another domain that has nodes.
    fn breaks_spread(&mut self, pod: &Pod, place: Place) -> bool {
        let shape = self.shape(pod);
        let mut soft = shape.spread.iter().enumerate().filter(|(_, constraint)| !constraint.hard);
        soft.any(|(at, constraint)| self.skewed(at, constraint, pod, place))
    }

    fn skewed(&mut self, at: usize, constraint: &'w SpreadConstraint, pod: &Pod, place: Place) -> bool {
        let own = self.world.domains(place, &constraint.topology_key);
        let [domain] = own.as_slice() else { return false };
        let key = (pod.shape, at, pod.namespace.clone());
        if !self.spreads.contains_key(&key) {
            let counts = self.count_spread(constraint, pod);
            self.spreads.insert(key.clone(), counts);
        }
        let counts = &self.spreads[&key];
        counts.pods.get(*domain).copied().unwrap_or(0) - counts.least > i64::from(constraint.max_skew)
    }

    fn count_spread(&mut self, constraint: &'w SpreadConstraint, pod: &Pod) -> Counts<'w> {
        // A spread constraint counts as a term that selects pods of its own namespace.
        let term = PodAffinityTerm {
            topology_key: constraint.topology_key.clone(),
            selector: constraint.selector.clone(),
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        // Nodes that the pod's own selector and affinity refuse are no domains of its spread.
        let ground = self.ground(&constraint.topology_key, self.shape(pod));
        counts_of(self.world, &term, &pod.namespace, Some(&ground))
    }

    /// The nodes that the selector, affinity and tolerations of `shape` admit.
    fn ground(&mut self, key: &'w Text, shape: &'w PodShape) -> Rc<Ground> {
        let world = self.world;
        let scope = (&shape.node_selector, shape.node_affinity.as_slice(), shape.tolerations.as_slice());
        Rc::clone(self.grounds.entry((key, scope)).or_insert_with(|| Rc::new(Ground::of(world, key, shape))))
    }

    fn is_discouraged(&mut self, pod: &Pod, place: Place) -> bool {
        let taints = match place {
            Place::Node(at) => self.world.input.nodes[at as usize].taints.as_slice(),
            Place::Planned(at) => &self.world.plan.nodes[at as usize].taints,
        };
        discouraged(taints, &self.shape(pod).tolerations)
    }
}

/// Pods that the term selects, by domain. On a `ground`, only its nodes count.
fn counts_of<'w>(
    world: &'w World<'w>,
    term: &PodAffinityTerm,
    namespace: &Text,
    ground: Option<&Ground>,
) -> Counts<'w> {
    let mut counts = Counts::default();
    for resident in world.candidates(term.selector.as_ref()) {
        let labels = &world.input.label_sets[resident.labels as usize];
        if !selects_pod(world, term, namespace, &resident.namespace, labels) {
            continue;
        }
        for (&place, number) in &resident.places {
            if ground.is_none_or(|ground| ground.has(place))
                && let [one] = world.domains(place, &term.topology_key).as_slice()
            {
                *counts.pods.entry(*one).or_insert(0) += number;
            }
        }
    }
    let empty = ground.is_some_and(|ground| ground.domains > counts.pods.len());
    counts.least = if empty { 0 } else { counts.pods.values().min().copied().unwrap_or(0) };
    counts
}

impl Ground {
    fn of(world: &World<'_>, key: &Text, shape: &PodShape) -> Self {
        let ways = alternatives(shape);
        let admitted = |place| admits(world, &ways, shape, place);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let nodes = (0..number(world.input.nodes.len())).map(Place::Node);
        let planned = (0..number(world.plan.nodes.len())).map(Place::Planned);
        let mut ground = Self { nodes: nodes.clone().map(admitted).collect(), planned: Vec::new(), domains: 0 };
        ground.planned = planned.clone().map(admitted).collect();
        let mut domains: BTreeSet<&Text> = BTreeSet::new();
        for place in nodes.chain(planned).filter(|place| ground.has(*place)) {
            if let [one] = world.domains(place, key).as_slice() {
                domains.insert(one);
            }
        }
        ground.domains = domains.len();
        ground
    }

    fn has(&self, place: Place) -> bool {
        match place {
            Place::Node(at) => self.nodes[at as usize],
            Place::Planned(at) => self.planned[at as usize],
        }
    }
}

fn admits(world: &World<'_>, ways: &[Alternative], shape: &PodShape, place: Place) -> bool {
    let taints = match place {
        Place::Node(at) => world.input.nodes[at as usize].taints.as_slice(),
        Place::Planned(at) => &world.plan.nodes[at as usize].taints,
    };
    let suits = |way: &Alternative| way.requirements.iter().all(|r| world.satisfies(place, r));
    first_barring(taints, &shape.tolerations).is_none() && ways.iter().any(suits)
}
