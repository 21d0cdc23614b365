//! Recovery after a restart or takeover: resumes the operations that the previous owner of the
//! cluster left unfinished.
//!
//! Recorded launches are loaded as [`OpenLaunch`]es before the first snapshot is accepted. The
//! snapshot shows how far each launch had progressed; it resumes there under its old name and
//! token:
//!
//! | launch record | NodeClaim in the cluster | action |
//! |---|---|---|
//! | open | with provider id | close the record as launched; the machine is adopted, and known to be launched if its NodeClaim disappears |
//! | open | without provider id | repeat the launch with the same token, the only way to learn whether an instance exists. If no pod waits any more, or the NodeClaim is deleted, the instance is terminated afterwards |
//! | open | without provider id, and the token is too old or the order names another cluster UID | delete the NodeClaim; its instance, if launched, is garbage-collected |
//! | open | missing, pods wait | create it again under the same name |
//! | open | missing, no pod waits | discard it: no launch precedes its NodeClaim. An instance whose NodeClaim disappeared before the launch was recorded is garbage-collected |
//! | launched | without provider id | describe the instance and write its facts into the NodeClaim |
//! | launched | missing | describe the instance; if it runs, terminate it after the collection period (`orphans`) |
//! | failed | | delete the NodeClaim |
//!
//! A NodeClaim of this server without a launch record is reported and never changed.
//!
//! Replacements under way are resumed first ([`crate::disruption`]), because their pods need the machines that are
//! recovered.

use std::collections::BTreeSet;

use super::{DecidedLaunch, DrainTerms, LaunchState, ManagedClaim, OpenLaunch, PendingRecovery, TerminationReason};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::replacement_recovery::{restore_places, resume_replacements};
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::lifecycle::launch_instance;
use crate::nodeclaim::missing_claims::{report_missing_claims, snapshot_suspicious};
use crate::nodeclaim::orphans::synthesize_claim;
use crate::nodeclaim::termination_calls::delete_claim;
use crate::provisioning::launches::is_still_valid;
use crate::step_view::StepView;
use crate::{ClusterCall, Finding, Instruction, PlannedMachine, order};
use cluster::{ClaimRecord, ClusterState, Target};
use model::drain::RecordedDrain;
use model::{ClaimName, MicroUsd, Millis, PodKey, ProviderId, Text, Timestamp};

/// How long a client token is reused after its first use. EC2 keeps tokens for at least a day;
/// after half of that a repeated launch might launch a second instance, so the first one is
/// garbage-collected instead.
const TOKEN_LIFETIME: Millis = Millis::from_hours(12);

impl ClusterController {
    /// Begins recovery: this replica owns the cluster now; `launches` are the previous owner's
    /// unfinished launches.
    pub(crate) fn begin_recovery(&mut self, uid: Text, launches: Vec<OpenLaunch>, ctx: &mut Context<'_>) {
        if !uid.is_empty() {
            ctx.uid = uid.clone();
            self.uid = uid;
        }
        self.guardrails.end_confirmation();
        self.gc.last_absence_finding = None;
        self.recovery = PendingRecovery::of(launches);
    }

    /// Resumes unfinished launches and drains, once a snapshot was accepted.
    pub(crate) fn resume_unfinished(&mut self, ctx: &mut Context<'_>) {
        // In shadow mode nothing is executed. Leaving shadow mode takes a restart, which recovers
        // again.
        if !self.recovery.is_pending() || ctx.settings.is_shadow(&self.cluster) {
            return;
        }
        if let Some(finding) = claims_missing(&self.step_view(ctx.now)) {
            return report_missing_claims(finding, ctx, &mut self.gc);
        }
        let launches = self.recovery.complete();
        self.gc.reset(ctx.now);
        // Pods of a machine that is replaced need a node: their launches are recovered for them.
        let resumed = resume_replacements(ctx, &mut self.disruption, &mut self.state, &self.claims);
        let rows: BTreeSet<ClaimName> = launches.iter().map(|launch| launch.claim.clone()).collect();
        for launch in launches {
            self.recover_launch(launch, ctx);
        }
        restore_places(resumed, ctx, &mut self.state);
        self.resume_drains(ctx);
        report_unrecorded_claims(&rows, ctx, &self.claims, &self.state);
    }

