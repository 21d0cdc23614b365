//! A simulated cluster: workloads, a scheduler, kubelets, DaemonSets and the hands that carry instructions out, as one
//! state machine on somebody else's clock.
//!
//! [`SimulatedCluster::instruct`] does what an agent would do against an API server, [`SimulatedCluster::tick`] lets time
//! pass, and both fill an outbox of [`Change`]s: what a watch would have shown. NodePools are not its business; whoever
//! runs it tells them apart. Its [`ClusterLedger`] knows which pods ever ran.
//!
//! The scheduler looks at taints, selectors, required node affinity, host ports and resources, and prefers nodes with more
//! room, as kube-scheduler does by default. Constraints between pods are the planner's alone.
//!
//! Machines are somebody else's: whoever runs the cluster tells it when one is gone ([`SimulatedCluster::machine_gone`]), and
//! its Node follows as a cloud controller would have it.
//!
//! Reading order: [`settings`], `workload` (replicas), `scheduler`, `kubelet` (nodes that join, pods that start), `hands`
//! (instructions), `eviction` (PodDisruptionBudgets), [`book`].

mod eviction;
mod hands;
mod kubelet;
pub mod ledger;
mod scheduler;
pub mod settings;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use cloud::simulated::SeededRng;
use engine::cluster::{
    ClaimRecord, ClusterSnapshot, DaemonRecord, Key, NamespaceRecord, NodeRecord, Object, Observation, PodKey,
    PodPhase, PodRecord,
};
use engine::model::{Resources, Text, Timestamp};

pub use hands::Answer;
pub use ledger::ClusterLedger;
pub use settings::ClusterSettings;
pub use workload::Workload;

/// What a watch, or an instruction that takes its time, shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An object changed.
    Observed(Observation),
    /// The drain of this NodeClaim's Node is over.
    Drained {
        /// NodeClaim.
        claim: Text,
    },
}

/// A cluster by seed.
#[derive(Debug, Clone)]
pub struct SimulatedCluster {
    settings: ClusterSettings,
    dice: SeededRng,
    pods: BTreeMap<PodKey, PodRecord>,
    nodes: BTreeMap<Text, NodeRecord>,
    claims: BTreeMap<Text, ClaimRecord>,
    daemons: Vec<DaemonRecord>,
    namespaces: BTreeSet<Text>,
    workloads: BTreeMap<Text, workload::Owned>,
    /// Pods on each node; follows `pods`.
    on_node: BTreeMap<Text, BTreeSet<PodKey>>,
    /// Pods that wait for a node; follows `pods`.
    unbound: BTreeSet<PodKey>,
    /// Nodes that pods were hinted to (`status.nominatedNodeName`).
    hinted: BTreeMap<PodKey, Text>,
    /// What each node has left; follows `pods`.
    room: BTreeMap<Text, Resources>,
    /// Drains under way, by NodeClaim: the Node, and when pods go regardless.
    drains: BTreeMap<Text, (Text, Option<Timestamp>)>,
    /// PodDisruptionBudgets: by workload, how many of its pods have to run.
    least_running: BTreeMap<Text, usize>,
    /// Provider ids of machines that are gone.
    dead: BTreeSet<Text>,
    /// Whether kubelets of new machines reach this cluster.
    joins: bool,
    agenda: BTreeSet<(Timestamp, u64, Turn)>,
    turns: u64,
    /// Whether the scheduler may find something to do.
    dirty: bool,
    outbox: Vec<Change>,
    book: ClusterLedger,
}

/// What happens by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// The machine of a NodeClaim joins.
    Join(Text),
    /// A node becomes ready.
    Ready(Text),
    /// A node's startup taints are taken off by whoever put them into the NodePool.
    Start(Text),
    /// A pod runs.
    Run(PodKey, Text),
    /// A terminating pod is gone.
    Vanish(PodKey, Text),
    /// A drain is looked at.
    Drain(Text),
    /// The Node of a machine that is gone is removed.
    Remove(Text),
}

impl SimulatedCluster {
    /// An empty cluster.
    #[must_use]
    pub fn new(settings: ClusterSettings) -> Self {
        Self {
            dice: SeededRng::new(settings.seed).child("cluster"),
            settings,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            daemons: Vec::new(),
            namespaces: BTreeSet::new(),
            workloads: BTreeMap::new(),
            on_node: BTreeMap::new(),
            unbound: BTreeSet::new(),
            hinted: BTreeMap::new(),
            room: BTreeMap::new(),
            drains: BTreeMap::new(),
            least_running: BTreeMap::new(),
            dead: BTreeSet::new(),
            joins: true,
            agenda: BTreeSet::new(),
            turns: 0,
            dirty: false,
            outbox: Vec::new(),
            book: ClusterLedger::default(),
        }
    }

