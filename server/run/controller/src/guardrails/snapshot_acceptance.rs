//! Accepts or rejects what the agent reports: applies [`quarantine`](super::quarantine) to
//! observations.

use std::collections::BTreeSet;

use super::quarantine::{LossEvidence, Quarantine, SuspectedLoss, detect_loss, detect_missing_pods};
use super::{ObjectCounts, unannounced_deletions};
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::guardrails::ClusterGuardrails;
use crate::nodeclaim::{NodeClaims, PendingRecovery};
use crate::step_view::StepView;
use crate::{ClusterCall, Effect, LaunchState, Listing, Removal};
use cluster::{ClusterSnapshot, ClusterState, Key, Observation};
use model::{ClaimName, Millis, ProviderId, Text, Timestamp};

/// For this long a Node on which the API server listed pods does not count as empty, unless the
/// agent observes a pod event there. An agent that misses the pods does so until its watch
/// restarts, and each attempt costs the API server a list.
const OCCUPIED_FOR: Millis = Millis::from_mins(10);

impl StepView<'_> {
    /// Until when the Node of `claim` may not be empty: it lost pods without announcement, or the
    /// API server listed pods that the agent does not report.
    pub(crate) fn pods_uncertain_until(&self, claim: &ClaimName) -> Option<Timestamp> {
        let node = self.state.node_of_claim(claim)?;
        let lost = self.guardrails.last_pod_loss_expiry(&node.name, self.settings().guardrails.quarantine.window);
        // A later pod event proves that the watch of that Node's pods works.
        let unseen = |at: &Timestamp| self.state.last_pod_event(&node.name).is_none_or(|event| event <= *at);
        let occupied = self.claims.get(claim).and_then(|machine| machine.occupied_at()).filter(unseen);
        let occupied = occupied.map(|at| at + OCCUPIED_FOR);
        lost.max(occupied).filter(|until| *until > self.now)
    }
}

/// Machines that a snapshot should show: those known here, and those that launch rows tell of.
#[derive(Clone, Copy)]
pub(crate) struct KnownMachines<'m> {
    pub claims: &'m NodeClaims,
    pub recovery: &'m PendingRecovery,
}

impl<'m> KnownMachines<'m> {
    /// NodeClaims of machines that run.
    fn running(self) -> impl Iterator<Item = &'m ClaimName> {
        let known = self.claims.iter().filter(|m| !m.provider_id().is_empty() && !m.stage().is_terminating());
        known.map(|machine| machine.name()).chain(self.recovered().map(|(claim, _)| claim))
    }

    /// NodeClaim and provider id of machines known from launch rows only.
    fn recovered(self) -> impl Iterator<Item = (&'m ClaimName, &'m ProviderId)> {
        let left = self.recovery.launches().iter().filter(move |launch| !self.claims.contains(&launch.claim));
        left.filter_map(|launch| match &launch.state {
            LaunchState::Launched { provider_id } => Some((&launch.claim, provider_id)),
            LaunchState::Open | LaunchState::Failed { .. } => None,
        })
    }

    fn count_shown(self, snapshot: &ClusterSnapshot) -> usize {
        let shown: BTreeSet<&ClaimName> = snapshot.claims.iter().map(|claim| &claim.name).collect();
        self.running().filter(|claim| shown.contains(*claim)).count()
    }

    /// Machines that ran before the quarantine: provider id, and whether the machine had a
    /// Node. A recovered machine counts as having had one if its NodeClaim is older than the
    /// registration timeout.
    fn ran_before(self, quarantine: &Quarantine, state: &ClusterState, ctx: &Context<'_>) -> Vec<(ProviderId, bool)> {
        let known = self.claims.iter().filter(|m| !m.provider_id().is_empty() && !m.stage().is_terminating());
        let known = known.map(|m| (m.provider_id().clone(), state.node_of_machine(m.provider_id()).is_some()));
        let joined = |claim: &ClaimName| {
            let created = quarantine.reported().claim(claim).and_then(|claim| claim.created);
            created.is_some_and(|at| ctx.now.duration_since(at) >= ctx.settings.registration_timeout)
        };
        known.chain(self.recovered().map(|(claim, id)| (id.clone(), joined(claim)))).collect()
    }
}