    fn recover_launch(&mut self, launch: OpenLaunch, ctx: &mut Context<'_>) {
        let OpenLaunch { claim, attempt, state, planned } = launch;
        if self.claims.contains(&claim) {
            if state == LaunchState::Open {
                record_launched(&claim, attempt, ctx, &self.claims);
            }
            if let (Some(machine), Some(decided)) = (self.claims.get_mut(&claim), &planned) {
                machine.record_launch_decision(decided.decision);
            }
            // The pods of the launch keep their assignment, unless it failed: nothing plans them again when it is deleted.
            if self.claims.get(&claim).is_some_and(|machine| !machine.stage().is_terminating()) {
                let pods = planned.map(|decided| decided.machine.pods).unwrap_or_default();
                reassign_pods(&claim, &pods, ctx.now, &mut self.state);
            }
            return;
        }
        match (state, planned) {
            (LaunchState::Launched { provider_id }, _) => {
                recover_launched_instance(claim, attempt, provider_id, ctx, &mut self.claims, &mut self.state)
            }
            (LaunchState::Failed { why }, planned) => {
                match planned {
                    Some(decided) => insert_recovered_launch(*decided, attempt, ctx.now, &mut self.claims, &self.state),
                    None => self.claims.insert(recovered_claim(&claim, None, ctx.now, &self.state)),
                }
                delete_claim(
                    &claim,
                    Some(TerminationReason::LaunchFailed(why)),
                    ctx,
                    &mut self.claims,
                    &mut self.history,
                    &mut self.state,
                );
            }
            (LaunchState::Open, Some(decided)) => self.recover_open_launch(claim, attempt, decided, ctx),
            (LaunchState::Open, None) => ctx.report_finding(Finding::UnreadableLaunch { claim }),
        }
    }

    /// Recovers a launch with unknown outcome. An order for another cluster UID is not repeated:
    /// the instance would belong to a deleted cluster.
    fn recover_open_launch(
        &mut self,
        claim: ClaimName,
        attempt: u32,
        decided: Box<DecidedLaunch>,
        ctx: &mut Context<'_>,
    ) {
        let seen = self.state.is_claim_observed(&claim);
        let wanted = reassign_pods(&claim, &decided.machine.pods, ctx.now, &mut self.state);
        let fresh = ctx.now.duration_since(decided.at) < TOKEN_LIFETIME;
        let planned = decided.machine.clone();
        let id = decided.decision;
        insert_recovered_launch(*decided, attempt, ctx.now, &mut self.claims, &self.state);
        assume_recovered_claim(&planned, seen, ctx.now, &mut self.state);
        // The NodeClaim of a call that may have succeeded is kept: deleting it would orphan the
        // instance.
        let ordered_for = &planned.launch.cluster_uid;
        let here = ordered_for.is_empty() || *ordered_for == ctx.uid;
        let may_have_gone_out = seen && fresh && here;
        let still_wanted =
            wanted && fresh && here && is_still_valid(id, &planned, ctx, &self.claims, &self.state, &self.guardrails);
        if !may_have_gone_out && !still_wanted {
            delete_claim(
                &claim,
                Some(TerminationReason::NotLaunched),
                ctx,
                &mut self.claims,
                &mut self.history,
                &mut self.state,
            );
            self.provisioner.replan_displaced_pods(ctx.now);
        } else if seen {
            self.claims.get_mut(&claim).map(|machine| machine.begin_launch(ctx.now));
            launch_instance(&claim, ctx, &mut self.claims, &self.state);
        } else {
            self.claims.get_mut(&claim).map(|machine| machine.begin_creation(ctx.now));
            self.claims.instruct(Instruction::CreateClaim(planned.claim), ctx);
        }
    }

    /// Resumes drains in progress, with their original deadline. The proof of a drain is the annotation that names the
    /// NodeClaim: the taint alone may be anybody's.
    fn resume_drains(&mut self, ctx: &mut Context<'_>) {
        let drain = |claim: &ClaimName| Some((claim.clone(), self.state.drain_of_claim(claim)?.clone()));
        let going: Vec<(ClaimName, RecordedDrain)> =
            self.claims.iter().map(ManagedClaim::name).filter_map(drain).collect();
        for (claim, RecordedDrain { deadline, reason: why, .. }) in going {
            if !ctx.guardrails.removals.contains(&self.cluster, &claim) {
                ctx.guardrails.removals.restore(&self.cluster, &claim, MicroUsd(0), ctx.now);
            }
            let terms = DrainTerms { deadline, ..DrainTerms::default() };
            self.begin_termination(&claim, TerminationReason::BegunBeforeTakeover { why }, terms, ctx);
        }
    }
}

