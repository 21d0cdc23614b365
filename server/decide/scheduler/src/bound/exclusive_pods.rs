//! Bound by exclusion: pods that exclude each other from a node need a machine each.
//!
//! Pods exclude each other by required anti-affinity over the hostname whose selector matches its
//! own carriers, or by a host port on all addresses. Existing nodes and reserved machines take one
//! pod each, the most expensive ones. Spread over hostnames does not count: where every host has
//! the same count, kube-scheduler allows another pod on each.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::by_shape::holds;
use super::demand::{Demand, ShapeDemand};
use super::supply::Supply;
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::Plan;
use model::{LabelSelector, PodAffinityTerm, PodShape, Text};

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExclusionReason<'a> {
    Term(&'a str, &'a [Text], &'a LabelSelector),
    Port(u16, &'a str),
}

/// The best bound over all sets of mutually exclusive pods.
pub(super) fn bound(input: &PlanningInput, plan: &Plan, demand: &Demand<'_>, supply: &Supply) -> i64 {
    if !input.shapes.iter().any(excludes) {
        return 0;
    }
    let mut exclusive_sets: BTreeMap<ExclusionReason<'_>, BTreeMap<u32, i64>> = BTreeMap::new();
    let new = plan.nodes.iter().flat_map(|node| &node.pods);
    let placed = new.chain(plan.placements.iter().map(|(pod, _)| pod)).filter_map(|pod| input.pods.get(*pod as usize));
    let mut counts: FxHashMap<(&str, u32, u32), i64> = FxHashMap::default();
    let mut distinct = Vec::new();
    for pod in placed.filter(|pod| excludes(&input.shapes[pod.shape as usize])) {
        let count = counts.entry((&pod.namespace, pod.shape, pod.labels)).or_insert(0);
        if *count == 0 {
            distinct.push((&pod.namespace, pod.shape, pod.labels));
        }
        *count += 1;
    }
    for (namespace, shape, labels) in distinct {
        let pods = counts[&(namespace.as_ref(), shape, labels)];
        for reason in exclusion_reasons(input, namespace, shape, labels) {
            *exclusive_sets.entry(reason).or_default().entry(shape).or_insert(0) += pods;
        }
    }
    let hosts = supply.free.iter().fold(0_i64, |sum, free| sum.saturating_add(free.count.max(0)));
    let mut prices: FxHashMap<u32, i64> = FxHashMap::default();
    for shape in demand.shapes.iter().filter(|shape| excludes(&input.shapes[shape.shape as usize])) {
        prices.insert(shape.shape, cheapest_host(shape, supply));
    }
    exclusive_sets.values().map(|set| bound_of_set(set, &prices, hosts)).max().unwrap_or(0)
}

pub(super) fn excludes(shape: &PodShape) -> bool {
    !shape.host_ports.is_empty() || shape.pod_anti_affinity.iter().any(|term| term.topology_key.as_ref() == HOSTNAME)
}

pub(super) fn exclusion_reasons<'a>(
    input: &'a PlanningInput,
    namespace: &'a str,
    shape: u32,
    labels: u32,
) -> Vec<ExclusionReason<'a>> {
    let (shape, labels) = (&input.shapes[shape as usize], &input.label_sets[labels as usize]);
    let own = |term: &&PodAffinityTerm| {
        let in_namespace =
            if term.namespaces.is_empty() { term.namespace_selector.is_none() } else { names(term, namespace) };
        term.topology_key.as_ref() == HOSTNAME
            && in_namespace
            && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    };
    let terms = shape.pod_anti_affinity.iter().filter(own).filter_map(|term| {
        let place = if term.namespaces.is_empty() { namespace } else { "" };
        Some(ExclusionReason::Term(place, &term.namespaces, term.selector.as_ref()?))
    });
    let everywhere = shape.host_ports.iter().filter(|port| matches!(port.ip.as_ref(), "" | "0.0.0.0" | "::"));
    let mut reasons: Vec<ExclusionReason<'a>> =
        terms.chain(everywhere.map(|port| ExclusionReason::Port(port.port, &port.protocol))).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

fn names(term: &PodAffinityTerm, namespace: &str) -> bool {
    term.namespaces.iter().any(|name| name.as_ref() == namespace)
}

/// Price of the cheapest machine that holds one such pod; columns are sorted by price.
fn cheapest_host(shape: &ShapeDemand, supply: &Supply) -> i64 {
    let able =
        |column: &&super::supply::Column| column.groups >> shape.group & 1 == 1 && holds(&column.amounts, shape) > 0;
    supply.columns.iter().find(able).map_or(0, |column| column.price)
}

/// Cost of a machine per pod, except for the most expensive pods, which use the free hosts.
fn bound_of_set(set: &BTreeMap<u32, i64>, prices: &FxHashMap<u32, i64>, mut hosts: i64) -> i64 {
    let mut pods: Vec<(i64, i64)> =
        set.iter().map(|(shape, pods)| (prices.get(shape).copied().unwrap_or(0), *pods)).collect();
    pods.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_i64;
    for (price, pods) in pods {
        let free = pods.min(hosts);
        hosts -= free;
        sum = sum.saturating_add(price.saturating_mul(pods - free));
    }
    sum
}
