//! The supply: offerings at their price, and existing nodes and reserved machines for free.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::catalogue_lookup::CatalogueLookup;
use super::demand::Demand;
use super::node_constraints::{NodeConstraints, PoolInstanceType};
use super::offered_types::OfferedTypes;
use model::input::PlanningInput;
use model::{Burstable, CapacityType, InstanceType, Node, NodeStage, Requirement, Resources, Text};

/// A machine at a price: the groups that may use it, its capacity and its price. Of offerings that
/// differ in price alone, the cheapest.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// One bit per group.
    pub(super) groups: u16,
    pub(super) price: i64,
    /// What CPU beyond a baseline costs besides.
    pub(super) burstable: Option<Burstable>,
    /// Amounts of [`Demand::resources`].
    pub(super) amounts: Vec<i64>,
}

/// Free capacity of one existing node, or of the machines of one reservation.
pub(super) struct FreeCapacity {
    /// Number of such machines.
    pub(super) count: i64,
    /// Groups that may use it, one bit each.
    pub(super) groups: u16,
    pub(super) amounts: Vec<i64>,
}

pub(super) struct Supply {
    /// Priced machines, cheapest first.
    pub(super) columns: Vec<Column>,
    pub(super) free: Vec<FreeCapacity>,
}

impl Supply {
    /// Collects the offerings of all pools that may provision pending pods, and all nodes that take
    /// pods.
    pub(super) fn of<'a>(input: &'a PlanningInput, demand: &Demand<'a>, offered_types: &mut OfferedTypes) -> Self {
        let mut columns = Vec::new();
        let mut reserved: BTreeMap<&Text, FreeCapacity> = BTreeMap::new();
        let ready = input.pools.iter().filter(|pool| pool.not_ready.is_none() && pool.replicas.is_none());
        let mut lookup = CatalogueLookup::default();
        for pool in ready {
            let mut tolerates = |constraints: &NodeConstraints<'_>| {
                constraints.tolerates(pool)
                    && constraints.matches_known_labels(&input.policy, pool, |key| lookup.defines_label(pool, key))
            };
            let admitted_groups: Vec<bool> =
                demand.groups.iter().map(|group| group.as_ref().is_none_or(&mut tolerates)).collect();
            let constrained =
                demand.groups.iter().zip(&admitted_groups).any(|(group, admitted)| *admitted && group.is_some());
            if !admitted_groups.contains(&true) || (!constrained && lookup.is_duplicate(pool)) {
                continue;
            }
            let offered = offered_types.of(pool, &mut lookup);
            for (instance_type, _) in pool.catalogue.types.iter().zip(&*offered).filter(|(_, offered)| **offered) {
                add_columns(
                    PoolInstanceType { policy: &input.policy, pool, instance_type },
                    demand,
                    &admitted_groups,
                    &mut columns,
                    &mut reserved,
                );
            }
        }
        columns.sort_by_key(|column: &Column| column.price);
        // Of two columns that differ in price only, the more expensive one is redundant.
        let mut known: FxHashSet<(u16, Option<Burstable>, Vec<i64>)> = FxHashSet::default();
        columns.retain(|column| known.insert((column.groups, column.burstable, column.amounts.clone())));
        let nodes = input.nodes.iter().filter(|node| node.stage != NodeStage::Deleting);
        let free = nodes.map(|node| free_on_node(input, demand, node)).chain(reserved.into_values()).collect();
        Self { columns, free }
    }
}

fn amounts(demand: &Demand<'_>, resources: &Resources) -> Vec<i64> {
    demand.resources.iter().map(|name| resources.get(name).max(0)).collect()
}

fn add_columns<'a>(
    candidate: PoolInstanceType<'a>,
    demand: &Demand<'a>,
    admitted_groups: &[bool],
    columns: &mut Vec<Column>,
    reserved: &mut BTreeMap<&'a Text, FreeCapacity>,
) {
    let about: Vec<&Requirement> =
        candidate.pool.requirements.iter().filter(|r| candidate.is_about_offering(r)).collect();
    let (mut plain, mut constrained) = (0_u16, Vec::new());
    for (group, constraints) in demand.groups.iter().enumerate().filter(|(group, _)| admitted_groups[*group]) {
        match constraints {
            Some(constraints) if !constraints.may_use_type(candidate) => {}
            Some(constraints) if constraints.constrains_offerings(candidate) => {
                constrained.push((1_u16 << group, constraints))
            }
            _ => plain |= 1 << group,
        }
    }
    let mut cheapest: FxHashMap<u16, usize> = FxHashMap::default();
    for offering in candidate.instance_type.offerings.iter().filter(|offering| candidate.offers(offering, &about)) {
        let admitted = constrained.iter().filter(|(_, constraints)| constraints.may_use(candidate, offering));
        let groups = admitted.fold(plain, |groups, (bit, _)| groups | bit);
        if groups == 0 {
            continue;
        }
        // Reserved capacity is free, so it is no column.
        if offering.capacity_type == CapacityType::Reserved {
            add_reservation(demand, candidate.instance_type, offering.reservation.as_ref(), groups, reserved);
            continue;
        }
        let column = *cheapest.entry(groups).or_insert_with(|| {
            let capacity = amounts(demand, &candidate.instance_type.allocatable);
            let burstable = candidate.instance_type.burstable.filter(|_| !candidate.pool.rules.ignores_credits);
            columns.push(Column { groups, price: i64::MAX, burstable, amounts: capacity });
            columns.len() - 1
        });
        columns[column].price = columns[column].price.min(offering.price.0.max(0));
    }
}

/// The machines of one reservation, each as large as the largest type that uses it.
fn add_reservation<'a>(
    demand: &Demand<'_>,
    instance_type: &InstanceType,
    reservation: Option<&'a model::Reservation>,
    groups: u16,
    reserved: &mut BTreeMap<&'a Text, FreeCapacity>,
) {
    let Some(reservation) = reservation else { return };
    let capacity = amounts(demand, &instance_type.allocatable);
    let empty = || FreeCapacity { count: 0, groups: 0, amounts: vec![0; capacity.len()] };
    let free = reserved.entry(&reservation.id).or_insert_with(empty);
    free.count = free.count.max(reservation.remaining);
    free.groups |= groups;
    free.amounts.iter_mut().zip(&capacity).for_each(|(most, capacity)| *most = (*most).max(*capacity));
}

fn free_on_node<'a>(input: &PlanningInput, demand: &Demand<'a>, node: &'a Node) -> FreeCapacity {
    let mut capacity = amounts(demand, &node.allocatable);
    for pod in node.pods.iter().filter(|pod| !pod.leaving) {
        let taken = &input.shapes[pod.shape as usize].requests;
        for (capacity, name) in capacity.iter_mut().zip(&demand.resources) {
            *capacity = (*capacity - taken.get(name)).max(0);
        }
    }
    let may = |constraints: &Option<NodeConstraints<'a>>| {
        constraints.as_ref().is_none_or(|constraints| constraints.allows_node(node))
    };
    let groups =
        (0_u16..).zip(&demand.groups).filter(|(_, constraints)| may(constraints)).fold(0, |all, (at, _)| all | 1 << at);
    FreeCapacity { count: 1, groups, amounts: capacity }
}
