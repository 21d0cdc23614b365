//! Garbage, both ways: machines that are paid for and that nobody has, and NodeClaims whose machine is gone.
//!
//! Only a complete listing says anything, and only the second time: a listing lags behind launches and terminations, so what
//! is odd is remembered and acted on when a later listing, at least the collection period after the first, shows the same
//! (Karpenter collects after 30 seconds, with one listing). A listing that lacks most machines says nothing, and of one that lacks a
//! machine nothing follows but a question to the cloud about that one ([`witness`](super::witness)). While the agent shows nothing
//! at all, nothing is taken for nobody's. A Node that its kubelet reports ready is not gone, whatever the listing lacks. A machine that nobody has may
//! still be in use: one that has a Node is drained ([`take_care_of`](ClusterController::take_care_of)), not ended under its pods. A machine with
//! another cluster's UID is reported and never touched.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster_controller::{ClusterController, Context};
use super::guardrails::removal::Cause;
use super::machine::Stage;
use super::recovery::{Finding, LaunchState};
use super::witness::Doubt;
use super::{Effect, machine::Machine};
use crate::model::{Text, Timestamp};

/// When garbage is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GarbageCollectionSettings {
    /// How long something must be odd before it is garbage, in milliseconds; `None` collects nothing.
    pub after_ms: Option<i64>,
    /// Whether conclusions are drawn from listings that are not complete. For tests that show what follows.
    pub believe_partial: bool,
    /// Whether machines are taken to be nobody's although the agent shows nothing at all, or few of them. For tests that show
    /// what follows.
    pub believe_absence: bool,
    /// Whether a machine that nobody has is drained when it has a Node. Off for tests that show what follows.
    pub drain_orphans: bool,
}

impl Default for GarbageCollectionSettings {
    fn default() -> Self {
        Self { after_ms: Some(60_000), believe_partial: false, believe_absence: false, drain_orphans: true }
    }
}

/// The machines of one cluster, as the cloud lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// When the listing was asked for.
    pub asked: Timestamp,
    /// Whether it is whole.
    pub complete: bool,
    /// Machines that have the cluster's name and are not gone.
    pub instances: Vec<ListedInstance>,
}

/// A machine of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedInstance {
    /// Provider id.
    pub provider_id: Text,
    /// UID of the cluster that it was bought for; empty when it has none.
    pub cluster_uid: Text,
    /// NodeClaim that it was bought for.
    pub claim: Text,
    /// It is going down already.
    pub ends: bool,
}

/// What was odd in earlier listings.
#[derive(Debug, Default)]
pub(super) struct GarbageCollection {
    /// Listings from before this say nothing about what has been taken up since.
    since: Timestamp,
    /// Machines that nobody has, since when; by provider id.
    orphans: BTreeMap<Text, Timestamp>,
    /// Orphans that are being given back.
    ending: BTreeSet<Text>,
    /// Machines of ours whose NodeClaim the agent does not show, since when; by NodeClaim.
    pub claimless: BTreeMap<Text, Timestamp>,
    /// Machines of ours that the listing lacks, since when; by NodeClaim.
    missing: BTreeMap<Text, Timestamp>,
    /// Told already.
    reported: BTreeSet<Text>,
    /// Why listings are not believed.
    doubt: Option<Doubt>,
    /// A person has confirmed what the listings lack.
    confirmed: bool,
    /// When the cloud was last asked about machines, by provider id.
    asked: BTreeMap<Text, Timestamp>,
    /// Machines that the cloud has stated to have ended, by provider id: a listing may lack them.
    ended: BTreeSet<Text>,
    /// Machines whose tags are not this cluster's, by provider id, as far as the cloud was asked about them.
    foreign: BTreeSet<Text>,
    /// The last question about a machine did not find that it has ended.
    in_vain: bool,
}

impl GarbageCollection {
    /// Begins anew: everything was just looked at.
    pub fn begin(&mut self, now: Timestamp) {
        *self = Self { since: now, ..Self::default() };
    }

    /// Why listings are not believed, if they are not.
    pub fn doubted(&self) -> Option<&Doubt> {
        self.doubt.as_ref().filter(|_| !self.confirmed)
    }

    /// Listings are not believed; says whether that is news.
    pub fn doubt(&mut self, reason: Text, now: Timestamp) -> bool {
        let since = self.doubt.as_ref().map_or(now, |doubt| doubt.since);
        let doubt = Doubt { since, reason };
        self.doubt.replace(doubt.clone()) != Some(doubt)
    }

    /// Listings are believed again.
    pub fn trust(&mut self) {
        (self.doubt, self.confirmed) = (None, false);
    }

    /// A person confirms what listings lack, for as long as they lack it.
    pub fn confirm(&mut self) {
        self.confirmed = self.doubt.is_some();
    }

    /// Whether a person has.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// When the cloud was last asked about this machine.
    pub fn asked_about(&self, provider_id: &Text) -> Option<Timestamp> {
        self.asked.get(provider_id).copied()
    }

