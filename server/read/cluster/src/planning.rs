//! The observed state as one complete planning input.
//!
//! Assigned pods are not planned again; they count as pods of their target. Pods of machines marked
//! for deletion, or being replaced, are planned before they are evicted, so that their new machine
//! launches in time (Karpenter: pods of nodes marked for deletion).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bookings::{Booking, HOLD};
use super::node_room::fill_missing;
use super::record::{ClaimRecord, DaemonRecord, NodeRecord, PodRecord, PoolRecord};
use super::state::ClusterState;
use model::input::{PlanningInput, Policy};
use model::labels::{HOSTNAME, INITIALIZED, NODEPOOL, REGISTERED};
use model::offering::SharedCatalogue;
use model::resources::NODES;
use model::{
    BoundPod, DaemonSet, Effect, Labels, Node, NodeName, NodePool, NodeSelectorTerm, NodeStage, NotReady, Operator,
    Pod, PodShape, PoolName, Requirement, Requirements, Taint, Text, Timestamp, VolumeAlternatives,
};

/// Taint of a Node that is not registered yet.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Whether `taint` is removed without this server while a node initializes (Karpenter: known
/// ephemeral taints).
#[must_use]
pub fn is_ephemeral(taint: &Taint) -> bool {
    let hard = taint.effect != Effect::PreferNoSchedule;
    match taint.key.as_ref() {
        "node.kubernetes.io/not-ready" => hard,
        "node.kubernetes.io/unreachable" | "node.cloudprovider.kubernetes.io/uninitialized" => {
            taint.effect == Effect::NoSchedule
        }
        UNREGISTERED => taint.effect == Effect::NoExecute,
        key => key.starts_with("readiness.k8s.io/"),
    }
}

fn is_label_true(labels: &Labels, key: &str) -> bool {
    labels.get(key).is_some_and(|value| value.as_ref() == "true")
}

impl NodeRecord {
    /// Whether the Node is registered: `karpenter.sh/registered`.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        is_label_true(&self.labels, REGISTERED)
    }

    /// Whether the Node is initialized: `karpenter.sh/initialized`.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        is_label_true(&self.labels, INITIALIZED)
    }
}

impl ClusterState {
    /// The planning input for all demand. Catalogues are those of the observed NodePools, with the attach limits that
    /// CSINodes show.
    #[must_use]
    pub fn planning_input(&self, policy: &Policy, now: Timestamp) -> PlanningInput {
        self.planning_input_for(self.demand(now), policy, now)
    }

    /// The planning input for these pods of the demand, by namespace and name.
    #[must_use]
    pub fn planning_input_for(&self, demand: Vec<&PodRecord>, policy: &Policy, now: Timestamp) -> PlanningInput {
        let mut tables = Tables::default();
        let dedicated = self.dedicated_holds();
        let pods = demand.into_iter().map(|pod| {
            let closed = if dedicated.is_empty() { BTreeSet::new() } else { self.holds_closed_to(pod, &dedicated) };
            tables.pod(pod, closed)
        });
        let pods = pods.collect();
        let nodes = self.planning_nodes(&mut tables, now);
        let daemons = self.planning_daemons(&mut tables);
        PlanningInput {
            shapes: tables.shapes.values,
            label_sets: tables.labels.values,
            volume_sets: tables.volumes.values,
            pods,
            nodes,
            pools: self.pools().map(|record| self.planning_pool(record)).collect(),
            daemons,
            namespaces: self.namespaces().clone(),
            policy: policy.clone(),
            now,
        }
    }

    /// The DaemonSets, each with the requests of its newest pod where it has one: what creates pods may state others
    /// than the template (Karpenter: daemon overhead).
    fn planning_daemons(&self, tables: &mut Tables) -> Vec<DaemonSet> {
        let mut newest: FxHashMap<&Text, &PodRecord> = FxHashMap::default();
        for pod in self.pods().filter(|pod| !pod.is_terminal() && !pod.terminating) {
            let Some(daemon) = &pod.daemon else { continue };
            let known = newest.entry(daemon).or_insert(pod);
            if (known.created, &known.key) < (pod.created, &pod.key) {
                *known = pod;
            }
        }
        let read = |daemon: &DaemonRecord| {
            let sample = newest.get(&Text::from(format!("{}/{}", daemon.namespace, daemon.name)));
            let sample = sample.filter(|pod| pod.shape.requests != daemon.shape.requests);
            let shape = sample.map(|pod| {
                Arc::new(PodShape { requests: pod.shape.requests.clone(), ..PodShape::clone(&daemon.shape) })
            });
            DaemonSet {
                namespace: daemon.namespace.clone(),
                name: daemon.name.clone(),
                shape: match shape {
                    Some(shape) => tables.shapes.intern(shape),
                    None => tables.shapes.index(&daemon.shape),
                },
                labels: tables.labels.index(&daemon.labels),
            }
        };
        self.daemons().map(read).collect()
    }

