//! Static pools: as many nodes as they lack, no more, and not all in one zone.

use std::collections::BTreeMap;

use super::launch::{Launch, Launches, within_ceilings};
use super::offer::different_values;
use super::{Findings, Rule};
use crate::input::{MinValuesPolicy, PlanningInput};
use crate::model::labels::ZONE;
use crate::model::{InstanceType, NodePool, NodeStage, Offering, Text};
use crate::plan::Plan;

pub(super) fn check(input: &PlanningInput, plan: &Plan, launches: &Launches<'_>, found: &mut Findings<'_>) {
    for node in plan.static_nodes.iter().filter(|node| !node.pods.is_empty()) {
        found.node(Rule::StaticNodes, &node.name, "static machines carry no planned pods".to_owned());
    }
    for (index, pool) in input.pools.iter().enumerate() {
        let ours = |number: &u32| launches.list[*number as usize].pool_index == index;
        let new: Vec<&Launch<'_>> =
            launches.of_static.iter().flatten().filter(|n| ours(n)).map(|n| &launches.list[*n as usize]).collect();
        if let (Some(replicas), false) = (pool.replicas, new.is_empty()) {
            count(input, pool, replicas, new.len(), found);
            zones(input, pool, &new, found);
        }
    }
}

fn count(input: &PlanningInput, pool: &NodePool, replicas: i64, new: usize, found: &mut Findings<'_>) {
    let active = |stage| stage != NodeStage::Deleting;
    let standing =
        input.nodes.iter().filter(|node| active(node.stage) && node.pool.as_ref() == Some(&pool.name)).count();
    let lacking = (replicas - i64::try_from(standing).unwrap_or(i64::MAX)).max(0);
    let new = i64::try_from(new).unwrap_or(i64::MAX);
    if new > lacking || (new < lacking && pool.limits.is_empty()) {
        found.plan(Rule::StaticNodes, format!("static pool {} lacks {lacking} nodes and gets {new}", pool.name));
    }
}

/// No new machine where the pool has two or more nodes more than in another zone that sells one of its options.
fn zones(input: &PlanningInput, pool: &NodePool, new: &[&Launch<'_>], found: &mut Findings<'_>) {
    let mut counts: BTreeMap<&Text, i64> = BTreeMap::new();
    let ours = input.nodes.iter().filter(|n| n.stage != NodeStage::Deleting && n.pool.as_ref() == Some(&pool.name));
    let launched = new.iter().filter_map(|launch| launch.node.zones.first());
    for zone in ours.filter_map(|node| node.labels.get(ZONE)).chain(launched) {
        *counts.entry(zone).or_insert(0) += 1;
    }
    for launch in new {
        let [zone] = &*launch.node.zones else { continue };
        let here = counts.get(zone).copied().unwrap_or(0);
        let allowed = |other: &Text| pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(other));
        let offerings = launch.machines().flat_map(|machine| machine.offerings.iter().map(move |o| (machine, o)));
        let sold =
            offerings.filter(|(machine, offering)| is_on_sale(launch, machine, offering) && allowed(&offering.zone));
        let emptier =
            |other: &&Text| here >= counts.get(*other).copied().unwrap_or(0) + 2 && varied_enough(input, launch, other);
        if let Some(other) = sold.map(|(_, offering)| &offering.zone).find(emptier) {
            let message =
                format!("static pool {} has {here} nodes in {zone} and two or more fewer in {other}", pool.name);
            found.node(Rule::StaticNodes, launch.name(), message);
        }
    }
}

fn is_on_sale(launch: &Launch<'_>, machine: &InstanceType, offering: &Offering) -> bool {
    offering.available
        && offering.capacity_type == launch.node.capacity_type
        && within_ceilings(launch.pool, machine, offering)
}

/// Whether those options of the launch that are on sale in `zone` keep the pool's `minValues`.
fn varied_enough(input: &PlanningInput, launch: &Launch<'_>, zone: &Text) -> bool {
    let sold = |machine: &&InstanceType| {
        machine.offerings.iter().any(|offering| offering.zone == *zone && is_on_sale(launch, machine, offering))
    };
    input.policy.min_values == MinValuesPolicy::BestEffort
        || launch.pool.requirements.iter().all(|requirement| {
            let least = requirement.min_values().unwrap_or(0) as usize;
            least == 0 || different_values(launch.machines().filter(sold), requirement) >= least
        })
}
