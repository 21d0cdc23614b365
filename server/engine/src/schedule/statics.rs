//! Static pools: machines that are missing to `replicas`, spread over zones (L34). They carry no planned pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::problem::{Problem, nodes_left};
use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, NODECLASS, NODEPOOL, ZONE};
use crate::model::requirements::label_satisfies;
use crate::model::{InstanceType, Labels, MicroUsd, Node, NodePool, NodeStage, Offering, Resources, Text};
use crate::plan::{Plan, PlannedNode};

/// The machines that static pools lack.
pub(super) fn lacking(problem: &Problem<'_>, plan: &Plan) -> Vec<PlannedNode> {
    let input = problem.input;
    let mut nodes = Vec::new();
    for (at, pool) in (0_u32..).zip(&input.pools).filter(|(_, pool)| pool.not_ready.is_none()) {
        let Some(replicas) = pool.replicas else { continue };
        let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
        let have = i64::try_from(input.nodes.iter().filter(own).count()).unwrap_or(i64::MAX);
        let missing = (replicas - have).max(0).min(nodes_left(input, pool));
        let mut zones = zones_of(input, pool);
        for _ in 0..missing {
            if let Some(node) = next(at, pool, &mut zones, nodes.len() + plan.nodes.len()) {
                nodes.push(node);
            }
        }
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        node.name = Text::from(format!("{}-static-{}", input.pools[node.pool as usize].name, number + 1));
    }
    nodes
}

/// Machines of the pool per zone that it could use.
fn zones_of(input: &PlanningInput, pool: &NodePool) -> BTreeMap<Text, i64> {
    let mut zones: BTreeMap<Text, i64> = options(pool).map(|(_, _, offering)| (offering.zone.clone(), 0)).collect();
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    for zone in input.nodes.iter().filter(own).filter_map(|node| node.labels.get(ZONE)) {
        if let Some(count) = zones.get_mut(zone) {
            *count += 1;
        }
    }
    zones
}

/// Everything that the pool's requirements allow, as (index, type, offering).
fn options(pool: &NodePool) -> impl Iterator<Item = (u32, &InstanceType, &Offering)> {
    (0_u32..)
        .zip(&pool.catalogue.types)
        .filter(|(_, kind)| pool.requirements.first_conflict(&kind.labels).is_none())
        .flat_map(|(at, kind)| kind.offerings.iter().map(move |offering| (at, kind, offering)))
        .filter(|(_, _, offering)| offering.available && offering_suits(pool, offering))
}

fn offering_suits(pool: &NodePool, offering: &Offering) -> bool {
    let labels = labels_of(offering);
    let keys = [ZONE, CAPACITY_TYPE].into_iter().chain(pool.catalogue.offering_keys.iter().map(AsRef::as_ref));
    keys.filter_map(|key| pool.requirements.get(key)).all(|requirement| label_satisfies(&labels, requirement))
}

fn labels_of(offering: &Offering) -> Labels {
    let mut labels = offering.labels.clone();
    labels.insert(ZONE.into(), offering.zone.clone());
    labels.insert(CAPACITY_TYPE.into(), offering.capacity_type.as_str().into());
    labels
}

fn next(at: u32, pool: &NodePool, zones: &mut BTreeMap<Text, i64>, _number: usize) -> Option<PlannedNode> {
    let zone = zones.iter().min_by_key(|(zone, count)| (**count, (*zone).clone())).map(|(zone, _)| zone.clone())?;
    *zones.get_mut(&zone)? += 1;
    let there: Vec<_> = options(pool).filter(|(_, _, offering)| offering.zone == zone).collect();
    let capacity_type = there.iter().map(|(_, _, offering)| offering.capacity_type).min()?;
    let ordinary = there.iter().any(|(_, kind, _)| !kind.exotic);
    let mut ranked: Vec<(MicroUsd, u32, &Offering)> = there
        .into_iter()
        .filter(|(_, kind, offering)| offering.capacity_type == capacity_type && !(ordinary && kind.exotic))
        .map(|(index, _, offering)| (offering.price, index, offering))
        .collect();
    ranked.sort_by_key(|(price, index, _)| (*price, *index));
    let (price, _, first) = *ranked.first()?;
    let mut labels = pool.labels.clone();
    labels.extend(labels_of(first));
    labels.insert(NODEPOOL.into(), pool.name.clone());
    labels.insert(NODECLASS.into(), pool.node_class.clone());
    Some(PlannedNode {
        name: pool.name.clone(),
        pool: at,
        capacity_type,
        zones: Arc::new([zone]),
        types: ranked.iter().map(|(_, index, _)| *index).take(60).collect(),
        price,
        reservation: first.reservation.as_ref().map(|reservation| reservation.id.clone()),
        pods: Vec::new(),
        labels: Arc::new(labels),
        taints: pool.taints.clone().into(),
        requests: Resources::new(),
    })
}
