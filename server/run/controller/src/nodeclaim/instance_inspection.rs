//! Inspection of single instances by id, because a listing that lacks them proves nothing.
//!
//! A listing is suspicious when it lacks as large a share as would quarantine a snapshot: a job
//! that strips tags, or credentials of another account, yield an empty listing of a running fleet.
//! A suspicious listing is not evaluated. What the cloud states about an instance by its id always
//! counts; that it does not know the id counts only while listings are trusted, when the Node is
//! not ready, and within the removal limits.

use std::collections::BTreeSet;

use super::{LaunchState, Listing, ManagedClaim, StageKind};
use crate::context::Context;
use crate::guardrails::removal::ListingLoss;
use crate::nodeclaim::{GarbageCollector, NodeClaims};
use crate::step_view::StepView;
use crate::{ClusterCall, Finding};
use model::{ClaimName, Millis, ProviderId, Timestamp};

/// Maximum inspections of one cluster per listing.
const MAX_INSPECTIONS: usize = 10;
/// Maximum inspections of one cluster per listing while listings are suspicious and the last
/// inspection found no ended instance: all clusters may be affected at once, and the cloud allows
/// few calls a second.
const MAX_INSPECTIONS_IF_SUSPICIOUS: usize = 2;
/// Minimum time between two inspections of the same instance.
const INSPECTION_INTERVAL: Millis = Millis::from_secs(30);
/// How long the time of an inspection is kept.
const INSPECTION_RETENTION: Millis = Millis::from_hours(1);

impl GarbageCollector {
    /// Compares a listing with the instances known to run; returns whether it is trusted.
    pub(crate) fn check_listing(
        &mut self,
        listing: &Listing,
        after: Millis,
        view: &StepView<'_>,
        ctx: &mut Context<'_>,
    ) -> bool {
        let rule = ctx.settings.guardrails.quarantine;
        let listed = listing.provider_ids();
        let known = self.known_to_run(listing.requested_at, after, view);
        let lacking = known.iter().filter(|id| !listed.contains(*id)).count();
        let lacks = lacking > rule.free_machines && lacking * 100 > rule.percent * known.len();
        if !lacks || rule.percent == 0 {
            self.clear_suspicion();
            return true;
        }
        if self.is_confirmed() {
            return true;
        }
        let (missing, of) = (lacking, known.len());
        let loss = ListingLoss { cluster: view.cluster.clone(), missing, of };
        if self.mark_suspicious(loss, ctx.now) {
            ctx.report_finding(Finding::ListingLacks { missing, of });
        }
        false
    }

    /// Provider ids of instances that a listing requested at `requested_at` must contain,
    /// regardless of their Nodes, without those that have ended as the cloud stated.
    fn known_to_run<'v>(&self, asked: Timestamp, after: Millis, view: &StepView<'v>) -> BTreeSet<&'v ProviderId> {
        let runs = |stage: StageKind| {
            matches!(
                stage,
                StageKind::Launched
                    | StageKind::Registered
                    | StageKind::Initialized
                    | StageKind::Draining
                    | StageKind::Launching
            )
        };
        let old = |since: Timestamp| asked.duration_since(since) >= after;
        let machines = view.claims.iter().filter(|m| runs(m.stage()) && !m.provider_id().is_empty() && old(m.since()));
        let left = view.recovery.launches().iter().filter_map(|launch| match &launch.state {
            LaunchState::Launched { provider_id } => Some(provider_id),
            _ => None,
        });
        let all = machines.map(ManagedClaim::provider_id).chain(left);
        all.filter(|id| !self.has_ended(id) && !view.region.is_elsewhere(id)).collect()
    }
}

/// Inspects the instance of `claim`, unless it was inspected lately.
pub(crate) fn inspect_instance_of(
    claim: &ClaimName,
    ctx: &mut Context<'_>,
    gc: &mut GarbageCollector,
    claims: &NodeClaims,
) {
    let Some(provider_id) = claims.get(claim).map(|machine| machine.provider_id().clone()) else { return };
    if !provider_id.is_empty() {
        inspect_instances(vec![(claim.clone(), provider_id)], ctx, gc);
    }
}

/// Inspects those of `missing` (NodeClaim, provider id) that were not inspected lately, the
/// least recently inspected first.
pub(crate) fn inspect_instances(
    mut missing: Vec<(ClaimName, ProviderId)>,
    ctx: &mut Context<'_>,
    gc: &mut GarbageCollector,
) {
    let known = &*gc;
    missing
        .retain(|(_, id)| known.last_inspected(id).is_none_or(|at| ctx.now.duration_since(at) >= INSPECTION_INTERVAL));
    missing.sort_by_key(|(_, id)| known.last_inspected(id));
    let inconclusive = gc.suspicion().is_some() && !gc.inspections_find_ended();
    let most = if inconclusive { MAX_INSPECTIONS_IF_SUSPICIOUS } else { MAX_INSPECTIONS };
    for (claim, provider_id) in missing.into_iter().take(most) {
        gc.record_inspection(provider_id.clone(), INSPECTION_RETENTION, ctx.now);
        request_inspection(claim, provider_id, ctx);
    }
}

fn request_inspection(claim: ClaimName, provider_id: ProviderId, ctx: &mut Context<'_>) {
    ctx.call(ClusterCall::Inspect { cluster_uid: ctx.uid.clone(), claim, provider_id });
}