    /// The cloud is asked about this machine. What was asked longer ago than `kept_ms` is forgotten.
    pub fn note_asked(&mut self, provider_id: Text, kept_ms: i64, now: Timestamp) {
        self.asked.retain(|_, at| now.millis_since(*at) < kept_ms);
        self.asked.insert(provider_id, now);
    }

    /// The cloud has answered a question about a machine.
    pub fn note_answer(&mut self, ended: bool) {
        self.in_vain = !ended;
    }

    /// Whether questions find machines that have ended, as far as is known.
    pub fn answers_tell(&self) -> bool {
        !self.in_vain
    }

    /// The cloud has stated that the machine has ended.
    pub fn note_ended(&mut self, provider_id: Text) {
        self.ended.insert(provider_id);
    }

    /// Whether it has.
    pub fn has_ended(&self, provider_id: &Text) -> bool {
        self.ended.contains(provider_id)
    }

    /// The tags of the machine are not this cluster's.
    pub fn note_foreign(&mut self, provider_id: Text) {
        self.foreign.insert(provider_id);
    }

    /// They are.
    pub fn forget_foreign(&mut self, provider_id: &Text) {
        self.foreign.remove(provider_id);
    }

    /// The machine of `claim` is there although a listing lacks it.
    pub fn found(&mut self, claim: &Text) {
        self.missing.remove(claim);
    }

    /// Changes whenever what people see of listings does.
    pub fn outline(&self) -> (Option<Text>, (usize, usize)) {
        (self.doubted().map(|doubt| doubt.reason.clone()), self.counts())
    }

    /// Machines that nobody has, and machines whose tags are not this cluster's.
    pub fn counts(&self) -> (usize, usize) {
        (self.orphans.len(), self.foreign.len())
    }
}

impl ClusterController {
    /// The cloud has listed the machines of this cluster.
    pub fn collect(&mut self, listing: &Listing, desk: &mut Context<'_>) {
        let GarbageCollectionSettings { after_ms, believe_partial, .. } = desk.settings.collect;
        let Some(after_ms) = after_ms else { return };
        let whole = listing.complete || believe_partial;
        let held = self.rails.quarantine.is_some() || self.is_shadow(desk);
        if held || !whole || !self.is_ready() || listing.asked < self.collection.since {
            return;
        }
        let believed = self.weigh_listing(listing, after_ms, desk);
        if self.legacy.is_open() {
            return self.pass_over_ended(listing, after_ms, believed, desk);
        }
        self.ask_about_missing(listing, after_ms, believed, desk);
        if !believed {
            return;
        }
        self.collect_orphans(listing, after_ms, desk);
        self.collect_claimless(listing, after_ms, desk);
    }

    /// Somebody has to say whether the cluster's NodeClaims are gone. One whose machine is gone as well says nothing about the
    /// agent: it may have gone in good order, without its row being closed. It is taken up like the others, since it may also be
    /// there without being shown.
    ///
    /// A listing that is doubted proves nothing: the cloud is asked about each machine, and must state that it has ended.
    fn pass_over_ended(&mut self, listing: &Listing, after_ms: i64, believed: bool, desk: &mut Context<'_>) {
        if !listing.complete || self.state.synced_since().is_none_or(|since| listing.asked < since) {
            return;
        }
        let listed: BTreeSet<&Text> = listing.instances.iter().map(|instance| &instance.provider_id).collect();
        let ended = self.legacy.launches().iter().filter(|launch| {
            let LaunchState::Launched { provider_id } = &launch.state else { return false };
            let gone = !listed.contains(provider_id) && self.state.node_of_machine(provider_id).is_none();
            gone && !self.state.has_seen_claim(&launch.claim) && !self.machines.contains_key(&launch.claim)
        });
        let ended: Vec<(Text, Text)> = ended
            .filter_map(|launch| match &launch.state {
                LaunchState::Launched { provider_id } => Some((launch.claim.clone(), provider_id.clone())),
                _ => None,
            })
            .collect();
        if !believed {
            self.ask_about(ended.clone(), desk);
        }
        let ended = ended.iter().filter(|(_, id)| believed || self.collection.has_ended(id));
        let known = &self.collection.missing;
        let since = |claim: &Text| known.get(claim).copied().unwrap_or(listing.asked);
        let missing: BTreeMap<Text, Timestamp> = ended.map(|(claim, _)| (claim.clone(), since(claim))).collect();
        let due = missing.iter().filter(|(_, since)| listing.asked.millis_since(**since) >= after_ms);
        let due: BTreeSet<Text> = due.map(|(claim, _)| claim.clone()).collect();
        self.collection.missing = missing;
        if !due.is_empty() {
            self.legacy.pass_over(due);
            self.take_up(desk);
        }
    }

