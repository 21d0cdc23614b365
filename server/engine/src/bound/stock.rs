//! What can be had: offerings for money, and nodes and reserved machines for nothing.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::access::{Access, Shop};
use super::demand::Demand;
use super::shelves::Shelves;
use crate::input::PlanningInput;
use crate::model::{CapacityType, InstanceType, Node, NodeStage, Requirement, Resources, Text};

/// A machine for money: who may use it, what it holds, what it costs. Of offerings that differ in price alone, the cheapest.
pub(super) struct Column {
    /// Bit per group.
    pub(super) groups: u16,
    pub(super) price: i64,
    /// Amounts of [`Demand::resources`].
    pub(super) room: Vec<i64>,
}

/// Free room of one node of the input, or of the machines of one reservation.
pub(super) struct Free {
    /// How many there are.
    pub(super) count: i64,
    /// Groups that may use it, a bit each.
    pub(super) groups: u16,
    pub(super) room: Vec<i64>,
}

/// Everything that can be had.
pub(super) struct Stock {
    /// Cheapest first.
    pub(super) columns: Vec<Column>,
    pub(super) free: Vec<Free>,
}

impl Stock {
    /// Looks through all pools that may be used for pending pods, and all nodes that take pods.
    pub(super) fn of<'a>(input: &'a PlanningInput, demand: &Demand<'a>) -> Self {
        let mut columns = Vec::new();
        let mut reserved: BTreeMap<&Text, Free> = BTreeMap::new();
        let ready = input.pools.iter().filter(|pool| pool.not_ready.is_none() && pool.replicas.is_none());
        let mut shelves = Shelves::default();
        for pool in ready {
            let mut enters = |access: &Access<'_>| {
                access.enters(pool) && access.suits_labels(&input.policy, pool, |key| shelves.define(pool, key))
            };
            let welcome: Vec<bool> = demand.groups.iter().map(|group| group.as_ref().is_none_or(&mut enters)).collect();
            let picky = demand.groups.iter().zip(&welcome).any(|(group, welcome)| *welcome && group.is_some());
            if !welcome.contains(&true) || (!picky && shelves.are_known(pool)) {
                continue;
            }
            let sold = shelves.sold_by(pool);
            for (machine, _) in pool.catalogue.types.iter().zip(sold).filter(|(_, sold)| *sold) {
                offer(Shop { policy: &input.policy, pool, machine }, demand, &welcome, &mut columns, &mut reserved);
            }
        }
        columns.sort_by_key(|column: &Column| column.price);
        // The dearer of two columns that are equal otherwise says nothing.
        let mut known: FxHashSet<(u16, Vec<i64>)> = FxHashSet::default();
        columns.retain(|column| known.insert((column.groups, column.room.clone())));
        let nodes = input.nodes.iter().filter(|node| node.stage != NodeStage::Deleting);
        let free = nodes.map(|node| standing(input, demand, node)).chain(reserved.into_values()).collect();
        Self { columns, free }
    }
}

fn amounts(demand: &Demand<'_>, resources: &Resources) -> Vec<i64> {
    demand.resources.iter().map(|name| resources.get(name).max(0)).collect()
}

fn offer<'a>(
    shop: Shop<'a>,
    demand: &Demand<'a>,
    welcome: &[bool],
    columns: &mut Vec<Column>,
    reserved: &mut BTreeMap<&'a Text, Free>,
) {
    let about: Vec<&Requirement> = shop.pool.requirements.iter().filter(|r| shop.is_about_offering(r)).collect();
    let (mut plain, mut picky) = (0_u16, Vec::new());
    for (group, access) in demand.groups.iter().enumerate().filter(|(group, _)| welcome[*group]) {
        match access {
            Some(access) if !access.may_use_type(shop) => {}
            Some(access) if access.looks_at_offerings(shop) => picky.push((1_u16 << group, access)),
            _ => plain |= 1 << group,
        }
    }
    let mut cheapest: FxHashMap<u16, usize> = FxHashMap::default();
    for offering in shop.machine.offerings.iter().filter(|offering| shop.sells(offering, &about)) {
        let admitted = picky.iter().filter(|(_, access)| access.may_use(shop, offering));
        let groups = admitted.fold(plain, |groups, (bit, _)| groups | bit);
        if groups == 0 {
            continue;
        }
        if offering.capacity_type == CapacityType::Reserved {
            reserve(demand, shop.machine, offering.reservation.as_ref(), groups, reserved);
            continue;
        }
        let column = *cheapest.entry(groups).or_insert_with(|| {
            let room = amounts(demand, &shop.machine.allocatable);
            columns.push(Column { groups, price: i64::MAX, room });
            columns.len() - 1
        });
        columns[column].price = columns[column].price.min(offering.price.0.max(0));
    }
}

/// The machines of one reservation, each as large as the largest type that draws on it.
fn reserve<'a>(
    demand: &Demand<'_>,
    machine: &InstanceType,
    reservation: Option<&'a crate::model::Reservation>,
    groups: u16,
    reserved: &mut BTreeMap<&'a Text, Free>,
) {
    let Some(reservation) = reservation else { return };
    let room = amounts(demand, &machine.allocatable);
    let empty = || Free { count: 0, groups: 0, room: vec![0; room.len()] };
    let free = reserved.entry(&reservation.id).or_insert_with(empty);
    free.count = free.count.max(reservation.remaining);
    free.groups |= groups;
    free.room.iter_mut().zip(&room).for_each(|(most, room)| *most = (*most).max(*room));
}

fn standing<'a>(input: &PlanningInput, demand: &Demand<'a>, node: &'a Node) -> Free {
    let mut room = amounts(demand, &node.allocatable);
    for pod in node.pods.iter().filter(|pod| !pod.leaving) {
        let taken = &input.shapes[pod.shape as usize].requests;
        for (room, name) in room.iter_mut().zip(&demand.resources) {
            *room = (*room - taken.get(name)).max(0);
        }
    }
    let may = |access: &Option<Access<'a>>| access.as_ref().is_none_or(|access| access.enters_node(node));
    let groups = (0_u16..).zip(&demand.groups).filter(|(_, access)| may(access)).fold(0, |all, (at, _)| all | 1 << at);
    Free { count: 1, groups, room }
}
