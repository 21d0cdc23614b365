//! What the verifier judges annotations of NodePools by.

use std::collections::BTreeSet;

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, ZONE};
use model::plan::{Plan, PlannedNode};
use model::removal::{OptInNode, OptInPool};
use model::resources::CPU;
use model::running::{RunningCluster, RunningNode};
use model::{CapacityType, Node, NodePool, NodeStage, Pod, Text, Zone};
use verifier::kernel::is_bound_to_zones;

/// The NodePools of `input` with annotations that removals keep, when the nodes `removed` go and `plan` launches.
pub(crate) fn opt_in_pools(
    (input, running): (&PlanningInput, &RunningCluster),
    removed: &BTreeSet<u32>,
    plan: &Plan,
) -> Vec<OptInPool> {
    let pools = (0_u32..).zip(&input.pools);
    let with_rules = pools.filter_map(|(at, pool)| Some((at, OptInPool::of(pool)?)));
    let filled = with_rules.map(|(at, mut facts)| {
        let pool = &input.pools[at as usize];
        let zones = pool.launch_zones();
        for running in &running.nodes {
            let node = &input.nodes[running.node as usize];
            if node.pool.as_ref() != Some(&pool.name) || node.stage == NodeStage::Deleting {
                continue;
            }
            let counted = of_node(input, node, running, &zones);
            let claim = running.claim.as_ref().filter(|_| removed.contains(&running.node));
            match claim {
                Some(claim) => drop(facts.removed.insert(claim.name.clone(), counted)),
                None => facts.staying.push(counted),
            }
        }
        let launched = plan.nodes.iter().filter(|node| node.pool == at);
        facts.launched.extend(launched.map(|node| of_launch(pool, node)));
        facts
    });
    filled.collect()
}

fn of_node(input: &PlanningInput, node: &Node, running: &RunningNode, zones: &BTreeSet<&Zone>) -> OptInNode {
    let label = |key| node.labels.get(key).cloned().unwrap_or_default();
    let shape = |pod: &Pod| &input.shapes[pod.shape as usize];
    let pods = || running.pods.iter().filter_map(|pod| pod.pod.as_ref());
    let is_bound = |pod: &Pod| {
        let volumes = pod.volumes.map(|set| &input.volume_sets[set as usize]);
        is_bound_to_zones(shape(pod), volumes, zones)
    };
    OptInNode {
        capacity_type: label(CAPACITY_TYPE),
        zone: label(ZONE),
        millicores: node.capacity.get(CPU),
        pods_apart: pods().filter(|pod| !shape(pod).requires_shared_host()).count(),
        is_bound_to_zones: pods().any(is_bound),
    }
}

/// Its pods are those of removed nodes.
fn of_launch(pool: &NodePool, launch: &PlannedNode) -> OptInNode {
    let millicores = launch.types.iter().map(|kind| pool.catalogue.types[*kind as usize].capacity.get(CPU));
    let millicores = if launch.capacity_type == CapacityType::Spot { millicores.max() } else { millicores.min() };
    OptInNode {
        capacity_type: Text::from(launch.capacity_type.as_str()),
        zone: launch.zones.first().map(|zone| zone.as_text().clone()).unwrap_or_default(),
        millicores: millicores.unwrap_or(0),
        pods_apart: 0,
        is_bound_to_zones: true,
    }
}
