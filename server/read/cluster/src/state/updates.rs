//! Applies observations, in an order in which each object finds those that it refers to.

use std::collections::BTreeSet;

use super::ClusterState;
use crate::observation::{ClusterSnapshot, Key, Object, Observation};
use crate::record::{ClaimRecord, NodeRecord, PodRecord};
use crate::successors::PodDemand;
use crate::target::Target;
use model::drain::is_disrupted;
use model::{ClaimName, NodeName, PodKey, PoolName, Text, Timestamp};

impl ClusterState {
    /// Applies an observation. Pod events are dated `now`.
    pub fn apply(&mut self, observation: Observation, now: Timestamp) {
        self.version += 1;
        match observation {
            Observation::Snapshot(snapshot) => self.replace(*snapshot, now),
            Observation::Upsert(object) => {
                self.changes_without_opportunity +=
                    u64::from(matches!(&*object, Object::Pod(pod) if !self.may_enable_removal(pod)));
                self.upsert(*object, now);
            }
            Observation::Delete(key) => self.delete(&key, now),
        }
        self.update_launch_catalogues();
    }

    fn replace(&mut self, snapshot: ClusterSnapshot, now: Timestamp) {
        // Missing objects are deleted first, and pods inserted last: their indices refer to Nodes
        // and NodeClaims.
        let known: BTreeSet<NodeName> = self.nodes.keys().cloned().collect();
        let gone: Vec<Key> = self.keys_missing_from(&snapshot);
        for key in &gone {
            self.delete(key, now);
        }
        self.clear_auxiliary_records();
        let ClusterSnapshot { pods, nodes, claims, pools, daemons, namespaces, .. } = snapshot;
        let auxiliary = (snapshot.budgets.into_iter().map(Object::PodBudget))
            .chain(snapshot.classes.into_iter().map(Object::Class))
            .chain(snapshot.attach.into_iter().map(Object::Attach))
            .chain(snapshot.autoscalers.into_iter().map(Object::Autoscaler))
            .chain(snapshot.problems.into_iter().map(Object::Problem));
        let objects = (namespaces.into_iter().map(Object::Namespace))
            .chain(auxiliary)
            .chain(pools.into_iter().map(Object::Pool))
            .chain(daemons.into_iter().map(Object::Daemon))
            .chain(claims.into_iter().map(Object::Claim))
            .chain(nodes.into_iter().map(Object::Node));
        for object in objects {
            self.upsert(object, now);
        }
        self.insert_pods(pods, now);
        self.settle_restored_moves(now);
        self.restore_pod_event_times(&known, now);
        self.compact_maps();
        (self.synced, self.last_synced) = (Some(now), Some(now));
    }

    /// Inserts the pods of a snapshot. The first ones are inserted at once: none replaces another,
    /// and there is no assignment that one could release.
    fn insert_pods(&mut self, pods: Vec<PodRecord>, now: Timestamp) {
        if !self.pods.is_empty() || !self.assignments.is_empty() {
            pods.into_iter().for_each(|pod| self.upsert_pod(pod, now));
            return self.pods.compact();
        }
        for pod in &pods {
            self.auxiliary.index_external_scale_up(None, Some(pod));
        }
        self.pods = pods.into_iter().collect();
        // The order of the nodes does not matter: all get the same time.
        for node in self.pods.non_daemon().keys() {
            self.pod_events.insert(node.clone());
            self.last_pod_event.insert(node.clone(), now);
        }
    }

    /// The first observation of a node outside of `known` is no pod event: its last one is taken
    /// from the NodeClaim's status (or the time of its initialization), unless a pod on it started
    /// later. Otherwise a restarted process would make every node wait for `consolidateAfter`
    /// again.
    fn restore_pod_event_times(&mut self, known: &BTreeSet<NodeName>, now: Timestamp) {
        let first = self.nodes.values().filter(|node| !known.contains(&node.name));
        let dates = first.filter_map(|node| {
            let claim = self.claim_of_node(node)?;
            let recorded = claim.last_pod_event.or(claim.initialized_at)?;
            let started =
                self.pods_on(&node.name).filter(|pod| pod.daemon.is_none()).filter_map(|pod| pod.started).max();
            Some((node.name.clone(), started.map_or(recorded, |started| started.max(recorded)).min(now)))
        });
        let dates: Vec<(NodeName, Timestamp)> = dates.collect();
        self.last_pod_event.extend(dates);
        self.pod_events.retain(|node| known.contains(node));
    }

    /// Rebuilds the maps: a B-tree grown in key order is half empty, one built at once is full, and
    /// most objects of a snapshot are long-lived.
    fn compact_maps(&mut self) {
        self.nodes = std::mem::take(&mut self.nodes).into_iter().collect();
        self.claims = std::mem::take(&mut self.claims).into_iter().collect();
    }

