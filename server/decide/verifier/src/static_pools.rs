//! Static pools: exactly the missing nodes, spread over zones.

use std::collections::BTreeMap;

use super::launch::{Launch, Launches, within_ceilings};
use super::pool_nodes::active_nodes;
use super::purchase::unmet_min_values;
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::labels::ZONE;
use model::plan::Plan;
use model::{InstanceType, NodePool, Offering, Zone};

pub(super) fn check(input: &PlanningInput, plan: &Plan, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    for node in plan.static_nodes.iter().filter(|node| !node.pods.is_empty()) {
        findings.report_node(Rule::StaticNodes, &node.name, "static nodes carry no planned pods".to_owned());
    }
    for (index, pool) in input.pools.iter().enumerate() {
        let ours = |number: &u32| launches.list[*number as usize].pool_index == index;
        let new: Vec<&Launch<'_>> =
            launches.of_static.iter().flatten().filter(|n| ours(n)).map(|n| &launches.list[*n as usize]).collect();
        if let (Some(replicas), false) = (pool.replicas, new.is_empty()) {
            count(input, pool, replicas, new.len(), findings);
            zones(input, pool, &new, findings);
        }
    }
}

fn count(input: &PlanningInput, pool: &NodePool, replicas: i64, new: usize, findings: &mut Findings<'_>) {
    let existing = active_nodes(input, pool).count();
    let lacking = (replicas - i64::try_from(existing).unwrap_or(i64::MAX)).max(0);
    let new = i64::try_from(new).unwrap_or(i64::MAX);
    if new > lacking || (new < lacking && pool.limits.is_empty()) {
        findings
            .report_plan(Rule::StaticNodes, format!("static pool {} lacks {lacking} nodes and gets {new}", pool.name));
    }
}

/// No new node in a zone that has at least two more nodes than another zone with an available
/// option.
fn zones(input: &PlanningInput, pool: &NodePool, new: &[&Launch<'_>], findings: &mut Findings<'_>) {
    let mut counts: BTreeMap<Zone, i64> = BTreeMap::new();
    let existing = active_nodes(input, pool).filter_map(|node| node.labels.get(ZONE)).map(Zone::from);
    for zone in existing.chain(new.iter().filter_map(|launch| launch.node.zones.first().cloned())) {
        *counts.entry(zone).or_insert(0) += 1;
    }
    for launch in new {
        let [zone] = &*launch.node.zones else { continue };
        let here = counts.get(zone).copied().unwrap_or(0);
        let allowed = |other: &Zone| pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(other));
        let offerings = launch.machines().flat_map(|machine| machine.offerings.iter().map(move |o| (machine, o)));
        let available = offerings
            .filter(|(machine, offering)| is_available_to(launch, machine, offering) && allowed(&offering.zone));
        let emptier = |other: &&Zone| {
            here >= counts.get(*other).copied().unwrap_or(0) + 2 && keeps_min_values_in(input, launch, other)
        };
        if let Some(other) = available.map(|(_, offering)| &offering.zone).find(emptier) {
            let message =
                format!("static pool {} has {here} nodes in {zone} and two or more fewer in {other}", pool.name);
            findings.report_node(Rule::StaticNodes, launch.name(), message);
        }
    }
}

fn is_available_to(launch: &Launch<'_>, machine: &InstanceType, offering: &Offering) -> bool {
    offering.available
        && offering.capacity_type == launch.node.capacity_type
        && within_ceilings(launch.pool, machine, offering)
}

/// Whether the options of the launch that are available in `zone` satisfy the `minValues` of the
/// pool.
fn keeps_min_values_in(input: &PlanningInput, launch: &Launch<'_>, zone: &Zone) -> bool {
    let available = |machine: &&InstanceType| {
        machine.offerings.iter().any(|offering| offering.zone == *zone && is_available_to(launch, machine, offering))
    };
    let machines = launch.machines().filter(available);
    unmet_min_values(input.policy.min_values, &launch.pool.requirements, machines).next().is_none()
}
