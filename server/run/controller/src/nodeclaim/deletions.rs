//! Machines whose NodeClaim or Node was deleted by hand.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::enforcement::{count_removal, removal_headroom};
use crate::guardrails::removal::{
    BlockCause, BulkDeletion, Evidence, GateDecision, NodeState, RemovalConstraints, evaluate_removal,
};
use crate::guardrails::removal_gate::{apply_gate_decision, machine_facts};
use crate::nodeclaim::{DrainTerms, NodeClaims, TerminationReason};
use crate::step_view::StepView;
use cluster::ClusterState;
use model::disruption_policy::DisruptionPolicy;
use model::{ClaimName, MicroUsd, Millis, PoolName, Timestamp};

/// Interval at which manual removals held by a budget are evaluated again: budgets may have time
/// windows.
const RECHECK_INTERVAL: Millis = Millis::from_mins(1);

impl ClusterController {
    /// Terminates machines whose NodeClaim or Node is deleted in the cluster, as far as the removal
    /// gate permits.
    pub(crate) fn handle_deletions(&mut self, deleted: &BTreeSet<ClaimName>, ctx: &mut Context<'_>) {
        self.guardrails.cancel_removal_recheck();
        let machines = &self.claims;
        let stays =
            |claim: &&ClaimName| machines.get(claim).is_some_and(|machine| machine.termination_reason().is_none());
        let waiting: Vec<ClaimName> = deleted.iter().filter(stays).cloned().collect();
        let is_claimless = |claim: &ClaimName| self.gc.unclaimed_since(claim).is_some();
        self.guardrails
            .retain_waiting_removals(BlockCause::ByHand, |claim| waiting.contains(claim) || is_claimless(claim));
        self.terminate_deleted_by_hand(waiting, deleted, &TerminationReason::DeletedByHand, ctx);
    }

    /// Terminates those of `waiting` that the removal gate admits. `deleted` are all machines with
    /// a manual deletion in progress.
    pub(crate) fn terminate_deleted_by_hand(
        &mut self,
        waiting: Vec<ClaimName>,
        deleted: &BTreeSet<ClaimName>,
        reason: &TerminationReason,
        ctx: &mut Context<'_>,
    ) {
        if waiting.is_empty() {
            return;
        }
        let window = ctx.settings.guardrails.removal.by_hand_window;
        let lately: Vec<ClaimName> = self.guardrails.recent_manual_removals(window, ctx.now).cloned().collect();
        let bulk = bulk_deletion(&waiting, deleted, &lately, ctx, &self.step_view(ctx.now));
        let mut allowances =
            bulk.as_ref().map(|_| allowances(ctx.now, &self.claims, &self.guardrails, &self.state)).unwrap_or_default();
        let prices: Vec<MicroUsd> = waiting.iter().map(|claim| self.claims.price_of(claim)).collect();
        let (mut headroom, capped) = removal_headroom(prices, ctx, &self.claims, &self.decisions);
        // Limits shrink with every admitted removal, so each machine is evaluated against what the
        // earlier ones left.
        for claim in waiting {
            let facts = machine_facts(&claim, &self.step_view(ctx.now));
            let counted = facts.node != NodeState::Never;
            let pool = self.claims.get(&claim).map(|machine| machine.pool().clone()).unwrap_or_default();
            let allowance = allowances.get(&pool).copied().unwrap_or(0);
            let allowance =
                if facts.confirmed && has_no_terminations(&pool, &self.claims) { allowance.max(1) } else { allowance };
            let bulk = bulk.filter(|_| counted);
            let capped = capped.clone().filter(|_| headroom == 0);
            let constraints = RemovalConstraints {
                distrusted: None,
                frozen: ctx.guardrails.freezes.for_pool(&self.cluster, Some(&pool)).cloned(),
                capped,
                bulk,
                allowance,
            };
            let verdict = evaluate_removal(Evidence::ByHand, facts, &constraints);
            if let GateDecision::Block { until, .. } = &verdict {
                let again = until.unwrap_or_else(|| ctx.now + RECHECK_INTERVAL).max(ctx.now + Millis::from_secs(1));
                self.guardrails.schedule_removal_recheck(again);
            }
            if apply_gate_decision(BlockCause::ByHand, &claim, verdict, ctx.now, &mut self.guardrails) {
                if counted {
                    self.guardrails.record_manual_removal(&claim, ctx.now);
                }
                if constraints.bulk.is_some() {
                    headroom = headroom.saturating_sub(1);
                    allowances.insert(pool, allowance.saturating_sub(1));
                    count_removal(&claim, ctx, &self.claims);
                }
                self.begin_termination(&claim, reason.clone(), DrainTerms::default(), ctx);
            }
        }
    }
}

/// The counts, if more machines were deleted by hand than may be removed at once.
pub(crate) fn bulk_deletion(
    waiting: &[ClaimName],
    deleted: &BTreeSet<ClaimName>,
    lately: &[ClaimName],
    ctx: &Context<'_>,
    view: &StepView<'_>,
) -> Option<BulkDeletion> {
    let rule = ctx.settings.guardrails.removal;
    let has_node = |claim: &&ClaimName| machine_facts(claim, view).node != NodeState::Never;
    let mut all: BTreeSet<ClaimName> = waiting.iter().filter(has_node).cloned().collect();
    // Terminations that a previous process began are still in progress.
    let leaving =
        |claim: &&ClaimName| view.claims.get(claim).is_some_and(|machine| machine.termination_reason().is_some());
    all.extend(deleted.iter().filter(leaving).cloned());
    let gone = lately.iter().filter(|claim| !view.claims.contains(claim)).count();
    all.extend(lately.iter().cloned());
    let machines = view.claims.len() + gone;
    let most = rule.by_hand(machines);
    let window_minutes = rule.by_hand_window.as_mins();
    (all.len() > most).then_some(BulkDeletion { deleted: all.len(), machines, window_minutes, most })
}

/// Whether no machine of `pool` is terminating.
fn has_no_terminations(pool: &PoolName, claims: &NodeClaims) -> bool {
    claims.iter().all(|machine| machine.pool() != pool || machine.termination_reason().is_none())
}

/// How many machines of each NodePool its last known disruption budgets allow to start
/// terminating now. A Node that is not ready counts as unavailable unless it is deleted itself.
fn allowances(
    now: Timestamp,
    claims: &NodeClaims,
    guardrails: &ClusterGuardrails,
    state: &ClusterState,
) -> BTreeMap<PoolName, usize> {
    let mut pools: BTreeMap<PoolName, (usize, usize)> = BTreeMap::new();
    for machine in claims.iter() {
        let (all, gone) = pools.entry(machine.pool().clone()).or_default();
        let ready = state.node_of_claim(machine.name()).is_none_or(|node| node.ready || node.deleting);
        let deleted = state.claim(machine.name()).is_some_and(|claim| claim.deleting);
        *all += 1;
        *gone += usize::from(machine.termination_reason().is_some() || (!ready && !deleted));
    }
    let default = DisruptionPolicy::default();
    let allowance = |pool: &PoolName, all: usize, gone: usize| {
        let policy =
            state.pool(pool).map(|record| &record.disruption).or_else(|| guardrails.former_disruption_policy(pool));
        policy.unwrap_or(&default).allowance_by_hand(all, gone, now)
    };
    pools.into_iter().map(|(pool, (all, gone))| (pool.clone(), allowance(&pool, all, gone))).collect()
}
