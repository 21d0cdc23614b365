//! Searches for pods that must share a host, and of which a plan leaves some out, for a node that takes all of them.
//! The search tries all nodes and lets [`verifier::check`] decide; it shares nothing with the planner.

use std::collections::BTreeSet;

use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::Plan;
use model::{PodAffinityTerm, Text};

use crate::placement_search::{is_sound, large_enough, launch, narrowed};

/// Pods that are tried as the one that another requires.
const MOST_PAIRS: usize = 16;

/// Groups of `plan` that are left out, wholly or in part, although one node has room for all of their pods: the
/// pods that must share a host, none of which runs, or one of them with the pod that it requires.
pub fn wrongly_separated(input: &PlanningInput, plan: &Plan) -> Option<String> {
    let mut seen = BTreeSet::new();
    plan.unschedulable.iter().find_map(|pod| {
        let own = &input.pods[*pod as usize];
        if own.invalid.is_some() || !seen.insert((own.shape, own.labels, own.namespace.clone())) {
            return None;
        }
        let group = group_of(input, *pod)?;
        let pairs = group.iter().filter(|other| requires(input, *pod, **other)).map(|other| vec![*other, *pod]);
        let mut all = pairs.take(MOST_PAIRS).chain([group.clone()]);
        all.find_map(|group| node_for_all(input, plan, &group).map(|node| format!("pods {group:?} fit {node}")))
    })
}

/// The pending pods that must share a host with `pod`: the pods of its kind and those that its terms select, and so
/// on, those first that others require. None if a running pod is selected.
fn group_of(input: &PlanningInput, pod: u32) -> Option<Vec<u32>> {
    let pods = 0..input.pods.len() as u32;
    let (mut known, mut group) = (BTreeSet::from([pod]), vec![pod]);
    let mut next = 0;
    while let Some(member) = group.get(next).copied() {
        next += 1;
        let own = &input.pods[member as usize];
        let terms = &input.shapes[own.shape as usize].pod_affinity;
        let terms: Vec<&PodAffinityTerm> = terms.iter().filter(|term| is_of_hosts(term)).collect();
        let meant = |namespace: &Text, labels: u32| {
            let selects = |term: &&PodAffinityTerm| {
                term.selector.as_ref().is_some_and(|selector| selector.matches(&input.label_sets[labels as usize]))
            };
            *namespace == own.namespace && terms.iter().any(selects)
        };
        let mut running = input.nodes.iter().flat_map(|node| &node.pods);
        if running.any(|pod| meant(&pod.namespace, pod.labels)) {
            return None;
        }
        let is_tied = |other: &u32| {
            let other = &input.pods[*other as usize];
            let is_alike = (other.shape, other.labels, &other.namespace) == (own.shape, own.labels, &own.namespace);
            other.invalid.is_none() && (meant(&other.namespace, other.labels) || (is_alike && !terms.is_empty()))
        };
        group.extend(pods.clone().filter(|other| is_tied(other) && known.insert(*other)));
    }
    group.reverse();
    (group.len() > 1).then_some(group)
}

/// Whether `other`, which requires no pod itself, is enough for `pod`.
fn requires(input: &PlanningInput, pod: u32, other: u32) -> bool {
    let (own, other) = (&input.pods[pod as usize], &input.pods[other as usize]);
    let mut terms = input.shapes[own.shape as usize].pod_affinity.iter();
    input.shapes[other.shape as usize].pod_affinity.is_empty()
        && own.namespace == other.namespace
        && terms.all(|term| {
            let labels = &input.label_sets[other.labels as usize];
            term.selector.as_ref().is_some_and(|selector| selector.matches(labels))
        })
}

fn is_of_hosts(term: &PodAffinityTerm) -> bool {
    term.topology_key.as_ref() == HOSTNAME && term.namespaces.is_empty() && term.namespace_selector.is_none()
}

/// The first node that takes all of `group`, once their places in `plan` are given up.
fn node_for_all(input: &PlanningInput, plan: &Plan, group: &[u32]) -> Option<String> {
    let mut without = plan.clone();
    without.placements.retain(|(pod, _)| !group.contains(pod));
    without.nodes.iter_mut().for_each(|node| node.pods.retain(|pod| !group.contains(pod)));
    without.nodes.retain(|node| !node.pods.is_empty());
    for list in [&mut without.order, &mut without.unschedulable] {
        list.retain(|pod| !group.contains(pod));
    }
    without.order.extend(group);
    on_existing(input, &without, group).or_else(|| on_planned(input, &without, group))
}

fn on_existing(input: &PlanningInput, without: &Plan, group: &[u32]) -> Option<String> {
    let mut nodes = (0_u32..).zip(&input.nodes);
    let found = nodes.find(|(at, _)| {
        let mut trial = without.clone();
        trial.placements.extend(group.iter().map(|pod| (*pod, *at)));
        trial.placements.sort_unstable();
        is_sound(input, &trial)
    });
    found.map(|(_, node)| format!("on {}", node.name))
}

fn on_planned(input: &PlanningInput, without: &Plan, group: &[u32]) -> Option<String> {
    without.nodes.iter().enumerate().find_map(|(at, node)| {
        let pool = &input.pools[node.pool as usize];
        let mut pods = node.pods.clone();
        pods.extend(group);
        pods.sort_unstable();
        let mut ways = narrowed(pool, node, &large_enough(input, pool, &node.types, &pods)).into_iter();
        let takes_all = ways.any(|(types, zones)| {
            let Some(like) = launch(pool, node, &types, &zones, &pods) else { return false };
            let mut trial = without.clone();
            trial.nodes[at] = like;
            is_sound(input, &trial)
        });
        takes_all.then(|| format!("on {}", node.name))
    })
}
