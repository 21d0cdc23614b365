//! Guardrails: limits that every decision must pass before it takes effect.
//!
//! A guardrail never plans. It inspects a decision and lets it pass, blocks it with a reason, or
//! blocks all decisions of the cluster. Each guardrail is a value with pure functions and has a test
//! that fails while it is off. It is switched off by its own setting or by an operator's
//! confirmation; `replacement` has neither, and only a test disables it (`disabled_guards`). A
//! reason is a value whose `Display` is the sentence for operators; what holds launches or removals
//! carries it as a [`Block`]. The guardrails:
//!
//! - [`quarantine`] blocks everything in a cluster whose agent reported too large a loss, until a
//!   later snapshot and a second source confirm it or the operator releases it.
//! - [`unannounced_deletions`] blocks the removal of a Node that lost pods without a termination
//!   event, until its window passes without further loss.
//! - [`rate_limits`] blocks launches and voluntary removals above a count in a sliding window, per
//!   cluster and fleet, until the window moves on. The removal of a machine that is replaced is reserved when its
//!   replacement begins: launch and removal pass together, or neither.
//! - [`launch_backoff`] blocks launches for a pod that was bound to none of the machines launched
//!   for it, for a delay that doubles.
//! - [`circuit_breaker`] blocks voluntary removals in a cluster whose launches fail, and in the
//!   fleet when launches fail in several clusters of any replica, until launches succeed again.
//! - [`freeze`] blocks launches and voluntary removals that an operator froze, until the freeze is
//!   removed or ends.
//! - [`mode`] blocks every effect except records and views in shadow mode, until the setting
//!   changes.
//! - [`removal`] blocks removals with incomplete evidence (absence from a listing, a vanished Node,
//!   bulk deletion by hand), until the evidence arrives, the cause ends, or the operator confirms
//!   them.
//! - `replacement` blocks a drain until capacity for its pods is planned, and blocks the removal of
//!   the empty replacement until the drain has ended.
//!
//! Work that has begun is completed: an instance is launched for every created NodeClaim, and a
//! drain continues. Interruptions and a few manual deletions bypass the guardrails; bulk manual
//! deletions wait for freezes and budgets.
//!
//! # What survives a restart
//!
//! - Freezes and their end: rows, replayed by
//!   [`RegionEvent::FreezesChanged`](super::RegionEvent::FreezesChanged).
//! - Launches and removals of a cluster, launches per pod: open and closed launch rows
//!   (`restore`); a NodeClaim without a row counts by its creation time.
//! - Removals that are reserved for replacements under way: the recorded replacements.
//! - Launches and removals of the fleet, outcomes of launches: counters that every replica
//!   published, including replicas that have stopped ([`fleet_counters`]).
//! - Mode and limits: the configuration.
//! - Quarantine: the launch rows and the persisted object counts ([`persisted_counts`]); the first
//!   snapshot after a restart is compared with both.
//!
//! Each guardrail has its rule, state and sentence in its file. This file lists them: their settings, the state that
//! clusters share ([`Guardrails`]), what holds launches and removals in order of precedence, and what operators see.
//!
//! Reading order: this file, then the guardrails in the order above; `cluster` has the state of one cluster, `fleet` what
//! is counted, [`fleet_counters`] combines the counters of all replicas, `enforcement` applies the guardrails to decisions.

mod block;
pub mod circuit_breaker;
mod cluster;
mod disabled_guards;
mod effect_filter;
pub(crate) mod enforcement;
mod fleet;
pub mod fleet_counters;
pub mod freeze;
pub mod launch_backoff;
pub mod mode;
mod object_counts;
pub mod persisted_counts;
pub mod quarantine;
pub mod rate_limits;
mod recent_launch;
pub mod removal;
pub(crate) mod removal_gate;
pub(crate) mod replacement;
pub(crate) mod restore;
pub(crate) mod shadow;
mod shadow_content;
pub mod sliding_window;
pub(crate) mod snapshot_acceptance;
pub mod unannounced_deletions;

pub use block::Block;
pub use circuit_breaker::CircuitBreakerRule;
pub(crate) use cluster::ClusterGuardrails;
pub(super) use disabled_guards::DisabledGuards;
pub(super) use disabled_guards::Guard;
pub(crate) use effect_filter::is_allowed_by_mode;
pub(crate) use fleet::ReplacementRoom;
pub use freeze::Freeze;
pub(crate) use launch_backoff::BackedOffPods;
pub use launch_backoff::LaunchBackoffRule;
pub use mode::Mode;
pub use object_counts::ObjectCounts;
pub use quarantine::QuarantineRule;
pub use rate_limits::{Bound, RateLimitRule};
pub use recent_launch::{RESTORE_WINDOW, RecentLaunch};
pub use removal::{RemovalRule, WaitingRemoval};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use circuit_breaker::CircuitBreaker;
use freeze::Freezes;
use model::removal::RemovalReason;
use model::{ClusterName, MicroUsd, Millis, PoolName, Text, Timestamp};
use rate_limits::RateLimits;

/// The defaults are wide enough for the bursts of a large cluster and narrow enough that a fault costs minutes of one
/// cluster, not a fleet.
#[derive(Debug, Clone)]
pub struct GuardrailSettings {
    /// Mode of the fleet.
    pub mode: Mode,
    /// Clusters in shadow mode, whatever `mode` is.
    pub shadow: BTreeSet<ClusterName>,
    /// Which snapshots are accepted.
    pub quarantine: QuarantineRule,
    pub launches: RateLimitRule,
    /// Rate limits on voluntary removals.
    pub removals: RateLimitRule,
    /// Backoff of launches for one pod.
    pub launch_backoff: LaunchBackoffRule,
    /// When voluntary removals stop.
    pub circuit_breaker: CircuitBreakerRule,
    /// Removals at once of machines that were deleted by hand.
    pub removal: RemovalRule,
    /// How long a drain waits at most for a plan that places its pods; 0 drains at once.
    pub replacement_wait: Millis,
}

