//! A small correct planner for simulations of other components: first fit on existing nodes,
//! otherwise the cheapest type that fits the pod, filled with the pods that follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::input::PlanningInput;
use engine::model::labels::{CAPACITY_TYPE, ZONE};
use engine::model::{
    CapacityType, InstanceType, Labels, MicroUsd, NodePool, NodeStage, Offering, PodShape, Resources, Text,
};
use engine::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode, Unschedulable};
use engine::schedule::CompileCache;

struct Open<'i> {
    kind: u32,
    offering: &'i Offering,
    room: Resources,
    pods: Vec<u32>,
    requests: Resources,
}

pub fn plan(input: &PlanningInput, _: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    let pool = input.pools.first().ok_or("there is no NodePool")?;
    let mut rooms = rooms(input);
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut plan = Plan::default();
    let mut report = PlanReport::default();
    for (at, pod) in (0..).zip(&input.pods) {
        let shape = &input.shapes[pod.shape as usize];
        let fitting = rooms
            .iter_mut()
            .find(|(node, room)| selects(shape, &input.nodes[**node as usize].labels) && shape.requests.fits(room));
        if let Some((node, room)) = fitting {
            room.subtract(&shape.requests);
            plan.placements.push((at, *node));
        } else if let Some(node) =
            open.iter_mut().find(|open| allows(shape, open.offering) && shape.requests.fits(&open.room))
        {
            put(node, at, shape);
        } else if let Some((kind, offering)) = cheapest(input, pool, shape) {
            let room = room_of(input, &pool.catalogue.types[kind as usize]);
            let requests = daemons(input);
            let mut node = Open { kind, offering, room, pods: Vec::new(), requests };
            put(&mut node, at, shape);
            open.push(node);
        } else {
            plan.unschedulable.push(at);
            let message = String::from("no offering that is available carries it");
            let reason = Reason { pool: Some(pool.name.clone()), code: ReasonCode::NoOffering, message };
            report.unschedulable.push(Unschedulable { pod: at, reasons: vec![reason], fits_if: Vec::new() });
        }
        plan.order.push(at);
    }
    plan.nodes = open.into_iter().map(|node| planned(pool, node)).collect();
    report.new_cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
    Ok((plan, report))
}

fn put(node: &mut Open<'_>, pod: u32, shape: &PodShape) {
    node.room.subtract(&shape.requests);
    node.requests.add(&shape.requests);
    node.pods.push(pod);
}

fn daemons(input: &PlanningInput) -> Resources {
    let mut sum = Resources::new();
    input.daemons.iter().for_each(|daemon| sum.add(&input.shapes[daemon.shape as usize].requests));
    sum
}

fn room_of(input: &PlanningInput, kind: &InstanceType) -> Resources {
    let mut room = kind.allocatable.clone();
    room.subtract(&daemons(input));
    room
}

fn rooms(input: &PlanningInput) -> BTreeMap<u32, Resources> {
    let usable =
        (0..).zip(&input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting && node.taints.is_empty());
    let room = |node: &engine::model::Node| {
        let mut room = node.allocatable.clone();
        room.subtract(&daemons(input));
        for pod in node.pods.iter().filter(|pod| pod.daemon.is_none() && !pod.leaving) {
            room.subtract(&input.shapes[pod.shape as usize].requests);
        }
        room
    };
    usable.map(|(at, node)| (at, room(node))).collect()
}

fn selects(shape: &PodShape, labels: &Labels) -> bool {
    shape.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn allows(shape: &PodShape, offering: &Offering) -> bool {
    let is = |key: &str, value: &str| shape.node_selector.get(key).is_none_or(|wanted| wanted.as_ref() == value);
    is(CAPACITY_TYPE, offering.capacity_type.as_str()) && is(ZONE, &offering.zone)
}

fn cheapest<'i>(input: &PlanningInput, pool: &'i NodePool, shape: &PodShape) -> Option<(u32, &'i Offering)> {
    let kinds = (0..).zip(&pool.catalogue.types).filter(|(_, kind)| shape.requests.fits(&room_of(input, kind)));
    let offers = kinds.flat_map(|(at, kind)| kind.offerings.iter().map(move |offering| (at, offering)));
    let open = offers.filter(|(_, offering)| offering.available && allows(shape, offering));
    open.min_by_key(|(at, offering)| (offering.price, *at, offering.zone.clone()))
}

fn planned(pool: &NodePool, node: Open<'_>) -> PlannedNode {
    let capacity_type: CapacityType = node.offering.capacity_type;
    let label = (Text::from(CAPACITY_TYPE), Text::from(capacity_type.as_str()));
    let zones: Arc<[Text]> = Arc::from([node.offering.zone.clone()]);
    PlannedNode {
        name: Text::from(format!("{}-x", pool.name)),
        pool: 0,
        capacity_type,
        zones,
        types: Arc::from([node.kind]),
        price: node.offering.price,
        reservation: None,
        pods: node.pods,
        labels: Arc::new(Labels::from_iter([label])),
        taints: Arc::from([]),
        requests: node.requests,
    }
}
