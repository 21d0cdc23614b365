//! Notes about preferences that could not be kept.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::explain::ask::{Alternative, alternatives};
use crate::explain::topology::selects_pod;
use crate::explain::world::{Place, World};
use crate::input::{PlanningInput, PreferencePolicy};
use crate::model::requirements::label_satisfies;
use crate::model::taints::{discouraged, first_barring};
use crate::model::{Effect, Labels, NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, SpreadConstraint, Text};

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
    let mut judge = Judge { world, labels: BTreeMap::new(), domains: BTreeMap::new() };
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
/// Pods by domain.
type Domains = BTreeMap<Text, i64>;

/// Judges pods where they stand. Counts are made once for each term and namespace.
struct Judge<'w> {
    world: &'w World<'w>,
    labels: BTreeMap<Place, Labels>,
    domains: BTreeMap<(PodAffinityTerm, Text, Option<u32>), Domains>,
}

impl<'w> Judge<'w> {
    fn shape(&self, pod: &Pod) -> &'w PodShape {
        &self.world.input.shapes[pod.shape as usize]
    }

    fn labels(&mut self, place: Place) -> &Labels {
        let world = self.world;
        self.labels.entry(place).or_insert_with(|| match place {
            Place::Node(at) => world.input.nodes[at as usize].labels.clone(),
            Place::Planned(at) => world.planned_labels(at),
        })
    }

    fn breaks_node_affinity(&mut self, pod: &Pod, place: Place) -> bool {
        let shape = self.shape(pod);
        if shape.preferred_node_affinity.is_empty() {
            return false;
        }
        let labels = self.labels(place);
        let kept = |term: &NodeSelectorTerm| term.expressions.iter().all(|e| label_satisfies(labels, e));
        !shape.preferred_node_affinity.iter().all(|preferred| kept(&preferred.term))
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
        let counts = self.domains.entry((term.clone(), pod.namespace.clone(), None));
        let counts = counts.or_insert_with(|| counts_of(world, term, &pod.namespace, None));
        counts.get(*domain).copied().unwrap_or(0) - itself
    }

    /// Whether the pod's own domain has more than `maxSkew` pods more than another domain that has nodes.
    fn breaks_spread(&mut self, pod: &Pod, place: Place) -> bool {
        let shape = self.shape(pod);
        shape.spread.iter().filter(|constraint| !constraint.hard).any(|constraint| self.skewed(constraint, pod, place))
    }

    fn skewed(&mut self, constraint: &SpreadConstraint, pod: &Pod, place: Place) -> bool {
        let (world, shape) = (self.world, self.shape(pod));
        // A spread constraint counts as a term that selects pods of its own namespace.
        let term = PodAffinityTerm {
            topology_key: constraint.topology_key.clone(),
            selector: constraint.selector.clone(),
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        let own = world.domains(place, &constraint.topology_key);
        let [domain] = own.as_slice() else { return false };
        // Nodes that the pod's own selector and affinity refuse are no domains of its spread.
        let counts = self.domains.entry((term.clone(), pod.namespace.clone(), Some(pod.shape)));
        let counts = counts.or_insert_with(|| counts_of(world, &term, &pod.namespace, Some(shape)));
        let least = counts.values().min().copied().unwrap_or(0);
        counts.get(*domain).copied().unwrap_or(0) - least > i64::from(constraint.max_skew)
    }

    fn is_discouraged(&mut self, pod: &Pod, place: Place) -> bool {
        let taints = match place {
            Place::Node(at) => self.world.input.nodes[at as usize].taints.as_slice(),
            Place::Planned(at) => &self.world.plan.nodes[at as usize].taints,
        };
        discouraged(taints, &self.shape(pod).tolerations)
    }
}

/// Pods that the term selects, by domain; domains with nodes and without such pods count zero. With `of`, only nodes count
/// that its selector, affinity and tolerations admit.
fn counts_of(world: &World<'_>, term: &PodAffinityTerm, namespace: &Text, of: Option<&PodShape>) -> Domains {
    let nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
    let planned = 0..u32::try_from(world.plan.nodes.len()).unwrap_or(u32::MAX);
    let mut counts = Domains::new();
    let ways = of.map(alternatives);
    let admitted = |place: &Place| ways.as_ref().zip(of).is_none_or(|(ways, of)| admits(world, ways, of, *place));
    let places: BTreeSet<Place> = nodes.map(Place::Node).chain(planned.map(Place::Planned)).filter(admitted).collect();
    for &place in &places {
        if let [one] = world.domains(place, &term.topology_key).as_slice() {
            counts.entry((*one).clone()).or_insert(0);
        }
    }
    for resident in &world.residents {
        let labels = &world.input.label_sets[resident.labels as usize];
        if !selects_pod(world, term, namespace, &resident.namespace, labels) {
            continue;
        }
        for (&place, number) in resident.places.iter().filter(|(place, _)| places.contains(place)) {
            if let [one] = world.domains(place, &term.topology_key).as_slice() {
                *counts.entry((*one).clone()).or_insert(0) += number;
            }
        }
    }
    counts
}

fn admits(world: &World<'_>, ways: &[Alternative], shape: &PodShape, place: Place) -> bool {
    let (labels, taints) = match place {
        Place::Node(at) => {
            let node = &world.input.nodes[at as usize];
            (Cow::Borrowed(&node.labels), node.taints.as_slice())
        }
        Place::Planned(at) => (Cow::Owned(world.planned_labels(at)), &*world.plan.nodes[at as usize].taints),
    };
    let suits = |way: &Alternative| way.requirements.iter().all(|r| label_satisfies(&labels, r));
    first_barring(taints, &shape.tolerations).is_none() && ways.iter().any(suits)
}
