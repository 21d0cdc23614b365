//! In which order pods are tried and nodes join.

use std::cmp::Reverse;

use model::input::PlanningInput;
use model::{NodeStage, Text};
use rustc_hash::FxHashMap;

use crate::cluster::Cluster;
use crate::random::SplitMix64;
use crate::steps::Steps;

/// How the nodes of a launch become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// All at one time.
    Together,
    /// In groups of about the square root of their number.
    InGroups,
    /// One by one; the pods that fit are bound before the next node joins.
    OneByOne,
}

/// A seeded order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Seed of the order of workloads of equal priority, of the order of nodes, and of the choice
    /// between nodes of equal score.
    pub seed: u64,
    pub joining: Joining,
}

/// Binds the `pending` pods of `input`, given by index: the node of each, or `None` for a pod that
/// is left over. Nodes in flight join in the given order; nodes that are being deleted take no part.
/// The whole result is `None` when the steps are used up.
pub(crate) fn bind_all(
    input: &PlanningInput,
    pending: &[u32],
    order: Order,
    steps: &mut Steps,
) -> Option<Vec<Option<u32>>> {
    let mut random = SplitMix64::new(order.seed);
    let (mut cluster, class_of) = Cluster::new(input, pending, steps)?;
    let mut queue = Queue::new(input, pending, &class_of, &mut random);
    let mut late = Vec::new();
    for (number, node) in (0..).zip(&input.nodes) {
        match node.stage {
            NodeStage::Deleting => {}
            NodeStage::InFlight => late.push(number),
            NodeStage::Registered | NodeStage::Initialized => cluster.join(number, steps)?,
        }
    }
    random.shuffle(&mut late);
    let mut places = vec![None; pending.len()];
    // Nodes that are full take steps, and say nothing about those that join.
    steps.begin(0);
    queue.bind(&mut cluster, &mut places, &mut random, steps)?;
    steps.begin(queue.pods());
    for group in late.chunks(order.joining.group_size(late.len())) {
        for node in group {
            cluster.join(*node, steps)?;
        }
        queue.bind(&mut cluster, &mut places, &mut random, steps)?;
    }
    Some(places)
}

impl Joining {
    fn group_size(self, nodes: usize) -> usize {
        match self {
            Self::Together => nodes.max(1),
            Self::InGroups => nodes.isqrt().max(1),
            Self::OneByOne => 1,
        }
    }
}

/// Pods that are not bound, as positions among the pending pods: higher priorities first, and
/// workloads in a random order. The pods of one workload are created together, and so are next to
/// each other in the queue of kube-scheduler.
#[derive(Debug)]
struct Queue(Vec<Run>);

/// Pods of one class that are next to each other in the queue.
#[derive(Debug)]
struct Run {
    class: u32,
    positions: Vec<u32>,
    /// How many of them are bound, from the first on.
    bound: usize,
}

impl Queue {
    fn new(input: &PlanningInput, pending: &[u32], class_of: &[u32], random: &mut SplitMix64) -> Self {
        let pod = |position: &u32| &input.pods[pending[*position as usize] as usize];
        let mut positions: Vec<u32> = (0..).zip(pending).map(|(position, _)| position).collect();
        let mut numbers: FxHashMap<(&Text, &Text), u32> = FxHashMap::default();
        let mut workloads = Vec::new();
        let mut workload_of = Vec::with_capacity(positions.len());
        for position in &positions {
            let workload = (&pod(position).namespace, &pod(position).workload);
            let number = *numbers.entry(workload).or_insert_with(|| {
                workloads.push((workload, workloads.len()));
                u32::try_from(workloads.len() - 1).unwrap_or(u32::MAX)
            });
            workload_of.push(number);
        }
        workloads.sort_unstable();
        random.shuffle(&mut workloads);
        let mut ranks = vec![0; workloads.len()];
        for (rank, (_, number)) in workloads.into_iter().enumerate() {
            ranks[number] = rank;
        }
        random.shuffle(&mut positions);
        let priority = |position: &u32| input.shapes[pod(position).shape as usize].priority;
        let rank = |position: &u32| ranks[workload_of[*position as usize] as usize];
        positions.sort_by_cached_key(|position| (Reverse(priority(position)), rank(position)));
        let class = |position: &u32| class_of[*position as usize];
        let runs = positions.chunk_by(|one, other| class(one) == class(other));
        Self(runs.map(|run| Run { class: class(&run[0]), positions: run.to_vec(), bound: 0 }).collect())
    }

    fn pods(&self) -> usize {
        self.0.iter().map(|run| run.positions.len() - run.bound).sum()
    }

    /// Tries all pods, and again those that a binding may have made room for, until none is bound.
    fn bind(
        &mut self,
        cluster: &mut Cluster<'_>,
        places: &mut [Option<u32>],
        random: &mut SplitMix64,
        steps: &mut Steps,
    ) -> Option<()> {
        // For each class, the number of bindings at which a pod of it fitted nowhere.
        let mut failed: Vec<Option<usize>> = vec![None; cluster.classes()];
        let mut bindings = 0;
        loop {
            let before = bindings;
            steps.take(self.0.len())?;
            for run in &mut self.0 {
                let class = run.class as usize;
                let is_futile = |at: usize| at == bindings || !cluster.may_gain_from_bindings(run.class);
                if failed[class].is_some_and(is_futile) {
                    continue;
                }
                while let Some(position) = run.positions.get(run.bound) {
                    let place = cluster.bind(run.class, random, steps)?;
                    places[*position as usize] = place;
                    steps.count_pod(place.is_some())?;
                    // Where one pod of the class fits nowhere, the next one does not either.
                    if place.is_none() {
                        failed[class] = Some(bindings);
                        break;
                    }
                    (run.bound, bindings) = (run.bound + 1, bindings + 1);
                }
            }
            if bindings == before {
                return Some(());
            }
            self.0.retain(|run| run.bound < run.positions.len());
        }
    }
}
