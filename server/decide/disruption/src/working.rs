//! The cluster while removals are planned: nodes leave, their pods move, and replacements join.

use std::collections::BTreeSet;

use binding::{bound_pod, launched_node};
use model::eviction_cost::eviction_cost;
use model::input::PlanningInput;
use model::plan::PlannedNode;
use model::removal::RemovalReason;
use model::running::{RunningCluster, RunningNode, RunningPod};
use model::{BoundPod, MicroUsd, Node, NodeName, NodeStage, Pod, Resources, Timestamp};

pub(crate) use crate::movable_pod::MovablePod;
use crate::preferences::required_shapes;

/// A cluster with the removals and replacements that are planned so far.
#[derive(Debug, Clone)]
pub(crate) struct WorkingCluster<'r> {
    /// The nodes as they would be. Its pods are [`WorkingCluster::pods`], wherever they run, with what they prefer and
    /// have as required.
    pub(crate) input: PlanningInput,
    /// By index into the nodes of `input`; those of the cluster first, then the replacements.
    pub(crate) nodes: Vec<WorkingNode>,
    /// The pods that need a place when their node is removed.
    pub(crate) pods: Vec<MovablePod<'r>>,
    /// The removals, in their order.
    pub(crate) removed: Vec<(u32, RemovalReason)>,
    pub(crate) commands: Vec<CommandNodes>,
    /// The pods that were placed, in order; one that moved twice is in it twice.
    moves: Vec<u32>,
    /// The names of all nodes, by index; complete once the plan is finished.
    pub(crate) names: Vec<NodeName>,
    taken: BTreeSet<NodeName>,
    /// By pool, the number of replacements so far.
    launched: Vec<u32>,
    /// The number of shapes that pods state; those after them require what pods prefer and have.
    stated_shapes: usize,
}

/// What is known of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkingNode {
    /// Index into [`RunningCluster::nodes`]; `None` for a replacement.
    pub(crate) running: Option<u32>,
    /// Price per hour.
    pub(crate) price: MicroUsd,
    pub(crate) launch: Option<PlannedNode>,
    /// Whether it is removed, or a replacement that is not launched after all.
    pub(crate) is_gone: bool,
    /// Number of its bound pods before any step.
    pub(crate) own: usize,
    /// For each of its bound pods, the movable pod.
    pub(crate) pods: Vec<Option<u32>>,
}

impl WorkingNode {
    /// The movable pods on the node.
    pub(crate) fn movable(&self) -> impl Iterator<Item = u32> {
        self.pods.iter().copied().flatten()
    }
}

/// Nodes of the cluster that go together.
#[derive(Debug, Clone)]
pub(crate) struct CommandNodes {
    pub(crate) nodes: Vec<u32>,
    /// Why they go: the first reason of them.
    pub(crate) reason: RemovalReason,
}

/// What holds for the pods of nodes that go while they are planned elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terms {
    /// They keep what they prefer and have, and are bound while their nodes are drained.
    Kept,
    /// They are bound while their nodes are drained.
    Bound,
    /// They are bound when their nodes are gone.
    BoundLater,
}

/// Where a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A node of the working cluster.
    Node(u32),
    /// A replacement of the same step, by index.
    Replacement(usize),
}

/// Removals that belong together: the pods of one are placed by the step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    /// Nodes that go, with the reason; a replacement of an earlier step has the reason of what it is no
    /// longer launched for.
    pub(crate) removed: Vec<(u32, RemovalReason)>,
    pub(crate) replacements: Vec<PlannedNode>,
    /// The movable pods of the removed nodes, in the order in which they are placed.
    pub(crate) moves: Vec<(u32, Destination)>,
    /// Whether these pods give up what they prefer and had.
    pub(crate) gives_up_preferences: bool,
}

impl Step {
    /// The pods that move to nodes of the working cluster, and these nodes.
    pub(crate) fn moves_to_nodes(&self) -> Vec<(u32, u32)> {
        let to_node = |(pod, to): &(u32, Destination)| match to {
            Destination::Node(node) => Some((*pod, *node)),
            Destination::Replacement(_) => None,
        };
        self.moves.iter().filter_map(to_node).collect()
    }
}

