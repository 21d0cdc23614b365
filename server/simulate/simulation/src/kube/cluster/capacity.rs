//! Whether the pods of a node fit elsewhere, by the true state of the cluster, and which nodes were never used.

use cluster::{NodeRecord, PodRecord};
use model::drain::is_disrupted;
use model::labels::NODEPOOL;
use model::taints::first_untolerated;
use model::{ClaimName, NodeName, PodKey, PodShape, PoolName, Resources, Text, Timestamp, resources};

use super::SimulatedCluster;
use super::scheduler::selects;
use super::workload::Moves;

/// Placements that are tried before pods count as placed: a packing that is so hard to find is none that is missed.
const MAX_TRIALS: u32 = 50_000;

impl SimulatedCluster {
    /// Marks the drain of a Node as voluntary: the pods that it evicts require capacity.
    pub(crate) fn mark_voluntary_drain(&mut self, node: &NodeName) {
        self.voluntary_drains.insert(node.clone());
    }

    /// Records the eviction of a pod that a workload succeeds.
    pub(super) fn record_move(&mut self, pod: &PodRecord, now: Timestamp) {
        let mut moves = self.moves.remove(&pod.key).unwrap_or_default();
        self.ledger.record_move(&moves.at, now);
        moves.at.push(now);
        moves.is_voluntary = pod.node.as_ref().is_some_and(|node| self.voluntary_drains.contains(node));
        let workload = pod.workload.split_once('/').map(|(_, name)| Text::from(name));
        if let Some(state) = workload.and_then(|name| self.workloads.get_mut(&name)) {
            state.evicted.push_back(moves);
        }
    }

    /// A pod of `node` that has no room on initialized Nodes together with all other pods that voluntary drains evict;
    /// `None` if each has. Pods that were created after `seen_before` and succeed no evicted pod count neither as pods
    /// to move nor on their Nodes: whoever decided the drain cannot have seen them.
    pub(crate) fn pod_without_place(&self, node: &NodeName, seen_before: Timestamp) -> Option<PodKey> {
        let is_seen = |pod: &&PodRecord| {
            pod.created.is_none_or(|created| created <= seen_before) || self.moves.contains_key(&pod.key)
        };
        let moves_from = |name: &NodeName| {
            let pods = self.on_node.get(name).into_iter().flatten().filter_map(|key| self.pods.get(key));
            pods.filter(|pod| pod.daemon.is_none() && !pod.terminating).filter(is_seen)
        };
        let mut own = moves_from(node).peekable();
        own.peek()?;
        let key = own.peek().map(|pod| pod.key.clone());
        let others = self.voluntary_drains.iter().filter(|other| *other != node).flat_map(moves_from);
        let waits = |pod: &&PodRecord| {
            let succeeds = self.moves.get(&pod.key).is_some_and(|moves| moves.is_voluntary);
            succeeds && pod.created.is_some_and(|created| created > seen_before)
        };
        let waiting = self.unbound.iter().filter_map(|key| self.pods.get(key)).filter(waits);
        let existing = own.chain(others).chain(waiting).map(|pod| &*pod.shape);
        let of_workload =
            |moves: &std::collections::VecDeque<Moves>| moves.iter().filter(|moves| moves.is_voluntary).count();
        let created_later = self
            .workloads
            .values()
            .flat_map(|state| std::iter::repeat_n(&*state.workload.shape, of_workload(&state.evicted)));
        let mut pods: Vec<&PodShape> = existing.chain(created_later).collect();
        pods.sort_by_key(|shape| std::cmp::Reverse(shape.requests.get(resources::CPU)));
        let mut places: Vec<(&NodeRecord, Resources)> = self
            .nodes
            .values()
            .filter(|place| place.name != *node && is_place(place))
            .map(|place| (place, self.room_on(place, &is_seen)))
            .collect();
        let mut trials = 0;
        (!fit(&pods, &mut places, &mut trials)).then_some(key).flatten()
    }

    /// What the pods on a Node leave of it.
    fn room_on(&self, node: &NodeRecord, counts: &impl Fn(&&PodRecord) -> bool) -> Resources {
        let mut room = node.allocatable.clone();
        let pods = self.on_node.get(&node.name).into_iter().flatten().filter_map(|key| self.pods.get(key));
        pods.filter(|pod| pod.daemon.is_some() || counts(pod)).for_each(|pod| room.subtract(&pod.shape.requests));
        room
    }

    /// Whether a pod of a workload was ever bound to the Node of `claim`.
    pub(crate) fn was_used(&self, claim: &ClaimName) -> bool {
        self.claims.get(claim).is_some_and(|claim| {
            self.nodes
                .values()
                .any(|node| node.provider_id == claim.provider_id && self.used_nodes.contains(&node.name))
        })
    }

    /// Number of pods that select `pool` and are not bound, or are on a Node that is drained or gone.
    pub(crate) fn pods_without_node_in(&self, pool: &PoolName) -> usize {
        let selects_pool =
            |shape: &PodShape| shape.node_selector.get(NODEPOOL).is_some_and(|name| name == pool.as_text());
        let stays = |pod: &PodRecord| {
            let node = pod.node.as_ref().and_then(|node| self.nodes.get(node));
            !pod.terminating && node.is_some_and(|node| node.ready && !is_drained(node))
        };
        let in_pool = |state: &&super::WorkloadState| selects_pool(&state.workload.shape);
        let replicas: usize = self.workloads.values().filter(in_pool).map(|state| state.replicas).sum();
        let staying = self.pods.values().filter(|pod| pod.daemon.is_none() && selects_pool(&pod.shape) && stays(pod));
        replicas.saturating_sub(staying.count())
    }
}

fn is_drained(node: &NodeRecord) -> bool {
    is_disrupted(&node.taints)
}

fn is_place(node: &NodeRecord) -> bool {
    node.ready && node.is_initialized() && !node.unschedulable && !is_drained(node)
}

/// Whether all pods fit on the places together.
fn fit(pods: &[&PodShape], places: &mut [(&NodeRecord, Resources)], trials: &mut u32) -> bool {
    let Some((pod, rest)) = pods.split_first() else { return true };
    for at in 0..places.len() {
        *trials += 1;
        let (node, room) = &places[at];
        let accepts = pod.requests.fits(room)
            && selects(pod, node)
            && first_untolerated(&node.taints, &pod.tolerations).is_none();
        if *trials < MAX_TRIALS && !accepts {
            continue;
        }
        places[at].1.subtract(&pod.requests);
        let done = *trials >= MAX_TRIALS || fit(rest, places, trials);
        places[at].1.add(&pod.requests);
        if done {
            return true;
        }
    }
    false
}
