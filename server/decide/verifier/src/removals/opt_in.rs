//! Annotations of NodePools that removals keep as launches do (plan contract §4).

use std::collections::BTreeMap;

use model::removal::{OptInNode, OptInPool, RemovalInput};
use model::{CapacityType, ClaimName};

use super::membership::Removed;
use super::violation::{RemovalFindings, RemovalRule};

/// The removals of a NodePool are judged one after another. What is launched for them is there from the beginning. A
/// rule that did not hold before the removals and the launches is broken only if it holds less, and not by what a forceful
/// removal took before.
///
/// The balance over zones is judged once all have gone, and broken by the last one of its zone: until then, nodes are there
/// beside those that are launched for them.
pub(super) fn check(input: &RemovalInput, removals: &[Removed<'_>], findings: &mut RemovalFindings) {
    for pool in &input.opt_in {
        let mut there: BTreeMap<&ClaimName, &OptInNode> = pool.removed.iter().collect();
        let mut at_first: Vec<&OptInNode> = pool.staying.iter().chain(pool.removed.values()).collect();
        let mut last_of_zones = BTreeMap::new();
        for removed in removals.iter().filter(|removed| removed.node.pool == pool.name) {
            let Some(gone) = there.remove(&removed.node.claim) else { continue };
            if removed.voluntary_reason().is_none() {
                at_first.retain(|node| !std::ptr::eq(*node, gone));
                continue;
            }
            for message in broken(pool, &at_first, &with_launches(pool, &there)) {
                findings.report(RemovalRule::OptIn, removed.node, format!("NodePool {} {message}", pool.name));
            }
            last_of_zones.insert(&gone.zone, (removed.node, gone));
        }
        for (node, gone) in last_of_zones.values().filter(|_| pool.zone_balance) {
            if let Some(message) = unbalanced(&at_first, &with_launches(pool, &there), gone) {
                findings.report(RemovalRule::OptIn, node, format!("NodePool {} {message}", pool.name));
            }
        }
    }
}

/// The nodes that stay, those that are launched, and those of `there`.
fn with_launches<'p>(pool: &'p OptInPool, there: &BTreeMap<&ClaimName, &'p OptInNode>) -> Vec<&'p OptInNode> {
    pool.staying.iter().chain(&pool.launched).chain(there.values().copied()).collect()
}

/// What the NodePool asks for, its balance left out, and has less of in `after` than in `before`.
fn broken(pool: &OptInPool, before: &[&OptInNode], after: &[&OptInNode]) -> Vec<String> {
    let of_type = |nodes: &[&OptInNode], kind: CapacityType| {
        nodes.iter().filter(|node| node.capacity_type.as_ref() == kind.as_str()).count()
    };
    let mut messages = Vec::new();
    let on_demand = of_type(after, CapacityType::OnDemand);
    if pool.on_demand_min_nodes.is_some_and(|least| i64::try_from(on_demand).unwrap_or(i64::MAX) < least)
        && (of_type(after, CapacityType::Spot) > 0 || before.iter().any(|node| node.pods_apart > 0))
        && on_demand < of_type(before, CapacityType::OnDemand)
    {
        messages.push(format!("keeps {on_demand} on-demand nodes, fewer than on-demand-min-nodes"));
    }
    let (spot, all) = spot_and_all(after);
    let (spot_before, all_before) = spot_and_all(before);
    if pool.spot_max_percent.is_some_and(|percent| spot * 100 > i128::from(percent) * all)
        && spot * all_before > spot_before * all
    {
        messages.push(format!("has {spot} of {all} millicores on spot, more than spot-max-percent"));
    }
    let apart: usize = before.iter().map(|node| node.pods_apart).sum();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    // Fewer pods than that need no further nodes.
    if pool.min_nodes.is_some_and(|least| number(after.len()) < least.min(number(apart))) && after.len() < before.len()
    {
        messages.push(format!("keeps {} nodes for {apart} pods, fewer than min-nodes", after.len()));
    }
    messages
}

fn spot_and_all(nodes: &[&OptInNode]) -> (i128, i128) {
    let is_spot = |node: &&&OptInNode| node.capacity_type.as_ref() == CapacityType::Spot.as_str();
    let sum = |nodes: &mut dyn Iterator<Item = &&OptInNode>| nodes.map(|node| i128::from(node.millicores)).sum();
    (sum(&mut nodes.iter().filter(is_spot)), sum(&mut nodes.iter()))
}

/// A zone with two nodes more than the zone of `gone`, some of which could be there, and which had fewer before.
fn unbalanced(before: &[&OptInNode], after: &[&OptInNode], gone: &OptInNode) -> Option<String> {
    let in_zone = |nodes: &[&OptInNode], zone: &str| nodes.iter().filter(|node| node.zone.as_ref() == zone).count();
    let (here, here_before) = (in_zone(after, &gone.zone), in_zone(before, &gone.zone));
    let is_fuller = |node: &&&OptInNode| {
        let there = in_zone(after, &node.zone);
        !node.is_bound_to_zones && there >= here + 2 && in_zone(before, &node.zone) < here_before + 2
    };
    let other = after.iter().find(is_fuller)?;
    Some(format!("keeps {} nodes in {} and {here} in {}", in_zone(after, &other.zone), other.zone, gone.zone))
}
