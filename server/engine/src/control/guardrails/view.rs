//! What people see of the rails in one cluster.

use super::removal::{Cause, HeldRemoval};
use super::{ClusterGuardrails, GuardrailSettings, Guardrails, Mode};
use crate::control::ClusterId;
use crate::model::{Text, Timestamp};

/// What the rails hold back in a cluster, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuardrailsView {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// Why the agent's snapshot is not believed, and since when.
    pub quarantine: Option<(Text, Timestamp)>,
    /// Freezes that concern the cluster, in sentences.
    pub freezes: Vec<Text>,
    /// The freeze that holds for all of the cluster, if one does.
    pub frozen: Option<Text>,
    /// Why nothing is removed here, or in the whole fleet.
    pub brake: Option<Text>,
    /// Why machines were not launched when last looked at.
    pub held_launches: Option<Text>,
    /// Why machines were not removed when last looked at.
    pub held_removals: Option<Text>,
    /// Pods that machines were launched for in vain and that wait.
    pub pods_waiting: usize,
    /// Machines launched within the window.
    pub launched: usize,
    /// Machines removed voluntarily within the window.
    pub removed: usize,
    /// Machines that joined within the window of the brake, as far as this process saw.
    pub joined: usize,
    /// Launches that failed, and machines that did not join in time, within it. That an offering is not to be had is no failure.
    pub failed: usize,
    /// Removals that wait, by reason and NodeClaim.
    pub waiting: Vec<WaitingRemoval>,
    /// Why the cloud's listings are not believed, and since when.
    pub listing_doubted: Option<(Text, Timestamp)>,
}

/// A removal that the gate holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRemoval {
    /// NodeClaim.
    pub claim: Text,
    /// Since when.
    pub since: Timestamp,
    /// Why, in a sentence.
    pub reason: Text,
    /// What ends the waiting, in words that go on from the reason.
    pub release: Text,
}

impl GuardrailsView {
    pub(in crate::control) fn of(
        rails: &Guardrails,
        ward: &ClusterGuardrails,
        settings: &GuardrailSettings,
        cluster: &ClusterId,
    ) -> Self {
        let reason = |held: &Option<super::Held>| held.as_ref().map(|held| held.reason.clone());
        let (joined, failed) = rails.brake.in_cluster(cluster);
        let whole = rails.freezes.touching(cluster).find(|freeze| freeze.covers(cluster, None));
        Self {
            mode: settings.mode_of(cluster),
            quarantine: ward.quarantine.as_ref().map(|quarantine| (quarantine.reason.clone(), quarantine.since)),
            freezes: rails.freezes.touching(cluster).map(super::Freeze::sentence).collect(),
            frozen: whole.map(super::Freeze::sentence),
            brake: rails.brake.reason(&settings.brake, cluster),
            held_launches: reason(&ward.held_launches),
            held_removals: reason(&ward.held_removals),
            pods_waiting: ward.attempts.waiting(rails.now),
            launched: rails.launches.in_cluster(cluster),
            removed: rails.removals.in_cluster(cluster),
            joined,
            failed,
            waiting: ward.waiting.all().map(waiting).collect(),
            listing_doubted: None,
        }
    }

    /// Why removals wait, in a sentence about the first of them.
    #[must_use]
    pub fn waiting_because(&self) -> Option<Text> {
        let WaitingRemoval { claim, reason, release, .. } = self.waiting.first()?;
        let others = match self.waiting.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} other removals wait)"),
        };
        Some(Text::from(format!("the removal of {claim} waits {release}: {reason}{others}")))
    }

    /// Why nothing, or not everything, is done here at the moment, the weightiest reason first.
    #[must_use]
    pub fn held_because(&self) -> Option<Text> {
        let quarantine = self.quarantine.as_ref().map(|(reason, _)| reason.clone());
        let shadow = || Text::from("shadow mode: decisions are written down and not carried out");
        quarantine
            .or_else(|| self.frozen.clone())
            .or_else(|| (self.mode == Mode::Shadow).then(shadow))
            .or_else(|| self.listing_doubted.as_ref().map(|(reason, _)| reason.clone()))
            .or_else(|| self.held_launches.clone())
            .or_else(|| self.held_removals.clone())
            .or_else(|| self.waiting_because())
            .or_else(|| self.freezes.first().cloned())
    }
}

fn waiting((_, claim, held): (Cause, &Text, &HeldRemoval)) -> WaitingRemoval {
    let HeldRemoval { since, reason, release } = held.clone();
    WaitingRemoval { claim: claim.clone(), since, reason, release }
}
