//! Which nodes can run a pod.

use crate::hosts::Host;
use crate::rules::ClassRules;
use crate::tallies::{Domains, NO_DOMAIN, Tallies};

use super::feasible_nodes_to_find;

/// What filters and scores read.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'v, 'a> {
    pub(super) rules: &'v ClassRules<'a>,
    pub(super) hosts: &'v [Host<'a>],
    pub(super) domains: &'v Domains<'a>,
    pub(super) tallies: &'v Tallies,
}

/// Collects feasible nodes from `start` on, as many as kube-scheduler scores; returns how many nodes
/// it examined.
pub(super) fn find_feasible(view: &View<'_, '_>, joined: &[u32], start: usize, feasible: &mut Vec<u32>) -> usize {
    feasible.clear();
    let most = feasible_nodes_to_find(joined.len());
    // The global minima do not depend on the node.
    let spread = &view.rules.hard_spread;
    let minima: Vec<i64> =
        spread.iter().map(|one| view.tallies.get(one.tally).global_minimum(one.min_domains)).collect();
    let from_start = joined[start.min(joined.len())..].iter().chain(&joined[..start.min(joined.len())]);
    for (before, node) in from_start.enumerate() {
        if feasible.len() == most {
            return before;
        }
        if is_feasible(view, *node as usize, &minima) {
            feasible.push(*node);
        }
    }
    joined.len()
}

fn is_feasible(view: &View<'_, '_>, node: usize, minima: &[i64]) -> bool {
    let (rules, host) = (view.rules, &view.hosts[node]);
    rules.allowed[node]
        && host.has_free(&rules.requests)
        && host.has_ports_and_attachments(&rules.class)
        && keeps_spread(view, node, minima)
        && keeps_affinity(view, node)
        && keeps_anti_affinity(view, node)
}

fn keeps_spread(view: &View<'_, '_>, node: usize, minima: &[i64]) -> bool {
    view.rules.hard_spread.iter().zip(minima).all(|(spread, minimum)| {
        let tally = view.tallies.get(spread.tally);
        let domain = view.domains.of(tally.key, node);
        domain != NO_DOMAIN && tally.count(domain) + spread.own - minimum <= spread.max_skew
    })
}

/// All terms hold in the domains of the node, or the pod is the first one and matches itself.
fn keeps_affinity(view: &View<'_, '_>, node: usize) -> bool {
    let tallies = || view.rules.affinity.iter().map(|tally| view.tallies.get(*tally));
    let domain = |key| view.domains.of(key, node);
    if tallies().any(|tally| domain(tally.key) == NO_DOMAIN) {
        return false;
    }
    tallies().all(|tally| tally.count(domain(tally.key)) > 0)
        || (view.rules.matches_own_affinity && tallies().all(|tally| tally.is_empty()))
}

fn keeps_anti_affinity(view: &View<'_, '_>, node: usize) -> bool {
    view.rules.anti_affinity.iter().all(|tally| {
        let tally = view.tallies.get(*tally);
        tally.count(view.domains.of(tally.key, node)) == 0
    })
}
