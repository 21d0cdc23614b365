//! Which nodes can run a pod.

use crate::hosts::Hosts;
use crate::rules::ClassRules;
use crate::tallies::{Domains, FewDomains, NO_DOMAIN, Tallies};

/// kube-scheduler examines all nodes of a cluster below this size
/// (`scheduler.minFeasibleNodesToFind`).
const MIN_FEASIBLE_NODES: usize = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'v, 'a> {
    pub(crate) rules: &'v ClassRules<'a>,
    pub(crate) hosts: &'v Hosts<'a>,
    pub(crate) domains: &'v Domains<'a>,
    pub(crate) tallies: &'v Tallies,
}

impl View<'_, '_> {
    /// Whether the node allows pods of the class, and has room for one.
    pub(super) fn has_room(&self, node: usize) -> bool {
        self.rules.allowed[node]
            && self.hosts.has_free(node, &self.rules.demand.requests)
            && (!self.rules.needs_ports_or_attachments
                || self.hosts.get(node).has_ports_and_attachments(&self.rules.class))
    }

    /// The global minimum of each hard spread constraint, which does not depend on the node.
    pub(crate) fn spread_minima(&self) -> Vec<i64> {
        let mut minima = Vec::new();
        self.read_spread_minima(&mut minima);
        minima
    }

    /// As [`View::spread_minima`], into `minima`.
    pub(crate) fn read_spread_minima(&self, minima: &mut Vec<i64>) {
        let spread = self.rules.hard_spread.iter();
        minima.clear();
        minima.extend(spread.map(|one| self.tallies.get(one.tally).global_minimum(one.min_domains)));
    }

    /// The domains that a further pod of the class may go to by its first hard spread over few of them; `None` without.
    pub(crate) fn domains_within_skew(&self, minima: &[i64]) -> Option<FewDomains> {
        self.rules.hard_spread.iter().zip(minima).find_map(|(spread, minimum)| {
            let tally = self.tallies.get(spread.tally);
            let most = minimum + spread.max_skew - spread.own;
            self.domains.few(tally.key, |domain| tally.count(domain) <= most)
        })
    }

    /// Whether the node can run a pod of the class.
    pub(crate) fn is_feasible(&self, node: usize, minima: &[i64]) -> bool {
        self.has_room(node) && keeps_rules(self, node, minima)
    }

    /// Whether the rules between pods hold for a further pod of the class on the node, while another one in the
    /// same zone is there without pods: of the domains of each host, the least filled one has none.
    pub(crate) fn keeps_rules_beside(&self, node: usize) -> bool {
        let mut minima = self.spread_minima();
        for (spread, minimum) in self.rules.hard_spread.iter().zip(&mut minima) {
            let tally = self.tallies.get(spread.tally);
            if self.domains.is_by_host(tally.key) && tally.counts_drained_nodes(self.tallies) {
                *minimum = 0;
            }
        }
        keeps_rules(self, node, &minima)
    }

    /// Whether a pod that moves from the node `from` to `node` keeps the soft spread that it states over
    /// domains of several nodes: it stays in its domain, or the skew is within the maximum.
    pub(crate) fn keeps_zones(&self, node: usize, from: usize) -> bool {
        let stated = self.rules.soft_spread.iter().filter(|one| self.rules.needs_every_key && !one.is_by_hostname);
        stated.into_iter().all(|spread| {
            let tally = self.tallies.get(spread.tally);
            let (domain, former) = (self.domains.of(tally.key, node), self.domains.of(tally.key, from));
            domain == former || tally.count(domain) + 1 - tally.global_minimum(None) <= i64::from(spread.max_skew)
        })
    }
}

/// Collects feasible nodes of `open` from `start` on, as many as kube-scheduler scores in a cluster
/// of so many nodes; returns how many nodes it examined, and how many of those have no room.
pub(super) fn find_feasible(
    view: &View<'_, '_>,
    open: &[u32],
    start: usize,
    nodes: usize,
    feasible: &mut Vec<u32>,
) -> (usize, usize) {
    feasible.clear();
    let mut full = 0;
    let most = feasible_nodes_to_find(nodes);
    let minima = view.spread_minima();
    let (before, after) = open.split_at(start.min(open.len()));
    for (examined, node) in after.iter().chain(before).enumerate() {
        if feasible.len() == most {
            return (examined, full);
        }
        if !view.has_room(*node as usize) {
            full += 1;
        } else if keeps_rules(view, *node as usize, &minima) {
            feasible.push(*node);
        }
    }
    (open.len(), full)
}

fn keeps_rules(view: &View<'_, '_>, node: usize, minima: &[i64]) -> bool {
    keeps_spread(view, node, minima) && keeps_affinity(view, node) && keeps_anti_affinity(view, node)
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

/// The number of feasible nodes at which the search ends, for so many nodes
/// (`Scheduler.numFeasibleNodesToFind`): half of them less 1 % for each 125 nodes, at least 5 % and
/// 100.
fn feasible_nodes_to_find(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(MIN_FEASIBLE_NODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_larger_clusters_a_part_of_the_nodes_is_scored() {
        // Below 100 nodes all of them are examined, and the limit is never reached.
        assert_eq!(feasible_nodes_to_find(50), 100);
        // 50 − 200 / 125 = 49 %: 98, raised to 100. 50 − 400 / 125 = 47 %: 188.
        assert_eq!((feasible_nodes_to_find(200), feasible_nodes_to_find(400)), (100, 188));
        // 50 − 6000 / 125 = 2 %, raised to 5 %: 300.
        assert_eq!(feasible_nodes_to_find(6000), 300);
    }
}
