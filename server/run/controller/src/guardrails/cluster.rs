//! Guardrail state of one cluster.

use std::collections::BTreeMap;

use super::block::Block;
use super::launch_backoff::{LaunchBackoff, LaunchBackoffRule, LaunchDelay, UnboundLaunch};
use super::object_counts::ObjectCounts;
use super::persisted_counts::PersistedCounts;
use super::quarantine::{Quarantine, QuarantineRule};
use super::recent_launch::RecentLaunch;
use super::removal::{BlockCause, HeldRemoval, HeldRemovals, RemovalRefusal};
use super::shadow_content::ShadowContent;
use super::unannounced_deletions::UnannouncedDeletions;
use crate::DecisionReason;
use cluster::{Object, Observation};
use model::disruption_policy::DisruptionPolicy;
use model::{ClaimName, Millis, NodeName, PodKey, PoolName, Text, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct ClusterGuardrails {
    quarantine: Option<Quarantine>,
    /// Until when an operator's confirmation of the agent's snapshot is valid.
    confirmed_until: Option<Timestamp>,
    /// Objects that the agent deleted recently without a preceding termination.
    unannounced_deletions: UnannouncedDeletions,
    /// Object counts of the cluster as persisted in the store.
    persisted_counts: PersistedCounts,
    launch_backoff: LaunchBackoff,
    /// Launches from before the takeover, oldest first; emptied by the first accepted snapshot.
    recent_launches: Vec<RecentLaunch>,
    /// Why launches were held at the last check.
    held_launches: Option<Block>,
    /// Why removals were held at the last check.
    held_removals: Option<Block>,
    /// Removals that the removal gate blocks.
    waiting_removals: HeldRemovals,
    /// Number of removals that the verifier has rejected.
    rejected_removals: usize,
    /// Last known disruption policies of deleted NodePools.
    former_disruption_policies: BTreeMap<PoolName, DisruptionPolicy>,
    /// Machines whose drain waits until their replacements are ready, and the end of the wait.
    awaited_replacements: BTreeMap<ClaimName, Timestamp>,
    /// Content of the last shadow decisions, by the kind of the decision.
    last_shadow_decisions: BTreeMap<&'static str, ShadowContent>,
}

impl ClusterGuardrails {
    /// Changes whenever the guardrail part of the cluster's view does.
    pub fn view_fingerprint(&self) -> impl PartialEq + use<> {
        let reason = |held: &Option<Block>| held.as_ref().map(|held| (held.reason.clone(), held.until, held.price));
        let quarantine = self.quarantine.as_ref().map(|quarantine| quarantine.reason().clone());
        let removals = (reason(&self.held_removals), self.waiting_removals.version(), self.rejected_removals);
        (quarantine, reason(&self.held_launches), removals)
    }
}

/// Quarantine and what losses are measured by.
impl ClusterGuardrails {
    /// Whether the cluster is in quarantine.
    pub fn is_quarantined(&self) -> bool {
        self.quarantine.is_some()
    }

    pub fn quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    /// The quarantine, to which observations and listings are passed.
    pub fn quarantine_mut(&mut self) -> Option<&mut Quarantine> {
        self.quarantine.as_mut()
    }

    /// Counts the agent's snapshot as confirmed by an operator until `until`.
    pub fn confirm_snapshot(&mut self, until: Timestamp) {
        self.confirmed_until = Some(until);
    }

    /// Ends an operator's confirmation: it concerns one snapshot.
    pub fn end_confirmation(&mut self) {
        self.confirmed_until = None;
    }

    /// Whether an operator has confirmed the agent's snapshot.
    pub fn is_snapshot_confirmed(&self, now: Timestamp) -> bool {
        self.confirmed_until.is_some_and(|until| now < until)
    }

    pub fn begin_quarantine(&mut self, quarantine: Quarantine) {
        self.quarantine = Some(quarantine);
    }

    /// Ends the quarantine, and returns it.
    pub fn end_quarantine(&mut self) -> Option<Quarantine> {
        self.quarantine.take()
    }

    /// Ends the quarantine on an operator's command; returns the reported state as a snapshot.
    pub fn release_quarantine(&mut self) -> Option<Observation> {
        let quarantine = self.end_quarantine()?;
        self.discard_restored_counts();
        Some(Observation::Snapshot(Box::new(quarantine.into_snapshot())))
    }

    /// Records an object that was deleted without announcement.
    pub fn record_unannounced_deletion(&mut self, object: Object, now: Timestamp) {
        self.unannounced_deletions.record(object, now);
    }

    /// Drops unannounced deletions that are `window` old or older.
    pub fn expire_unannounced_deletions(&mut self, window: Millis, now: Timestamp) {
        self.unannounced_deletions.expire(window, now);
    }

    /// Removes and returns all objects that were deleted without announcement.
    pub fn drain_unannounced_deletions(&mut self) -> Vec<Object> {
        self.unannounced_deletions.drain()
    }

    /// Counts of the objects that were deleted without announcement.
    pub fn unannounced_counts(&self) -> ObjectCounts {
        self.unannounced_deletions.counts()
    }

    /// When the last unannounced pod deletion on `node` expires.
    pub fn last_pod_loss_expiry(&self, node: &NodeName, window: Millis) -> Option<Timestamp> {
        self.unannounced_deletions.last_pod_loss_expiry(node, window)
    }

    /// Restores the object counts that a previous process wrote.
    pub fn restore_counts(&mut self, counts: ObjectCounts, now: Timestamp) {
        self.persisted_counts.restore(counts, now);
    }

    /// Object counts that a first snapshot is compared with.
    pub fn restored_counts(&self) -> ObjectCounts {
        self.persisted_counts.restored()
    }

    /// Whether restored object counts are still in use.
    pub fn has_restored_counts(&self) -> bool {
        self.persisted_counts.is_restored()
    }

    /// Drops the restored object counts: a snapshot was accepted.
    pub fn discard_restored_counts(&mut self) {
        self.persisted_counts.discard_restored();
    }

    /// When `counts` is to be written.
    pub fn counts_write_due(&self, rule: &QuarantineRule, counts: ObjectCounts, now: Timestamp) -> Option<Timestamp> {
        self.persisted_counts.due(rule, counts, now)
    }

    /// Records that `counts` is being written.
    pub fn record_counts_write(&mut self, counts: ObjectCounts, now: Timestamp) {
        self.persisted_counts.record_write(counts, now);
    }
}

impl ClusterGuardrails {
    /// Records a launch for a pod that is not bound.
    pub fn record_unbound_pod(
        &mut self,
        rule: &LaunchBackoffRule,
        pod: &PodKey,
        uid: &Text,
        launch: UnboundLaunch<'_>,
    ) {
        self.launch_backoff.record(rule, pod, uid, launch);
    }

    /// The last machine that was launched for the pod, if it is not bound yet.
    pub fn last_launch_for(&self, pod: &PodKey) -> Option<&ClaimName> {
        self.launch_backoff.last_launch(pod)
    }

    /// Drops the pods for which `waits` (name, UID) is false: they were bound, or are gone.
    pub fn retain_unbound_pods(&mut self, waits: impl Fn(&PodKey, &Text) -> bool) {
        self.launch_backoff.retain(waits);
    }

    /// Whether machines were launched for pods that are not bound.
    pub fn has_unbound_pods(&self) -> bool {
        !self.launch_backoff.is_empty()
    }

    /// Why no machine is launched for the pod at `now`.
    pub fn launch_delay(&self, pod: &PodKey, now: Timestamp) -> Option<LaunchDelay> {
        self.launch_backoff.delay(pod, now)
    }

    /// Number of pods in launch backoff at `now`.
    pub fn count_delayed_pods(&self, now: Timestamp) -> usize {
        self.launch_backoff.waiting(now)
    }

    /// Keeps launches from before the takeover until the first accepted snapshot.
    pub fn keep_recent_launches(&mut self, launches: Vec<RecentLaunch>) {
        self.recent_launches = launches;
    }

    /// Removes and returns the launches from before the takeover.
    pub fn take_recent_launches(&mut self) -> Vec<RecentLaunch> {
        std::mem::take(&mut self.recent_launches)
    }

    /// Why launches were held at the last check.
    pub fn launch_block(&self) -> Option<&Block> {
        self.held_launches.as_ref()
    }

    /// Records the result of a check of launches.
    pub fn replace_launch_block(&mut self, held: Option<Block>) {
        self.held_launches = held;
    }
}

impl ClusterGuardrails {
    /// Why voluntary removals were held at the last check.
    pub fn removal_block(&self) -> Option<&Block> {
        self.held_removals.as_ref()
    }

    /// Records the result of a check of voluntary removals.
    pub fn replace_removal_block(&mut self, held: Option<Block>) {
        self.held_removals = held;
    }

    /// Has the removal of the machine of `claim` wait.
    pub fn block_removal(&mut self, cause: BlockCause, claim: &ClaimName, refusal: RemovalRefusal, now: Timestamp) {
        self.waiting_removals.block(cause, claim, refusal, now);
    }

    /// Ends the wait of a removal.
    pub fn release_removal(&mut self, cause: BlockCause, claim: &ClaimName) {
        self.waiting_removals.release(cause, claim);
    }

    /// Ends the waits of `cause` for which `keep` is false.
    pub fn retain_waiting_removals(&mut self, cause: BlockCause, keep: impl Fn(&ClaimName) -> bool) {
        self.waiting_removals.retain(cause, keep);
    }

    /// Removals that the removal gate blocks, with cause and NodeClaim, ordered by both.
    pub fn waiting_removals(&self) -> impl Iterator<Item = (BlockCause, &ClaimName, &HeldRemoval)> {
        self.waiting_removals.all()
    }

    /// Records that a machine deleted by hand started terminating.
    pub fn record_manual_removal(&mut self, claim: &ClaimName, now: Timestamp) {
        self.waiting_removals.record_manual(claim, now);
    }

    /// NodeClaims of the manual removals within the window.
    pub fn recent_manual_removals(&mut self, window: Millis, now: Timestamp) -> impl Iterator<Item = &ClaimName> {
        self.waiting_removals.recent_manual(window, now)
    }

    /// Has held manual removals evaluated again at `at`, unless that is due earlier.
    pub fn schedule_removal_recheck(&mut self, at: Timestamp) {
        self.waiting_removals.schedule_recheck(at);
    }

    /// Cancels the evaluation of held manual removals: it happens now.
    pub fn cancel_removal_recheck(&mut self) {
        self.waiting_removals.cancel_recheck();
    }

    /// When held manual removals are evaluated again.
    pub fn next_removal_recheck(&self) -> Option<Timestamp> {
        self.waiting_removals.next_recheck()
    }

    /// Counts removals that the verifier has rejected.
    pub fn count_rejected_removals(&mut self, rejected: usize) {
        self.rejected_removals += rejected;
    }

    /// Number of removals that the verifier has rejected.
    pub fn rejected_removals(&self) -> usize {
        self.rejected_removals
    }

    /// Keeps the disruption policy of a NodePool that is deleted.
    pub fn keep_disruption_policy(&mut self, pool: PoolName, policy: DisruptionPolicy) {
        self.former_disruption_policies.insert(pool, policy);
    }

    /// Last known disruption policy of a deleted NodePool.
    pub fn former_disruption_policy(&self, pool: &PoolName) -> Option<&DisruptionPolicy> {
        self.former_disruption_policies.get(pool)
    }
}

/// Replacement before removal.
impl ClusterGuardrails {
    /// Has the drain of `claim` wait for its replacements, until a time at most.
    pub fn await_replacement(&mut self, claim: ClaimName, until: Timestamp) {
        self.awaited_replacements.insert(claim, until);
    }

    /// When the wait for the replacements of `claim` ends; `None` when it does not wait for them.
    pub fn replacement_awaited_until(&self, claim: &ClaimName) -> Option<Timestamp> {
        self.awaited_replacements.get(claim).copied()
    }

    /// Ends the wait of `claim`; returns whether it waited.
    pub fn stop_awaiting_replacement(&mut self, claim: &ClaimName) -> bool {
        self.awaited_replacements.remove(claim).is_some()
    }

    /// Machines that wait for their replacements.
    pub fn awaited_replacements(&self) -> impl Iterator<Item = &ClaimName> {
        self.awaited_replacements.keys()
    }
}

impl ClusterGuardrails {
    /// Forgets the last shadow plan, so that the next one is recorded whatever it contains.
    pub fn forget_shadow_plan(&mut self) {
        self.last_shadow_decisions.remove(DecisionReason::Provision.as_str());
    }

    /// Records what a shadow decision of this kind says; returns whether that is new.
    pub fn record_shadow_content(&mut self, kind: &'static str, content: ShadowContent) -> bool {
        let last = self.last_shadow_decisions.entry(kind).or_default();
        let is_new = content != ShadowContent::default() && *last != content;
        if is_new {
            *last = content;
        }
        is_new
    }
}