    /// A cluster in the same state, whose chances come from another seed from here on. Texts are shared with this one.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        let settings = ClusterSettings { seed, ..self.settings };
        Self { dice: SeededRng::new(seed).child("cluster"), settings, ..self.clone() }
    }

    /// Adds a DaemonSet; its pods come to every node that suits them.
    pub fn add_daemon(&mut self, daemon: DaemonRecord) {
        self.add_namespace(&daemon.namespace);
        self.tell(Object::Daemon(daemon.clone()));
        self.daemons.push(daemon);
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.start_daemons(&node, Timestamp::default());
        }
    }

    fn add_namespace(&mut self, name: &Text) {
        if self.namespaces.insert(name.clone()) {
            let namespace = self.namespace(name);
            self.tell(Object::Namespace(namespace));
        }
    }

    fn namespace(&self, name: &Text) -> NamespaceRecord {
        let label = (Text::from("kubernetes.io/metadata.name"), name.clone());
        NamespaceRecord { name: name.clone(), labels: [label].into_iter().collect() }
    }

    /// Everything there is, as a first list would show it. The outbox is emptied: the snapshot covers it, except drains
    /// that are over, which stay.
    pub fn snapshot(&mut self) -> ClusterSnapshot {
        self.outbox.retain(|change| matches!(change, Change::Drained { .. }));
        ClusterSnapshot {
            pods: self.pods.values().cloned().collect(),
            nodes: self.nodes.values().cloned().collect(),
            claims: self.claims.values().cloned().collect(),
            pools: Vec::new(),
            daemons: self.daemons.clone(),
            namespaces: self.namespaces.iter().map(|name| self.namespace(name)).collect(),
            ..ClusterSnapshot::default()
        }
    }

    /// When something happens by itself next.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.agenda.first().map(|(at, _, _)| *at)
    }

    /// Lets time pass until `now`; what changed since the last call comes out.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Change> {
        while self.agenda.first().is_some_and(|(at, _, _)| *at <= now) {
            if let Some((at, _, turn)) = self.agenda.pop_first() {
                self.turn(turn, at);
                self.schedule(at);
            }
        }
        self.schedule(now);
        std::mem::take(&mut self.outbox)
    }

    fn turn(&mut self, turn: Turn, at: Timestamp) {
        match turn {
            Turn::Join(claim) => self.join(&claim, at),
            Turn::Ready(node) => self.become_ready(&node, at),
            Turn::Start(node) => self.lift_startup_taints(&node, at),
            Turn::Run(pod, uid) => self.run(&pod, &uid, at),
            Turn::Vanish(pod, uid) => self.vanish(&pod, &uid, at),
            Turn::Drain(claim) => self.continue_drain(&claim, at),
            Turn::Remove(node) => self.remove_node(&node, at),
        }
    }

    fn plan_turn(&mut self, now: Timestamp, wait_ms: i64, turn: Turn) {
        self.turns += 1;
        self.agenda.insert((Timestamp(now.0.saturating_add(wait_ms)), self.turns, turn));
    }

    fn tell(&mut self, object: Object) {
        self.outbox.push(Change::Observed(Observation::upsert(object)));
    }

    fn tell_gone(&mut self, key: Key) {
        self.outbox.push(Change::Observed(Observation::Delete(key)));
    }

    fn tell_node(&mut self, name: &Text) {
        if let Some(node) = self.nodes.get(name).cloned() {
            self.tell(Object::Node(node));
        }
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

    /// Pods that wait for a node.
    pub fn waiting(&self) -> impl Iterator<Item = &PodKey> {
        self.unbound.iter()
    }

    /// Nodes of a NodeClaim that hold nothing but DaemonSet pods.
    pub fn empty_nodes(&self) -> impl Iterator<Item = &Text> {
        let provided: BTreeSet<&Text> = self.claims.values().map(|claim| &claim.provider_id).collect();
        let claimed = self.nodes.values().filter(move |node| provided.contains(&node.provider_id));
        claimed.map(|node| &node.name).filter(|name| self.holds_nothing(name))
    }

    fn holds_nothing(&self, node: &Text) -> bool {
        let pods = self.on_node.get(node).into_iter().flatten();
        pods.filter_map(|key| self.pods.get(key)).all(|pod| pod.daemon.is_some())
    }

    /// What runs on the machine of `claim`, DaemonSet pods apart.
    pub fn running_for(&self, claim: &str) -> impl Iterator<Item = &PodRecord> {
        let provider = self.claims.get(claim).map(|claim| &claim.provider_id).filter(|id| !id.is_empty());
        provider.into_iter().flat_map(|provider| self.running_on(provider))
    }

    /// What runs on the machine with this provider id, DaemonSet pods apart, whether or not it has a NodeClaim.
    pub fn running_on(&self, provider_id: &str) -> impl Iterator<Item = &PodRecord> {
        let node = self.nodes.values().find(|node| node.provider_id.as_ref() == provider_id).map(|node| &node.name);
        let pods = node.and_then(|node| self.on_node.get(node)).into_iter().flatten();
        let pods = pods.filter_map(|key| self.pods.get(key));
        pods.filter(|pod| pod.daemon.is_none() && !pod.terminating && pod.phase == PodPhase::Running)
    }

    /// Whether the machine of `claim` has a Node.
    #[must_use]
    pub fn has_node_for(&self, claim: &str) -> bool {
        let provider = self.claims.get(claim).map(|claim| &claim.provider_id).filter(|id| !id.is_empty());
        provider.is_some_and(|provider| self.nodes.values().any(|node| node.provider_id == *provider))
    }

    /// Whether the Node of `claim` is to be drained: tainted, whether or not there is somebody left to evict.
    #[must_use]
    pub fn is_draining(&self, claim: &str) -> bool {
        let provider = self.claims.get(claim).map(|claim| &claim.provider_id).filter(|id| !id.is_empty());
        provider.is_some_and(|provider| self.is_machine_draining(provider))
    }

    /// Whether the Node of a machine is to be drained, by provider id and with or without a NodeClaim.
    #[must_use]
    pub fn is_machine_draining(&self, provider_id: &str) -> bool {
        let node = self.nodes.values().find(|node| node.provider_id.as_ref() == provider_id);
        node.is_some_and(|node| node.taints.iter().any(|taint| taint.key.as_ref() == hands::DISRUPTED))
    }

    /// What really happened, whatever anybody believes.
    #[must_use]
    pub fn book(&self) -> &ClusterLedger {
        &self.book
    }
}

#[cfg(test)]
mod tests;
