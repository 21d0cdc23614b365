//! What blocks a node from removal, by what is known of the node, its pods and its NodePool. Plans of disruption, repacking
//! and reports about nodes say it by the same codes and sentences.

use std::collections::BTreeMap;

use model::disruption_plan::{Block, BlockCode};
use model::removal::{DoNotDisrupt, PodBudget, RemovalPod};
use model::running::{Consolidatable, RecentMove, RunningPod};
use model::{ConsolidationPolicy, DisruptionPolicy, Millis, NodeName, NodePool, PodKey, PoolName, Text, Timestamp};

/// do-not-disrupt on the Node `name`, which was created at `created`.
#[must_use]
pub fn of_protected_node(
    name: &NodeName,
    (lasts, created): (Option<DoNotDisrupt>, Option<Timestamp>),
    now: Timestamp,
) -> Option<Block> {
    let lasts = lasts.filter(|lasts| lasts.is_active(created, now))?;
    Some(Block::new(BlockCode::DoNotDisrupt, format!("Node/{name}"), protection(lasts.end(created), now)))
}

/// What holds `pod` on its node: do-not-disrupt, and PodDisruptionBudgets.
#[must_use]
pub fn of_pod(pod: &RemovalPod, budgets: &BTreeMap<Text, PodBudget>, now: Timestamp) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(lasts) = pod.do_not_disrupt.filter(|_| pod.is_protected(now)) {
        let message = protection(lasts.end(pod.started), now);
        blocks.push(Block::new(BlockCode::DoNotDisrupt, format!("Pod/{}", pod.key), message));
    }
    let blocking = pod.blocking_budgets(budgets);
    for budget in blocking {
        let message = match blocking.len() {
            1 => format!("allows no eviction now, and selects pod {}", pod.key),
            _ => format!("selects pod {} beside another budget: a pod with several is never evicted", pod.key),
        };
        blocks.push(Block::new(BlockCode::PodDisruptionBudget, format!("PodDisruptionBudget/{budget}"), message));
    }
    blocks
}

/// The volumes of `pod` on the disk of its node: their data is lost with the node.
pub fn of_local_volumes(pod: &RunningPod) -> impl Iterator<Item = Block> {
    pod.local_volumes.iter().map(|volume| {
        let message = format!("is on the disk of the node, and pod {} uses it", pod.facts.key);
        Block::new(BlockCode::LocalVolume, format!("PersistentVolume/{volume}"), message)
    })
}

/// A pod of a scheduler that is not planned for: whether another node has a place for it is not known.
#[must_use]
pub fn of_other_scheduler(pod: &PodKey, scheduler: &Text) -> Block {
    let message = format!("is placed by the scheduler {scheduler}, which is not planned for");
    Block::new(BlockCode::OtherScheduler, format!("Pod/{pod}"), message)
}

/// A pod that is nominated for the node and does not run yet.
#[must_use]
pub fn of_nomination(pod: &PodKey) -> Block {
    Block::new(BlockCode::Nominated, format!("Pod/{pod}"), "is nominated for the node and does not run yet")
}

/// A fixed number of nodes.
#[must_use]
pub fn of_static_pool(pool: &NodePool) -> Option<Block> {
    let message = format!("has a fixed number of nodes (replicas: {})", pool.replicas?);
    Some(Block::new(BlockCode::Static, format!("NodePool/{}", pool.name), message))
}

/// The wait of `consolidateAfter`.
#[must_use]
pub fn of_wait(pool: &PoolName, node: &NodeName, consolidatable: Consolidatable, now: Timestamp) -> Option<Block> {
    let (object, message) = match consolidatable {
        Consolidatable::Never => (format!("NodePool/{pool}"), "has consolidateAfter: Never".to_owned()),
        Consolidatable::From(from) if from > now => {
            (format!("Node/{node}"), format!("may be consolidated {}: a pod came or went", remaining(from, now)))
        }
        Consolidatable::From(_) => return None,
    };
    Some(Block::new(BlockCode::ConsolidateAfter, object, message))
}

/// `consolidationPolicy: WhenEmpty` of a node with pods.
#[must_use]
pub fn of_policy(pool: &PoolName, policy: &DisruptionPolicy) -> Option<Block> {
    let message = "has consolidationPolicy: WhenEmpty, and pods run on the node";
    let excludes = policy.policy == ConsolidationPolicy::WhenEmpty;
    excludes.then(|| Block::new(BlockCode::Policy, format!("NodePool/{pool}"), message))
}

/// A pod that consolidation has moved lately stays where it is.
#[must_use]
pub fn of_move(moved: &RecentMove, now: Timestamp) -> Block {
    let left = remaining(moved.until, now);
    let message = format!("was moved by consolidation, which may move it again {left} (disruption.move-interval)");
    Block::new(BlockCode::RecentlyMoved, format!("Pod/{}", moved.pod), message)
}

fn protection(end: Option<Timestamp>, now: Timestamp) -> String {
    let end = end.map(|end| format!(", which ends {}", remaining(end, now))).unwrap_or_default();
    format!("has karpenter.sh/do-not-disrupt{end}")
}

/// `in 30 s, at 2026-01-01T10:00:30Z`; at least one second.
#[must_use]
pub fn remaining(until: Timestamp, now: Timestamp) -> String {
    format!("in {}, at {until}", amount(until.duration_since(now).max(Millis::from_secs(1))))
}

/// A duration in its two greatest units: `23 h 58 min`.
fn amount(of: Millis) -> String {
    let (seconds, minutes) = (of.as_secs(), of.as_mins());
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (hours @ 0..24, minutes) => format!("{hours} h {minutes} min"),
        (hours, _) => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_its_two_greatest_units() {
        // 86,379 s are a day without 21 seconds.
        let amounts = [1, 59, 60, 600, 3_599, 3_600, 86_379, 86_400, 200_000];
        assert_eq!(
            amounts.map(|seconds| amount(Millis::from_secs(seconds))),
            ["1 s", "59 s", "1 min 0 s", "10 min 0 s", "59 min 59 s", "1 h 0 min", "23 h 59 min", "1 d 0 h", "2 d 7 h"]
        );
    }
}