impl ClusterGuardrails {
    /// Returns the observation if it is accepted. After a rejected snapshot, all later observations
    /// are rejected too.
    pub(crate) fn accept_observation(
        &mut self,
        observation: Observation,
        machines: KnownMachines<'_>,
        state: &mut CopyOnWrite<ClusterState>,
        ctx: &Context<'_>,
    ) -> Option<Observation> {
        match observation {
            Observation::Snapshot(snapshot) => {
                // An operator confirms one snapshot, not later ones.
                self.end_confirmation();
                self.accept_snapshot(snapshot, machines, state, ctx)
            }
            other if self.is_quarantined() => {
                let observed = self.observed_counts(machines, state);
                if let Some(quarantine) = self.quarantine_mut() {
                    quarantine.apply_observation(&ctx.settings.guardrails.quarantine, other, observed, ctx.now);
                }
                None
            }
            Observation::Delete(key) => self.accept_deletion(key, machines.claims, state, ctx),
            other => Some(other),
        }
    }

    /// Object counts of the accepted state or, before the first snapshot, the restored counts.
    fn observed_counts(&self, machines: KnownMachines<'_>, state: &ClusterState) -> ObjectCounts {
        ObjectCounts::of_state(state, machines.running().count()).max(self.restored_counts())
    }

    fn accept_snapshot(
        &mut self,
        snapshot: Box<ClusterSnapshot>,
        machines: KnownMachines<'_>,
        state: &mut CopyOnWrite<ClusterState>,
        ctx: &Context<'_>,
    ) -> Option<Observation> {
        let rule = &ctx.settings.guardrails.quarantine;
        let shown = ObjectCounts::of_snapshot(&snapshot, machines.count_shown(&snapshot));
        let known = self.end_quarantine();
        let mut observed = self.observed_counts(machines, state);
        if shown.claims == 0 && !machines.recovery.launches().is_empty() {
            // Open launches or known instances prove that the cluster was not empty.
            observed.nodes = observed.nodes.max(1);
        }
        let Some(mut loss) = detect_loss(rule, observed, shown).or_else(|| detect_missing_pods(rule, &snapshot)) else {
            self.drain_unannounced_deletions();
            self.discard_restored_counts();
            return Some(Observation::Snapshot(snapshot));
        };
        loss.unverifiable = loss.pods && (self.has_restored_counts() || state.lost_all_pods_of_namespace(&snapshot));
        let reported = (Quarantine::state_of_snapshot(snapshot, ctx.now), shown);
        let resync_at = ctx.now + rule.confirm_after;
        let mut quarantine = new_quarantine(loss, LossEvidence::Snapshot, reported, resync_at, ctx);
        if let Some(first) = known.filter(|known| known.matches_counts(rule, shown)) {
            quarantine = quarantine.continue_from(first, ctx.now);
            let ran = machines.ran_before(&quarantine, state, ctx);
            if quarantine.can_accept(rule, &ran, ctx.now) {
                self.drain_unannounced_deletions();
                self.discard_restored_counts();
                return Some(Observation::Snapshot(Box::new(quarantine.into_snapshot())));
            }
        }
        enter_quarantine(quarantine, self, state);
        None
    }

    /// Accepts an unannounced deletion unless too much was lost within the window.
    fn accept_deletion(
        &mut self,
        key: Key,
        claims: &NodeClaims,
        state: &mut CopyOnWrite<ClusterState>,
        ctx: &Context<'_>,
    ) -> Option<Observation> {
        let rule = &ctx.settings.guardrails.quarantine;
        let lost = state.unannounced_deletion(&key).filter(|_| rule.window > Millis::ZERO && state.is_synced());
        let Some(object) = lost.filter(|_| !is_leaving(&key, claims, state)) else {
            return Some(Observation::Delete(key));
        };
        self.expire_unannounced_deletions(rule.window, ctx.now);
        let present = ObjectCounts::of_state(state, 0);
        let had = present.plus(self.unannounced_counts());
        let has = present.minus(unannounced_deletions::one(&object));
        self.record_unannounced_deletion(object, ctx.now);
        // An operator who deletes the last NodePool does not indicate a broken watch.
        let bare = |loss: &SuspectedLoss| !loss.machines && !loss.pods && had.pools < 2;
        let Some(loss) = detect_loss(rule, had, has).filter(|loss| !bare(loss)) else {
            return Some(Observation::Delete(key));
        };
        let mut reported = Box::new(ClusterState::clone(state));
        reported.apply(Observation::Delete(key), ctx.now);
        restore_deleted_objects(ctx.now, self, state);
        let evidence = LossEvidence::UnannouncedDeletions { window_s: rule.window.as_secs() };
        let quarantine = new_quarantine(loss, evidence, (reported, has), ctx.now, ctx);
        enter_quarantine(quarantine, self, state);
        None
    }

