//! What a removal disrupts, and in which order candidates are tried.

use model::eviction_cost::UNIT;
use model::{Resources, Text};
use rustc_hash::FxHashMap;

use crate::working::{MovablePod, WorkingCluster};

/// Savings per disruption, in micro-dollars per hour for each unit of disruption cost, times 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Ratio(i128);

/// The figures of the nodes of a working cluster.
#[derive(Debug, Clone)]
pub(crate) struct DisruptionCost {
    /// How much of all nodes a pod of each shape requests.
    sizes: Vec<u64>,
    ratios: Vec<Ratio>,
    free: Vec<u64>,
}

/// The parts of a whole that sizes are counted in.
const PARTS: i128 = 1 << 40;

impl DisruptionCost {
    pub(crate) fn new(working: &WorkingCluster<'_>) -> Self {
        let input = &working.input;
        let (sizes_of_nodes, size_of_node) = sizes_of_nodes(working);
        let mut all = Resources::new();
        for (allocatable, count) in &sizes_of_nodes {
            for (name, amount) in allocatable.iter() {
                all.set(name.clone(), all.get(name).saturating_add(amount.saturating_mul(*count)));
            }
        }
        let total: Vec<(Text, i64)> =
            all.iter().filter(|(_, amount)| *amount > 0).map(|(name, amount)| (name.clone(), amount)).collect();
        let part = |amounts: &Resources| {
            let part = |(name, total): &(Text, i64)| i128::from(amounts.get(name)) * PARTS / i128::from(*total);
            u64::try_from(total.iter().map(part).sum::<i128>()).unwrap_or(u64::MAX)
        };
        let sizes: Vec<u64> = input.shapes.iter().map(|shape| part(&shape.requests)).collect();
        let parts: Vec<u64> = sizes_of_nodes.iter().map(|(allocatable, _)| part(allocatable)).collect();
        let (mut ratios, mut free) = (Vec::with_capacity(input.nodes.len()), Vec::with_capacity(input.nodes.len()));
        for ((node, state), size) in input.nodes.iter().zip(&working.nodes).zip(size_of_node) {
            let disruption = state.movable().map(|pod| i128::from(working.pods[pod as usize].eviction_cost));
            let disruption = UNIT + disruption.sum::<i128>();
            ratios.push(Ratio(i128::from(state.price.0) * 1024 * UNIT / disruption));
            let used: u64 = node.pods.iter().filter(|pod| !pod.leaving).map(|pod| sizes[pod.shape as usize]).sum();
            free.push(parts[size].saturating_sub(used));
        }
        Self { sizes, ratios, free }
    }

    /// How much of all nodes the pod requests.
    pub(crate) fn size(&self, pod: &MovablePod<'_>) -> u64 {
        self.sizes[pod.shape as usize]
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

/// The distinct allocatable resources of nodes, with the number of nodes that have them; and for each node, the index of
/// its own.
fn sizes_of_nodes<'w>(working: &'w WorkingCluster<'_>) -> (Vec<(&'w Resources, i64)>, Vec<usize>) {
    let mut known: FxHashMap<&Resources, usize> = FxHashMap::default();
    let mut sizes: Vec<(&Resources, i64)> = Vec::new();
    let of_node = working.input.nodes.iter().map(|node| {
        let size = *known.entry(&node.allocatable).or_insert(sizes.len());
        if size == sizes.len() {
            sizes.push((&node.allocatable, 0));
        }
        sizes[size].1 += 1;
        size
    });
    let of_node = of_node.collect();
    (sizes, of_node)
}
