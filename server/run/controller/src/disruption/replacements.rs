//! Replacements: machines that are removed once other capacity is there for their pods.
//!
//! While a machine is replaced, its pods are planned elsewhere with all other pods, so that machines
//! which are replaced at one time share their new ones, and no plan puts another pod onto it (L51). Its
//! Node is neither tainted nor drained. When every node that its pods are assigned to is initialized,
//! its method selects it for removal. A replacement that fails ends: the machine stays, new machines
//! become ordinary capacity, and the NodePool waits ([`ReplacementBackoff`]).
//!
//! The removal is reserved under the rate limits when the replacement begins, so that nothing is launched for a machine
//! that may not be removed then. It is counted when it is decided.
//!
//! A replacement is recorded with the decision that launches for it, and the next owner of the cluster resumes it
//! ([`replacement_recovery`](super::replacement_recovery)).
//!
//! [`ReplacementBackoff`]: super::replacement_backoff::ReplacementBackoff

use std::collections::{BTreeMap, BTreeSet};

use super::Proposal;
use super::method::PlannedReplacement;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::Disruption;
use crate::guardrails::Guard;
use crate::guardrails::enforcement::limit_replacements;
use crate::guardrails::enforcement::reserve_removal;
use crate::nodeclaim::NodeClaims;
use crate::provisioning::Provisioner;
use crate::status_reporter::Rejection;
use crate::{Finding, Removal, UnplacedPod};
use cluster::{ClusterState, Target};
use model::plan::ReasonCode;
use model::{ClaimName, Millis, Text, Timestamp};

/// How long capacity may take to be there before the replacement fails (Karpenter: orchestration queue,
/// shortest timeout).
const TIMEOUT: Millis = Millis::from_mins(10);

impl ClusterController {
    /// Ends the replacements that no method selects any more or that take too long, and begins those
    /// that are selected anew, as far as guardrails allow.
    pub(crate) fn reconcile_replacements(&mut self, proposals: &[Proposal], ctx: &mut Context<'_>) {
        let planned = || proposals.iter().flat_map(|proposal| &proposal.replacements);
        let removed = proposals.iter().flat_map(|proposal| &proposal.removals).map(|removal| removal.claim.clone());
        let removed: BTreeSet<ClaimName> = removed.chain(self.decisions.claims_being_removed()).collect();
        let selected: BTreeSet<&ClaimName> = planned().map(|planned| &planned.removal.claim).chain(&removed).collect();
        let begun: Vec<(ClaimName, Timestamp)> =
            self.state.replacements().iter().map(|(claim, begun)| (claim.clone(), begun.since)).collect();
        for (claim, since) in begun {
            if !selected.contains(&claim) {
                if self.state.claim(&claim).is_some() && !self.state.is_marked_for_deletion(&claim) {
                    let why = "the node is not selected for removal any more";
                    self.note_ended_replacement(&claim, Rejection::Churn, why, ctx.now);
                }
                end_replacement(&claim, ctx, &mut self.disruption, &mut self.provisioner, &mut self.state);
            } else if removed.contains(&claim) {
                // It is there, and guardrails or the store may hold the removal back.
            } else if since + TIMEOUT <= ctx.now {
                let why = format!("its capacity was not there after {} minutes", TIMEOUT.as_mins());
                self.fail_replacements(BTreeMap::from([(claim, why)]), ctx);
            } else {
                self.disruption.schedule_at(since + TIMEOUT);
            }
        }
        let goes_on = |claim: &ClaimName| self.state.replacement_of(claim).is_some();
        ctx.guardrails.removals.retain_reservations(&self.cluster, goes_on);
        for proposal in proposals {
            self.begin_replacements(proposal, ctx);
        }
        let state = &self.state;
        self.disruption.backoff.retain(|claim| state.claim(claim).is_some(), |pool| state.pool(pool).is_some());
        self.disruption.planned_by.retain(|claim, _| state.claim(claim).is_some());
    }

    /// Begins the replacements of `proposal` that guardrails admit, and has the pods of those under way
    /// planned when they may move.
    fn begin_replacements(&mut self, proposal: &Proposal, ctx: &mut Context<'_>) {
        let (planned, reason) = (&proposal.replacements, proposal.method.reason());
        let Some(voluntary) = reason.disruption_reason().filter(|_| !self.guardrails.is_quarantined()) else { return };
        // One that failed just now is not begun again.
        let is_new = |removal: &&Removal| {
            self.state.replacement_of(&removal.claim).is_none()
                && !is_backing_off(&removal.claim, ctx.now, &self.disruption, &self.claims, &self.state)
        };
        let new: Vec<Removal> = planned.iter().map(|one| &one.removal).filter(is_new).cloned().collect();
        let admitted = self.limit_removals(new, reason, ctx);
        let admitted: BTreeSet<ClaimName> = limit_replacements(
            admitted,
            ctx,
            &mut self.disruption,
            &mut self.guardrails,
            &self.claims,
            &self.decisions,
        )
        .into_iter()
        .map(|removal| removal.claim)
        .collect();
        for PlannedReplacement { removal, moves_pods } in planned {
            let begun = self.state.replacement_of(&removal.claim);
            if begun.map_or_else(|| admitted.contains(&removal.claim), |begun| *moves_pods && !begun.moves_pods) {
                if begun.is_none() {
                    reserve_removal(&removal.claim, ctx, &self.claims);
                }
                self.state.begin_replacement(&removal.claim, voluntary, *moves_pods, ctx.now);
                self.provisioner.replan_displaced_pods(ctx.now);
            }
        }
    }

