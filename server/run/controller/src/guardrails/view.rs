//! Guardrail state of one cluster, as shown to operators.

use std::fmt::Display;

use super::removal::{BlockCause, HeldRemoval};
use super::{Block, ClusterGuardrails, GuardrailSettings, Guardrails, Mode};
use model::{ClaimName, ClusterName, MicroUsd, Text, Timestamp};

/// What the guardrails block in a cluster, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuardrailsView {
    pub mode: Mode,
    /// Whether voluntary removals take effect, as far as `mode` does not say otherwise.
    pub disruption_mode: Mode,
    /// Why the agent's snapshot is not accepted, and since when.
    pub quarantine: Option<(Text, Timestamp)>,
    /// Freezes that concern the cluster, as sentences.
    pub freezes: Vec<Text>,
    /// The freeze that covers the whole cluster, if there is one.
    pub frozen: Option<Text>,
    /// Why the circuit breaker stops removals here, or in the whole fleet.
    pub circuit_breaker: Option<Text>,
    /// Why launches were held at the last check.
    pub held_launches: Option<Text>,
    /// Why removals were held at the last check.
    pub held_removals: Option<Text>,
    /// When launches go on if nothing comes first.
    pub held_launches_until: Option<Timestamp>,
    /// The setting that allows more launches; empty where there is none.
    pub held_launches_setting: &'static str,
    /// When removals go on if nothing comes first.
    pub held_removals_until: Option<Timestamp>,
    /// The setting that allows more removals; empty where there is none.
    pub held_removals_setting: &'static str,
    /// Price per hour of the machines whose removal was held.
    pub held_removals_price: MicroUsd,
    pub pods_waiting: usize,
    pub launched: usize,
    /// Machines removed voluntarily within the window.
    pub removed: usize,
    /// Machines that joined within the circuit breaker's window, as counted by this replica.
    pub joined: usize,
    /// Launches that failed, and machines that did not join in time, within that window.
    /// Insufficient capacity is no failure.
    pub failed: usize,
    /// Held removals, ordered by cause and NodeClaim.
    pub waiting_removals: Vec<WaitingRemoval>,
    /// Removals that the verifier has rejected since this replica owns the cluster: errors of this
    /// program.
    pub rejected_removals: usize,
    /// Why the cloud's listings are not trusted, and since when.
    pub untrusted_listing: Option<(Text, Timestamp)>,
}

/// A removal that the removal gate blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRemoval {
    pub claim: ClaimName,
    pub since: Timestamp,
    pub reason: Text,
    /// What ends the block; a phrase that continues the reason.
    pub release: Text,
}

impl GuardrailsView {
    pub(crate) fn of(
        guardrails: &Guardrails,
        cluster_guardrails: &ClusterGuardrails,
        settings: &GuardrailSettings,
        cluster: &ClusterName,
    ) -> Self {
        let (launches, removals) = (cluster_guardrails.launch_block(), cluster_guardrails.removal_block());
        let reason = |held: Option<&Block>| held.map(|held| sentence(&held.reason));
        let setting = |held: Option<&Block>| held.map(Block::setting).unwrap_or_default();
        let (joined, failed) = guardrails.launch_outcomes(cluster);
        let (launched, removed) = guardrails.window_counts(cluster);
        let whole = guardrails
            .freezes()
            .for_cluster(cluster)
            .find(|freeze| !freeze.only_disruption && freeze.covers(cluster, None));
        Self {
            mode: settings.mode_of(cluster),
            disruption_mode: Mode::Act,
            quarantine: cluster_guardrails
                .quarantine()
                .map(|quarantine| (sentence(quarantine.reason()), quarantine.since())),
            freezes: guardrails.freezes().for_cluster(cluster).map(|freeze| sentence(freeze)).collect(),
            frozen: whole.map(|freeze| sentence(freeze)),
            circuit_breaker: guardrails.engaged_breaker(settings, cluster).map(|engaged| sentence(&engaged)),
            held_launches: reason(launches),
            held_removals: reason(removals),
            held_launches_until: launches.and_then(|held| held.until),
            held_launches_setting: setting(launches),
            held_removals_until: removals.and_then(|held| held.until),
            held_removals_setting: setting(removals),
            held_removals_price: removals.map(|held| held.price).unwrap_or_default(),
            pods_waiting: cluster_guardrails.count_delayed_pods(guardrails.now()),
            launched,
            removed,
            joined,
            failed,
            waiting_removals: cluster_guardrails.waiting_removals().map(|held| waiting(cluster, held)).collect(),
            rejected_removals: cluster_guardrails.rejected_removals(),
            untrusted_listing: None,
        }
    }

    /// Sentence about the first held removal and the number of others.
    #[must_use]
    pub fn waiting_because(&self) -> Option<Text> {
        let WaitingRemoval { claim, reason, release, .. } = self.waiting_removals.first()?;
        let others = match self.waiting_removals.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} other removals wait)"),
        };
        Some(Text::from(format!("the removal of {claim} waits {release}: {reason}{others}")))
    }

    /// Why nothing, or not everything, happens here at the moment; the most important reason.
    #[must_use]
    pub fn held_reason(&self) -> Option<Text> {
        let quarantine = self.quarantine.as_ref().map(|(reason, _)| reason.clone());
        let shadow = || Text::from("shadow mode: decisions are written down and not carried out");
        let shadow_disruption =
            || Text::from("disruption in shadow mode: voluntary removals are written down and not carried out");
        quarantine
            .or_else(|| self.frozen.clone())
            .or_else(|| (self.mode == Mode::Shadow).then(shadow))
            .or_else(|| self.untrusted_listing.as_ref().map(|(reason, _)| reason.clone()))
            .or_else(|| self.held_launches.clone())
            .or_else(|| self.held_removals.clone())
            .or_else(|| self.waiting_because())
            .or_else(|| self.freezes.first().cloned())
            .or_else(|| (self.disruption_mode == Mode::Shadow).then(shadow_disruption))
    }
}

fn waiting(cluster: &ClusterName, (_, claim, held): (BlockCause, &ClaimName, &HeldRemoval)) -> WaitingRemoval {
    let HeldRemoval { since, refusal } = held;
    let (reason, release) = (sentence(refusal), Text::from(refusal.release(cluster)));
    WaitingRemoval { claim: claim.clone(), since: *since, reason, release }
}

fn sentence(reason: &dyn Display) -> Text {
    Text::from(reason.to_string())
}
