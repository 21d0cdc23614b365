//! Limits of pools and reservations.

use std::collections::BTreeMap;

use super::launch::{Launch, Launches};
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::resources::NODES;
use model::{NodeStage, PoolName, Text, quantity};

pub(super) fn check(input: &PlanningInput, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    let mut machines = vec![0_i64; launches.list.len()];
    for launch in launches.of_node.iter().chain(&launches.of_static).flatten() {
        machines[*launch as usize] += 1;
    }
    limits(input, launches, &machines, findings);
    reservations(input, launches, &machines, findings);
}

fn limits(input: &PlanningInput, launches: &Launches<'_>, machines: &[i64], findings: &mut Findings<'_>) {
    for (index, pool) in input.pools.iter().enumerate() {
        let launched: Vec<(&Launch<'_>, i64)> = launches
            .list
            .iter()
            .zip(machines)
            .filter(|(launch, _)| launch.pool_index == index)
            .map(|(l, n)| (l, *n))
            .collect();
        if launched.is_empty() {
            continue;
        }
        for (resource, limit) in pool.limits.iter() {
            let used = used_by_existing(input, &pool.name, resource);
            // A launch counts with its largest option, because any of them may launch.
            let largest = |(launch, count): &(&Launch<'_>, i64)| {
                let each = if resource.as_ref() == NODES {
                    1
                } else {
                    launch.machines().map(|machine| machine.capacity.get(resource)).max().unwrap_or(0)
                };
                i128::from(each) * i128::from(*count)
            };
            let total = used + launched.iter().map(largest).sum::<i128>();
            if total > i128::from(limit) {
                let show = |amount: i128| quantity::render(resource, i64::try_from(amount).unwrap_or(i64::MAX));
                let (total, limit) = (show(total), show(i128::from(limit)));
                findings.report_plan(
                    Rule::Limits,
                    format!("pool {} may reach {total} of {resource}; its limit is {limit}", pool.name),
                );
            }
        }
    }
}

/// Capacity of the pool's existing nodes in one resource; nodes being deleted do not count.
fn used_by_existing(input: &PlanningInput, pool: &PoolName, resource: &str) -> i128 {
    let ours = input.nodes.iter().filter(|node| node.stage != NodeStage::Deleting && node.pool.as_ref() == Some(pool));
    ours.map(|node| i128::from(if resource == NODES { 1 } else { node.capacity.get(resource) })).sum()
}

fn reservations(input: &PlanningInput, launches: &Launches<'_>, machines: &[i64], findings: &mut Findings<'_>) {
    let mut drawn: BTreeMap<&Text, i64> = BTreeMap::new();
    for (launch, count) in launches.list.iter().zip(machines) {
        if let Some(id) = &launch.node.reservation {
            *drawn.entry(id).or_insert(0) += count;
        }
    }
    if drawn.is_empty() {
        return;
    }
    let mut left: BTreeMap<&Text, i64> = BTreeMap::new();
    let types = input.pools.iter().flat_map(|pool| &pool.catalogue.types);
    for reservation in types.flat_map(|machine| &machine.offerings).filter_map(|offering| offering.reservation.as_ref())
    {
        let least = left.entry(&reservation.id).or_insert(reservation.remaining);
        *least = reservation.remaining.min(*least);
    }
    for (id, count) in drawn {
        let left = left.get(id).copied().unwrap_or(0);
        if count > left {
            findings.report_plan(
                Rule::Reservations,
                format!("{count} nodes use reservation {id}, which has {left} instances left"),
            );
        }
    }
}