    /// Ends replacements that have failed, for these reasons.
    pub(crate) fn fail_replacements(&mut self, failed: BTreeMap<ClaimName, String>, ctx: &mut Context<'_>) {
        for (claim, why) in failed {
            let pool = self.claims.pool_of(&claim, &self.state).cloned();
            if let Some(pool) = pool.filter(|_| ctx.disabled_guards.is_enabled(Guard::ReplacementBackoff)) {
                self.disruption.backoff.record_failure(&pool, &claim, ctx.now);
            }
            self.note_ended_replacement(&claim, Rejection::Scheduling, &why, ctx.now);
            end_replacement(&claim, ctx, &mut self.disruption, &mut self.provisioner, &mut self.state);
            ctx.report_finding(Finding::ReplacementFailed { claim, why: Text::from(why) });
        }
    }

    /// Notes that the replacement of a machine ends without its removal, and counts it if its capacity did not come.
    pub(crate) fn note_ended_replacement(
        &mut self,
        claim: &ClaimName,
        rejection: Rejection,
        why: &str,
        now: Timestamp,
    ) {
        if let Some(begun) = self.state.replacement_of(claim).filter(|_| rejection == Rejection::Scheduling) {
            self.history.lifecycle.count_failed_replacement(begun.reason);
        }
        self.with_part(
            |parts| &mut parts.status_reporter,
            now,
            |reporter, view| reporter.note_ended_replacement(claim, rejection, why, view),
        );
    }
}

/// Replaced machines with pods that the plan found no place for, and why. Pods that guardrails hold back wait.
pub(crate) fn unplaced_replacements(unplaced: &[UnplacedPod], state: &ClusterState) -> BTreeMap<ClaimName, String> {
    let mut failed: BTreeMap<ClaimName, String> = BTreeMap::new();
    for entry in unplaced {
        let is_held = entry.reasons.iter().any(|reason| reason.code == ReasonCode::HeldBack);
        let Some(claim) = replaced_machine_of(entry, state).filter(|_| !is_held) else { continue };
        let why = entry.reasons.first().map_or("no NodePool takes it", |reason| reason.message.as_str());
        failed.entry(claim).or_insert_with(|| format!("pod {} has no other place: {why}", entry.pod));
    }
    failed
}

/// Replaced machines that wait for the machine of `claim`, whose launch failed.
pub(crate) fn replacements_waiting_for(
    claim: &ClaimName,
    why: &str,
    claims: &NodeClaims,
    state: &ClusterState,
) -> BTreeMap<ClaimName, String> {
    let Some(pool) = claims.get(claim).map(|machine| machine.pool()) else { return BTreeMap::new() };
    let target = Target::Claim(claim.clone());
    let nodes = state.assignments().pods_on(&target).filter_map(|pod| state.pod(pod)?.node.as_ref());
    let of_pods: BTreeSet<&ClaimName> =
        nodes.filter_map(|node| Some(&state.claim_of_node(state.node(node)?)?.name)).collect();
    let is_static = state.pool(pool).is_some_and(|record| record.pool.replicas.is_some());
    // A machine of a static NodePool is launched for no pod: the last replacement lacks it.
    let of_pool = state.replacements().iter().filter(|(replaced, begun)| {
        is_static && !begun.moves_pods && state.claim(replaced).is_some_and(|record| record.pool == *pool)
    });
    let last = of_pool.max_by_key(|(_, begun)| begun.since).map(|(replaced, _)| replaced);
    let failed = state.replacements().keys().filter(|replaced| of_pods.contains(*replaced) || last == Some(*replaced));
    failed.map(|replaced| (replaced.clone(), format!("machine {claim} was not launched: {why}"))).collect()
}

pub(crate) fn end_replacement(
    claim: &ClaimName,
    ctx: &Context<'_>,
    disruption: &mut Disruption,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
) {
    state.end_replacement(claim);
    disruption.planned_by.remove(claim);
    provisioner.plan_with_kept_node(ctx.now);
    disruption.mark_changed();
}

fn is_backing_off(
    claim: &ClaimName,
    now: Timestamp,
    disruption: &Disruption,
    claims: &NodeClaims,
    state: &ClusterState,
) -> bool {
    claims.pool_of(claim, state).is_some_and(|pool| disruption.backoff.until(pool, now).is_some())
}

/// Records that the removal of a machine begins, which may have been replaced.
pub(crate) fn record_replaced(
    claim: &ClaimName,
    disruption: &mut Disruption,
    claims: &NodeClaims,
    state: &ClusterState,
) {
    let is_replaced = state.replacement_of(claim).is_some();
    if let Some(pool) = claims.pool_of(claim, state).cloned().filter(|_| is_replaced) {
        disruption.backoff.record_success(&pool, claim);
    }
}

/// The machine under the pod, if it is being replaced.
fn replaced_machine_of(entry: &UnplacedPod, state: &ClusterState) -> Option<ClaimName> {
    let node = state.node(state.pod(&entry.pod)?.node.as_ref()?)?;
    let claim = &state.claim_of_node(node)?.name;
    state.replacement_of(claim).map(|_| claim.clone())
}