/// Compares the first snapshot with the launch records, because there is no earlier snapshot:
/// one that lacks most machines, or any object, neither proves that instances are orphaned nor
/// that launches were not begun.
pub(crate) fn claims_missing(view: &StepView<'_>) -> Option<Finding> {
    let left = || view.recovery.launches().iter().filter(|launch| !view.recovery.is_excluded(launch));
    let lacks =
        |launch: &&OpenLaunch| !view.state.is_claim_observed(&launch.claim) && !view.claims.contains(&launch.claim);
    let launched = |launch: &&OpenLaunch| matches!(launch.state, LaunchState::Launched { .. });
    let (missing, of) = if view.state.has_no_objects() {
        (left().filter(lacks).count(), left().count())
    } else {
        (left().filter(launched).filter(lacks).count(), left().filter(launched).count())
    };
    snapshot_suspicious(missing, of, view).then_some(Finding::ClaimsMissing { missing, of })
}

/// Recovers a launched instance that the cluster does not show, because its NodeClaim has no
/// provider id or is missing. The instance is described to learn whether it still exists.
pub(crate) fn recover_launched_instance(
    claim: ClaimName,
    attempt: u32,
    provider_id: ProviderId,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    state: &mut CopyOnWrite<ClusterState>,
) {
    if !state.is_claim_observed(&claim) {
        let synthesized = synthesize_claim(&claim, &provider_id, state);
        state.assume_claim(synthesized);
    }
    let mut machine = recovered_claim(&claim, Some(provider_id.clone()), ctx.now, state);
    if state.is_claim_observed(&claim) {
        machine.resume_launch(attempt, ctx.now);
    }
    claims.insert(machine);
    ctx.call(ClusterCall::Describe { claim, attempt, provider_id });
}

/// Assigns those of `pods` that still wait to `claim`; returns whether any does, or whether
/// there were none.
fn reassign_pods(claim: &ClaimName, pods: &[PodKey], now: Timestamp, state: &mut CopyOnWrite<ClusterState>) -> bool {
    let waits = |key: &&PodKey| state.pod(key).is_some_and(|pod| state.is_demand(pod, now));
    let waiting: Vec<PodKey> = pods.iter().filter(waits).cloned().collect();
    let wanted = pods.is_empty() || !waiting.is_empty();
    for key in waiting {
        state.assign_pod(key, Target::Claim(claim.clone()), None);
    }
    wanted
}

/// Counts the capacity of a launching machine again.
fn assume_recovered_claim(planned: &PlannedMachine, seen: bool, now: Timestamp, state: &mut CopyOnWrite<ClusterState>) {
    let pool = state.pool(&planned.claim.pool).map(|record| &record.pool);
    let expected = order::expected_claim_of_order(planned, pool, now);
    if seen {
        state.set_expected_resources(&planned.claim.name, &expected);
    } else {
        state.assume_claim(expected);
    }
}

fn report_unrecorded_claims(
    rows: &BTreeSet<ClaimName>,
    ctx: &mut Context<'_>,
    claims: &NodeClaims,
    state: &ClusterState,
) {
    let unrecorded = state.claims().filter(|claim| {
        claim.ours && claim.provider_id.is_empty() && !rows.contains(&claim.name) && !claims.contains(&claim.name)
    });
    for claim in unrecorded {
        ctx.report_finding(Finding::ClaimWithoutRow { claim: claim.name.clone() });
    }
}

/// Records the instance of a launch whose outcome was not recorded: a later owner that finds no
/// NodeClaim has to know that the instance was launched.
fn record_launched(claim: &ClaimName, attempt: u32, ctx: &mut Context<'_>, claims: &NodeClaims) {
    let provider_id = claims.get(claim).map(|machine| machine.provider_id().clone());
    if let Some(provider_id) = provider_id.filter(|provider_id| !provider_id.is_empty()) {
        ctx.call(ClusterCall::RecordLaunched { claim: claim.clone(), attempt, provider_id });
    }
}

fn insert_recovered_launch(
    recorded: DecidedLaunch,
    attempt: u32,
    now: Timestamp,
    claims: &mut NodeClaims,
    state: &ClusterState,
) {
    let pool = state.pool(&recorded.machine.claim.pool);
    let revision = pool.map(|record| record.revision.clone()).unwrap_or_default();
    claims.insert(ManagedClaim::from_launch_record(recorded, revision, attempt, now));
}

/// The NodeClaim of a launch whose order is not recorded.
fn recovered_claim(
    claim: &ClaimName,
    provider_id: Option<ProviderId>,
    now: Timestamp,
    state: &ClusterState,
) -> ManagedClaim {
    let unknown = || ClaimRecord { name: claim.clone(), ..ClaimRecord::default() };
    let known = state.claim(claim).cloned().unwrap_or_else(unknown);
    let provider_id = provider_id.unwrap_or_else(|| known.provider_id.clone());
    ManagedClaim::from_claim(&ClaimRecord { provider_id, ..known }, None, now)
}

#[cfg(test)]
mod tests;
