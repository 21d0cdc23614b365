//! The second witness: the cloud is asked about single machines by id, because a listing that lacks them proves nothing.
//!
//! A listing is doubted as a whole when it lacks as much as a snapshot that would be quarantined: a job that strips tags, or
//! credentials of another account, make an empty listing out of a fleet that runs. While it is doubted nothing is concluded from it.
//! What the cloud states of a machine by its id counts always; that it does not know the id counts only while listings are
//! trusted, when the Node is not ready, and against the bounds on removals.

use std::collections::BTreeSet;

use super::cluster_controller::{ClusterController, Context};
use super::guardrails::removal::{Cause, Evidence, judge};
use super::machine::Stage;
use super::recovery::{Finding, LaunchState};
use super::{Effect, Inspection, Listing};
use crate::model::{Text, Timestamp};

/// Machines of one cluster that the cloud is asked about for each listing.
const ASKED_AT_ONCE: usize = 10;
/// The same while listings are doubted and the last answer did not say that a machine has ended: it may be so for every cluster at
/// once, and the cloud takes a few questions a second.
const ASKED_IN_DOUBT: usize = 2;
/// The same machine is asked about again after this, in milliseconds.
const ASK_AGAIN_MS: i64 = 30_000;
/// How long it is remembered when a machine was asked about, in milliseconds.
const ASKED_KEPT_MS: i64 = 3_600_000;
/// What the cloud refuses to give back is asked for again after this, in milliseconds.
const REFUSED_AGAIN_MS: i64 = 300_000;
/// What the cloud does not know, while the Node says otherwise, is asked for again after this, in milliseconds.
const UNKNOWN_AGAIN_MS: i64 = 60_000;

/// Why the cloud's listings are not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Since when.
    pub since: Timestamp,
    /// In a sentence.
    pub reason: Text,
}

impl ClusterController {
    /// Compares a listing with the machines that are known to run; says whether it is believed.
    pub fn weigh_listing(&mut self, listing: &Listing, after_ms: i64, desk: &mut Context<'_>) -> bool {
        let rule = desk.settings.rails.quarantine;
        let listed: BTreeSet<&Text> = listing.instances.iter().map(|instance| &instance.provider_id).collect();
        let known = self.known_to_run(listing.asked, after_ms);
        let lacking = known.iter().filter(|id| !listed.contains(id)).count();
        let lacks = lacking > rule.free_machines && lacking * 100 > rule.percent * known.len();
        if !lacks || rule.percent == 0 || !desk.settings.rails.removal.second_witness {
            self.collection.trust();
            return true;
        }
        if self.collection.is_confirmed() {
            return true;
        }
        let (missing, of) = (lacking, known.len());
        let reason = format!(
            "the cloud's listing lacks {missing} of {of} machines that are known to run: nothing is concluded from it until one \
             shows them, the cloud states of each by its id that it has ended, or `{}`",
            self.word()
        );
        if self.collection.doubt(Text::from(reason), desk.now) {
            self.report(Finding::ListingLacks { missing, of }, desk);
        }
        false
    }

    /// Machines that a listing of this moment has no excuse to lack, whatever their Nodes say: provider ids. Those that the cloud
    /// has stated to have ended are not among them.
    fn known_to_run(&self, asked: Timestamp, after_ms: i64) -> BTreeSet<Text> {
        let runs = |stage: Stage| {
            matches!(
                stage,
                Stage::Launched | Stage::Registered | Stage::Initialized | Stage::Draining | Stage::Launching
            )
        };
        let old = |since: Timestamp| asked.millis_since(since) >= after_ms;
        let machines = self.machines.values().filter(|m| runs(m.stage) && !m.provider_id.is_empty() && old(m.since));
        let left = self.legacy.launches().iter().filter_map(|launch| match &launch.state {
            LaunchState::Launched { provider_id } => Some(provider_id),
            _ => None,
        });
        let all = machines.map(|machine| &machine.provider_id).chain(left);
        all.filter(|id| !self.collection.has_ended(id)).cloned().collect()
    }

    /// Asks the cloud about those of `missing`, by NodeClaim and provider id, that were not asked about lately, beginning with those
    /// that have waited longest.
    pub fn ask_about(&mut self, mut missing: Vec<(Text, Text)>, desk: &mut Context<'_>) {
        let known = &self.collection;
        missing.retain(|(_, id)| known.asked_about(id).is_none_or(|at| desk.now.millis_since(at) >= ASK_AGAIN_MS));
        missing.sort_by_key(|(_, id)| known.asked_about(id));
        let in_vain = self.collection.doubted().is_some() && !self.collection.answers_tell();
        let most = if in_vain { ASKED_IN_DOUBT } else { ASKED_AT_ONCE };
        for (claim, provider_id) in missing.into_iter().take(most) {
            self.collection.note_asked(provider_id.clone(), ASKED_KEPT_MS, desk.now);
            self.inspect(claim, provider_id, desk);
        }
    }