    fn keys_missing_from(&self, snapshot: &ClusterSnapshot) -> Vec<Key> {
        // The first snapshot of a process, which is the one that others wait for, lacks nothing.
        let has_pods = !self.pods.is_empty();
        let pods: BTreeSet<&PodKey> = snapshot.pods.iter().filter(|_| has_pods).map(|pod| &pod.key).collect();
        let nodes: BTreeSet<&NodeName> = snapshot.nodes.iter().map(|node| &node.name).collect();
        let claims: BTreeSet<&ClaimName> = snapshot.claims.iter().map(|claim| &claim.name).collect();
        let pools: BTreeSet<&PoolName> = snapshot.pools.iter().map(|pool| &pool.pool.name).collect();
        let daemons: BTreeSet<(&Text, &Text)> = snapshot.daemons.iter().map(|d| (&d.namespace, &d.name)).collect();
        let namespaces: BTreeSet<&Text> = snapshot.namespaces.iter().map(|namespace| &namespace.name).collect();
        let missing_pods = self.pods.keys().filter(|key| !pods.contains(key)).cloned().map(Key::Pod);
        let missing_nodes = self.nodes.keys().filter(|name| !nodes.contains(name)).cloned().map(Key::Node);
        let missing_claims = self.claims.keys().filter(|name| !claims.contains(name)).cloned().map(Key::Claim);
        let missing_pools = self.pools.keys().filter(|name| !pools.contains(name)).cloned().map(Key::Pool);
        let missing_daemons = self.daemons.keys().filter(|(space, name)| !daemons.contains(&(space, name)));
        let missing_daemons = missing_daemons.cloned().map(|(namespace, name)| Key::Daemon(namespace, name));
        let missing_spaces = self.namespaces.keys().filter(|name| !namespaces.contains(name)).cloned();
        (missing_pods.chain(missing_nodes).chain(missing_claims).chain(missing_pools).chain(missing_daemons))
            .chain(missing_spaces.map(Key::Namespace))
            .collect()
    }

    fn upsert(&mut self, object: Object, now: Timestamp) {
        match object {
            Object::Pod(pod) => self.upsert_pod(pod, now),
            Object::Node(node) => self.upsert_node(node, now),
            Object::Claim(claim) => self.upsert_claim(claim),
            Object::Pool(pool) => {
                self.launch_catalogues.mark_stale();
                self.pools.insert(pool.pool.name.clone(), pool);
            }
            Object::Daemon(daemon) => {
                self.daemons.insert((daemon.namespace.clone(), daemon.name.clone()), daemon);
            }
            Object::Namespace(namespace) => {
                self.namespaces.insert(namespace.name, namespace.labels);
            }
            Object::PodBudget(budget) => self.auxiliary.insert_budget(budget),
            Object::Class(class) => self.auxiliary.insert_class(class),
            Object::Attach(attach) => self.insert_attach_limits(attach),
            Object::Autoscaler(other) => self.auxiliary.insert_autoscaler(other),
            Object::Problem(problem) => self.auxiliary.insert_problem(problem),
        }
    }

    fn upsert_pod(&mut self, pod: PodRecord, now: Timestamp) {
        let known = self.pods.get(&pod.key);
        let (before, after) = (known.map(PodPlacement::of), PodPlacement::of(&pod));
        let demand = known.filter(|known| known.node.is_some()).map(PodDemand::of);
        self.auxiliary.index_external_scale_up(known, Some(&pod));
        let has_ended = before.as_ref().is_some_and(|before| before.node.is_some() && after.node.is_none());
        self.pods_left += u64::from(has_ended);
        if before.as_ref() != Some(&after) && pod.daemon.is_none() {
            self.record_pod_event(before.as_ref(), Some(&after), now);
        }
        let is_placed =
            after.node.as_ref().is_some_and(|node| !self.are_pods_moved_from(node)) || !pod.is_reschedulable();
        let is_bound = pod.daemon.is_none() && before.as_ref().is_none_or(|before| before.node != after.node);
        let bound = (is_placed && is_bound && after.node.is_some()).then(|| pod.key.clone());
        let former = bound.as_ref().and_then(|key| self.assignments.get(key)).cloned();
        if is_placed {
            let former = before.and_then(|before| before.node).zip(demand);
            self.release_assignment(&pod.key, former, now);
        }
        self.pods.insert(pod);
        if let Some(key) = bound {
            self.reassign_displaced_pods(&key, former, now);
        }
    }