impl GuardrailSettings {
    /// Mode that applies to `cluster`.
    #[must_use]
    pub fn mode_of(&self, cluster: &ClusterName) -> Mode {
        if self.shadow.contains(cluster) { Mode::Shadow } else { self.mode }
    }
}

impl Default for GuardrailSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Act,
            shadow: BTreeSet::new(),
            quarantine: QuarantineRule::default(),
            launches: RateLimitRule::LAUNCHES,
            removals: RateLimitRule::REMOVALS,
            launch_backoff: LaunchBackoffRule::default(),
            circuit_breaker: CircuitBreakerRule::default(),
            removal: RemovalRule::default(),
            replacement_wait: Millis::from_secs(15),
        }
    }
}

/// The guardrails whose state all clusters of this process share; that of the others is in [`ClusterGuardrails`].
#[derive(Debug, Default)]
pub(crate) struct Guardrails {
    pub(crate) launches: RateLimits,
    pub(crate) removals: RateLimits,
    pub(crate) circuit_breaker: CircuitBreaker,
    pub(crate) freezes: Freezes,
    /// Machines of each local cluster that are not marked for removal.
    machines: BTreeMap<ClusterName, usize>,
    /// The same, summed over clusters of other replicas.
    remote_machines: usize,
    /// Time of the last event.
    now: Timestamp,
}

impl Guardrails {
    /// Advances the clock; returns whether that changes what the whole fleet may do.
    pub fn advance(&mut self, settings: &GuardrailSettings, now: Timestamp) -> bool {
        self.now = now;
        self.launches.expire(settings.launches.window, now);
        self.removals.expire(settings.removals.window, now);
        let breaker = self.circuit_breaker.evaluate(&settings.circuit_breaker, now);
        self.freezes.expire(now) || breaker
    }

    /// When time alone changes what the whole fleet may do.
    pub fn next_change(&self, settings: &GuardrailSettings) -> Option<Timestamp> {
        let breaker = self.circuit_breaker.next_change(&settings.circuit_breaker);
        [breaker, self.freezes.next_end()].into_iter().flatten().min()
    }

    /// What holds launches from `pool` of `cluster`; without a pool, all launches of the cluster. Rate limits and launch
    /// backoff, which let a number pass, are not among it.
    pub fn launch_block(&self, cluster: &ClusterName, pool: Option<&PoolName>) -> Option<Block> {
        self.freezes.launch_block(cluster, pool)
    }

    /// What holds removals from all of `cluster`; the first in order of precedence. It comes before what holds those from
    /// a NodePool.
    pub fn removal_block(&self, settings: &GuardrailSettings, cluster: &ClusterName) -> Option<Block> {
        self.circuit_breaker.removal_block(&settings.circuit_breaker, cluster)
    }

    /// What holds removals for `reason` from `pool` of `cluster`; the first in order of precedence. Rate limits, which let
    /// a number pass, come after it.
    pub fn pool_removal_block(&self, cluster: &ClusterName, pool: &PoolName, reason: RemovalReason) -> Option<Block> {
        self.freezes.removal_block(cluster, pool, reason)
    }

    /// Time of the last event.
    pub fn now(&self) -> Timestamp {
        self.now
    }
}

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

impl GuardrailsView {
    pub(crate) fn of(
        guardrails: &Guardrails,
        of_cluster: &ClusterGuardrails,
        settings: &GuardrailSettings,
        cluster: &ClusterName,
    ) -> Self {
        let (launches, removals) = (of_cluster.launch_block(), of_cluster.removal_block());
        let reason = |held: Option<&Block>| held.map(|held| held.reason.clone());
        let setting = |held: Option<&Block>| held.map(|held| held.setting).unwrap_or_default();
        let breaker = guardrails.circuit_breaker.removal_block(&settings.circuit_breaker, cluster);
        let (joined, failed) = guardrails.circuit_breaker.cluster_outcomes(cluster);
        Self {
            mode: settings.mode_of(cluster),
            disruption_mode: Mode::Act,
            quarantine: of_cluster.quarantine().map(|quarantine| (sentence(quarantine.reason()), quarantine.since())),
            freezes: guardrails.freezes.for_cluster(cluster).map(|freeze| sentence(freeze)).collect(),
            frozen: guardrails.freezes.launch_block(cluster, None).map(|freeze| freeze.reason),
            circuit_breaker: breaker.map(|block| block.reason),
            held_launches: reason(launches),
            held_removals: reason(removals),
            held_launches_until: launches.and_then(|held| held.until),
            held_launches_setting: setting(launches),
            held_removals_until: removals.and_then(|held| held.until),
            held_removals_setting: setting(removals),
            held_removals_price: removals.map(|held| held.price).unwrap_or_default(),
            pods_waiting: of_cluster.count_delayed_pods(guardrails.now()),
            launched: guardrails.launches.cluster_count(cluster),
            removed: guardrails.removals.cluster_count(cluster),
            joined,
            failed,
            waiting_removals: of_cluster.waiting_removals().map(|held| WaitingRemoval::of(cluster, held)).collect(),
            rejected_removals: of_cluster.rejected_removals(),
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

fn sentence(reason: &dyn Display) -> Text {
    Text::from(reason.to_string())
}

#[cfg(test)]
mod tests;
