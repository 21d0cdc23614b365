//! Drift: replaces machines that do not match their NodePool or NodeClass any more (Karpenter: drift,
//! static drift).
//!
//! Budgets hold it; `consolidateAfter` and the consolidation policy do not. do-not-disrupt on the Node
//! always holds it, and pods hold it unless the NodeClaim has a `terminationGracePeriod`. A machine with
//! pods is removed when the nodes that its pods are assigned to are initialized. That of a static NodePool
//! is replaced by one machine of the same NodePool, for which `limits.nodes` must have room.
//!
//! Replay needs nothing of its own: the places of the pods come from the plan of a decision to launch, whose
//! input shows the machine as one that leaves.
//!
//! Several machines are replaced at one time, as far as budgets allow. Those without pods are first,
//! and then those that drifted first; machines whose replacement failed are last.

use std::collections::BTreeMap;

use crate::MethodReason;
use crate::cluster::PoolRecord;
use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::evictions::{Evictions, is_drain_blocked, is_replacement_forbidden};
use crate::disruption::method::{DisruptionView, Method, PlannedReplacement, Selection};
use crate::nodeclaim::DrainTerms;
use drift::Drift;
use model::PoolName;
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::resources::NODES;

/// The reason of its decisions.
pub const DRIFT: MethodReason =
    MethodReason { kind: "drift", summary: "does not match its NodePool", removal: RemovalReason::Drifted };

/// The method.
#[derive(Debug)]
pub(crate) struct Drifted;

impl Method for Drifted {
    fn reason(&self) -> MethodReason {
        DRIFT
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let candidates = Candidates::collect(view);
        let mut selection = Selection::default();
        let mut evictions = Evictions::none(view);
        let mut in_cluster = candidates.cluster_allowance();
        for (pool, mut drifted) in drifted_by_pool(&candidates, view, &mut selection) {
            drifted.sort_by_cached_key(|one| one.rank(view));
            let allowed = allowance(pool, &drifted, &candidates, view);
            let held = drifted.len().saturating_sub(allowed);
            drifted.truncate(allowed);
            if held > 0 {
                selection.held_by_budget.insert(pool.pool.name.clone(), held);
            }
            let may_begin = may_begin(pool, &drifted, view, &mut selection);
            let begun = drifted.iter().filter(|one| one.is_replaced(view)).count();
            drifted.truncate(begun.saturating_add(may_begin.min(in_cluster)));
            in_cluster -= drifted.len().saturating_sub(begun).min(in_cluster);
            let with_machine = machines_replaced(pool, begun, view);
            for (index, one) in drifted.iter().enumerate() {
                let has_machine = with_machine.is_none_or(|machines| index < machines);
                let has_place = has_machine && (pool.pool.replicas.is_none() || one.is_replaced(view));
                if has_place && one.is_moved(view) && evictions.admit(&one.candidate) {
                    selection.removals.push(one.removal(view));
                } else {
                    selection
                        .replacements
                        .push(PlannedReplacement { removal: one.removal(view), moves_pods: has_machine });
                }
            }
        }
        selection
    }

    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        DrainTerms::default()
    }
}

/// A machine that has drifted and may be replaced.
#[derive(Debug)]
struct DriftedMachine<'v> {
    candidate: Candidate<'v>,
    drift: Drift,
}

/// The drifted machines of each NodePool that may be replaced. The next time at which another one
/// drifts is added to `selection`.
fn drifted_by_pool<'v>(
    candidates: &Candidates<'v>,
    view: &DisruptionView<'v>,
    selection: &mut Selection,
) -> Vec<(&'v PoolRecord, Vec<DriftedMachine<'v>>)> {
    let mut pools: BTreeMap<&PoolName, (&PoolRecord, Vec<DriftedMachine<'v>>)> = BTreeMap::new();
    let is_held = |candidate: &Candidate<'_>| {
        let is_replaced = view.state.replacement_of(&candidate.claim.name).is_some();
        // A PodDisruptionBudget that blocks for a moment does not undo what is under way.
        is_replacement_forbidden(candidate, view) || (!is_replaced && is_drain_blocked(candidate, view))
    };
    let replaced = candidates.replaced_for(DisruptionReason::Drifted, view);
    for candidate in candidates.iter().chain(replaced) {
        let Some(drift) = view.state.drift_of(candidate.claim, view.now) else {
            selection.check_at(view.state.next_drift_of(candidate.claim, view.now));
            continue;
        };
        if candidate.pool.pool.not_ready.is_none() && !is_held(candidate) {
            let (_, drifted) = pools.entry(&candidate.claim.pool).or_insert_with(|| (candidate.pool, Vec::new()));
            drifted.push(DriftedMachine { candidate: *candidate, drift });
        }
    }
    pools.into_values().collect()
}

impl DriftedMachine<'_> {
    fn is_replaced(&self, view: &DisruptionView<'_>) -> bool {
        view.state.replacement_of(&self.candidate.claim.name).is_some()
    }

    /// Machines under way first, so that each pass goes on with what the last one began.
    fn rank(&self, view: &DisruptionView<'_>) -> impl Ord + use<> {
        let claim = self.candidate.claim;
        let begun = view.state.replacement_of(&claim.name).map(|replacement| replacement.since);
        let has_pods = view.state.pods_on(&self.candidate.node.name).any(|pod| pod.is_reschedulable());
        let since = claim.drift.drifted_since.unwrap_or(view.now);
        (begun.is_none(), begun, view.backoff.failures_of(&claim.name), has_pods, since, claim.name.clone())
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
        let Candidate { node, claim, .. } = self.candidate;
        let Drift { reason, message } = &self.drift;
        view.removal(&claim.name, format!("node {} has drifted ({reason}): {message}", node.name))
    }
}

/// How many of the drifted machines the budgets allow to be replaced, those under way included.
fn allowance(
    pool: &PoolRecord,
    drifted: &[DriftedMachine<'_>],
    candidates: &Candidates<'_>,
    view: &DisruptionView<'_>,
) -> usize {
    let nodes = candidates.nodes_of(&pool.pool.name);
    let begun = drifted.iter().filter(|one| one.is_replaced(view)).count();
    let others = nodes.unavailable.saturating_sub(begun);
    pool.disruption.allowance(DisruptionReason::Drifted, nodes.total, others, view.now)
}

/// How many further replacements may begin in `pool`, whatever its budgets.
fn may_begin(
    pool: &PoolRecord,
    drifted: &[DriftedMachine<'_>],
    view: &DisruptionView<'_>,
    selection: &mut Selection,
) -> usize {
    let waiting = view.backoff.until(&pool.pool.name, view.now);
    if let Some(until) = waiting.filter(|_| drifted.iter().any(|one| !one.is_replaced(view))) {
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
    let stays = |claim: &crate::cluster::ClaimRecord| {
        !view.is_leaving(claim) && view.state.replacement_of(&claim.name).is_none()
    };
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
    let serves = |claim: &&crate::cluster::ClaimRecord| {
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

#[cfg(test)]
mod tests;
