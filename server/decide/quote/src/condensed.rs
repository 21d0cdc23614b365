//! The nodes of a cluster with one pod for the running pods of each.
//!
//! Running pods are room that is taken, unless a rule between pods counts them. What takes the same room as one pod is
//! planned in a fraction of the time.

use model::input::PlanningInput;
use model::{BoundPod, Node, PodShape, Resources, Text, VolumeAlternatives};

/// Name of the pod that stands for others, in no namespace.
const STAND_IN: &str = "running-pods";

/// `full` without pending pods and NodePools, and with one pod for the running pods of each node. Pods of DaemonSets stay,
/// and so do pods whose required anti-affinity may exclude others. Valid for pods without rules between pods.
pub(crate) fn condensed_nodes(full: &PlanningInput) -> PlanningInput {
    let mut input = PlanningInput { pods: Vec::new(), pools: Vec::new(), ..full.clone() };
    let mut nodes = std::mem::take(&mut input.nodes);
    nodes.iter_mut().for_each(|node| condense(&mut input, node));
    input.nodes = nodes;
    input
}

fn condense(input: &mut PlanningInput, node: &mut Node) {
    let stays = |pod: &BoundPod| pod.daemon.is_some() || !input.shapes[pod.shape as usize].pod_anti_affinity.is_empty();
    let pods = std::mem::take(&mut node.pods).into_iter().filter(|pod| !pod.leaving);
    let (mut pods, others): (Vec<BoundPod>, Vec<BoundPod>) = pods.partition(stays);
    if let Some(first) = others.first() {
        let (shape, volumes) = sum(input, &others);
        pods.push(BoundPod {
            namespace: Text::from(""),
            name: Text::from(STAND_IN),
            shape: push(&mut input.shapes, shape),
            labels: first.labels,
            volumes: (volumes != VolumeAlternatives::default()).then(|| push(&mut input.volume_sets, volumes)),
            daemon: None,
            // Terminating pods take room, and rules between pods do not count them.
            terminating: true,
            leaving: false,
        });
    }
    node.pods = pods;
}

/// Requests, host ports, attachments and claims of all `pods`.
fn sum(input: &PlanningInput, pods: &[BoundPod]) -> (PodShape, VolumeAlternatives) {
    let mut shape = PodShape { requests: Resources::new(), ..PodShape::default() };
    let mut volumes = VolumeAlternatives::default();
    for pod in pods {
        let own = &input.shapes[pod.shape as usize];
        shape.requests.add(&own.requests);
        shape.host_ports.extend(own.host_ports.iter().cloned());
        if let Some(own) = pod.volumes.map(|volumes| &input.volume_sets[volumes as usize]) {
            volumes.attachments.extend(own.attachments.iter().cloned());
            volumes.exclusive_claims.extend(own.exclusive_claims.iter().cloned());
        }
    }
    shape.host_ports.sort();
    volumes.attachments.sort();
    volumes.attachments.dedup();
    volumes.exclusive_claims.sort();
    (shape, volumes)
}

fn push<T>(table: &mut Vec<T>, value: T) -> u32 {
    table.push(value);
    u32::try_from(table.len() - 1).unwrap_or(u32::MAX)
}
