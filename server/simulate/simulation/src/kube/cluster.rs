//! A simulated cluster: workloads, a scheduler, kubelets, DaemonSets and an agent's actions, as one
//! state machine on the caller's clock.
//!
//! [`SimulatedCluster::instruct`] does what an agent would do against an API server,
//! [`SimulatedCluster::tick`] advances time, and both fill an outbox of [`Change`]s: what a watch
//! would deliver. NodePools are not part of it; the caller adds them to snapshots. Its
//! [`ClusterLedger`] records which pods ever ran.
//!
//! The scheduler evaluates taints, selectors, required node affinity, host ports, resources and required spread, and
//! prefers nodes with more free resources, as kube-scheduler does by default. It heeds nominations,
//! unless it is told to ignore them. Only the planner evaluates other constraints between pods.
//!
//! Instances are not part of it either: the caller reports a terminated one
//! ([`SimulatedCluster::mark_machine_gone`]), and its Node is removed later, as a cloud controller
//! would do it.
//!
//! Reading order: [`settings`], `workload` and `replicas`, `scheduler`, `kubelet` (nodes that join,
//! pods that start), `actions` (instructions), `eviction` (PodDisruptionBudgets),
//! [`capacity`] (whether the pods of a node fit elsewhere), [`ledger`].

mod actions;
pub mod capacity;
mod eviction;
mod kubelet;
pub mod ledger;
mod replicas;
mod scheduler;
pub mod settings;
pub(crate) mod spread;
mod steps;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use cloud::simulated::SeededRng;
use cluster::{ClaimRecord, DaemonRecord, Key, NamespaceRecord, NodeRecord, Object, Observation, PodPhase, PodRecord};
use model::{ClaimName, Millis, NodeName, PodKey, ProviderId, Resources, Text, Timestamp};

pub(crate) use actions::Answer;
pub(crate) use ledger::ClusterLedger;
pub use settings::ClusterSettings;
pub use workload::Workload;
pub(crate) use workload::pod_spec;
use workload::{Moves, WorkloadState};

/// What a watch delivers, or the late answer to an instruction.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An object changed.
    Observed(Observation),
    /// The drain of this NodeClaim's Node has ended.
    Drained { claim: ClaimName },
}

/// A simulated cluster, deterministic by seed.
#[derive(Debug, Clone)]
pub struct SimulatedCluster {
    settings: ClusterSettings,
    rng: SeededRng,
    pods: BTreeMap<PodKey, PodRecord>,
    nodes: BTreeMap<NodeName, NodeRecord>,
    claims: BTreeMap<ClaimName, ClaimRecord>,
    daemons: Vec<DaemonRecord>,
    namespaces: BTreeSet<Text>,
    workloads: BTreeMap<Text, WorkloadState>,
    /// Manifests of pods, by `ReplicaSet/<name>` or `DaemonSet/<name>`.
    manifests: BTreeMap<Text, Text>,
    /// Pods on each node; derived from `pods`.
    on_node: BTreeMap<NodeName, BTreeSet<PodKey>>,
    /// Pods without a node; derived from `pods`.
    unbound: BTreeSet<PodKey>,
    /// Pods without a node that are nominated to each node (`status.nominatedNodeName`); derived from `pods`.
    nominated: BTreeMap<NodeName, BTreeSet<PodKey>>,
    /// Free resources of each node; derived from `pods`.
    free: BTreeMap<NodeName, Resources>,
    /// Drains in progress, by NodeClaim: the Node, and the deadline after which pods are deleted.
    drains: BTreeMap<ClaimName, (NodeName, Option<Timestamp>)>,
    /// PodDisruptionBudgets: minimum number of running pods, by workload.
    min_running: BTreeMap<Text, usize>,
    /// The evictions that they allow, as last emitted, by workload.
    allowed_evictions: BTreeMap<Text, i32>,
    /// Moves of existing pods that succeed evicted ones.
    moves: BTreeMap<PodKey, Moves>,
    /// Nodes whose drain is voluntary, as the caller has judged it.
    voluntary_drains: BTreeSet<NodeName>,
    /// Nodes to which a pod of a workload was ever bound.
    used_nodes: BTreeSet<NodeName>,
    terminated_instances: BTreeSet<ProviderId>,
    /// Whether kubelets of new machines join this cluster.
    kubelets_join: bool,
    event_queue: BTreeSet<(Timestamp, u64, ClusterEvent)>,
    sequence: u64,
    /// Whether the scheduler may find a pod to bind.
    dirty: bool,
    outbox: Vec<Change>,
    ledger: ClusterLedger,
}

/// A scheduled event inside the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ClusterEvent {
    JoinNode(ClaimName),
    NodeReady(NodeName),
    /// A node's startup taints are removed by their owner.
    RemoveStartupTaints(NodeName),
    StartPod(PodKey, Text),
    RemovePod(PodKey, Text),
    ContinueDrain(ClaimName),
    /// The Node of a terminated instance is removed.
    RemoveNode(NodeName),
}