    /// As [`ClusterState::planning_input_for`], for a plan by which nodes are replaced: those whose pods it moves are
    /// drained once the pods have other nodes, and stay in their topology domains until they are gone, so that a pod
    /// which leaves a zone empty waits for that. Such a pod gets a node in its zone, or its node stays.
    #[must_use]
    pub fn provisioning_input_for(&self, demand: Vec<&PodRecord>, policy: &Policy, now: Timestamp) -> PlanningInput {
        let mut input = self.planning_input_for(demand, policy, now);
        let is_replaced = |node: &Node| {
            !self.replacements().is_empty()
                && self.are_pods_moved_from(&node.name)
                && !self.is_node_terminating(&node.name)
        };
        for node in input.nodes.iter_mut().filter(|node| is_replaced(node)) {
            *node = node.drained();
        }
        input
    }

    /// Whether `pod` needs a node and has no assignment. A pod on a Node that leaves needs none while it cannot be evicted,
    /// unless its PodDisruptionBudget may allow the eviction later.
    #[must_use]
    pub fn is_demand(&self, pod: &PodRecord, now: Timestamp) -> bool {
        let leaves = || {
            pod.node.as_ref().is_some_and(|node| self.are_pods_moved_from(node)) && self.needs_another_place(pod, now)
        };
        let waits = || {
            pod.is_unschedulable()
                && self.other_scheduler_of(pod).is_none()
                && self.nominated_node(pod).is_none()
                && self.external_hold_until(pod, now).is_none()
        };
        self.assignments().get(&pod.key).is_none() && (waits() || leaves())
    }

    /// An unmanaged NodePool is marked as not ready, with the reason. Machines that are being replaced use
    /// its limits beside their new ones, as they are not terminating yet.
    fn planning_pool(&self, record: &PoolRecord) -> NodePool {
        let mut pool = record.pool.clone();
        pool.catalogue = SharedCatalogue::clone(self.launch_catalogue(&record.pool));
        if let Some(why) = self.unmanaged_reason(record) {
            pool.not_ready = Some(NotReady::NodePool(why));
        }
        let replaced = self.replacements().keys().filter_map(|claim| self.claim(claim));
        for claim in replaced.filter(|claim| claim.pool == pool.name) {
            let used = |name: &Text| if name.as_ref() == NODES { 1 } else { claim.capacity.get(name) };
            pool.limits = pool.limits.iter().map(|(name, limit)| (name.clone(), limit - used(name))).collect();
        }
        pool
    }

    fn planning_nodes(&self, tables: &mut Tables, now: Timestamp) -> Vec<Node> {
        let mut assigned: BTreeMap<NodeName, Vec<&PodRecord>> = BTreeMap::new();
        for (key, assignment) in self.assignments().iter() {
            let name = self.name_of_target(&assignment.target);
            if let Some(pod) = self.pod(key) {
                assigned.entry(name).or_default().push(pod);
            }
        }
        for pod in self.nominated_pods().filter(|pod| self.assignments().get(&pod.key).is_none()) {
            if let Some(node) = self.nominated_node(pod) {
                assigned.entry(node.clone()).or_default().push(pod);
            }
        }
        let node_of_record = self.nodes().map(|node| self.node_of_record(node));
        let in_flight = self.claims().filter(|claim| self.node_of_claim(&claim.name).is_none());
        let mut nodes: Vec<Node> =
            node_of_record.chain(in_flight.map(|claim| self.node_of_claim_in_flight(claim))).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let bound = self.bound_pods(&nodes);
        let mut booked: BTreeMap<NodeName, Vec<(&Booking, u32)>> = BTreeMap::new();
        for (booking, pods) in self.open_bookings() {
            booked.entry(self.name_of_target(&booking.target)).or_default().push((booking, pods));
        }
        for (node, bound) in nodes.iter_mut().zip(bound) {
            let leaving = node.stage == NodeStage::Deleting;
            let bound = bound.into_iter().map(|pod| (pod, leaving && self.needs_another_place(pod, now)));
            let due = assigned.remove(&node.name).unwrap_or_default().into_iter().map(|pod| (pod, false));
            node.pods = bound.chain(due).map(|(pod, leaving)| tables.bound(pod, leaving)).collect();
            node.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
            for (booking, pods) in booked.remove(&node.name).unwrap_or_default() {
                node.pods.extend((0..pods).map(|number| tables.booked(booking, number)));
            }
        }
        nodes
    }

