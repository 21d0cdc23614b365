//! Pods that exclude each other from a node: a machine each.
//!
//! They do so by required anti-affinity over the hostname that selects its own owners, or by a host port on all addresses.
//! Nodes of the input and reserved machines take one pod each, and they take the dearest ones. Spread over hostnames is no
//! such rule: where every host is full to the same height, kube-scheduler allows another pod on each.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::alike::holds;
use super::demand::{Demand, Kind};
use super::stock::Stock;
use crate::input::PlanningInput;
use crate::model::labels::HOSTNAME;
use crate::model::{LabelSelector, PodAffinityTerm, PodShape, Text};
use crate::plan::Plan;

/// What makes pods exclude each other.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Reason<'a> {
    Term(&'a str, &'a [Text], &'a LabelSelector),
    Port(u16, &'a str),
}

/// The best bound over all sets of pods that exclude each other.
pub(super) fn bound(input: &PlanningInput, plan: &Plan, demand: &Demand<'_>, stock: &Stock) -> i64 {
    if !input.shapes.iter().any(excludes) {
        return 0;
    }
    let mut crowds: BTreeMap<Reason<'_>, BTreeMap<u32, i64>> = BTreeMap::new();
    let new = plan.nodes.iter().flat_map(|node| &node.pods);
    let placed = new.chain(plan.placements.iter().map(|(pod, _)| pod)).filter_map(|pod| input.pods.get(*pod as usize));
    let mut alike: FxHashMap<(&str, u32, u32), i64> = FxHashMap::default();
    let mut kinds_of_pod = Vec::new();
    for pod in placed.filter(|pod| excludes(&input.shapes[pod.shape as usize])) {
        let count = alike.entry((&pod.namespace, pod.shape, pod.labels)).or_insert(0);
        if *count == 0 {
            kinds_of_pod.push((&pod.namespace, pod.shape, pod.labels));
        }
        *count += 1;
    }
    for (namespace, shape, labels) in kinds_of_pod {
        let pods = alike[&(namespace.as_ref(), shape, labels)];
        for reason in reasons(input, namespace, shape, labels) {
            *crowds.entry(reason).or_default().entry(shape).or_insert(0) += pods;
        }
    }
    let hosts = stock.free.iter().fold(0_i64, |sum, free| sum.saturating_add(free.count.max(0)));
    let mut prices: FxHashMap<u32, i64> = FxHashMap::default();
    for kind in demand.kinds.iter().filter(|kind| excludes(&input.shapes[kind.shape as usize])) {
        prices.insert(kind.shape, cheapest_host(kind, stock));
    }
    crowds.values().map(|crowd| of_crowd(crowd, &prices, hosts)).max().unwrap_or(0)
}

fn excludes(shape: &PodShape) -> bool {
    !shape.host_ports.is_empty() || shape.pod_anti_affinity.iter().any(|term| term.topology_key.as_ref() == HOSTNAME)
}

fn reasons<'a>(input: &'a PlanningInput, namespace: &'a str, shape: u32, labels: u32) -> Vec<Reason<'a>> {
    let (shape, labels) = (&input.shapes[shape as usize], &input.label_sets[labels as usize]);
    let own = |term: &&PodAffinityTerm| {
        let here = if term.namespaces.is_empty() { term.namespace_selector.is_none() } else { names(term, namespace) };
        term.topology_key.as_ref() == HOSTNAME && here && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    };
    let terms = shape.pod_anti_affinity.iter().filter(own).filter_map(|term| {
        let place = if term.namespaces.is_empty() { namespace } else { "" };
        Some(Reason::Term(place, &term.namespaces, term.selector.as_ref()?))
    });
    let everywhere = shape.host_ports.iter().filter(|port| matches!(port.ip.as_ref(), "" | "0.0.0.0" | "::"));
    let mut reasons: Vec<Reason<'a>> =
        terms.chain(everywhere.map(|port| Reason::Port(port.port, &port.protocol))).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

fn names(term: &PodAffinityTerm, namespace: &str) -> bool {
    term.namespaces.iter().any(|name| name.as_ref() == namespace)
}

/// The cheapest machine that holds one such pod; columns come cheapest first.
fn cheapest_host(kind: &Kind, stock: &Stock) -> i64 {
    let able = |column: &&super::stock::Column| column.groups >> kind.group & 1 == 1 && holds(&column.room, kind) > 0;
    stock.columns.iter().find(able).map_or(0, |column| column.price)
}

/// What machines for all but the dearest pods cost, as many as there are hosts for nothing.
fn of_crowd(crowd: &BTreeMap<u32, i64>, prices: &FxHashMap<u32, i64>, mut hosts: i64) -> i64 {
    let mut pods: Vec<(i64, i64)> =
        crowd.iter().map(|(shape, pods)| (prices.get(shape).copied().unwrap_or(0), *pods)).collect();
    pods.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_i64;
    for (price, pods) in pods {
        let free = pods.min(hosts);
        hosts -= free;
        sum = sum.saturating_add(price.saturating_mul(pods - free));
    }
    sum
}
