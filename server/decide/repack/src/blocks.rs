//! What blocks a node and its pods.

use cluster::blocks::{of_local_volumes, of_other_scheduler, of_pod, of_protected_node, of_static_pool};
use model::disruption_plan::{Block, BlockCode};
use model::input::PlanningInput;
use model::running::{RunningCluster, RunningNode, RunningPod};
use model::{PodKey, Timestamp};

/// Whether the owners of the pods may lift a block with this code. What a node stays for otherwise is a need of the cluster.
pub(crate) fn is_liftable(code: BlockCode) -> bool {
    matches!(
        code,
        BlockCode::PodDisruptionBudget
            | BlockCode::DoNotDisrupt
            | BlockCode::SafeToEvict
            | BlockCode::LocalVolume
            | BlockCode::NoOwner
    )
}

/// The blocks of one node, each with the index of the pod that stays because of it; `None` for the node alone.
pub(crate) type NodeBlocks = Vec<(Option<usize>, Block)>;

/// The blocks of every node of a [`RunningCluster`], in its order.
#[derive(Debug, Clone)]
pub(crate) struct Blocks(Vec<NodeBlocks>);

impl Blocks {
    /// The blocks that are known before anything is planned.
    pub(crate) fn find(input: &PlanningInput, running: &RunningCluster) -> Self {
        let of_node = |node: &RunningNode| {
            let object = &input.nodes[node.node as usize];
            let pool = input.pools.iter().find(|pool| Some(&pool.name) == object.pool.as_ref());
            let protected = of_protected_node(&object.name, (node.do_not_disrupt, object.created), input.now);
            let of_all = pool.and_then(of_static_pool).into_iter().chain(protected);
            let of_pods = node.pods.iter().enumerate().flat_map(|(at, pod)| {
                let blocks = blocks_of_pod(pod, running, input.now).into_iter();
                blocks.map(move |block| (Some(at), block))
            });
            of_all.map(|block| (None, block)).chain(of_pods).collect()
        };
        Self(running.nodes.iter().map(of_node).collect())
    }

    /// Only the blocks that nobody can lift.
    pub(crate) fn without_liftable(&self) -> Self {
        let required = |blocks: &NodeBlocks| {
            blocks.iter().filter(|(_, block)| !is_liftable(block.code)).cloned().collect::<NodeBlocks>()
        };
        Self(self.0.iter().map(required).collect())
    }

    pub(crate) fn has_liftable(&self) -> bool {
        self.0.iter().flatten().any(|(_, block)| is_liftable(block.code))
    }

    /// Adds a block by the pod with the index `pod` of `node`, which found no place.
    pub(crate) fn add_unplaced(&mut self, (node, pod): (usize, usize), key: &PodKey, reason: &str) {
        let message = format!("has no other place: {reason}");
        self.0[node].push((Some(pod), Block::new(BlockCode::NoCapacity, format!("Pod/{key}"), message)));
    }

    pub(crate) fn of_node(&self, node: usize) -> &[(Option<usize>, Block)] {
        &self.0[node]
    }

    pub(crate) fn blocks_pod(&self, node: usize, pod: usize) -> bool {
        self.0[node].iter().any(|(of_pod, _)| *of_pod == Some(pod))
    }
}

/// Everything that blocks `pod` on its node.
fn blocks_of_pod(pod: &RunningPod, running: &RunningCluster, now: Timestamp) -> Vec<Block> {
    let key = &pod.facts.key;
    let mut blocks: Vec<Block> = pod.other_scheduler.iter().map(|name| of_other_scheduler(key, name)).collect();
    // A pod that does not run yet is not evicted.
    if pod.is_nominated {
        return blocks;
    }
    blocks.extend(of_pod(&pod.facts, &running.pod_budgets, now));
    if pod.facts.node_bound {
        return blocks;
    }
    if pod.unsafe_to_evict {
        let message = "has cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"";
        blocks.push(Block::new(BlockCode::SafeToEvict, format!("Pod/{key}"), message));
    }
    blocks.extend(of_local_volumes(pod));
    if pod.facts.workload.starts_with("Pod/") {
        let message = "has no owner that would start it again";
        blocks.push(Block::new(BlockCode::NoOwner, format!("Pod/{key}"), message));
    }
    blocks
}
