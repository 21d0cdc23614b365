//! What is in use on each node.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::resources::{CPU, MEMORY};
use model::{HostPort, Node, PodShape, Resources, Text};
use verifier::kernel::{DaemonSets, attach_limit_of_node, volumes_on_node, within_attach_limit};

use crate::classes::PodClass;
use crate::scores::resources::{CpuAndMemory, DEFAULT_REQUESTS};

/// The requested resources, numbered, so that amounts are arrays.
#[derive(Debug, Default)]
pub(crate) struct ResourceIndex<'a> {
    names: Vec<&'a str>,
}

impl<'a> ResourceIndex<'a> {
    /// The resources that pods of `shapes` request.
    pub(crate) fn of(shapes: impl Iterator<Item = &'a PodShape>) -> Self {
        let requested = shapes.flat_map(|shape| shape.requests.iter().filter(|(_, amount)| *amount > 0));
        let names: BTreeSet<&str> = requested.map(|(name, _)| name.as_ref()).collect();
        Self { names: names.into_iter().collect() }
    }

    fn amounts(&self, resources: &Resources) -> Vec<i64> {
        self.names.iter().map(|name| resources.get(name)).collect()
    }

    /// The numbers and amounts of what `shape` requests.
    fn requests(&self, shape: &PodShape) -> Vec<(usize, i64)> {
        let amounts = self.amounts(&shape.requests);
        amounts.into_iter().enumerate().filter(|(_, amount)| *amount > 0).collect()
    }
}

/// What a pod of a class takes of a node.
#[derive(Debug)]
pub(crate) struct Demand<'a> {
    class: PodClass<'a>,
    /// By number of the [`ResourceIndex`].
    pub(crate) requests: Vec<(usize, i64)>,
    /// CPU and memory that the pod requests, and what they count as in `LeastAllocated`.
    pub(crate) requested: CpuAndMemory,
    pub(crate) scored: CpuAndMemory,
}

impl<'a> Demand<'a> {
    pub(crate) fn of(class: PodClass<'a>, index: &ResourceIndex<'_>) -> Self {
        let shape = class.shape;
        let (requested, scored) = (cpu_and_memory(&shape.requests), scored_requests(shape));
        Self { class, requests: index.requests(shape), requested, scored }
    }
}

/// CPU and memory of `resources`.
fn cpu_and_memory(resources: &Resources) -> CpuAndMemory {
    [resources.get(CPU), resources.get(MEMORY)]
}

/// What the requests of a pod count as in `LeastAllocated`.
fn scored_requests(shape: &PodShape) -> CpuAndMemory {
    let [cpu, memory] = cpu_and_memory(&shape.requests);
    let [default_cpu, default_memory] = DEFAULT_REQUESTS;
    [if cpu == 0 { default_cpu } else { cpu }, if memory == 0 { default_memory } else { memory }]
}

/// The free amounts of all nodes in one array, and what else is in use on each: the free amounts and versions of
/// many nodes are read for every pod.
#[derive(Debug)]
pub(crate) struct Hosts<'a> {
    list: Vec<Host<'a>>,
    /// By node and number of the [`ResourceIndex`].
    free: Vec<i64>,
    resources: usize,
    /// By node; incremented by every pod that is bound there.
    versions: Vec<u32>,
}

/// One node and what is in use there.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    node: &'a Node,
    pub(crate) allocatable: CpuAndMemory,
    /// CPU and memory requested by its pods.
    pub(crate) requested: CpuAndMemory,
    /// The same with default requests.
    pub(crate) scored: CpuAndMemory,
    ports: Vec<&'a HostPort>,
    /// Number of pods by volume.
    volumes: BTreeMap<&'a (Text, Text), u32>,
}

impl<'a> Hosts<'a> {
    /// The nodes of `input` with their pods, and with the DaemonSet pods that they lack.
    pub(crate) fn of(input: &'a PlanningInput, index: &ResourceIndex<'_>) -> Self {
        let daemons = DaemonSets::of(input);
        let (mut list, mut free) = (Vec::with_capacity(input.nodes.len()), Vec::new());
        let mut shapes: Vec<Option<ShapeAmounts>> = input.shapes.iter().map(|_| None).collect();
        for node in &input.nodes {
            let host = Host::new(input, (&daemons, index), node, (&mut shapes, &mut free));
            list.push(host);
        }
        Self { versions: vec![0; list.len()], resources: index.names.len(), list, free }
    }

    pub(crate) fn get(&self, node: usize) -> &Host<'a> {
        &self.list[node]
    }

    /// How many pods were bound to `node`.
    pub(crate) fn version(&self, node: usize) -> u32 {
        self.versions[node]
    }

    pub(crate) fn has_free(&self, node: usize, requests: &[(usize, i64)]) -> bool {
        let free = &self.free[node * self.resources..][..self.resources];
        requests.iter().all(|(number, amount)| *amount <= free[*number])
    }

    /// For each resource, the most that one of `nodes` has free.
    pub(crate) fn most_free(&self, nodes: &[u32]) -> Vec<i64> {
        let mut most = vec![i64::MIN; self.resources];
        for node in nodes {
            let free = &self.free[*node as usize * self.resources..][..self.resources];
            most.iter_mut().zip(free).for_each(|(most, free)| *most = (*most).max(*free));
        }
        most
    }

    /// Gives back what a pod uses, which is bound to `node`.
    pub(crate) fn unbind(&mut self, node: usize, demand: &Demand<'a>) {
        let free = &mut self.free[node * self.resources..][..self.resources];
        for (number, amount) in &demand.requests {
            free[*number] += amount;
        }
        self.list[node].unbind(demand);
        self.versions[node] += 1;
    }

    pub(crate) fn bind(&mut self, node: usize, demand: &Demand<'a>) {
        let free = &mut self.free[node * self.resources..][..self.resources];
        for (number, amount) in &demand.requests {
            free[*number] -= amount;
        }
        self.list[node].bind(demand);
        self.versions[node] += 1;
    }
}

