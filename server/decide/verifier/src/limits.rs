//! Limits of pools and reservations.

use std::collections::BTreeMap;

use super::launch::Launches;
use super::pool_nodes::PoolNodes;
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::{Reservation, Text, quantity};

pub(super) fn check(input: &PlanningInput, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    limits(input, launches, findings);
    reservations(input, launches, findings);
}

fn limits(input: &PlanningInput, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    for (index, pool) in input.pools.iter().enumerate() {
        if pool.limits.is_empty() || launches.of_pool(index).next().is_none() {
            continue;
        }
        let used = PoolNodes::of(input, launches, index).used(&pool.limits);
        for (resource, limit) in pool.limits.iter() {
            let total = used.get(resource);
            if total > limit {
                let (total, limit) = (quantity::render(resource, total), quantity::render(resource, limit));
                findings.report_plan(
                    Rule::Limits,
                    format!("pool {} may reach {total} of {resource}; its limit is {limit}", pool.name),
                );
            }
        }
    }
}

/// Number of planned nodes that use each reservation.
#[derive(Debug)]
pub struct Drawn<'a>(BTreeMap<&'a Text, i64>);

impl<'a> Drawn<'a> {
    /// The reservations that `launches` use.
    #[must_use]
    pub fn of(launches: &Launches<'a>) -> Self {
        let mut drawn = BTreeMap::new();
        for launch in &launches.list {
            if let Some(id) = &launch.node.reservation {
                *drawn.entry(id).or_insert(0) += launch.count;
            }
        }
        Self(drawn)
    }

    /// Number of instances that the plan leaves in `reservation`.
    #[must_use]
    pub fn left_in(&self, reservation: &Reservation) -> i64 {
        reservation.remaining - self.0.get(&reservation.id).copied().unwrap_or(0)
    }
}

fn reservations(input: &PlanningInput, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    let Drawn(drawn) = Drawn::of(launches);
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
