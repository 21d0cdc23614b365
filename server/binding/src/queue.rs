//! In which order pods are tried and nodes join.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::NodeStage;
use model::input::PlanningInput;

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
    /// How nodes become ready.
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
    let mut queue = Queue::new(input, pending, &mut random);
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
    queue.bind(&mut cluster, &class_of, &mut places, &mut random, steps)?;
    for group in late.chunks(order.joining.group_size(late.len())) {
        for node in group {
            cluster.join(*node, steps)?;
        }
        queue.bind(&mut cluster, &class_of, &mut places, &mut random, steps)?;
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
struct Queue(Vec<u32>);

impl Queue {
    fn new(input: &PlanningInput, pending: &[u32], random: &mut SplitMix64) -> Self {
        let pod = |position: &u32| &input.pods[pending[*position as usize] as usize];
        let workload = |position: &u32| (&pod(position).namespace, &pod(position).workload);
        let mut positions: Vec<u32> = (0..).zip(pending).map(|(position, _)| position).collect();
        let mut workloads: Vec<_> = positions.iter().map(workload).collect();
        workloads.sort_unstable();
        workloads.dedup();
        random.shuffle(&mut workloads);
        let ranks: BTreeMap<_, usize> = workloads.into_iter().zip(0..).collect();
        random.shuffle(&mut positions);
        let priority = |position: &u32| input.shapes[pod(position).shape as usize].priority;
        positions.sort_by_cached_key(|position| (Reverse(priority(position)), ranks.get(&workload(position)).copied()));
        Self(positions)
    }

    /// Tries all pods, and again those that a binding may have made room for, until none is bound.
    fn bind(
        &mut self,
        cluster: &mut Cluster<'_>,
        class_of: &[u32],
        places: &mut [Option<u32>],
        random: &mut SplitMix64,
        steps: &mut Steps,
    ) -> Option<()> {
        // For each class, the number of bindings at which a pod of it fitted nowhere.
        let mut failed: Vec<Option<usize>> = vec![None; cluster.classes()];
        let mut bindings = 0;
        loop {
            let before = bindings;
            let mut left = Vec::new();
            steps.take(self.0.len())?;
            for position in self.0.drain(..) {
                let class = class_of[position as usize];
                let is_futile = |at: usize| at == bindings || !cluster.may_gain_from_bindings(class);
                if failed[class as usize].is_some_and(is_futile) {
                    left.push(position);
                    continue;
                }
                let place = cluster.bind(class, random, steps)?;
                places[position as usize] = place;
                match place {
                    Some(_) => bindings += 1,
                    None => {
                        failed[class as usize] = Some(bindings);
                        left.push(position);
                    }
                }
            }
            self.0 = left;
            if bindings == before || self.0.is_empty() {
                return Some(());
            }
        }
    }
}
