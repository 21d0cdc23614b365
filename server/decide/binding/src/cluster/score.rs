//! Which of the feasible nodes is best.

use crate::hosts::{Host, Hosts};
use crate::random::SplitMix64;
use crate::rules::{ClassRules, SoftSpread};
use crate::scores::resources::{balanced_allocation, least_allocated};
use crate::scores::{INTER_POD_AFFINITY, NODE_AFFINITY, POD_TOPOLOGY_SPREAD, TAINT_TOLERATION, normalise, spread};
use crate::tallies::NO_DOMAIN;

use super::filter::View;

/// The scores of a class by resources, by node, each with the version of the node that it is valid for.
#[derive(Debug)]
pub(super) struct ScoreCache(Vec<(u32, i32)>);

/// The version of a score that is not known.
const UNKNOWN: u32 = u32::MAX;

impl ScoreCache {
    pub(super) fn new(nodes: usize) -> Self {
        Self(vec![(UNKNOWN, 0); nodes])
    }

    fn get(&mut self, rules: &ClassRules<'_>, node: usize, hosts: &Hosts<'_>) -> i64 {
        let (known, version) = (&mut self.0[node], hosts.version(node));
        if known.0 != version {
            // Two scores of at most 100 each.
            *known = (version, i32::try_from(by_resources(rules, hosts.get(node))).unwrap_or(i32::MAX));
        }
        i64::from(known.1)
    }
}

/// Buffers that are used again for every pod.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    totals: Vec<i64>,
    raw: Vec<i64>,
    spread: Vec<Option<i64>>,
    /// For each domain the last pod that saw it, to count distinct domains.
    seen: Vec<u64>,
    pod: u64,
}

/// The node with the highest sum of weighted scores; among equals, one at random.
pub(super) fn best(
    view: &View<'_, '_>,
    feasible: &[u32],
    cache: &mut ScoreCache,
    scratch: &mut Scratch,
    random: &mut SplitMix64,
) -> Option<u32> {
    if let [] | [_] = feasible {
        return feasible.first().copied();
    }
    let rules = view.rules;
    scratch.totals.clear();
    scratch.totals.extend(feasible.iter().map(|node| cache.get(rules, *node as usize, view.hosts)));
    if !rules.preference.is_empty() {
        add(scratch, feasible, NODE_AFFINITY, normalise::by_largest, |node| rules.preference[node]);
    }
    if !rules.soft_taints.is_empty() {
        add(scratch, feasible, TAINT_TOLERATION, normalise::by_largest_reversed, |node| rules.soft_taints[node]);
    }
    if !rules.weighted.is_empty() {
        add(scratch, feasible, INTER_POD_AFFINITY, normalise::by_range, |node| by_pod_affinity(view, node));
    }
    if !rules.soft_spread.is_empty() {
        add_spread(view, feasible, scratch);
    }
    let most = scratch.totals.iter().copied().max()?;
    let equal = scratch.totals.iter().filter(|total| **total == most).count();
    let mut best = feasible.iter().zip(&scratch.totals).filter(|(_, total)| **total == most);
    best.nth(random.below(equal)).map(|(node, _)| *node)
}

fn by_resources(rules: &ClassRules<'_>, host: &Host<'_>) -> i64 {
    let with = |used: [i64; 2], pod: [i64; 2]| [used[0] + pod[0], used[1] + pod[1]];
    let fit = least_allocated(with(host.scored, rules.demand.scored), host.allocatable);
    // A pod that requests neither CPU nor memory is not scored by balance.
    let is_best_effort = rules.demand.requested == [0, 0];
    let balance =
        || balanced_allocation(host.requested, with(host.requested, rules.demand.requested), host.allocatable);
    fit + if is_best_effort { 0 } else { balance() }
}

/// Adds the normalised scores of one plugin to the totals.
fn add(
    scratch: &mut Scratch,
    feasible: &[u32],
    weight: i64,
    normalise: impl Fn(&mut [i64]),
    raw: impl Fn(usize) -> i64,
) {
    scratch.raw.clear();
    scratch.raw.extend(feasible.iter().map(|node| raw(*node as usize)));
    normalise(&mut scratch.raw);
    for (total, score) in scratch.totals.iter_mut().zip(&scratch.raw) {
        *total += weight * score;
    }
}

fn by_pod_affinity(view: &View<'_, '_>, node: usize) -> i64 {
    let weigh = |(tally, weight): &(usize, i64)| {
        let tally = view.tallies.get(*tally);
        weight * tally.count(view.domains.of(tally.key, node))
    };
    view.rules.weighted.iter().map(weigh).sum()
}

fn add_spread(view: &View<'_, '_>, feasible: &[u32], scratch: &mut Scratch) {
    let rules = view.rules;
    let key = |one: &SoftSpread| view.tallies.get(one.tally).key;
    let lacks_key =
        |node: u32| rules.soft_spread.iter().any(|one| view.domains.of(key(one), node as usize) == NO_DOMAIN);
    let is_ignored = |node: u32| rules.needs_every_key && lacks_key(node);
    let scored = feasible.iter().filter(|node| !is_ignored(**node)).count();
    let mut weights = Vec::with_capacity(rules.soft_spread.len());
    for one in &rules.soft_spread {
        let domains = if one.is_by_hostname {
            scored
        } else {
            distinct_domains(view, key(one), feasible.iter().copied().filter(|node| !is_ignored(*node)), scratch)
        };
        weights.push(spread::domain_weight(domains));
    }
    let points = |node: u32| {
        let terms = rules.soft_spread.iter().zip(&weights).filter_map(|(one, weight)| {
            let tally = view.tallies.get(one.tally);
            let domain = view.domains.of(tally.key, node as usize);
            (domain != NO_DOMAIN).then(|| spread::points(tally.count(domain), one.max_skew, *weight))
        });
        spread::rounded(terms.sum())
    };
    scratch.spread.clear();
    scratch.spread.extend(feasible.iter().map(|node| (!is_ignored(*node)).then(|| points(*node))));
    spread::normalise(&scratch.spread, &mut scratch.raw);
    for (total, score) in scratch.totals.iter_mut().zip(&scratch.raw) {
        *total += POD_TOPOLOGY_SPREAD * score;
    }
}

/// Number of domains of `nodes`; those without the label are one of them.
fn distinct_domains(view: &View<'_, '_>, key: usize, nodes: impl Iterator<Item = u32>, scratch: &mut Scratch) -> usize {
    scratch.pod += 1;
    let none = view.domains.count(key);
    if scratch.seen.len() <= none {
        scratch.seen.resize(none + 1, 0);
    }
    let mut count = 0;
    for node in nodes {
        let domain = view.domains.of(key, node as usize);
        let seen = &mut scratch.seen[if domain == NO_DOMAIN { none } else { domain as usize }];
        count += usize::from(*seen != scratch.pod);
        *seen = scratch.pod;
    }
    count
}