    /// Machines that nobody has are given back; those that have a Node are taken into care first, so that they are drained.
    fn collect_orphans(&mut self, listing: &Listing, after_ms: i64, desk: &mut Context<'_>) {
        let mut orphans = BTreeMap::new();
        for instance in listing.instances.iter().filter(|instance| !instance.ends) {
            if instance.cluster_uid != self.uid {
                self.report_foreign(instance, desk);
            } else if !self.is_had(instance) {
                let since = self.collection.orphans.get(&instance.provider_id).copied().unwrap_or(listing.asked);
                orphans.insert(instance.provider_id.clone(), since);
                let due = listing.asked.millis_since(since) >= after_ms;
                if due && !self.doubts_absence(1, 1, desk) && !self.most_nodes_vanished(desk) {
                    self.collect_orphan(instance, since, desk);
                }
            }
        }
        self.collection.ending.retain(|id| orphans.contains_key(id));
        self.collection.orphans = orphans;
    }

    fn collect_orphan(&mut self, instance: &ListedInstance, since: Timestamp, desk: &mut Context<'_>) {
        let ends = self.collection.ending.contains(&instance.provider_id);
        let has_node = self.state.node_of_machine(&instance.provider_id).is_some();
        // It waits as one whose Node vanished.
        let in_use = has_node || self.may_lack_a_node(desk);
        if in_use && !ends && desk.settings.collect.drain_orphans {
            self.take_care_of(instance, since, desk);
        } else {
            self.end_orphan(instance, desk);
        }
    }

    /// Whether somebody has this machine, or may turn out to: its launch is still being asked about.
    fn is_had(&self, instance: &ListedInstance) -> bool {
        let known = |machine: &Machine| machine.provider_id == instance.provider_id || machine.provider_id.is_empty();
        self.machines.get(&instance.claim).is_some_and(known)
            || self.claim_of_instance(&instance.provider_id).is_some()
            || self.state.claims().any(|claim| claim.provider_id == instance.provider_id)
    }

    fn end_orphan(&mut self, instance: &ListedInstance, desk: &mut Context<'_>) {
        let provider_id = instance.provider_id.clone();
        if !self.collection.ending.contains(&provider_id) && self.has_room_for(&instance.claim, desk) {
            self.collection.ending.insert(provider_id.clone());
            let (cluster, cluster_uid, claim) = (self.cluster.clone(), self.uid.clone(), instance.claim.clone());
            desk.effects.push(Effect::Terminate { cluster, cluster_uid, claim, provider_id });
        }
    }

    fn report_foreign(&mut self, instance: &ListedInstance, desk: &mut Context<'_>) {
        let ListedInstance { provider_id, cluster_uid, .. } = instance.clone();
        if self.collection.reported.insert(provider_id.clone()) {
            self.report(Finding::ForeignInstance { provider_id, cluster_uid }, desk);
        }
    }

    /// The cloud is asked about machines that the listing lacks: of those that are doubted at once, of others when they have been
    /// missing for the collection period. What it says is concluded from ([`ClusterController::inspected`]).
    fn ask_about_missing(&mut self, listing: &Listing, after_ms: i64, believed: bool, desk: &mut Context<'_>) {
        let listed: BTreeSet<&Text> = listing.instances.iter().map(|instance| &instance.provider_id).collect();
        let lacks = |machine: &&Machine| {
            self.should_be_listed(machine, listing.asked, after_ms) && !listed.contains(&machine.provider_id)
        };
        let missing: BTreeMap<Text, Timestamp> = (self.machines.values().filter(lacks))
            .map(|machine| {
                let since = self.collection.missing.get(&machine.claim).copied().unwrap_or(listing.asked);
                (machine.claim.clone(), since)
            })
            .collect();
        let due = missing.iter().filter(|(_, since)| !believed || listing.asked.millis_since(**since) >= after_ms);
        let due: Vec<(Text, Text)> =
            due.filter_map(|(claim, _)| Some((claim.clone(), self.machines.get(claim)?.provider_id.clone()))).collect();
        self.rails.waiting.retain(Cause::Missing, |claim| missing.contains_key(claim));
        let machines = &self.machines;
        self.collection.foreign.retain(|id| !listing.instances.iter().any(|instance| instance.provider_id == *id));
        let foreign = &self.collection.foreign;
        let is_foreign =
            |claim: &Text| machines.get(claim).is_some_and(|m| m.refused || foreign.contains(&m.provider_id));
        self.rails.waiting.retain(Cause::Foreign, is_foreign);
        self.collection.missing = missing;
        if desk.settings.rails.removal.second_witness {
            return self.ask_about(due, desk);
        }
        for (_, provider_id) in due {
            self.instance_gone(&provider_id, desk);
        }
    }

    /// Whether a listing that was asked for at `asked` has no excuse to lack the machine.
    fn should_be_listed(&self, machine: &Machine, asked: Timestamp, after_ms: i64) -> bool {
        let old = asked.millis_since(machine.since) >= after_ms;
        match machine.stage {
            Stage::Planned | Stage::Creating | Stage::Launching | Stage::Deleting => false,
            Stage::Terminating => !machine.provider_id.is_empty(),
            Stage::Launched | Stage::Registered | Stage::Initialized | Stage::Draining => {
                old && !machine.provider_id.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests;
