//! The domains in which provisioning would launch nodes for pods that are spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use binding::launched_node;
use model::input::PlanningInput;
use model::plan::PlannedNode;
use model::{Labels, MicroUsd, Node, NodeName, NodePool, Resources};

use crate::working::WorkingCluster;

/// The input of `working` with a node more for each NodePool and each zone that it launches in. The nodes are closed to
/// pods. Provisioning counts these zones and a further host as domains of a spread (Karpenter: domain universe) and
/// would launch there for a pod that a removal moves elsewhere. `None` if no pod that may move is spread.
pub(crate) fn with_launchable_domains(working: &WorkingCluster<'_>) -> Option<PlanningInput> {
    let shapes = &working.input.shapes;
    let is_spread: Vec<bool> = shapes.iter().map(|shape| shape.spread.iter().any(|one| one.hard)).collect();
    if !working.input.pods.iter().any(|pod| is_spread[pod.shape as usize]) {
        return None;
    }
    let mut input = working.input.clone();
    let launching = (0..).zip(&working.input.pools).filter(|(_, pool)| launches(pool));
    let nodes = launching.flat_map(|(at, pool)| nodes_of(&working.input, at, pool));
    input.nodes.extend(nodes);
    Some(input)
}

fn launches(pool: &NodePool) -> bool {
    pool.replicas.is_none() && pool.not_ready.is_none()
}

fn nodes_of<'i>(input: &'i PlanningInput, number: u32, pool: &'i NodePool) -> impl Iterator<Item = Node> + 'i {
    let mut labels = Labels::clone(&pool.labels);
    for requirement in pool.requirements.iter() {
        let value = requirement.finite_values().filter(|values| values.len() == 1).and_then(BTreeSet::first);
        labels.extend(value.map(|value| (requirement.key().clone(), value.clone())));
    }
    let labels = Arc::new(labels);
    pool.launch_zones().into_iter().filter_map(move |zone| {
        let offered = |kind: &model::InstanceType| {
            kind.offerings.iter().find(|one| one.available && one.zone == *zone).map(|one| one.capacity_type)
        };
        let kinds = (0_u32..).zip(&pool.catalogue.types);
        let (kind, capacity_type) = kinds.filter_map(|(at, kind)| Some((at, offered(kind)?))).next()?;
        let launch = PlannedNode {
            name: NodeName::default(),
            pool: number,
            capacity_type,
            zones: [zone.clone()].into(),
            types: [kind].into(),
            price: MicroUsd(0),
            credits: MicroUsd(0),
            reservation: None,
            pods: Vec::new(),
            labels: labels.clone(),
            taints: pool.taints.clone().into(),
            requests: Resources::new(),
        };
        launched_node(input, &launch, NodeName::from(format!("{}/{zone}", pool.name)))
    })
}
