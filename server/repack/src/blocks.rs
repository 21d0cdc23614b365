//! What blocks a node and its pods.

use model::input::PlanningInput;
use model::removal::RemovalInput;
use model::running::{RunningCluster, RunningNode, RunningPod};
use model::{NodePool, PodKey, Timestamp};
use verifier::{blocking_pod_budgets, is_do_not_disrupt_active, is_protected};

/// Why a node stays, as a code. The names that `plan --disrupt` has as well mean the same (plan
/// contract §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockCode {
    /// A PodDisruptionBudget allows no eviction now, or several select a pod.
    PodDisruptionBudget,
    /// `karpenter.sh/do-not-disrupt` on the Node or a pod.
    DoNotDisrupt,
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"` on a pod.
    SafeToEvict,
    /// A PersistentVolume is on the disk of the node.
    LocalVolume,
    /// A pod has no owner that would start it again.
    NoOwner,
    /// A pod of another scheduler, which is not planned for.
    OtherScheduler,
    /// The NodePool has a fixed number of nodes.
    Static,
    NoCapacity,
    /// The cluster is left as it is, because repacking it does not pay.
    NoSavings,
}

impl BlockCode {
    /// The code as printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::SafeToEvict => "SafeToEvict",
            Self::LocalVolume => "LocalVolume",
            Self::NoOwner => "NoOwner",
            Self::OtherScheduler => "OtherScheduler",
            Self::Static => "Static",
            Self::NoCapacity => "NoCapacity",
            Self::NoSavings => "NoSavings",
        }
    }

    /// Whether the owners of the pods may lift the block. What a node stays for otherwise is a need
    /// of the cluster.
    #[must_use]
    pub fn is_liftable(self) -> bool {
        match self {
            Self::PodDisruptionBudget | Self::DoNotDisrupt | Self::SafeToEvict | Self::LocalVolume | Self::NoOwner => {
                true
            }
            Self::OtherScheduler | Self::Static | Self::NoCapacity | Self::NoSavings => false,
        }
    }
}

/// An object that blocks a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    pub code: BlockCode,
    /// `Kind/name` or `Kind/namespace/name`.
    pub object: String,
    /// The reason as a sentence whose subject is the object.
    pub message: String,
}

/// A holder, and the pod that stays because of it: its index on the node, or `None` for the node
/// alone.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) pod: Option<usize>,
    pub(crate) blocker: Blocker,
}

/// The blocks of every node of a [`RunningCluster`], in its order.
#[derive(Debug, Clone)]
pub(crate) struct Blocks(Vec<Vec<Block>>);

impl Blocks {
    /// The blocks that are known before anything is planned.
    pub(crate) fn find(input: &PlanningInput, running: &RunningCluster) -> Self {
        let judged =
            RemovalInput { now: input.now, pod_budgets: running.pod_budgets.clone(), ..RemovalInput::default() };
        let of_node = |node: &RunningNode| {
            let object = &input.nodes[node.node as usize];
            let pool = input.pools.iter().find(|pool| Some(&pool.name) == object.pool.as_ref());
            let mut blocks: Vec<Block> = Vec::new();
            blocks.extend(pool.and_then(static_pool));
            blocks.extend(node_annotation(node, object.name.as_ref(), object.created, input.now));
            for (at, pod) in node.pods.iter().enumerate() {
                let blockers = pod_blockers(pod, &judged).into_iter();
                blocks.extend(blockers.map(|blocker| Block { pod: Some(at), blocker }));
            }
            blocks
        };
        Self(running.nodes.iter().map(of_node).collect())
    }

    /// Only the blocks that nobody can lift.
    pub(crate) fn without_liftable(&self) -> Self {
        let required = |blocks: &Vec<Block>| {
            blocks.iter().filter(|block| !block.blocker.code.is_liftable()).cloned().collect::<Vec<Block>>()
        };
        Self(self.0.iter().map(required).collect())
    }

    pub(crate) fn has_liftable(&self) -> bool {
        self.0.iter().flatten().any(|block| block.blocker.code.is_liftable())
    }

    /// Adds a block by the pod with the index `pod` of `node`, which found no place.
    pub(crate) fn add_unplaced(&mut self, (node, pod): (usize, usize), key: &PodKey, reason: &str) {
        let message = format!("has no other place: {reason}");
        let blocker = Blocker { code: BlockCode::NoCapacity, object: format!("Pod/{key}"), message };
        self.0[node].push(Block { pod: Some(pod), blocker });
    }

    pub(crate) fn of_node(&self, node: usize) -> &[Block] {
        &self.0[node]
    }

    pub(crate) fn blocks_pod(&self, node: usize, pod: usize) -> bool {
        self.0[node].iter().any(|block| block.pod == Some(pod))
    }
}

fn static_pool(pool: &NodePool) -> Option<Block> {
    let replicas = pool.replicas?;
    let message = format!("has a fixed number of nodes (replicas: {replicas}): a removed one is launched again");
    let object = format!("NodePool/{}", pool.name);
    Some(Block { pod: None, blocker: Blocker { code: BlockCode::Static, object, message } })
}

fn node_annotation(node: &RunningNode, name: &str, created: Option<Timestamp>, now: Timestamp) -> Option<Block> {
    if !is_do_not_disrupt_active(node.do_not_disrupt, created, now) {
        return None;
    }
    let message = "has karpenter.sh/do-not-disrupt".to_owned();
    let object = format!("Node/{name}");
    Some(Block { pod: None, blocker: Blocker { code: BlockCode::DoNotDisrupt, object, message } })
}

/// Everything that blocks `pod` on its node.
fn pod_blockers(pod: &RunningPod, judged: &RemovalInput) -> Vec<Blocker> {
    let key = &pod.facts.key;
    let mut blockers = Vec::new();
    let mut add = |code, object: String, message: String| blockers.push(Blocker { code, object, message });
    if let Some(scheduler) = &pod.other_scheduler {
        let message = format!("is placed by the scheduler {scheduler}, which is not planned for");
        add(BlockCode::OtherScheduler, format!("Pod/{key}"), message);
    }
    // A pod that does not run yet is not evicted.
    if pod.is_nominated {
        return blockers;
    }
    if is_protected(&pod.facts, judged.now) {
        add(BlockCode::DoNotDisrupt, format!("Pod/{key}"), "has karpenter.sh/do-not-disrupt".to_owned());
    }
    let budgets = blocking_pod_budgets(judged, &pod.facts);
    for budget in budgets {
        let message = match budgets.len() {
            1 => format!("allows no eviction now, and selects pod {key}"),
            _ => format!("selects pod {key} beside another budget: a pod with several is never evicted"),
        };
        add(BlockCode::PodDisruptionBudget, format!("PodDisruptionBudget/{budget}"), message);
    }
    if pod.facts.node_bound {
        return blockers;
    }
    if pod.unsafe_to_evict {
        let message = "has cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"".to_owned();
        add(BlockCode::SafeToEvict, format!("Pod/{key}"), message);
    }
    for volume in &pod.local_volumes {
        let message = format!("is on the disk of the node, and pod {key} uses it");
        add(BlockCode::LocalVolume, format!("PersistentVolume/{volume}"), message);
    }
    if pod.facts.workload.starts_with("Pod/") {
        add(BlockCode::NoOwner, format!("Pod/{key}"), "has no owner that would start it again".to_owned());
    }
    blockers
}