    /// Asks the cloud about the machine of `claim`, unless it was asked lately.
    pub fn ask_by_id(&mut self, claim: &Text, desk: &mut Context<'_>) {
        let Some(provider_id) = self.machines.get(claim).map(|machine| machine.provider_id.clone()) else { return };
        if !provider_id.is_empty() {
            self.ask_about(vec![(claim.clone(), provider_id)], desk);
        }
    }

    fn inspect(&self, claim: Text, provider_id: Text, desk: &mut Context<'_>) {
        let (cluster, cluster_uid) = (self.cluster.clone(), self.uid.clone());
        desk.effects.push(Effect::Inspect { cluster, cluster_uid, claim, provider_id });
    }

    /// The cloud has answered about one machine.
    pub fn inspected(&mut self, provider_id: &Text, found: Inspection, desk: &mut Context<'_>) {
        self.collection.note_answer(found == Inspection::Ended);
        if found == Inspection::Ended {
            self.collection.note_ended(provider_id.clone());
        }
        if found == Inspection::Foreign {
            self.collection.note_foreign(provider_id.clone());
        } else {
            self.collection.forget_foreign(provider_id);
        }
        let Some(claim) = self.claim_of_instance(provider_id) else { return };
        match found {
            Inspection::Runs => {
                self.collection.found(&claim);
                self.rails.waiting.release(Cause::Missing, &claim);
            }
            Inspection::Foreign => self.hold_foreign(&claim, provider_id, desk),
            Inspection::Ended => self.conclude(&claim, Evidence::Ended, desk),
            Inspection::Unknown => self.conclude(&claim, Evidence::Unknown, desk),
        }
    }

    /// The machine of `claim` is gone, if the gate believes it.
    fn conclude(&mut self, claim: &Text, evidence: Evidence, desk: &mut Context<'_>) {
        let Some(stage) = self.machines.get(claim).map(|machine| machine.stage) else { return };
        if stage == Stage::Deleting {
            return;
        }
        let facts = self.facts(claim, desk);
        let mut around = self.circumstances(claim, desk);
        if stage.is_leaving() {
            // It was counted, and looked at, when it was decided.
            (around.frozen, around.capped) = (None, None);
        }
        let verdict = judge(&desk.settings.rails.removal, evidence, facts, &around);
        if self.heed(Cause::Missing, claim, &verdict, desk.now) {
            if evidence == Evidence::Unknown && !stage.is_leaving() {
                self.count_removal(claim, desk);
            }
            self.machine_gone(claim, desk);
        } else if matches!(stage, Stage::Launching | Stage::Terminating) {
            self.try_again(claim, UNKNOWN_AGAIN_MS, desk);
        }
    }

    /// The cloud will not give the machine of `claim` back: its tags are not this cluster's.
    pub fn terminate_refused(&mut self, claim: &Text, provider_id: &Text, desk: &mut Context<'_>) {
        self.collection.note_foreign(provider_id.clone());
        let held = self.claim_of_instance(provider_id).filter(|known| known == claim);
        let Some(claim) = held else { return };
        if let Some(machine) = self.machines.get_mut(&claim) {
            machine.refused = true;
        }
        self.hold_foreign(&claim, provider_id, desk);
        self.try_again(&claim, REFUSED_AGAIN_MS, desk);
    }

    fn hold_foreign(&mut self, claim: &Text, provider_id: &Text, desk: &mut Context<'_>) {
        let reason = format!("the tags of machine {provider_id} do not say that it is cluster {}'s", self.cluster);
        let release = format!(
            "until they are set again (fleetwright.dev/cluster={}, fleetwright.dev/cluster-uid={}, fleetwright.dev/managed=true), \
             or the machine has ended",
            self.cluster, self.uid
        );
        self.rails.waiting.hold(Cause::Foreign, claim, Text::from(reason), Text::from(release), desk.now);
    }

    /// What was asked of the cloud about `claim` is asked again after a while.
    fn try_again(&mut self, claim: &Text, after_ms: i64, desk: &Context<'_>) {
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.ask_again = Some(desk.after(after_ms));
        }
    }

    /// Asks the cloud again what it did not do, or did not know, about `claim`.
    pub fn ask_again(&mut self, claim: &Text, desk: &mut Context<'_>) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        if machine.ask_again.is_none_or(|at| at > desk.now) {
            return;
        }
        machine.ask_again = None;
        let (attempt, provider_id) = (machine.attempt, machine.provider_id.clone());
        match machine.stage {
            Stage::Terminating => self.give_back(claim, desk),
            Stage::Launching if !provider_id.is_empty() => {
                let (cluster, claim) = (self.cluster.clone(), claim.clone());
                desk.effects.push(Effect::Describe { cluster, claim, attempt, provider_id });
            }
            _ => {}
        }
    }
}
