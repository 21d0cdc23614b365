//! Machines that are replaced first and then removed, for a method that chose them: drift and voluntary repair.
//!
//! Budgets hold them, and do-not-disrupt on the Node; pods hold them by do-not-disrupt unless the NodeClaim has
//! a `terminationGracePeriod`. A machine with pods is removed when the nodes that its pods are assigned to are
//! initialized. That of a static NodePool is replaced by one machine of the same NodePool, for which
//! `limits.nodes` must have room.
//!
//! Several machines are replaced at one time, as far as budgets allow. Those under way are first, then those
//! without pods, and then those whose cause is oldest; machines whose replacement failed are last.

use std::collections::BTreeMap;

use super::candidates::{Candidate, Candidates};
use super::evictions::{Evictions, is_drain_blocked, is_replacement_forbidden};
use super::method::{DisruptionView, PlannedReplacement, Selection};
use crate::cluster::{ClaimRecord, PoolRecord};
use model::disruption_policy::DisruptionReason;
use model::resources::NODES;
use model::{PoolName, Text, Timestamp};

/// A machine to replace and to remove.
#[derive(Debug)]
pub(super) struct Outgoing<'v> {
    pub candidate: Candidate<'v>,
    /// Since when there is a cause.
    pub since: Timestamp,
    /// The cause, as a sentence.
    pub why: Text,
}

/// Adds to `selection` what is removed and replaced now of `outgoing`, which a method chose for `reason` among the
/// candidates and the machines that are under way.
pub(super) fn select<'v>(
    outgoing: Vec<Outgoing<'v>>,
    reason: DisruptionReason,
    candidates: &Candidates<'v>,
    view: &DisruptionView<'v>,
    selection: &mut Selection,
) {
    let mut evictions = Evictions::none(view);
    let mut in_cluster = candidates.cluster_allowance(reason);
    for (pool, mut machines) in by_pool(outgoing, view) {
        machines.sort_by_cached_key(|one| one.rank(view));
        let allowed = allowance(pool, &machines, reason, candidates, view);
        let held = machines.len().saturating_sub(allowed);
        machines.truncate(allowed);
        if held > 0 {
            selection.held_by_budget.insert(pool.pool.name.clone(), held);
        }
        let may_begin = may_begin(pool, &machines, view, selection);
        let begun = machines.iter().filter(|one| one.is_replaced(view)).count();
        machines.truncate(begun.saturating_add(may_begin.min(in_cluster)));
        in_cluster -= machines.len().saturating_sub(begun).min(in_cluster);
        let with_machine = machines_replaced(pool, begun, view);
        for (index, one) in machines.iter().enumerate() {
            let has_machine = with_machine.is_none_or(|machines| index < machines);
            let has_place = has_machine && (pool.pool.replicas.is_none() || one.is_replaced(view));
            if has_place && one.is_moved(view) && evictions.admit(&one.candidate) {
                selection.removals.push(one.removal(view));
            } else {
                let removal = one.removal(view);
                selection.replacements.push(PlannedReplacement { removal, moves_pods: has_machine });
            }
        }
    }
}

/// The machines of each ready NodePool that nothing on them holds.
fn by_pool<'v>(
    outgoing: Vec<Outgoing<'v>>,
    view: &DisruptionView<'v>,
) -> impl Iterator<Item = (&'v PoolRecord, Vec<Outgoing<'v>>)> {
    let mut pools: BTreeMap<&PoolName, (&PoolRecord, Vec<Outgoing<'v>>)> = BTreeMap::new();
    for one in outgoing {
        let candidate = one.candidate;
        // A PodDisruptionBudget that blocks for a moment does not undo what is under way.
        let is_held = is_replacement_forbidden(&candidate, view)
            || (!one.is_replaced(view) && is_drain_blocked(&candidate, view));
        if candidate.pool.pool.not_ready.is_none() && !is_held {
            let (_, machines) = pools.entry(&candidate.claim.pool).or_insert_with(|| (candidate.pool, Vec::new()));
            machines.push(one);
        }
    }
    pools.into_values()
}

impl Outgoing<'_> {
    fn is_replaced(&self, view: &DisruptionView<'_>) -> bool {
        view.state.replacement_of(&self.candidate.claim.name).is_some()
    }

    /// Machines under way first, so that each pass goes on with what the last one began.
    fn rank(&self, view: &DisruptionView<'_>) -> impl Ord + use<> {
        let claim = self.candidate.claim;
        let begun = view.state.replacement_of(&claim.name).map(|replacement| replacement.since);
        let has_pods = view.state.pods_on(&self.candidate.node.name).any(|pod| pod.is_reschedulable());
        (begun.is_none(), begun, view.backoff.failures_of(&claim.name), has_pods, self.since, claim.name.clone())
    }

    /// Whether every pod that has to run elsewhere has a place that accepts it now.
    fn is_moved(&self, view: &DisruptionView<'_>) -> bool {
        view.state.pods_to_move_from(&self.candidate.node.name, view.now).all(|pod| {
            if view.waits_for_initialization {
                view.state.initialized_node_for(&pod.key).is_some()
            } else {
                view.state.assigned_node(&pod.key).is_some()
            }
        })
    }

    fn removal(&self, view: &DisruptionView<'_>) -> crate::Removal {
        view.removal(&self.candidate.claim.name, self.why.clone())
    }
}