impl<'r> WorkingCluster<'r> {
    /// The cluster as it runs. `placed` are the pods of `input` that wait, by index, and the nodes that
    /// they are planned on; the others are left out, because they need a machine of their own.
    pub(crate) fn new(input: &PlanningInput, running: &'r RunningCluster, placed: &[(u32, u32)]) -> Self {
        let mut input = input.clone();
        let waiting = std::mem::take(&mut input.pods);
        for (pod, node) in placed {
            input.nodes[*node as usize].pods.push(bound_pod(&waiting[*pod as usize]));
        }
        let nodes = input.nodes.iter().map(|node| {
            let own = node.pods.len();
            WorkingNode { own, pods: vec![None; own], ..WorkingNode::default() }
        });
        let nodes = nodes.collect();
        let taken = input.nodes.iter().map(|node| node.name.clone()).collect();
        let launched = vec![0; input.pools.len()];
        let (pods, removed, moves, names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let stated_shapes = input.shapes.len();
        let commands = Vec::new();
        let mut working = Self { input, nodes, pods, removed, commands, moves, names, taken, launched, stated_shapes };
        for (number, node) in (0..).zip(&running.nodes) {
            working.add(number, node, running);
        }
        let (required, of_pods) = required_shapes(&working.input, &working.pods);
        let pod = |(pod, shape): (&MovablePod<'_>, u32)| Pod { shape, ..pod.pod.clone() };
        working.input.pods = working.pods.iter().zip(of_pods).map(pod).collect();
        working.input.shapes.extend(required);
        working
    }

    /// The pods of `input` as they state their rules, instead of what they prefer and have as required.
    pub(crate) fn restore_stated_rules(&mut self) {
        for (pod, movable) in self.input.pods.iter_mut().zip(&self.pods) {
            pod.shape = movable.shape;
        }
        let stated = |pod: &Option<u32>| pod.map(|pod| self.pods[pod as usize].shape);
        for (node, state) in self.input.nodes.iter_mut().zip(&self.nodes) {
            for (bound, shape) in node.pods.iter_mut().zip(state.pods.iter().map(stated)) {
                bound.shape = shape.unwrap_or(bound.shape);
            }
        }
        self.input.shapes.truncate(self.stated_shapes);
    }

    fn add(&mut self, number: u32, running: &'r RunningNode, cluster: &RunningCluster) {
        let (at, now) = (running.node as usize, self.input.now);
        let state = &mut self.nodes[at];
        state.running = Some(number);
        state.price = running.price;
        // Both are sorted by namespace and name; the pods that wait come last.
        let bound = &self.input.nodes[at].pods;
        let mut next = 0;
        for pod in &running.pods {
            let key = (&pod.facts.key.namespace, &pod.facts.key.name);
            let Some(planned) = pod.pod.as_ref().filter(|_| needs_place(pod, cluster, now)) else { continue };
            while bound.get(next).is_some_and(|bound| (&bound.namespace, &bound.name) < key) {
                next += 1;
            }
            let same = bound.get(next).is_some_and(|bound| (&bound.namespace, &bound.name) == key);
            if same {
                state.pods[next] = u32::try_from(self.pods.len()).ok();
                let node = running.node;
                let shape = planned.shape;
                let cost = eviction_cost(pod.stated_cost, self.input.shapes[shape as usize].priority).max(0);
                let eviction_cost = i64::try_from(cost).unwrap_or(i64::MAX);
                self.pods.push(MovablePod { running: pod, pod: planned, shape, eviction_cost, home: node, node });
            }
        }
    }

    /// Carries `step` out.
    pub(crate) fn apply(&mut self, step: Step) {
        let first = u32::try_from(self.input.nodes.len()).unwrap_or(u32::MAX);
        for replacement in step.replacements {
            self.add_replacement(replacement);
        }
        let of_cluster = |(node, _): &&(u32, RemovalReason)| self.nodes[*node as usize].launch.is_none();
        let nodes: Vec<u32> = step.removed.iter().filter(of_cluster).map(|(node, _)| *node).collect();
        if let Some(reason) = step.removed.iter().filter(of_cluster).map(|(_, reason)| *reason).min() {
            self.commands.push(CommandNodes { nodes, reason });
        }
        for (node, reason) in step.removed {
            self.remove(node, reason);
        }
        for (pod, destination) in step.moves {
            if step.gives_up_preferences {
                self.input.pods[pod as usize].shape = self.pods[pod as usize].shape;
            }
            let node = match destination {
                Destination::Node(node) => node,
                Destination::Replacement(at) => first.saturating_add(u32::try_from(at).unwrap_or(u32::MAX)),
            };
            self.put(pod, node);
        }
    }

    fn add_replacement(&mut self, mut launch: PlannedNode) {
        launch.name = self.unused_name(&launch);
        let price = launch.price;
        if let Some(node) = launched_node(&self.input, &launch, launch.name.clone()) {
            self.input.nodes.push(node);
            self.nodes.push(WorkingNode { price, launch: Some(launch), ..WorkingNode::default() });
        }
    }

    /// A name of the pool of `launch` that no node has.
    fn unused_name(&mut self, launch: &PlannedNode) -> NodeName {
        let pool = &self.input.pools[launch.pool as usize].name;
        let count = &mut self.launched[launch.pool as usize];
        loop {
            *count += 1;
            let name = NodeName::from(format!("{pool}-{count}"));
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn remove(&mut self, node: u32, reason: RemovalReason) {
        let at = node as usize;
        self.input.nodes[at].stage = NodeStage::Deleting;
        for pod in &mut self.input.nodes[at].pods {
            pod.leaving = true;
        }
        self.nodes[at].is_gone = true;
        self.nodes[at].pods.fill(None);
        if self.nodes[at].launch.is_none() {
            self.removed.push((node, reason));
        }
    }

    fn put(&mut self, pod: u32, node: u32) {
        let movable = &mut self.pods[pod as usize];
        movable.node = node;
        self.input.nodes[node as usize].pods.push(bound_pod(&self.input.pods[pod as usize]));
        self.nodes[node as usize].pods.push(Some(pod));
        self.moves.push(pod);
    }

    /// The pods whose node changes, in the order in which they were placed there.
    pub(crate) fn moves(&self) -> Vec<u32> {
        let mut seen = vec![false; self.pods.len()];
        let mut last: Vec<u32> = Vec::with_capacity(self.moves.len());
        for pod in self.moves.iter().rev() {
            if !std::mem::replace(&mut seen[*pod as usize], true) {
                last.push(*pod);
            }
        }
        last.reverse();
        last
    }

    /// Whether the movable pod has hard rules over domains of several nodes.
    pub(crate) fn has_domain_rules(&self, pod: u32) -> bool {
        self.input.shapes[self.input.pods[pod as usize].shape as usize].has_rules_over_zones()
    }

    /// Whether `node` is a machine that a static NodePool launches: it is launched whatever pods need.
    pub(crate) fn is_of_static_pool(&self, node: u32) -> bool {
        let launch = self.nodes[node as usize].launch.as_ref();
        launch.is_some_and(|launch| self.input.pools[launch.pool as usize].replicas.is_some())
    }

    /// Whether pods of other nodes may move to `node`.
    pub(crate) fn accepts_pods(&self, node: u32) -> bool {
        let at = node as usize;
        let is_replacement = self.nodes[at].launch.is_some();
        !self.nodes[at].is_gone && (is_replacement || self.input.nodes[at].stage == NodeStage::Initialized)
    }

    /// For each node, whether one of its movable pods may have room on a node from index `first` on, and for those nodes
    /// themselves that it is so.
    pub(crate) fn nodes_with_pods_for(&self, first: usize) -> Vec<bool> {
        let free: Vec<Resources> = (first..self.nodes.len()).map(|at| self.free(at)).collect();
        let fits: Vec<bool> =
            self.input.shapes.iter().map(|shape| free.iter().any(|free| shape.requests.fits(free))).collect();
        let fits_of = |pod: u32| fits[self.pods[pod as usize].shape as usize];
        let nodes = self.nodes.iter().enumerate();
        nodes.map(|(at, node)| at >= first || node.movable().any(fits_of)).collect()
    }

    /// What pods may request of the node beside those that are on it.
    fn free(&self, at: usize) -> Resources {
        let node = &self.input.nodes[at];
        let mut free = node.allocatable.clone();
        for pod in node.pods.iter().filter(|pod| !pod.leaving) {
            free.subtract(&self.input.shapes[pod.shape as usize].requests);
        }
        free
    }

    /// The movable pod of each bound pod, for [`binding::ClusterSnapshot`].
    pub(crate) fn planned_pods(&self) -> Vec<Vec<Option<&Pod>>> {
        let of_node = |node: &WorkingNode| {
            node.pods.iter().map(|pod| pod.map(|pod| &self.input.pods[pod as usize])).collect::<Vec<_>>()
        };
        self.nodes.iter().map(of_node).collect()
    }

    /// Whether one of the movable pods of `nodes` has what it prefers.
    pub(crate) fn has_preferences(&self, nodes: &[u32]) -> bool {
        let mut pods = nodes.iter().flat_map(|node| self.nodes[*node as usize].movable());
        pods.any(|pod| self.input.pods[pod as usize].shape != self.pods[pod as usize].shape)
    }

    /// The working cluster as the input of a plan for the pods of `leaving`, on `terms`, in the order of namespace and
    /// name; and the movable pod of each. Of the other nodes, those that `takes` accepts take pods.
    ///
    /// Nodes that leave or have left are drained. After that they are gone, or would be as good as gone for
    /// [`Terms::BoundLater`].
    pub(crate) fn input_for(
        &self,
        leaving: &[u32],
        terms: Terms,
        takes: impl Fn(u32) -> bool,
    ) -> (PlanningInput, Vec<u32>) {
        let mut input = self.input.clone();
        let mut pods: Vec<u32> = leaving.iter().flat_map(|node| self.nodes[*node as usize].movable()).collect();
        pods.sort_by_key(|pod| key(&self.pods[*pod as usize]));
        for node in leaving {
            let node = &mut input.nodes[*node as usize];
            node.stage = NodeStage::Deleting;
            node.pods.iter_mut().for_each(|pod| pod.leaving = true);
        }
        let planned = |pod: &u32| match terms {
            Terms::Kept => self.input.pods[*pod as usize].clone(),
            Terms::Bound | Terms::BoundLater => self.pods[*pod as usize].pod.clone(),
        };
        input.pods = pods.iter().map(planned).collect();
        for (at, node) in (0..).zip(&mut input.nodes) {
            if node.stage == NodeStage::Deleting && terms != Terms::BoundLater {
                *node = node.drained();
            } else if node.stage != NodeStage::Deleting && !(self.accepts_pods(at) && takes(at)) {
                close(node, &self.input);
            }
        }
        count_staying_nodes(&mut input);
        (input, pods)
    }
}

/// Has `min-nodes` of each NodePool ask for the nodes that it lacks beside those that stay.
pub(crate) fn count_staying_nodes(input: &mut PlanningInput) {
    for pool in input.pools.iter_mut().filter(|pool| pool.rules.min_nodes.is_some()) {
        let stays = |node: &&Node| node.stage != NodeStage::Deleting && node.pool.as_ref() == Some(&pool.name);
        let staying = i64::try_from(input.nodes.iter().filter(stays).count()).unwrap_or(i64::MAX);
        pool.rules.min_nodes = pool.rules.min_nodes.map(|least| least - staying).filter(|missing| *missing > 0);
    }
}

fn key<'r>(pod: &MovablePod<'r>) -> (&'r model::Text, &'r model::Text) {
    (&pod.pod.namespace, &pod.pod.name)
}

/// Leaves nothing free on `node`: it may never become ready.
fn close(node: &mut Node, input: &PlanningInput) {
    let mut used = Resources::new();
    let requests = |pod: &BoundPod| &input.shapes[pod.shape as usize].requests;
    node.pods.iter().filter(|pod| !pod.leaving).for_each(|pod| used.add(requests(pod)));
    node.allocatable = used;
}

/// Whether the pod must run elsewhere when its node is removed: nothing starts a pod without an owner
/// again, nor a terminating one, except a pod of a StatefulSet, which is made anew under its name; one that is held from
/// eviction runs until the node ends (plan contract §3), and one of another scheduler is not planned for.
fn needs_place(pod: &RunningPod, running: &RunningCluster, now: Timestamp) -> bool {
    let facts = &pod.facts;
    let is_held = facts.is_protected(now) || !facts.blocking_budgets(&running.pod_budgets).is_empty();
    let is_planned = pod.other_scheduler.is_none() && !facts.workload.starts_with("Pod/");
    let returns = !facts.terminating || facts.workload.starts_with("StatefulSet/");
    !facts.node_bound && returns && is_planned && !is_held
}
