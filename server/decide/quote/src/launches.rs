//! The nodes that a plan launches, and what must be available for them.

use std::collections::BTreeMap;

use model::input::PlanningInput;
use model::labels::ZONE_ID;
use model::plan::{Plan, PlannedNode};
use model::{CapacityType, InstanceType, MicroUsd, Offering, Text};
use odds::{CapacityPool, LaunchRequest};

use crate::answer::NewNodes;
use crate::places::by_pod_set;
use crate::pod_set::{PodSet, TableLengths};

/// The nodes to launch; equal ones are one entry, in the order of the plan.
pub(crate) fn new_nodes(input: &PlanningInput, plan: &Plan, sets: &[PodSet], before: TableLengths) -> Vec<NewNodes> {
    let mut found: Vec<NewNodes> = Vec::new();
    for node in &plan.nodes {
        let pool = &input.pools[node.pool as usize];
        let nodes = NewNodes {
            count: 1,
            pool: pool.name.clone(),
            capacity_type: node.capacity_type,
            instance_types: node.types.iter().map(|at| pool.catalogue.types[*at as usize].name.clone()).collect(),
            zones: node.zones.to_vec(),
            price: node.charged_cost(pool),
            labels: (*node.labels).clone(),
            pods: by_pod_set(input, node.pods.iter().copied(), sets, before),
        };
        let is_equal = |other: &&mut NewNodes| NewNodes { count: 1, ..(**other).clone() } == nodes;
        match found.iter_mut().find(is_equal) {
            Some(equal) => equal.count += 1,
            None => found.push(nodes),
        }
    }
    found
}

/// Price of all the nodes per hour.
pub(crate) fn price(nodes: &[NewNodes]) -> MicroUsd {
    MicroUsd(nodes.iter().map(|equal| equal.price.0.saturating_mul(i64::from(equal.count))).sum())
}

/// What must be available for the nodes: one request for each set of launch options.
pub(crate) fn requests<'n>(
    input: &PlanningInput,
    nodes: impl IntoIterator<Item = &'n PlannedNode>,
    account: &Text,
) -> Vec<LaunchRequest> {
    let mut counts: BTreeMap<_, (u32, &PlannedNode)> = BTreeMap::new();
    for node in nodes {
        let options = (node.pool, node.capacity_type, &node.types, &node.zones, &node.reservation);
        counts.entry(options).or_insert((0, node)).0 += 1;
    }
    counts.into_values().map(|(count, node)| LaunchRequest { count, options: options(input, node, account) }).collect()
}

/// The capacity pools that a node may be launched from.
fn options(input: &PlanningInput, node: &PlannedNode, account: &Text) -> Vec<CapacityPool> {
    let catalogue = &input.pools[node.pool as usize].catalogue;
    let types = node.types.iter().map(|at| &catalogue.types[*at as usize]);
    let offerings = types.flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)));
    let usable = offerings.filter(|(_, offering)| is_usable(offering, node));
    usable.map(|(kind, offering)| capacity_pool(kind, offering, account)).collect()
}

fn is_usable(offering: &Offering, node: &PlannedNode) -> bool {
    let reservation = offering.reservation.as_ref().map(|reservation| &reservation.id);
    offering.available
        && offering.capacity_type == node.capacity_type
        && reservation == node.reservation.as_ref()
        && node.zones.contains(&offering.zone)
}

/// The name of a zone, and a reservation, mean something in one account only.
fn capacity_pool(kind: &InstanceType, offering: &Offering, account: &Text) -> CapacityPool {
    let id = offering.labels.get(ZONE_ID);
    let is_shared = id.is_some() && offering.capacity_type != CapacityType::Reserved;
    CapacityPool {
        zone: id.unwrap_or_else(|| offering.zone.as_text()).clone(),
        instance_type: kind.name.clone(),
        capacity_type: offering.capacity_type,
        account: (!is_shared).then(|| account.clone()),
    }
}