impl SimulatedCluster {
    #[must_use]
    pub fn new(settings: ClusterSettings) -> Self {
        Self {
            rng: SeededRng::new(settings.seed).child("cluster"),
            settings,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            daemons: Vec::new(),
            namespaces: BTreeSet::new(),
            workloads: BTreeMap::new(),
            manifests: BTreeMap::new(),
            on_node: BTreeMap::new(),
            unbound: BTreeSet::new(),
            nominated: BTreeMap::new(),
            free: BTreeMap::new(),
            drains: BTreeMap::new(),
            min_running: BTreeMap::new(),
            allowed_evictions: BTreeMap::new(),
            moves: BTreeMap::new(),
            voluntary_drains: BTreeSet::new(),
            used_nodes: BTreeSet::new(),
            terminated_instances: BTreeSet::new(),
            kubelets_join: true,
            event_queue: BTreeSet::new(),
            sequence: 0,
            dirty: false,
            outbox: Vec::new(),
            ledger: ClusterLedger::default(),
        }
    }

    /// A cluster in the same state that draws its random values from another seed. Texts are shared
    /// with this one.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        let settings = ClusterSettings { seed, ..self.settings };
        Self { rng: SeededRng::new(seed).child("cluster"), settings, ..self.clone() }
    }

    /// Replaces the provider ids of NodeClaims and their Nodes by those that `provider_id` has for the NodeClaims: copies of
    /// one cluster have machines of their own. For a cluster at rest: what is scheduled keeps the former ids.
    pub(crate) fn replace_provider_ids(&mut self, provider_id: impl Fn(&ClaimName) -> ProviderId) {
        let mut replaced = BTreeMap::new();
        for (name, claim) in &mut self.claims {
            let id = provider_id(name);
            replaced.insert(std::mem::replace(&mut claim.provider_id, id.clone()), id);
        }
        for node in self.nodes.values_mut() {
            if let Some(id) = replaced.get(&node.provider_id) {
                node.provider_id.clone_from(id);
            }
        }
    }

    fn add_namespace(&mut self, name: &Text) {
        if self.namespaces.insert(name.clone()) {
            let namespace = self.namespace(name);
            self.emit(Object::Namespace(namespace));
        }
    }

    fn namespace(&self, name: &Text) -> NamespaceRecord {
        let label = (Text::from("kubernetes.io/metadata.name"), name.clone());
        NamespaceRecord { name: name.clone(), labels: [label].into_iter().collect() }
    }

    /// Time of the next scheduled event.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.event_queue.first().map(|(at, _, _)| *at)
    }

    fn schedule_event(&mut self, now: Timestamp, wait_ms: i64, event: ClusterEvent) {
        self.sequence += 1;
        self.event_queue.insert((now + Millis::new(wait_ms), self.sequence, event));
    }

    fn emit(&mut self, object: Object) {
        self.outbox.push(Change::Observed(Observation::upsert(object)));
    }

    fn emit_deletion(&mut self, key: Key) {
        self.outbox.push(Change::Observed(Observation::Delete(key)));
    }

    fn emit_node(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.get(name).cloned() {
            self.emit(Object::Node(node));
        }
    }

    /// Manifest of the pods of `workload`, which a pod has as `ReplicaSet/<name>` or
    /// `DaemonSet/<name>`; empty when there is no such workload.
    #[must_use]
    pub(crate) fn pod_manifest(&self, workload: &str) -> Text {
        self.manifests.get(workload).cloned().unwrap_or_default()
    }

    /// Pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.values()
    }

    /// Nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// NodeClaims, by name.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimRecord> {
        self.claims.values()
    }

    /// Pods without a node.
    pub fn waiting(&self) -> impl Iterator<Item = &PodKey> {
        self.unbound.iter()
    }

    /// Nodes of NodeClaims without pods other than those of DaemonSets.
    pub fn empty_nodes(&self) -> impl Iterator<Item = &NodeName> {
        let provided: BTreeSet<&ProviderId> = self.claims.values().map(|claim| &claim.provider_id).collect();
        let claimed = self.nodes.values().filter(move |node| provided.contains(&node.provider_id));
        claimed.map(|node| &node.name).filter(|name| self.has_no_workload_pods(name))
    }

    fn has_no_workload_pods(&self, node: &NodeName) -> bool {
        let pods = self.on_node.get(node).into_iter().flatten();
        pods.filter_map(|key| self.pods.get(key)).all(|pod| pod.daemon.is_some())
    }

    /// Running pods on the machine of `claim`, without DaemonSet pods.
    pub(crate) fn running_for(&self, claim: &ClaimName) -> impl Iterator<Item = &PodRecord> {
        let provider = self.claims.get(claim).map(|claim| &claim.provider_id).filter(|id| !id.is_empty());
        provider.into_iter().flat_map(|provider| self.running_on(provider))
    }

    /// Running pods on the instance with this provider id, without DaemonSet pods and with or
    /// without a NodeClaim.
    pub(crate) fn running_on(&self, provider_id: &ProviderId) -> impl Iterator<Item = &PodRecord> {
        let node = self.nodes.values().find(|node| node.provider_id == *provider_id).map(|node| &node.name);
        let pods = node.and_then(|node| self.on_node.get(node)).into_iter().flatten();
        let pods = pods.filter_map(|key| self.pods.get(key));
        pods.filter(|pod| pod.daemon.is_none() && !pod.terminating && pod.phase == PodPhase::Running)
    }

    /// Whether the machine of `claim` has a Node.
    #[must_use]
    pub(crate) fn has_node_for(&self, claim: &ClaimName) -> bool {
        let provider = self.claims.get(claim).map(|claim| &claim.provider_id).filter(|id| !id.is_empty());
        provider.is_some_and(|provider| self.nodes.values().any(|node| node.provider_id == *provider))
    }

    #[must_use]
    pub fn ledger(&self) -> &ClusterLedger {
        &self.ledger
    }
}

#[cfg(test)]
mod tests;
