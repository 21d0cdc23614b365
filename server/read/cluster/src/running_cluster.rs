//! What runs, as a plan of disruption reads it: the nodes of a planning input with their prices, pods and
//! NodeClaims.
//!
//! Only consolidation is planned from it: drift, expiry and unhealthy Nodes are left to their methods,
//! so none of them is in it.

use std::collections::{BTreeMap, BTreeSet};

use super::distinct_values::DistinctValues;
use super::pdb::removal_pod;
use crate::{ClaimRecord, ClusterState, DoNotDisrupt, NodeRecord, PoolRecord};
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::removal::PodBudget;
use model::running::{Consolidatable, RunningClaim, RunningCluster, RunningNode, RunningPod};
use model::{
    BoundPod, CapacityType, ClaimName, Labels, MicroUsd, Millis, Node, NodeName, NodePool, Offering, Pod, PodKey,
    PoolName, Text, Timestamp, VolumeAlternatives,
};

/// The nodes of `input`, which is the planning input of `state`, with the pods that consolidation has moved within
/// `move_interval`. The volumes of their pods are added to `input`.
pub fn running_cluster(state: &ClusterState, input: &mut PlanningInput, move_interval: Millis) -> RunningCluster {
    let volumes = DistinctValues::of(std::mem::take(&mut input.volume_sets));
    let held = state.held_nodes().collect();
    let mut reader = Reader { state, now: input.now, move_interval, held, pod_budgets: BTreeMap::new(), volumes };
    let nodes = (0..).zip(&input.nodes).map(|(at, node)| reader.node(at, node)).collect();
    let Reader { pod_budgets, volumes, .. } = reader;
    input.volume_sets = volumes.into_values();
    RunningCluster { nodes, pod_budgets, policies: policies(state) }
}

fn policies(state: &ClusterState) -> BTreeMap<PoolName, model::DisruptionPolicy> {
    let managed = state.pools().filter(|record| state.unmanaged_reason(record).is_none());
    managed.map(|record| (record.pool.name.clone(), record.disruption.clone())).collect()
}

struct Reader<'s> {
    state: &'s ClusterState,
    now: Timestamp,
    /// How long consolidation leaves a pod that it has moved where it is.
    move_interval: Millis,
    /// Nodes with room that a hold booked.
    held: BTreeSet<NodeName>,
    pod_budgets: BTreeMap<Text, PodBudget>,
    /// In the order of insertion, as the decision log refers to them by content.
    volumes: DistinctValues<VolumeAlternatives>,
}

impl Reader<'_> {
    fn node(&mut self, at: u32, node: &Node) -> RunningNode {
        let record = self.state.node(&node.name);
        let claim = match record {
            Some(record) => self.state.claim_of_node(record),
            None => self.state.claim(&ClaimName::from(node.name.as_text())),
        };
        let pool = claim.and_then(|claim| self.state.pool(&claim.pool));
        let pods: Vec<RunningPod> = node.pods.iter().filter_map(|pod| self.pod(pod, node)).collect();
        let is_held = self.held.contains(&node.name);
        let of_node = record.and_then(|record| record.do_not_disrupt);
        RunningNode {
            node: at,
            price: pool.and_then(|pool| price(&pool.pool, &node.labels)).unwrap_or_default(),
            do_not_disrupt: if is_held { Some(DoNotDisrupt::Always) } else { of_node },
            claim: claim.zip(pool).filter(|(claim, _)| claim.ours).map(|(claim, pool)| self.claim(claim, pool, record)),
            recent_move: self.state.recent_move_to(&node.name, self.move_interval, self.now),
            pods,
        }
    }

    fn claim(&self, claim: &ClaimRecord, pool: &PoolRecord, node: Option<&NodeRecord>) -> RunningClaim {
        let event = node.and_then(|node| self.state.last_pod_event(&node.name));
        RunningClaim {
            name: claim.name.clone(),
            ready: node.is_some_and(|node| node.ready),
            // Without a time the wait begins now.
            consolidatable: Consolidatable::of(&pool.disruption, event.unwrap_or(self.now)),
            expires: None,
            drift: None,
            unhealthy: None,
            termination_grace_period: claim.termination_grace_period,
        }
    }

    /// A pod that another node can run or that may hold its node; one that leaves is planned already.
    fn pod(&mut self, bound: &BoundPod, node: &Node) -> Option<RunningPod> {
        let key = PodKey { namespace: bound.namespace.clone(), name: bound.name.clone() };
        let record = self.state.pod(&key).filter(|_| !bound.leaving)?;
        let has_budget = || !record.mirror && self.state.pod_budgets_of(record).next().is_some();
        let may_hold = || !record.terminating && (record.do_not_disrupt.is_some() || has_budget());
        if !record.is_reschedulable() && !may_hold() {
            return None;
        }
        let is_nominated = record.node.as_ref() != Some(&node.name);
        let facts = removal_pod(self.state, record, &mut self.pod_budgets);
        let is_movable = !facts.node_bound && !is_nominated;
        // A volume on the disk of the node keeps its topology, and so its pod and the node.
        let pod = is_movable.then(|| Pod {
            namespace: key.namespace,
            name: key.name,
            shape: bound.shape,
            labels: bound.labels,
            volumes: record.volumes.as_ref().map(|volumes| self.volumes.index(volumes)),
            created: record.created,
            workload: record.workload.clone(),
            moved_from: record.node.clone(),
            invalid: record.invalid.clone(),
        });
        Some(RunningPod {
            pod,
            facts,
            is_nominated,
            unsafe_to_evict: false,
            local_volumes: record.local_volumes.to_vec(),
            other_scheduler: self.state.other_scheduler_of(record).cloned(),
            stated_cost: record.stated_cost,
        })
    }
}

/// The price per hour of a node with these labels; `None` when the catalogue of its NodePool has no such
/// offering. Reserved capacity costs nothing.
pub fn price(pool: &NodePool, labels: &Labels) -> Option<MicroUsd> {
    let (kind, zone) = (labels.get(INSTANCE_TYPE)?, labels.get(ZONE)?);
    let capacity_type = labels.get(CAPACITY_TYPE)?;
    if capacity_type.as_ref() == CapacityType::Reserved.as_str() {
        return Some(MicroUsd(0));
    }
    let found = pool.catalogue.types.binary_search_by(|known| known.name.as_text().cmp(kind)).ok()?;
    let of_node = |offering: &&Offering| {
        offering.zone.as_text() == zone && offering.capacity_type.as_str() == capacity_type.as_ref()
    };
    pool.catalogue.types[found].offerings.iter().find(of_node).map(|offering| offering.price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bound_to, initialized_cluster, observe, pod, pool, text};
    use crate::{Object, PodRecord};
    use model::input::Policy;

    #[test]
    fn a_running_pod_names_its_volumes_on_the_disk_of_its_node() {
        let mut state = initialized_cluster(pool(), &["m0"]);
        let local = PodRecord { local_volumes: [text("disk")].into(), ..bound_to("m0", pod("a", 100)) };
        observe(&mut state, 0, [Object::Pod(local), Object::Pod(bound_to("m0", pod("b", 100)))]);
        let mut input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
        let running = running_cluster(&state, &mut input, Millis::from_secs(60));
        let found: Vec<(&Text, &[Text])> =
            running.nodes[0].pods.iter().map(|pod| (&pod.facts.key.name, pod.local_volumes.as_slice())).collect();
        let (disk, none): ([Text; 1], [Text; 0]) = ([text("disk")], []);
        assert_eq!(found, [(&text::<Text>("a"), disk.as_slice()), (&text::<Text>("b"), none.as_slice())]);
    }
}
