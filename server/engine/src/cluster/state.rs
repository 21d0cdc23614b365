//! The belief about one cluster, with the indices that decisions need.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::assignments::{Assignments, Target};
use super::observation::{ClusterSnapshot, Key, Object, Observation};
use super::record::{
    ClaimRecord, DaemonRecord, LaunchedFacts, NamespaceRecord, NodeRecord, PodKey, PodRecord, PoolRecord,
};
use super::surroundings::{AttachRecord, Surroundings};
use crate::model::{Labels, Text, Timestamp};

/// Everything that is believed about one cluster. What is in hash tables is looked up and never iterated.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    version: u64,
    /// Since when, if a snapshot was seen since the agent connected.
    synced: Option<Timestamp>,
    pods: BTreeMap<PodKey, PodRecord>,
    nodes: BTreeMap<Text, NodeRecord>,
    claims: BTreeMap<Text, ClaimRecord>,
    pools: BTreeMap<Text, PoolRecord>,
    daemons: BTreeMap<(Text, Text), DaemonRecord>,
    namespaces: BTreeMap<Text, Labels>,
    /// Pods that have a node and have not ended; follows `pods`.
    pods_by_node: FxHashMap<Text, BTreeSet<PodKey>>,
    /// Pods that no node was found for; follows `pods`. With those of nodes that go they are all that planning may have to
    /// place, however many run.
    unplaced: BTreeSet<PodKey>,
    /// Pods that somebody else has promised a node; follows `pods`.
    nominated: BTreeSet<PodKey>,
    /// Pods that have ended; follows `pods`.
    ended: usize,
    /// Pods of workloads that have a Node and stay; follows `pods`.
    bound_pods: usize,
    /// Pods of workloads that have no Node yet; follows `pods`.
    pending_pods: usize,
    /// How many pods that are not a DaemonSet's take room on each node; follows `pods`.
    guests: FxHashMap<Text, usize>,
    /// Nodes and NodeClaims with a deletion timestamp; follow `nodes` and `claims`.
    deleting_nodes: BTreeSet<Text>,
    deleting_claims: BTreeSet<Text>,
    /// NodeClaims by provider id; follows `claims` and `expected`.
    claim_by_provider: FxHashMap<Text, Text>,
    /// Nodes by provider id; follows `nodes`.
    node_by_provider: FxHashMap<Text, Text>,
    /// When a pod that is not a DaemonSet's last came, ended or left, or the node came into service; by node.
    quiet_since: FxHashMap<Text, Timestamp>,
    /// Nodes with a pod event since they were last asked for ([`ClusterState::take_pod_events`]).
    pod_events: BTreeSet<Text>,
    /// NodeClaims that were decided and that the cluster has not shown yet; written by the controller.
    expected: BTreeMap<Text, ClaimRecord>,
    /// NodeClaims whose machines are about to go; written by the controller.
    going: BTreeSet<Text>,
    /// Budgets, classes, attach limits, other autoscalers.
    pub(super) around: Surroundings,
    /// Room given to pods; written by the controller, settled by observations.
    pub promises: Assignments,
}