/// How many of the machines the budgets allow to be replaced, those under way included.
fn allowance(
    pool: &PoolRecord,
    machines: &[Outgoing<'_>],
    reason: DisruptionReason,
    candidates: &Candidates<'_>,
    view: &DisruptionView<'_>,
) -> usize {
    let nodes = candidates.nodes_of(&pool.pool.name);
    let since = |one: &Outgoing<'_>| view.state.replacement_of(&one.candidate.claim.name).map(|begun| begun.since);
    let begun: Vec<Timestamp> = machines.iter().filter_map(since).collect();
    let others = nodes.unavailable_for(reason).saturating_sub(begun.len());
    let allowed = pool.disruption.allowance(reason, nodes.total, others, view.now);
    allowed.max(candidates.allowed_to_go_on(pool, &begun, reason, view.now))
}

/// How many further replacements may begin in `pool`, whatever its budgets.
fn may_begin(
    pool: &PoolRecord,
    machines: &[Outgoing<'_>],
    view: &DisruptionView<'_>,
    selection: &mut Selection,
) -> usize {
    let waiting = view.backoff.until(&pool.pool.name, view.now);
    if let Some(until) = waiting.filter(|_| machines.iter().any(|one| !one.is_replaced(view))) {
        selection.check_at(Some(until));
        return 0;
    }
    static_room(pool, view).unwrap_or(usize::MAX)
}

/// How many machines a static NodePool may have besides those that are there, and those that are under
/// way already; `None` without a limit.
fn static_room(pool: &PoolRecord, view: &DisruptionView<'_>) -> Option<usize> {
    let replicas = usize::try_from(pool.pool.replicas?).unwrap_or(0);
    let claims = || view.state.claims().filter(|claim| claim.pool == pool.pool.name);
    let stays = |claim: &ClaimRecord| !view.is_leaving(claim) && view.state.replacement_of(&claim.name).is_none();
    let staying = claims().filter(|claim| stays(claim)).count();
    if staying > replicas {
        // Surplus machines leave first.
        return Some(0);
    }
    let limit = pool.pool.limits.contains(NODES).then(|| pool.pool.limits.get(NODES))?;
    // Every machine under way and every one that leaves is there beside the replicas.
    let outgoing = claims().count() - staying;
    Some(usize::try_from(limit).unwrap_or(0).saturating_sub(replicas + outgoing))
}

/// How many of `begun` replacements of a static NodePool have their new machine, which is one more
/// than the replicas that stay; `None` for a dynamic one, whose machines depend on the pods.
fn machines_replaced(pool: &PoolRecord, begun: usize, view: &DisruptionView<'_>) -> Option<usize> {
    let replicas = usize::try_from(pool.pool.replicas?).unwrap_or(0);
    let serves = |claim: &&ClaimRecord| {
        let is_ready = || {
            let node = view.state.node_of_claim(&claim.name);
            node.is_some_and(|node| node.ready && (node.is_initialized() || !view.waits_for_initialization))
        };
        claim.pool == pool.pool.name
            && !view.is_leaving(claim)
            && view.state.replacement_of(&claim.name).is_none()
            && is_ready()
    };
    let serving = view.state.claims().filter(serves).count();
    Some((serving + begun).saturating_sub(replicas).min(begun))
}