    /// Dates the last pod event of the nodes that a pod leaves and that it is bound to.
    fn record_pod_event(&mut self, before: Option<&PodPlacement>, after: Option<&PodPlacement>, now: Timestamp) {
        for node in [before, after].into_iter().flatten().filter_map(|placement| placement.node.as_ref()) {
            if !self.pod_events.contains(node) {
                self.pod_events.insert(node.clone());
            }
            match self.last_pod_event.get_mut(node) {
                Some(last) => *last = now,
                None => {
                    self.last_pod_event.insert(node.clone(), now);
                }
            }
        }
    }

    /// The controller's knowledge of a launch may be ahead of the cluster: it is kept until the
    /// NodeClaim has it.
    fn upsert_claim(&mut self, mut claim: ClaimRecord) {
        let known = self.claims.remove(&claim.name).or_else(|| self.assumed_claims.remove(&claim.name));
        if let Some(known) = known.filter(|_| !claim.is_launched()) {
            let ClaimRecord { provider_id, labels, capacity, allocatable, .. } = known;
            claim = ClaimRecord { provider_id, labels, capacity, allocatable, ..claim };
        }
        if claim.is_launched() {
            self.claim_by_provider.insert(claim.provider_id.clone(), claim.name.clone());
        }
        set_membership(&mut self.deleting_claims, &claim.name, claim.deleting);
        self.claims.insert(claim.name.clone(), claim);
    }

    fn upsert_node(&mut self, node: NodeRecord, now: Timestamp) {
        let known = self.nodes.get(&node.name);
        if node.is_initialized() && !known.is_some_and(NodeRecord::is_initialized) {
            self.last_pod_event.insert(node.name.clone(), now);
        }
        if let Some(known) = known {
            self.node_by_provider.remove(&known.provider_id);
        }
        if !node.provider_id.is_empty() {
            self.node_by_provider.insert(node.provider_id.clone(), node.name.clone());
        }
        set_membership(&mut self.deleting_nodes, &node.name, node.deleting);
        set_membership(&mut self.disrupted_nodes, &node.name, is_disrupted(&node.taints));
        self.insert_node(node);
    }

    fn delete(&mut self, key: &Key, now: Timestamp) {
        // Indices and assignments of the object are removed with it.
        match key {
            Key::Pod(key) => {
                let mut former = None;
                if let Some(pod) = self.pods.remove(key) {
                    let before = PodPlacement::of(&pod);
                    self.pods_left += u64::from(before.node.is_some());
                    if pod.daemon.is_none() {
                        self.record_pod_event(Some(&before), None, now);
                    }
                    self.auxiliary.index_external_scale_up(Some(&pod), None);
                    former = before.node.map(|node| (node, PodDemand::of(&pod)));
                }
                self.release_assignment(key, former, now);
            }
            Key::Node(name) => {
                self.count_attach_limits(name, false);
                if let Some(node) = self.nodes.remove(name) {
                    self.node_by_provider.remove(&node.provider_id);
                }
                self.deleting_nodes.remove(name);
                self.disrupted_nodes.remove(name);
                self.last_pod_event.remove(name);
                self.pod_events.remove(name);
                self.assignments.remove_target(&Target::Node(name.clone()));
            }
            Key::Claim(name) => {
                if let Some(claim) = self.claims.remove(name) {
                    self.claim_by_provider.remove(&claim.provider_id);
                }
                self.deleting_claims.remove(name);
                self.marked_for_deletion.remove(name);
                self.recent_moves.end(name, now);
                self.assignments.remove_target(&Target::Claim(name.clone()));
            }
            Key::Pool(name) => {
                self.launch_catalogues.mark_stale();
                self.pools.remove(name);
            }
            Key::Daemon(namespace, name) => {
                self.daemons.remove(&(namespace.clone(), name.clone()));
            }
            Key::Namespace(name) => {
                self.namespaces.remove(name);
            }
            Key::PodBudget(namespace, name) => self.auxiliary.remove_budget(namespace, name),
            Key::Class(name) => self.auxiliary.remove_class(name),
            Key::Attach(node) => self.remove_attach_limits(node),
            Key::Autoscaler(name) => self.auxiliary.remove_autoscaler(name),
            Key::Problem(about) => self.auxiliary.remove_problem(about),
        }
    }
}

/// Adds `name` to `names` if `wanted`, and removes it otherwise.
fn set_membership<N: Clone + Ord>(names: &mut BTreeSet<N>, name: &N, wanted: bool) {
    if wanted {
        names.insert(name.clone());
    } else {
        names.remove(name);
    }
}

/// The parts of a pod that concern its node.
#[derive(PartialEq, Eq)]
struct PodPlacement {
    /// The node, unless the pod has ended.
    node: Option<NodeName>,
    terminating: bool,
    uid: Text,
}

impl PodPlacement {
    fn of(pod: &PodRecord) -> Self {
        Self { node: pod.live_node().cloned(), terminating: pod.terminating, uid: pod.uid.clone() }
    }
}
