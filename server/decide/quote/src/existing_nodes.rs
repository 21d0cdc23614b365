//! The nodes of a cluster, prepared to take the pods of quotes.

use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::Plan;
use model::{Node, NodePool, Resources, Text};
use planner::CompileCache;

use crate::condensed::condensed_nodes;
use crate::pod_set::{PodSet, add_pods, remove_pods};

/// The nodes of a cluster, with one pod for the running pods of each.
#[derive(Debug)]
pub(crate) struct ExistingNodes {
    /// Without pending pods and NodePools.
    input: PlanningInput,
    /// What is left of each node.
    free: Vec<Resources>,
}

impl ExistingNodes {
    pub fn new(full: &PlanningInput) -> Self {
        let input = condensed_nodes(full);
        let free = input.nodes.iter().map(|node| free(&input, node)).collect();
        Self { input, free }
    }

    /// The places of pods of `sets` on the nodes. Of most clusters nearly all nodes are full: those without room for any of
    /// the pods are left out, because what is compiled for each node takes far longer than to see that it is full.
    pub fn schedule(&mut self, sets: &[PodSet], cache: &mut CompileCache) -> Plan {
        let has_room = |at: u32| self.free.get(at as usize).is_some_and(|free| sets.iter().any(|set| fits(set, free)));
        let numbers = 0..u32::try_from(self.free.len()).unwrap_or(u32::MAX);
        let with_room: Vec<u32> = numbers.filter(|at| has_room(*at)).collect();
        if with_room.is_empty() {
            let pods = sets.iter().map(|set| set.count).sum();
            return Plan { unschedulable: (0..pods).collect(), ..Plan::default() };
        }
        let all = std::mem::take(&mut self.input.nodes);
        let (nodes, others) = split(all, &with_room);
        self.input.nodes = nodes;
        let before = add_pods(&mut self.input, sets);
        let mut plan = scheduler::schedule_with(&self.input, cache);
        remove_pods(&mut self.input, before);
        plan.placements.iter_mut().for_each(|(_, node)| *node = with_room[*node as usize]);
        let mut all: Vec<(u32, Node)> =
            with_room.into_iter().zip(std::mem::take(&mut self.input.nodes)).chain(others).collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        self.input.nodes = all.into_iter().map(|(_, node)| node).collect();
        plan
    }

    /// Whether the verifier accepts the places of pods of `sets` on the nodes.
    pub fn accept_places(&mut self, plan: &Plan, sets: &[PodSet]) -> bool {
        let before = add_pods(&mut self.input, sets);
        let is_accepted = verifier::check(&self.input, plan).is_empty();
        remove_pods(&mut self.input, before);
        is_accepted
    }

    /// Whether the verifier accepts a plan for the pods of `sets` that launches nodes of `pools` as well.
    pub fn accept(&mut self, plan: &Plan, sets: &[PodSet], pools: &mut Vec<NodePool>) -> bool {
        std::mem::swap(&mut self.input.pools, pools);
        let is_accepted = self.accept_places(plan, sets);
        std::mem::swap(&mut self.input.pools, pools);
        is_accepted
    }
}

/// Whether nodes of the cluster can make a difference to what may be launched for pods without rules between pods: by a limit
/// of a NodePool, or because a running pod excludes others from more than its node.
pub(crate) fn bear_on_launches(full: &PlanningInput) -> bool {
    let running = full.nodes.iter().flat_map(|node| &node.pods).map(|pod| &full.shapes[pod.shape as usize]);
    let mut terms = running.flat_map(|shape| &shape.pod_anti_affinity);
    full.pools.iter().any(|pool| !pool.limits.is_empty()) || terms.any(|term| term.topology_key.as_ref() != HOSTNAME)
}

/// The nodes at these numbers, which ascend, and the others with their numbers.
fn split(nodes: Vec<Node>, numbers: &[u32]) -> (Vec<Node>, Vec<(u32, Node)>) {
    let (chosen, others): (Vec<_>, Vec<_>) =
        (0..).zip(nodes).partition(|(number, _)| numbers.binary_search(number).is_ok());
    (chosen.into_iter().map(|(_, node)| node).collect(), others)
}

/// What the pods of the node leave of it.
fn free(input: &PlanningInput, node: &Node) -> Resources {
    let used =
        |name: &Text| -> i64 { node.pods.iter().map(|pod| input.shapes[pod.shape as usize].requests.get(name)).sum() };
    node.allocatable.iter().map(|(name, all)| (name.clone(), all - used(name))).collect()
}

/// Whether one pod of the set may have room.
fn fits(set: &PodSet, free: &Resources) -> bool {
    set.shape.requests.iter().all(|(name, needed)| needed <= 0 || free.get(name) >= needed)
}