impl ClusterState {
    /// Changes with everything that changes a decision.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether a snapshot was seen since the agent connected.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.is_some()
    }

    /// When the last snapshot came, if one did since the agent connected.
    #[must_use]
    pub fn synced_since(&self) -> Option<Timestamp> {
        self.synced
    }

    /// The agent is gone: what is believed grows stale until the next snapshot.
    pub fn lose_sync(&mut self) {
        self.synced = None;
    }

    /// Takes a fact in. Pod events are dated `now`.
    pub fn apply(&mut self, observation: Observation, now: Timestamp) {
        self.version += 1;
        match observation {
            Observation::Snapshot(snapshot) => self.replace(*snapshot, now),
            Observation::Upsert(object) => self.upsert(*object, now),
            Observation::Delete(key) => self.delete(&key, now),
        }
    }

    fn replace(&mut self, snapshot: ClusterSnapshot, now: Timestamp) {
        let known: BTreeSet<Text> = self.nodes.keys().cloned().collect();
        let gone: Vec<Key> = self.keys_missing_from(&snapshot);
        for key in &gone {
            self.delete(key, now);
        }
        self.around = Surroundings {
            hold_ms: self.around.hold_ms,
            shadow: self.around.shadow,
            foreign: std::mem::take(&mut self.around.foreign),
            ..Surroundings::default()
        };
        let ClusterSnapshot { pods, nodes, claims, pools, daemons, namespaces, .. } = snapshot;
        let around = (snapshot.budgets.into_iter().map(Object::PodBudget))
            .chain(snapshot.classes.into_iter().map(Object::Class))
            .chain(snapshot.attach.into_iter().map(Object::Attach))
            .chain(snapshot.autoscalers.into_iter().map(Object::Autoscaler))
            .chain(snapshot.problems.into_iter().map(Object::Problem));
        let objects = (namespaces.into_iter().map(Object::Namespace))
            .chain(around)
            .chain(pools.into_iter().map(Object::Pool))
            .chain(daemons.into_iter().map(Object::Daemon))
            .chain(claims.into_iter().map(Object::Claim))
            .chain(nodes.into_iter().map(Object::Node))
            .chain(pods.into_iter().map(Object::Pod));
        for object in objects {
            self.upsert(object, now);
        }
        self.date_first_looks(&known, now);
        self.compact();
        self.synced = Some(now);
    }

    /// That a node outside of `known` is seen for the first time is no pod event: what stands in its NodeClaim says when the last
    /// one was, or when the node came into service, unless a pod on it started later. A process that has just begun would
    /// otherwise let every node wait for `consolidateAfter` anew.
    fn date_first_looks(&mut self, known: &BTreeSet<Text>, now: Timestamp) {
        let first = self.nodes.values().filter(|node| !known.contains(&node.name));
        let dates = first.filter_map(|node| {
            let claim = self.claim_of_node(node)?;
            let stands = claim.last_pod_event.or(claim.in_service_since)?;
            let started =
                self.pods_on(&node.name).filter(|pod| pod.daemon.is_none()).filter_map(|pod| pod.started).max();
            Some((node.name.clone(), started.map_or(stands, |started| started.max(stands)).min(now)))
        });
        let dates: Vec<(Text, Timestamp)> = dates.collect();
        self.quiet_since.extend(dates);
        self.pod_events.retain(|node| known.contains(node));
    }

    /// Tables that have grown one by one, in their order, are half empty; made in one piece they are full. Most of what a snapshot
    /// brings stays for long.
    fn compact(&mut self) {
        self.pods = std::mem::take(&mut self.pods).into_iter().collect();
        self.nodes = std::mem::take(&mut self.nodes).into_iter().collect();
        self.claims = std::mem::take(&mut self.claims).into_iter().collect();
        for pods in self.pods_by_node.values_mut() {
            *pods = std::mem::take(pods).into_iter().collect();
        }
    }

    /// Everything that the cluster has shown, as one snapshot.
    #[must_use]
    pub fn to_snapshot(&self) -> ClusterSnapshot {
        let (namespaces, attach) = (self.namespaces.iter(), self.around.attach.iter());
        ClusterSnapshot {
            pods: self.pods.values().cloned().collect(),
            nodes: self.nodes.values().cloned().collect(),
            claims: self.claims.values().cloned().collect(),
            pools: self.pools.values().cloned().collect(),
            daemons: self.daemons.values().cloned().collect(),
            namespaces: namespaces
                .map(|(name, labels)| NamespaceRecord { name: name.clone(), labels: labels.clone() })
                .collect(),
            budgets: self.around.budgets.values().cloned().collect(),
            classes: self.around.classes.values().cloned().collect(),
            attach: attach.map(|(node, limits)| AttachRecord { node: node.clone(), limits: limits.clone() }).collect(),
            autoscalers: self.around.autoscalers.values().cloned().collect(),
            problems: self.problems().collect(),
        }
    }

    fn keys_missing_from(&self, snapshot: &ClusterSnapshot) -> Vec<Key> {
        let pods: BTreeSet<&PodKey> = snapshot.pods.iter().map(|pod| &pod.key).collect();
        let nodes: BTreeSet<&Text> = snapshot.nodes.iter().map(|node| &node.name).collect();
        let claims: BTreeSet<&Text> = snapshot.claims.iter().map(|claim| &claim.name).collect();
        let pools: BTreeSet<&Text> = snapshot.pools.iter().map(|pool| &pool.pool.name).collect();
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
                self.pools.insert(pool.pool.name.clone(), pool);
            }
            Object::Daemon(daemon) => {
                self.daemons.insert((daemon.namespace.clone(), daemon.name.clone()), daemon);
            }
            Object::Namespace(namespace) => {
                self.namespaces.insert(namespace.name, namespace.labels);
            }
            Object::PodBudget(budget) => {
                self.around.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget);
            }
            Object::Class(class) => {
                self.around.classes.insert(class.name.clone(), class);
            }
            Object::Attach(attach) => {
                self.around.attach.insert(attach.node, attach.limits);
            }
            Object::Autoscaler(other) => {
                self.around.autoscalers.insert(other.name.clone(), other);
            }
            Object::Problem(problem) => {
                self.around.problems.insert(problem.about, problem.reason);
            }
        }
    }

    fn upsert_pod(&mut self, pod: PodRecord, now: Timestamp) {
        let before = self.pods.get(&pod.key).map(|known| self.presence(known));
        let after = self.presence(&pod);
        if before.as_ref() != Some(&after) {
            self.move_pod(&pod.key, before.as_ref(), Some(&after), pod.daemon.is_some(), now);
        }
        let settled = after.node.as_ref().is_some_and(|node| !self.is_going_node(node)) || !pod.is_reschedulable();
        if settled {
            let stood_on = before.and_then(|before| before.node);
            self.settle_promise(&pod.key, stood_on.as_ref(), now);
        }
        let known = self.pods.remove(&pod.key);
        self.around.note_foreign(known.as_ref(), Some(&pod));
        self.index_pod(known.as_ref(), Some(&pod));
        self.pods.insert(pod.key.clone(), pod);
    }

    /// `known` is in the place of a pod, and `pod` takes it.
    fn index_pod(&mut self, known: Option<&PodRecord>, pod: Option<&PodRecord>) {
        let ended = |pod: Option<&PodRecord>| usize::from(pod.is_some_and(PodRecord::is_terminal));
        self.ended = self.ended + ended(pod) - ended(known);
        let bound = |pod: Option<&PodRecord>| usize::from(pod.is_some_and(PodRecord::is_bound_workload));
        let pending = |pod: Option<&PodRecord>| usize::from(pod.is_some_and(PodRecord::is_pending_workload));
        self.bound_pods = self.bound_pods + bound(pod) - bound(known);
        self.pending_pods = self.pending_pods + pending(pod) - pending(known);
        self.count_guest(known, -1);
        self.count_guest(pod, 1);
        follow(&mut self.unplaced, PodRecord::is_unschedulable, known, pod);
        follow(&mut self.nominated, |pod| pod.nominated.is_some(), known, pod);
    }

    fn count_guest(&mut self, pod: Option<&PodRecord>, by: isize) {
        let guest = pod.filter(|pod| pod.daemon.is_none() && !pod.is_terminal());
        let Some(node) = guest.and_then(|pod| pod.node.as_ref()) else { return };
        let count = self.guests.get(node).copied().unwrap_or(0).saturating_add_signed(by);
        if count == 0 {
            self.guests.remove(node);
        } else if let Some(known) = self.guests.get_mut(node) {
            *known = count;
        } else {
            self.guests.insert(node.clone(), count);
        }
    }

    fn presence(&self, pod: &PodRecord) -> Presence {
        let node = pod.node.clone().filter(|_| !pod.is_terminal());
        Presence { node, terminating: pod.terminating, uid: pod.uid.clone() }
    }

    fn move_pod(
        &mut self,
        key: &PodKey,
        before: Option<&Presence>,
        after: Option<&Presence>,
        daemon: bool,
        now: Timestamp,
    ) {
        let node_of = |presence: Option<&Presence>| presence.and_then(|presence| presence.node.clone());
        let (old, new) = (node_of(before), node_of(after));
        if let Some(old) = old.as_ref().filter(|_| old != new)
            && let Some(pods) = self.pods_by_node.get_mut(old)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.pods_by_node.remove(old);
            }
        }
        if let Some(new) = &new {
            self.pods_by_node.entry(new.clone()).or_default().insert(key.clone());
        }
        if !daemon {
            for node in old.into_iter().chain(new) {
                self.pod_events.insert(node.clone());
                self.quiet_since.insert(node, now);
            }
        }
    }

    /// What the controller knows of a launch may be ahead of what the cluster shows: it is kept until the cluster has it.
    fn upsert_claim(&mut self, mut claim: ClaimRecord) {
        let known = self.claims.remove(&claim.name).or_else(|| self.expected.remove(&claim.name));
        if let Some(known) = known.filter(|_| claim.provider_id.is_empty()) {
            let ClaimRecord { provider_id, labels, capacity, allocatable, .. } = known;
            claim = ClaimRecord { provider_id, labels, capacity, allocatable, ..claim };
        }
        if !claim.provider_id.is_empty() {
            self.claim_by_provider.insert(claim.provider_id.clone(), claim.name.clone());
        }
        mark(&mut self.deleting_claims, &claim.name, claim.deleting);
        self.claims.insert(claim.name.clone(), claim);
    }

    fn upsert_node(&mut self, node: NodeRecord, now: Timestamp) {
        let known = self.nodes.get(&node.name);
        if node.is_initialized() && !known.is_some_and(NodeRecord::is_initialized) {
            self.quiet_since.insert(node.name.clone(), now);
        }
        if let Some(known) = known {
            self.node_by_provider.remove(&known.provider_id);
        }
        if !node.provider_id.is_empty() {
            self.node_by_provider.insert(node.provider_id.clone(), node.name.clone());
        }
        mark(&mut self.deleting_nodes, &node.name, node.deleting);
        self.nodes.insert(node.name.clone(), node);
    }

    fn delete(&mut self, key: &Key, now: Timestamp) {
        match key {
            Key::Pod(key) => {
                let mut stood_on = None;
                if let Some(pod) = self.pods.remove(key) {
                    let before = self.presence(&pod);
                    self.move_pod(key, Some(&before), None, pod.daemon.is_some(), now);
                    self.around.note_foreign(Some(&pod), None);
                    self.index_pod(Some(&pod), None);
                    stood_on = before.node;
                }
                self.settle_promise(key, stood_on.as_ref(), now);
            }
            Key::Node(name) => {
                if let Some(node) = self.nodes.remove(name) {
                    self.node_by_provider.remove(&node.provider_id);
                }
                self.deleting_nodes.remove(name);
                self.quiet_since.remove(name);
                self.pod_events.remove(name);
                self.promises.withdraw(&Target::Node(name.clone()));
            }
            Key::Claim(name) => {
                if let Some(claim) = self.claims.remove(name) {
                    self.claim_by_provider.remove(&claim.provider_id);
                }
                self.deleting_claims.remove(name);
                self.going.remove(name);
                self.promises.withdraw(&Target::Claim(name.clone()));
            }
            Key::Pool(name) => {
                self.pools.remove(name);
            }
            Key::Daemon(namespace, name) => {
                self.daemons.remove(&(namespace.clone(), name.clone()));
            }
            Key::Namespace(name) => {
                self.namespaces.remove(name);
            }
            Key::PodBudget(namespace, name) => {
                self.around.budgets.remove(&(namespace.clone(), name.clone()));
            }
            Key::Class(name) => {
                self.around.classes.remove(name);
            }
            Key::Attach(node) => {
                self.around.attach.remove(node);
            }
            Key::Autoscaler(name) => {
                self.around.autoscalers.remove(name);
            }
            Key::Problem(about) => {
                self.around.problems.remove(about);
            }
        }
    }

    /// A NodeClaim was decided; it counts as capacity on its way until the cluster shows it or it is forgotten.
    pub fn expect_claim(&mut self, claim: ClaimRecord) {
        self.version += 1;
        if !claim.provider_id.is_empty() {
            self.claim_by_provider.insert(claim.provider_id.clone(), claim.name.clone());
        }
        self.expected.insert(claim.name.clone(), claim);
    }

    /// What may be expected of the machine of a NodeClaim that the cluster shows and that is not launched yet.
    pub fn foresee(&mut self, claim: &Text, expected: &ClaimRecord) {
        self.version += 1;
        if let Some(claim) = self.claims.get_mut(claim).filter(|claim| claim.provider_id.is_empty()) {
            claim.capacity = expected.capacity.clone();
            claim.allocatable = expected.allocatable.clone();
        }
    }

    /// The machine of a NodeClaim is there: what is known of it, ahead of the cluster's own word.
    pub fn note_launch(&mut self, claim: &Text, facts: &LaunchedFacts) {
        self.version += 1;
        let found = self.claims.get_mut(claim).or_else(|| self.expected.get_mut(claim));
        let Some(claim) = found else { return };
        claim.provider_id = facts.provider_id.clone();
        claim.labels.extend(facts.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        claim.capacity = facts.capacity.clone();
        claim.allocatable = facts.allocatable.clone();
        self.claim_by_provider.insert(facts.provider_id.clone(), claim.name.clone());
    }

    /// Takes back what was expected of a NodeClaim and promised on it. One that the cluster shows stays as it is.
    pub fn forget_claim(&mut self, name: &Text) {
        self.version += 1;
        if let Some(claim) = self.expected.remove(name) {
            self.claim_by_provider.remove(&claim.provider_id);
            self.going.remove(name);
        }
        self.promises.withdraw(&Target::Claim(name.clone()));
    }

    /// The machine of this NodeClaim is about to go: its room is no room any more, its pods move.
    pub fn mark_going(&mut self, claim: &Text) {
        self.version += 1;
        self.going.insert(claim.clone());
        self.promises.withdraw(&Target::Claim(claim.clone()));
        if let Some(node) = self.node_of_claim(claim).map(|node| node.name.clone()) {
            self.promises.withdraw(&Target::Node(node));
        }
    }

    /// The machine of this NodeClaim stays after all: its room counts again.
    pub fn unmark_going(&mut self, claim: &Text) {
        self.version += 1;
        self.going.remove(claim);
    }

    /// Whether the machine of this NodeClaim is about to go.
    #[must_use]
    pub fn is_going(&self, claim: &Text) -> bool {
        self.going.contains(claim)
    }

    /// Whether the machine of this Node is about to go.
    #[must_use]
    pub fn is_going_node(&self, node: &Text) -> bool {
        let Some(record) = self.nodes.get(node) else { return false };
        record.deleting || self.claim_of_node(record).is_some_and(|claim| claim.deleting || self.is_going(&claim.name))
    }

    /// The NodeClaim of that name, as the cluster shows it or as it was decided.
    #[must_use]
    pub fn claim(&self, name: &Text) -> Option<&ClaimRecord> {
        self.claims.get(name).or_else(|| self.expected.get(name))
    }

    /// Whether the cluster itself has shown this NodeClaim.
    #[must_use]
    pub fn has_seen_claim(&self, name: &Text) -> bool {
        self.claims.contains_key(name)
    }

    /// Whether the cluster has shown neither a Node nor a pod nor a NodeClaim.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        self.nodes.is_empty() && self.pods.is_empty() && self.claims.is_empty()
    }

    /// Whether the cluster has shown no Node. The agent itself runs on one.
    #[must_use]
    pub fn shows_no_node(&self) -> bool {
        self.nodes.is_empty()
    }

    /// NodeClaims, those of the cluster first, then those only decided, each by name.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimRecord> {
        self.claims.values().chain(self.expected.values())
    }

    /// The Node of a NodeClaim.
    #[must_use]
    pub fn node_of_claim(&self, claim: &Text) -> Option<&NodeRecord> {
        self.node_of_machine(&self.claim(claim)?.provider_id)
    }

    /// The Node of a machine.
    #[must_use]
    pub fn node_of_machine(&self, provider_id: &Text) -> Option<&NodeRecord> {
        self.nodes.get(self.node_by_provider.get(provider_id)?)
    }

    /// The NodeClaim of a Node, by provider id.
    #[must_use]
    pub fn claim_of_node(&self, node: &NodeRecord) -> Option<&ClaimRecord> {
        self.claim(self.claim_by_provider.get(&node.provider_id)?)
    }

    /// The pod of that name.
    #[must_use]
    pub fn pod(&self, key: &PodKey) -> Option<&PodRecord> {
        self.pods.get(key)
    }

    /// Pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.values()
    }

    /// Pods that no node was found for (`PodRecord::is_unschedulable`), by namespace and name.
    pub fn unplaced_pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.unplaced.iter().filter_map(|key| self.pods.get(key))
    }

    /// Pods that somebody else has promised a node, by namespace and name.
    pub fn nominated_pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.nominated.iter().filter_map(|key| self.pods.get(key))
    }

    /// Pods that need a place that nobody has promised them ([`ClusterState::is_demand`]), by namespace and name.
    #[must_use]
    pub fn demand(&self, now: Timestamp) -> Vec<&PodRecord> {
        let going = self.nodes.keys().filter(|node| self.is_going_node(node));
        let leaving = going.flat_map(|node| self.pods_by_node.get(node)).flatten();
        let keys: BTreeSet<&PodKey> = self.unplaced.iter().chain(leaving).collect();
        let pods = keys.into_iter().filter_map(|key| self.pods.get(key));
        pods.filter(|pod| self.is_demand(pod, now)).collect()
    }

    /// How many pods that are not a DaemonSet's take room on `node`.
    #[must_use]
    pub fn guests_on(&self, node: &Text) -> usize {
        self.guests.get(node).copied().unwrap_or(0)
    }

    /// How many pods that are not a DaemonSet's are bound to Nodes that are not shown.
    #[must_use]
    pub fn guests_of_unshown_nodes(&self) -> usize {
        self.guests.iter().filter(|(node, _)| !self.nodes.contains_key(*node)).map(|(_, guests)| guests).sum()
    }

    /// NodeClaims that have a deletion timestamp, or whose Node has one.
    #[must_use]
    pub fn claims_being_deleted(&self) -> BTreeSet<&Text> {
        let nodes = self.deleting_nodes.iter().filter_map(|name| self.nodes.get(name));
        let of_nodes = nodes.filter_map(|node| self.claim_of_node(node)).map(|claim| &claim.name);
        self.deleting_claims.iter().chain(of_nodes).collect()
    }

    /// How many pods have not ended.
    #[must_use]
    pub fn live_pods(&self) -> usize {
        self.pods.len() - self.ended
    }

    /// How many [pods of workloads](PodRecord::is_workload) have a Node and stay, and how many have none yet.
    #[must_use]
    pub fn workload_pods(&self) -> (usize, usize) {
        (self.bound_pods, self.pending_pods)
    }

    /// How many pods there are.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// How many Nodes, NodeClaims and NodePools the cluster has shown.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.claims.len(), self.pools.len())
    }

    /// Pods that take room on `node`, by namespace and name.
    pub fn pods_on(&self, node: &Text) -> impl Iterator<Item = &PodRecord> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// Nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// The node of that name.
    #[must_use]
    pub fn node(&self, name: &Text) -> Option<&NodeRecord> {
        self.nodes.get(name)
    }

    /// NodePools, by name.
    pub fn pools(&self) -> impl Iterator<Item = &PoolRecord> {
        self.pools.values()
    }

    /// The NodePool of that name.
    #[must_use]
    pub fn pool(&self, name: &Text) -> Option<&PoolRecord> {
        self.pools.get(name)
    }

    /// DaemonSets, by namespace and name.
    pub fn daemons(&self) -> impl Iterator<Item = &DaemonRecord> {
        self.daemons.values()
    }

    /// Labels of namespaces.
    #[must_use]
    pub fn namespaces(&self) -> &BTreeMap<Text, Labels> {
        &self.namespaces
    }

    /// Nodes with a pod event since this was last asked.
    pub fn take_pod_events(&mut self) -> BTreeSet<Text> {
        std::mem::take(&mut self.pod_events)
    }

    /// When a pod that is not a DaemonSet's last came to `node`, ended there or left it, or the node came into service:
    /// what this process has seen, and before that what its NodeClaim says.
    #[must_use]
    pub fn quiet_since(&self, node: &Text) -> Option<Timestamp> {
        self.quiet_since.get(node).copied()
    }
}

/// Keeps `name` in `names` while it is `wanted` there.
fn mark(names: &mut BTreeSet<Text>, name: &Text, wanted: bool) {
    if wanted {
        names.insert(name.clone());
    } else {
        names.remove(name);
    }
}

/// Keeps in `index` the pods that are `listed`: `known` goes, `pod` comes.
fn follow(
    index: &mut BTreeSet<PodKey>,
    listed: impl Fn(&PodRecord) -> bool,
    known: Option<&PodRecord>,
    pod: Option<&PodRecord>,
) {
    let (before, after) = (known.filter(|pod| listed(pod)), pod.filter(|pod| listed(pod)));
    match (before, after) {
        (Some(known), None) => {
            index.remove(&known.key);
        }
        (None, Some(pod)) => {
            index.insert(pod.key.clone());
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// What of a pod concerns its node.
#[derive(PartialEq, Eq)]
struct Presence {
    node: Option<Text>,
    terminating: bool,
    uid: Text,
}
