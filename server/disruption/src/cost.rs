//! What a removal disrupts, and in which order candidates are tried.

use model::input::PlanningInput;
use model::running::RunningPod;
use model::{Pod, Resources, Text};

use crate::working::WorkingCluster;

/// Savings per disruption, in micro-dollars per hour for each unit of disruption cost, times 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Ratio(i128);

/// Eviction costs are counted in parts of 2^27.
const UNIT: i128 = 1 << 27;

/// The eviction cost of a pod, in parts of 2^27 (Karpenter: EvictionCost): 1, and more for a high deletion
/// cost or priority, between −10 and 10.
pub(crate) fn eviction_cost(pod: &RunningPod, priority: i32) -> i128 {
    // priority / 2^25 is priority × 4 / 2^27.
    let cost = UNIT + i128::from(pod.deletion_cost) + 4 * i128::from(priority);
    cost.clamp(-10 * UNIT, 10 * UNIT)
}

/// The figures of the nodes of a working cluster.
#[derive(Debug, Clone)]
pub(crate) struct DisruptionCost<'w> {
    input: &'w PlanningInput,
    /// What all nodes together have of each resource.
    total: Vec<(Text, i64)>,
    ratios: Vec<Ratio>,
    free: Vec<u64>,
}

/// The parts of a whole that sizes are counted in.
const PARTS: i128 = 1 << 40;

impl<'w> DisruptionCost<'w> {
    pub(crate) fn new(working: &'w WorkingCluster<'_>) -> Self {
        let input = &working.input;
        let mut all = Resources::new();
        input.nodes.iter().for_each(|node| all.add(&node.allocatable));
        let total = all.iter().filter(|(_, amount)| *amount > 0).map(|(name, amount)| (name.clone(), amount)).collect();
        let mut cost = Self { input, total, ratios: Vec::new(), free: Vec::new() };
        for at in 0..working.nodes.len() {
            let disruption = working.nodes[at].movable().map(|pod| {
                let pod = &working.pods[pod as usize];
                eviction_cost(pod.running, input.shapes[pod.pod.shape as usize].priority).max(0)
            });
            let disruption = UNIT + disruption.sum::<i128>();
            cost.ratios.push(Ratio(i128::from(working.nodes[at].price.0) * 1024 * UNIT / disruption));
            let node = &input.nodes[at];
            let used: u64 = node.pods.iter().filter(|pod| !pod.leaving).map(|pod| cost.part(pod.shape)).sum();
            cost.free.push(cost.part_of(&node.allocatable).saturating_sub(used));
        }
        cost
    }

    /// How much of all nodes the pod requests.
    pub(crate) fn size(&self, pod: &Pod) -> u64 {
        self.part(pod.shape)
    }

    fn part(&self, shape: u32) -> u64 {
        self.part_of(&self.input.shapes[shape as usize].requests)
    }

    fn part_of(&self, amounts: &Resources) -> u64 {
        let part = |(name, total): &(Text, i64)| i128::from(amounts.get(name)) * PARTS / i128::from(*total);
        u64::try_from(self.total.iter().map(part).sum::<i128>()).unwrap_or(u64::MAX)
    }

    /// Price for each unit of disruption cost (Karpenter: SavingsRatio).
    pub(crate) fn savings_ratio(&self, node: u32) -> Ratio {
        self.ratios[node as usize]
    }

    /// How much of all nodes is free on this one.
    pub(crate) fn free(&self, node: u32) -> u64 {
        self.free[node as usize]
    }
}