/// What a pod of a shape takes of a node: amounts by number of the [`ResourceIndex`], CPU and memory, and what these count
/// as in `LeastAllocated`.
struct ShapeAmounts {
    amounts: Vec<i64>,
    requested: CpuAndMemory,
    scored: CpuAndMemory,
}

impl ShapeAmounts {
    fn of(shape: &PodShape, index: &ResourceIndex<'_>) -> Self {
        let (requested, scored) = (cpu_and_memory(&shape.requests), scored_requests(shape));
        Self { amounts: index.amounts(&shape.requests), requested, scored }
    }
}

impl<'a> Host<'a> {
    /// The node with its pods. `shapes` are the amounts of the shapes of pods, which are computed on demand; the free amounts
    /// of the node are added to `free_by_node`.
    fn new(
        input: &'a PlanningInput,
        (daemons, index): (&DaemonSets<'a>, &ResourceIndex<'_>),
        node: &'a Node,
        (shapes, free_by_node): (&mut [Option<ShapeAmounts>], &mut Vec<i64>),
    ) -> Self {
        let allocatable = cpu_and_memory(&node.allocatable);
        let missing = daemons.missing_requests(node);
        let of_daemons = cpu_and_memory(&missing);
        let (mut requested, mut scored) = (of_daemons, of_daemons);
        let first = free_by_node.len();
        free_by_node.extend(index.amounts(&node.allocatable));
        let free = &mut free_by_node[first..];
        for pod in node.pods.iter().filter(|pod| !pod.leaving) {
            let at = pod.shape as usize;
            let taken = shapes[at].get_or_insert_with(|| ShapeAmounts::of(&input.shapes[at], index));
            free.iter_mut().zip(&taken.amounts).for_each(|(free, amount)| *free = free.saturating_sub(*amount));
            for at in 0..2 {
                requested[at] += taken.requested[at];
                scored[at] += taken.scored[at];
            }
        }
        free.iter_mut().zip(index.amounts(&missing)).for_each(|(free, amount)| *free = free.saturating_sub(amount));
        let mut volumes = BTreeMap::new();
        for volume in volumes_on_node(input, node).filter(|_| !node.attach_limits.is_empty()) {
            *volumes.entry(volume).or_insert(0) += 1;
        }
        let ports = daemons.ports_on_node(node).collect();
        Self { node, allocatable, requested, scored, ports, volumes }
    }

    /// Whether ports and attachments of a pod of `class` are free.
    pub(crate) fn has_ports_and_attachments(&self, class: &PodClass<'_>) -> bool {
        let conflict = |port: &HostPort| self.ports.iter().any(|other| other.conflicts_with(port));
        !class.shape.host_ports.iter().any(conflict) && self.attaches(class)
    }

    fn attaches(&self, class: &PodClass<'_>) -> bool {
        let Some(volumes) = class.volumes.filter(|_| !self.node.attach_limits.is_empty()) else { return true };
        let added = volumes.attachments.iter().filter(|volume| !self.volumes.contains_key(volume));
        let drivers: BTreeSet<&Text> = added.clone().map(|(driver, _)| driver).collect();
        drivers.into_iter().all(|driver| {
            let there = self.volumes.keys().filter(|(name, _)| name == driver).count();
            let more = added.clone().filter(|(name, _)| name == driver).count();
            within_attach_limit(there + more, attach_limit_of_node(self.node, driver))
        })
    }

    fn bind(&mut self, demand: &Demand<'a>) {
        for at in 0..2 {
            self.requested[at] += demand.requested[at];
            self.scored[at] += demand.scored[at];
        }
        let class = &demand.class;
        self.ports.extend(&class.shape.host_ports);
        for volume in attachments(class, self.node) {
            *self.volumes.entry(volume).or_insert(0) += 1;
        }
    }

    fn unbind(&mut self, demand: &Demand<'a>) {
        for at in 0..2 {
            self.requested[at] -= demand.requested[at];
            self.scored[at] -= demand.scored[at];
        }
        let class = &demand.class;
        for port in &class.shape.host_ports {
            if let Some(at) = self.ports.iter().position(|taken| *taken == port) {
                self.ports.swap_remove(at);
            }
        }
        for volume in attachments(class, self.node) {
            if let Some(pods) = self.volumes.get_mut(volume) {
                *pods -= 1;
            }
        }
        self.volumes.retain(|_, pods| *pods > 0);
    }
}

/// The volumes of a pod that count against the attach limits of `node`.
fn attachments<'a>(class: &PodClass<'a>, node: &Node) -> &'a [(Text, Text)] {
    let limited = class.volumes.filter(|_| !node.attach_limits.is_empty());
    limited.map(|volumes| volumes.attachments.as_slice()).unwrap_or_default()
}
