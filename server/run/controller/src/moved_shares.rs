//! Which decision has moved the pods of a machine: those that a drain evicts, and those that a machine is launched for.

use std::collections::BTreeMap;

use crate::Decision;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::cost_records::CostRecords;
use crate::history::History;
use cluster::{ClusterState, DecidedMoves, MovedPart, PodRecord};
use cost::{MovedShare, SavingDecision};
use model::removal::RemovalReason;
use model::resources::PODS;
use model::{ClaimName, PodKey, Resources, Timestamp};

/// A whole in parts per million.
const WHOLE: i128 = 1_000_000;

/// Notes which of its machines a decision removes to save their price, and for whose moved pods it launches machines.
pub(crate) fn note_costs_of(decision: &Decision, history: &mut History, state: &ClusterState) {
    history.costs.note_decision(decision);
    for machine in &decision.launches {
        let moved = shares(state, &machine.pods, decision.at);
        history.costs.note_launch(machine.claim.name.clone(), moved, decision);
    }
}

/// Records what the drain of a machine for another reason than consolidation moves again.
pub(crate) fn record_pods_moved_again(claim: &ClaimName, ctx: &Context<'_>, state: &mut CopyOnWrite<ClusterState>) {
    if state.is_drain_recorded(claim) {
        return;
    }
    let moves = state.moved_again_by_drain_of(claim, ctx.now);
    if !moves.is_empty() {
        state.record_moves(moves, ctx.settings.consolidation.move_interval, ctx.now);
    }
}

/// What the removal of a machine by `decision` moves; `None` if nothing need be known of it.
pub(crate) fn moves_of_removal(
    claim: &ClaimName,
    (reason, decision): (RemovalReason, SavingDecision),
    now: Timestamp,
    cost_records: &CostRecords,
    state: &ClusterState,
) -> Option<DecidedMoves> {
    let moves = if reason == RemovalReason::Underutilized {
        // A machine that is replaced first goes by the decision that launches for it.
        let saving = cost_records.removed_by(claim).unwrap_or(decision);
        state.moves_of(claim, Some(saving), now)
    } else {
        state.moved_again_by_drain_of(claim, now)
    };
    Some(moves).filter(|moves| !moves.is_empty())
}

/// The shares of what these pods request by the decisions that have moved them. The share of a pod is the greatest of its shares
/// of what all of them request of a resource, and shares add up to at most the whole.
fn shares(state: &ClusterState, pods: &[PodKey], now: Timestamp) -> Vec<MovedShare> {
    let pods: Vec<&PodRecord> = pods.iter().filter_map(|pod| state.pod(pod)).collect();
    let moved: Vec<Option<MovedPart>> = pods.iter().map(|pod| state.part_moved(pod, now)).collect();
    if moved.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut total = Resources::new();
    pods.iter().for_each(|pod| total.add(&pod.shape.requests));
    let weights: Vec<i128> = pods.iter().map(|pod| greatest_share(&pod.shape.requests, &total)).collect();
    let all: i128 = weights.iter().sum();
    let mut by_decision = BTreeMap::<u64, i128>::new();
    for (part, weight) in moved.iter().zip(&weights) {
        if let Some(part) = part {
            *by_decision.entry(part.saving.number).or_default() += weight * i128::from(part.ppm);
        }
    }
    let share = |(decision, weight): (u64, i128)| MovedShare {
        decision,
        ppm: u32::try_from(weight / all.max(1)).unwrap_or_default(),
    };
    by_decision.into_iter().map(share).collect()
}

/// The greatest share of `total` that `requests` is of a resource but the number of pods, in parts per million.
fn greatest_share(requests: &Resources, total: &Resources) -> i128 {
    let counted = requests.iter().filter(|(name, _)| name.as_ref() != PODS);
    let shares = counted.map(|(name, amount)| i128::from(amount).max(0) * WHOLE / i128::from(total.get(name)).max(1));
    shares.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Object;
    use cluster::testing::{bound_to, initialized_cluster, key, observe, pod, pool, text};
    use model::Millis;

    const MINUTE: i64 = 60_000;

    /// Decision 5 of minute 1 drains m0 with a pod of `web`.
    fn drained() -> ClusterState {
        let mut state = initialized_cluster(pool(), &["m0"]);
        let web = |pod: PodRecord, created| PodRecord {
            workload: text("ReplicaSet/web"),
            created: Some(Timestamp::from_millis(created)),
            ..pod
        };
        observe(&mut state, 0, [Object::Pod(web(bound_to("m0", pod("w0", 100)), 0))]);
        let now = Timestamp::from_millis(MINUTE);
        let moves = state.moves_of(&text("m0"), Some(SavingDecision { number: 5, at: now }), now);
        state.record_moves(moves, Millis::ZERO, now);
        let pending = [web(pod("w1", 500), 2 * MINUTE), pod("a", 1_000), pod("b", 500)];
        observe(&mut state, 2 * MINUTE, pending.map(Object::Pod));
        state
    }

    fn of(pods: &[&str], minute: i64) -> Vec<(u64, u32)> {
        let pods: Vec<PodKey> = pods.iter().map(|name| key(name)).collect();
        let shares = shares(&drained(), &pods, Timestamp::from_millis(minute * MINUTE));
        shares.iter().map(|share| (share.decision, share.ppm)).collect()
    }

    #[test]
    fn the_share_of_moved_pods_is_that_of_what_all_request() {
        assert_eq!(of(&["w1"], 3), [(5, 1_000_000)]);
        // 500 of 1,000 and of 2,000 millicores.
        assert_eq!(of(&["w1", "b"], 3), [(5, 500_000)]);
        assert_eq!(of(&["w1", "a", "b"], 3), [(5, 250_000)]);
        assert_eq!(of(&["a", "b"], 3), []);
        assert_eq!(of(&["w1"], 1 + 24 * 60), [], "a day after the decision");
    }
}
