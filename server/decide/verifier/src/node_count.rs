//! `min-nodes`: new nodes of a pool, as far as its pods can run apart.

use std::collections::BTreeSet;

use super::topology::PodSelector;
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::PlannedNode;
use model::{NodePool, Pod, PodAffinityTerm, PodShape, Text};

/// Pods that affinity treats alike: shape, labels and namespace.
type Kind<'i> = (u32, u32, &'i Text);

/// Fewer nodes than `min-nodes`, although the pods can run apart on more, and no limit is set.
pub(super) fn check(input: &PlanningInput, pool: &NodePool, nodes: &[&PlannedNode], findings: &mut Findings<'_>) {
    let Some(least) = pool.rules.min_nodes else { return };
    let new = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
    if new == 0 || new >= least || !pool.limits.is_empty() {
        return;
    }
    let pods = nodes.iter().flat_map(|node| &node.pods).filter_map(|pod| input.pods.get(*pod as usize));
    let required = least.min(nodes_apart(input, pods));
    if new < required {
        let message = format!(
            "pool {} launches {new} nodes; it requires at least {least}, and its pods can run apart on {required}",
            pool.name
        );
        findings.report_plan(Rule::NodeCount, message);
    }
}

/// On how many nodes the pods of the new nodes can run apart: each pod by itself, and pods that must share a node
/// together. A pod that must run beside one of the others needs no node of its own.
fn nodes_apart<'i>(input: &'i PlanningInput, pods: impl Iterator<Item = &'i Pod>) -> i64 {
    let mut apart = 0;
    let (mut free, mut tied): (BTreeSet<Kind<'_>>, BTreeSet<Kind<'_>>) = (BTreeSet::new(), BTreeSet::new());
    for pod in pods {
        let kind = (pod.shape, pod.labels, &pod.namespace);
        if host_terms(&input.shapes[pod.shape as usize]).next().is_some() {
            tied.insert(kind);
        } else {
            apart += 1;
            free.insert(kind);
        }
    }
    let follows = |kind: &Kind<'_>| free.iter().any(|other| selects(input, *kind, *other));
    let groups = groups(input, tied.into_iter().collect());
    let alone = groups.iter().filter(|group| !group.iter().any(follows)).count();
    apart + i64::try_from(alone).unwrap_or(i64::MAX)
}

/// The kinds that must share a node, directly or through others.
fn groups<'i>(input: &PlanningInput, mut kinds: Vec<Kind<'i>>) -> Vec<Vec<Kind<'i>>> {
    let mut groups = Vec::new();
    while let Some(first) = kinds.pop() {
        let (mut group, mut at) = (vec![first], 0);
        while let Some(member) = group.get(at).copied() {
            let is_tied = |other: &mut Kind<'i>| selects(input, member, *other) || selects(input, *other, member);
            group.extend(kinds.extract_if(.., is_tied));
            at += 1;
        }
        groups.push(group);
    }
    groups
}

fn host_terms(shape: &PodShape) -> impl Iterator<Item = &PodAffinityTerm> {
    shape.pod_affinity.iter().filter(|term| term.topology_key.as_ref() == HOSTNAME)
}

/// Whether pods of `kind` must share a node with a pod like `other`, or with such a pod among others.
fn selects(input: &PlanningInput, kind: Kind<'_>, other: Kind<'_>) -> bool {
    let labels = &input.label_sets[other.1 as usize];
    let mut terms = host_terms(&input.shapes[kind.0 as usize]).peekable();
    terms.peek().is_some() && terms.all(|term| PodSelector::of_term(kind.2, term).selects(input, other.2, labels))
}
