//! Planned nodes as Nodes, and placed pods as bound pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use model::plan::PlannedNode;
use model::resources::ATTACHABLE_VOLUMES_PREFIX;
use model::{BoundPod, InstanceType, Labels, Node, NodeName, NodeStage, Pod, Text};

/// `planned` under `name`, launched as its first option in its first zone, without pods. `None` if
/// the plan has no such option.
pub fn node(input: &PlanningInput, planned: &PlannedNode, name: NodeName) -> Option<Node> {
    let pool = input.pools.get(planned.pool as usize)?;
    let machine = pool.catalogue.types.get(*planned.types.first()? as usize)?;
    let limit =
        |(name, amount): (&Text, i64)| Some((Text::from(name.strip_prefix(ATTACHABLE_VOLUMES_PREFIX)?), amount));
    Some(Node {
        pool: Some(pool.name.clone()),
        labels: labels(planned, machine, &pool.name, &name),
        taints: planned.taints.to_vec(),
        unschedulable: false,
        allocatable: machine.allocatable.clone(),
        capacity: machine.capacity.clone(),
        stage: NodeStage::InFlight,
        pods: Vec::new(),
        attach_limits: machine.allocatable.iter().filter_map(limit).collect(),
        created: None,
        name,
    })
}

fn labels(planned: &PlannedNode, machine: &InstanceType, pool: &Text, name: &NodeName) -> Labels {
    let mut labels = Labels::clone(&planned.labels);
    for requirement in machine.labels.iter() {
        let value = requirement.finite_values().and_then(|values| values.first());
        if let Some(value) = value.filter(|_| !labels.contains_key(requirement.key())) {
            labels.insert(requirement.key().clone(), value.clone());
        }
    }
    let zone = planned.zones.first();
    let offered = machine.offerings.iter().find(|offering| {
        Some(&offering.zone) == zone
            && offering.capacity_type == planned.capacity_type
            && offering.reservation.as_ref().map(|reservation| &reservation.id) == planned.reservation.as_ref()
    });
    let offered = offered.into_iter().flat_map(|offering| offering.labels.iter());
    labels.extend(offered.map(|(key, value)| (key.clone(), value.clone())));
    labels.extend(zone.map(|zone| (Text::from(ZONE), zone.as_text().clone())));
    labels.insert(Text::from(CAPACITY_TYPE), Text::from(planned.capacity_type.as_str()));
    labels.insert(Text::from(INSTANCE_TYPE), machine.name.as_text().clone());
    labels.insert(Text::from(NODEPOOL), pool.clone());
    labels.insert(Text::from(HOSTNAME), name.as_text().clone());
    labels
}

/// `pod` as a pod on a node.
#[must_use]
pub fn bound(pod: &Pod) -> BoundPod {
    BoundPod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        shape: pod.shape,
        labels: pod.labels,
        volumes: pod.volumes,
        daemon: None,
        terminating: false,
        leaving: false,
    }
}

/// Takes the instances of `launched` out of their capacity reservations, so that the next plan does
/// not use them again.
pub(crate) fn use_reservations(cluster: &mut PlanningInput, launched: &[PlannedNode]) {
    let mut used: BTreeMap<&Text, i64> = BTreeMap::new();
    for id in launched.iter().filter_map(|node| node.reservation.as_ref()) {
        *used.entry(id).or_insert(0) += 1;
    }
    for pool in cluster.pools.iter_mut().filter(|_| !used.is_empty()) {
        let types = &mut Arc::make_mut(&mut pool.catalogue).types;
        let offerings = types.iter_mut().flat_map(|machine| &mut machine.offerings);
        for reservation in offerings.filter_map(|offering| offering.reservation.as_mut()) {
            reservation.remaining -= used.get(&reservation.id).copied().unwrap_or(0);
        }
    }
}