    /// Non-terminal pods on each of these nodes, by namespace and name: one pass over all pods
    /// costs far less than a lookup for each node.
    fn bound_pods(&self, nodes: &[Node]) -> Vec<Vec<&PodRecord>> {
        let places: FxHashMap<&NodeName, usize> = nodes.iter().enumerate().map(|(at, node)| (&node.name, at)).collect();
        let mut bound = vec![Vec::new(); nodes.len()];
        for pod in self.pods().filter(|pod| !pod.is_terminal()) {
            if let Some(at) = pod.node.as_ref().and_then(|node| places.get(node)) {
                bound[*at].push(pod);
            }
        }
        bound
    }

    fn node_of_record(&self, node: &NodeRecord) -> Node {
        let claim = self.claim_of_node(node);
        let pool = node.labels.get(NODEPOOL).map(PoolName::from).or_else(|| claim.map(|claim| claim.pool.clone()));
        let initialized = pool.is_none() || node.is_initialized();
        let mut labels = node.labels.clone();
        // The controller writes the labels of the NodeClaim when it registers the Node.
        for (key, value) in claim.filter(|_| !node.is_registered()).into_iter().flat_map(|claim| &claim.labels) {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
        labels.entry(Text::from(HOSTNAME)).or_insert_with(|| node.name.as_text().clone());
        // Until a node is initialized, it is planned as it will be: with the taints and resources
        // of its NodeClaim.
        let mut taints = node.taints.clone();
        if !initialized {
            let startup: &[Taint] = claim.map_or(&[], |claim| &claim.startup_taints);
            let is_startup =
                |taint: &Taint| startup.iter().any(|other| other.key == taint.key && other.effect == taint.effect);
            taints.retain(|taint| !is_ephemeral(taint) && !is_startup(taint));
            for taint in claim.filter(|_| !node.is_registered()).into_iter().flat_map(|claim| &claim.taints) {
                if !taints.contains(taint) {
                    taints.push(taint.clone());
                }
            }
        }
        let terminating = self.is_node_outgoing(&node.name);
        let expected = claim.filter(|_| !initialized);
        Node {
            name: node.name.clone(),
            pool,
            labels,
            taints,
            unschedulable: node.unschedulable,
            allocatable: self.allocatable_of(node),
            capacity: fill_missing(&node.capacity, expected.map(|claim| &claim.capacity)),
            stage: match (terminating, initialized) {
                (true, _) => NodeStage::Deleting,
                (false, true) => NodeStage::Initialized,
                (false, false) => NodeStage::Registered,
            },
            pods: Vec::new(),
            attach_limits: self.auxiliary().attach_limits(&node.name).cloned().unwrap_or_default(),
            created: node.created,
        }
    }

    fn node_of_claim_in_flight(&self, claim: &ClaimRecord) -> Node {
        let mut labels = claim.labels.clone();
        add_determined(&mut labels, &claim.requirements);
        labels.insert(Text::from(HOSTNAME), claim.name.as_text().clone());
        let terminating = claim.deleting || self.is_marked_for_deletion(&claim.name);
        Node {
            name: NodeName::from(claim.name.as_text()),
            pool: Some(claim.pool.clone()),
            labels,
            taints: claim.taints.clone(),
            unschedulable: false,
            allocatable: claim.allocatable.clone(),
            capacity: claim.capacity.clone(),
            stage: if terminating { NodeStage::Deleting } else { NodeStage::InFlight },
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: claim.created,
        }
    }

    /// Pods that need a node and have no assignment ([`ClusterState::is_demand`]), by namespace and
    /// name.
    #[must_use]
    pub fn demand(&self, now: Timestamp) -> Vec<&PodRecord> {
        let leaving = self.nodes().map(|node| &node.name).filter(|node| self.are_pods_moved_from(node));
        self.pods_without_node_or_on(leaving).filter(|pod| self.is_demand(pod, now)).collect()
    }
}

/// Adds the labels whose value `requirements` determine.
pub fn add_determined(labels: &mut Labels, requirements: &Requirements) {
    for requirement in requirements.iter() {
        if let Some(values) = requirement.finite_values()
            && let (1, Some(value)) = (values.len(), values.first())
        {
            labels.entry(requirement.key().clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The tables that pods refer to by index.
#[derive(Default)]
struct Tables {
    shapes: Table<PodShape>,
    labels: Table<Labels>,
    volumes: Table<VolumeAlternatives>,
    /// Index of the attachments of bound pods, by the address of their volumes.
    attached: FxHashMap<usize, u32>,
}

impl Tables {
    /// Attachments and claims of a bound pod's volumes. Their topology does not matter any more.
    fn attached(&mut self, volumes: &Arc<VolumeAlternatives>) -> u32 {
        let address = Arc::as_ptr(volumes) as usize;
        if let Some(known) = self.attached.get(&address) {
            return *known;
        }
        let attached = VolumeAlternatives { any_of: Vec::new(), blocked: None, ..VolumeAlternatives::clone(volumes) };
        let index = self.volumes.intern(Arc::new(attached));
        self.attached.insert(address, index);
        index
    }

    /// The pod, which may not be on nodes of the holds in `closed`.
    fn pod(&mut self, pod: &PodRecord, closed: BTreeSet<Text>) -> Pod {
        let shape = match closed.is_empty() {
            true => self.shapes.index(&pod.shape),
            false => self.shapes.intern(Arc::new(kept_off(&pod.shape, closed))),
        };
        Pod {
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            shape,
            labels: self.labels.index(&pod.labels),
            volumes: pod.volumes.as_ref().map(|volumes| self.volumes.index(volumes)),
            created: pod.created,
            workload: pod.workload.clone(),
            moved_from: pod.node.clone(),
            invalid: pod.invalid.clone(),
        }
    }

    /// A pod to come, for which there is room on its node.
    fn booked(&mut self, booking: &Booking, number: u32) -> BoundPod {
        BoundPod {
            namespace: booking.namespace.clone(),
            name: Text::from(format!("{}-{}-{}-{number}", booking.hold, booking.name, booking.target.name())),
            shape: self.shapes.index(&booking.shape),
            labels: self.labels.index(&booking.labels),
            volumes: None,
            daemon: None,
            terminating: false,
            leaving: false,
        }
    }

    fn bound(&mut self, pod: &PodRecord, leaving: bool) -> BoundPod {
        BoundPod {
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            shape: self.shapes.index(&pod.shape),
            labels: self.labels.index(&pod.labels),
            volumes: pod.volumes.as_ref().map(|volumes| self.attached(volumes)),
            daemon: pod.daemon.clone(),
            terminating: pod.terminating,
            leaving,
        }
    }
}

/// The shape, for nodes of other holds than these.
fn kept_off(shape: &PodShape, holds: BTreeSet<Text>) -> PodShape {
    let mut shape = shape.clone();
    let elsewhere = Requirement::new(HOLD, Operator::NotIn, holds);
    if shape.node_affinity.is_empty() {
        shape.node_affinity.push(NodeSelectorTerm { expressions: vec![elsewhere], names: Vec::new() });
        return shape;
    }
    // A term that says nothing matches nothing, and stays so.
    let terms = shape.node_affinity.iter_mut().filter(|term| **term != NodeSelectorTerm::default());
    terms.for_each(|term| term.expressions.push(elsewhere.clone()));
    shape
}

/// Distinct values in the order of insertion. The address is looked up first, because most pods
/// share their parts.
struct Table<T> {
    values: Vec<T>,
    by_address: FxHashMap<usize, u32>,
    by_value: FxHashMap<Arc<T>, u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { values: Vec::new(), by_address: FxHashMap::default(), by_value: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn index(&mut self, value: &Arc<T>) -> u32 {
        let address = Arc::as_ptr(value) as usize;
        if let Some(known) = self.by_address.get(&address) {
            return *known;
        }
        let index = self.intern(Arc::clone(value));
        self.by_address.insert(address, index);
        index
    }

    fn intern(&mut self, value: Arc<T>) -> u32 {
        *self.by_value.entry(value).or_insert_with_key(|value| {
            self.values.push(T::clone(value));
            u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX)
        })
    }
}