    /// When the next snapshot is requested, while the agent is connected.
    pub(crate) fn next_resync(&self) -> Option<Timestamp> {
        self.quarantine().map(Quarantine::next_resync)
    }

    /// Persists the object counts if they have changed enough.
    pub(crate) fn persist_counts(&mut self, state: &ClusterState, ctx: &mut Context<'_>) {
        if self.next_counts_write(state, ctx).is_some_and(|due| due <= ctx.now) {
            let counts = ObjectCounts::of_state(state, 0);
            self.record_counts_write(counts, ctx.now);
            ctx.call(ClusterCall::PersistCounts(counts));
        }
    }

    /// When the object counts are persisted next.
    pub(crate) fn next_counts_write(&self, state: &ClusterState, ctx: &Context<'_>) -> Option<Timestamp> {
        self.counts_write_due(&ctx.settings.guardrails.quarantine, ObjectCounts::of_state(state, 0), ctx.now)
    }
}

/// Excludes removals from Nodes that lost pods, possibly through a fault of the agent. Returns when that is known of the
/// first of them.
pub(crate) fn exclude_uncertain_removals(removals: &mut Vec<Removal>, view: &StepView<'_>) -> Option<Timestamp> {
    let mut again: Option<Timestamp> = None;
    removals.retain(|removal| {
        let until = view.pods_uncertain_until(&removal.claim);
        again = again.into_iter().chain(until).min();
        until.is_none()
    });
    again
}

/// Requests a snapshot to compare with the rejected one, when it is due.
pub(crate) fn request_resync(ctx: &mut Context<'_>, guardrails: &mut ClusterGuardrails, connected: bool) {
    let Some(quarantine) = guardrails.quarantine_mut().filter(|q| connected && q.next_resync() <= ctx.now) else {
        return;
    };
    quarantine.schedule_resync(&ctx.settings.guardrails.quarantine, ctx.now);
    ctx.effects.push(Effect::Resync(Text::from(quarantine.reason().to_string())));
}

/// Restores objects that were deleted without announcement; the next snapshot shows what
/// happened to them.
pub(crate) fn restore_deleted_objects(
    now: Timestamp,
    guardrails: &mut ClusterGuardrails,
    state: &mut CopyOnWrite<ClusterState>,
) {
    for object in guardrails.drain_unannounced_deletions() {
        if !state.contains(&object) {
            state.apply(Observation::upsert(object), now);
        }
    }
}

/// Rejects further observations; an earlier confirmation by the operator does not apply to
/// them.
fn enter_quarantine(quarantine: Quarantine, guardrails: &mut ClusterGuardrails, state: &mut CopyOnWrite<ClusterState>) {
    guardrails.begin_quarantine(quarantine);
    guardrails.end_confirmation();
    state.mark_unsynced();
}

/// Passes a complete cloud listing to the quarantine as its second source.
pub(crate) fn record_cloud_listing(listing: &Listing, guardrails: &mut ClusterGuardrails, uid: &Text) {
    let Some(quarantine) = guardrails.quarantine_mut().filter(|_| listing.complete) else { return };
    let up = listing.instances.iter().filter(|instance| !instance.terminating && instance.cluster_uid == *uid);
    quarantine.record_listing(listing.requested_at, up.map(|instance| instance.provider_id.clone()).collect());
}

fn new_quarantine(
    loss: SuspectedLoss,
    evidence: LossEvidence,
    reported: (Box<ClusterState>, ObjectCounts),
    resync_at: Timestamp,
    ctx: &Context<'_>,
) -> Quarantine {
    let reason = loss.quarantine_reason(&ctx.settings.guardrails.quarantine, &ctx.cluster, evidence);
    Quarantine::begin(loss, reason, reported, resync_at, ctx.now)
}

/// Whether the machine that the object belongs to is terminating. Its NodeClaim may be deleted
/// before its Node.
fn is_leaving(key: &Key, claims: &NodeClaims, state: &ClusterState) -> bool {
    let claim = match key {
        Key::Claim(claim) => Some(claim.clone()),
        Key::Node(node) => state.node(node).and_then(|node| claims.name_of_instance(&node.provider_id)),
        _ => None,
    };
    claim.and_then(|claim| claims.get(&claim)).is_some_and(|machine| machine.termination_reason().is_some())
}
