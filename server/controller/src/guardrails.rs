//! Guardrails: limits that every decision must pass before it takes effect.
//!
//! A guardrail never plans. It inspects a decision and lets it pass, holds it with a reason, or
//! holds all decisions of the cluster. Each guardrail is a value with pure functions and has a test
//! that fails while it is off. It is switched off by its own setting or by an operator's
//! confirmation; `replacement` has neither, and only a test disables it (`disabled_guards`). A
//! reason is a value ([`HoldReason`], [`QuarantineReason`](quarantine::QuarantineReason),
//! [`RemovalRefusal`](removal::RemovalRefusal)) and is compared as one; its `Display` is the
//! sentence for operators. The guardrails:
//!
//! - [`quarantine`] holds everything in a cluster whose agent reported too large a loss, until a
//!   later snapshot and a second source confirm it or the operator releases it.
//! - [`unannounced_deletions`] holds the removal of a Node that lost pods without a termination
//!   event, until its window passes without further loss.
//! - [`rate_limits`] holds launches and voluntary removals above a count in a sliding window, per
//!   cluster and fleet, until the window moves on.
//! - [`launch_backoff`] holds launches for a pod that was bound to none of the machines launched
//!   for it, for a delay that doubles.
//! - [`circuit_breaker`] holds voluntary removals in a cluster whose launches fail, and in the
//!   fleet when launches fail in several clusters of any replica, until launches succeed again.
//! - [`freeze`] holds launches and voluntary removals that an operator froze, until the freeze is
//!   removed or ends.
//! - [`mode`] holds every effect except records and views in shadow mode, until the setting
//!   changes.
//! - [`removal`] holds removals with incomplete evidence (absence from a listing, a vanished Node,
//!   bulk deletion by hand), until the evidence arrives, the cause ends, or the operator confirms
//!   them.
//! - `replacement` holds a drain until capacity for its pods is planned, and holds the removal of
//!   the empty replacement until the drain has ended.
//!
//! Work that has begun is completed: an instance is launched for every created NodeClaim, and a
//! drain continues. Interruptions and a few manual deletions bypass the guardrails; bulk manual
//! deletions wait for freezes and budgets.
//!
//! # What survives a restart
//!
//! - Freezes and their end: rows, replayed by
//!   [`Event::FreezesChanged`](super::Event::FreezesChanged).
//! - Launches and removals of a cluster, launches per pod: open and closed launch rows
//!   ([`restore`]); a NodeClaim without a row counts by its creation time.
//! - Launches and removals of the fleet, outcomes of launches: counters that every replica
//!   published, including replicas that have stopped ([`fleet_counters`]).
//! - Mode and limits: the configuration.
//! - Quarantine: the launch rows and the persisted object counts ([`persisted_counts`]); the first
//!   snapshot after a restart is compared with both.
//!
//! Reading order: [`settings`], then the guardrails in the order above; [`fleet_counters`] combines
//! the counters of all replicas, `enforcement` applies the guardrails to decisions, [`view`]
//! reports them.

pub mod circuit_breaker;
mod disabled_guards;
mod enforcement;
pub mod fleet_counters;
pub mod freeze;
mod hold;
pub mod launch_backoff;
pub mod mode;
pub mod persisted_counts;
pub mod quarantine;
pub mod rate_limits;
pub mod removal;
mod removal_gate;
mod replacement;
pub mod restore;
pub mod settings;
mod shadow;
pub mod sliding_window;
mod snapshot_acceptance;
pub mod unannounced_deletions;
pub mod view;

pub(super) use disabled_guards::DisabledGuards;
#[cfg(test)]
pub(super) use disabled_guards::Guard;
pub use freeze::Freeze;
pub use hold::{Hold, HoldReason};
pub use mode::Mode;
pub use settings::GuardrailSettings;
pub use view::GuardrailsView;

use std::collections::BTreeMap;

use super::Effect;
use circuit_breaker::CircuitBreaker;
pub(crate) use freeze::Freezes;
use launch_backoff::LaunchBackoff;
use model::disruption_policy::DisruptionPolicy;
use model::{ClusterName, PoolName, Timestamp};
use persisted_counts::PersistedCounts;
use quarantine::Quarantine;
use rate_limits::RateLimits;
use removal::HeldRemovals;
use restore::RecentLaunch;
use shadow::ShadowContent;
use unannounced_deletions::UnannouncedDeletions;

/// Guardrail state of the fleet.
#[derive(Debug, Default)]
pub(super) struct Guardrails {
    pub launches: RateLimits,
    pub removals: RateLimits,
    pub circuit_breaker: CircuitBreaker,
    pub freezes: Freezes,
    /// Machines of each local cluster that are not marked for removal.
    pub machines: BTreeMap<ClusterName, usize>,
    /// The same, summed over clusters of other replicas.
    pub remote_machines: usize,
    /// Time of the last event.
    pub now: Timestamp,
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
        [self.circuit_breaker.next_change(&settings.circuit_breaker), self.freezes.next_end()]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Guardrail state of one cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterGuardrails {
    pub quarantine: Option<Quarantine>,
    /// Objects that the agent deleted recently without a preceding termination.
    pub unannounced_deletions: UnannouncedDeletions,
    /// Object counts of the cluster as persisted in the store.
    pub persisted_counts: PersistedCounts,
    pub launch_backoff: LaunchBackoff,
    /// Launches from before the takeover, oldest first; emptied by the first accepted snapshot.
    pub recent_launches: Vec<RecentLaunch>,
    /// Why launches were held at the last check.
    pub held_launches: Option<Hold>,
    /// Why removals were held at the last check.
    pub held_removals: Option<Hold>,
    /// Removals that the removal gate holds.
    pub waiting_removals: HeldRemovals,
    /// Number of removals that the verifier has rejected.
    pub rejected_removals: usize,
    /// Last known disruption policies of deleted NodePools.
    pub former_disruption_policies: BTreeMap<PoolName, DisruptionPolicy>,
    /// Content of the last shadow decisions: launches, removals.
    pub last_shadow_decisions: [ShadowContent; 2],
}

impl ClusterGuardrails {
    /// Changes whenever the guardrail part of the cluster's view does.
    pub fn view_fingerprint(&self) -> impl PartialEq + use<> {
        let reason = |held: &Option<Hold>| held.as_ref().map(|held| held.reason.clone());
        let quarantine = self.quarantine.as_ref().map(|quarantine| quarantine.reason.clone());
        let removals = (reason(&self.held_removals), self.waiting_removals.version(), self.rejected_removals);
        (quarantine, reason(&self.held_launches), removals)
    }
}

/// Whether the mode lets `effect` pass: shadow mode passes records and views, and no actions.
pub(super) fn is_allowed_by_mode(settings: &GuardrailSettings, effect: &Effect) -> bool {
    let cluster = match effect {
        Effect::Plan(_) | Effect::RecordDecision(_) | Effect::PublishView { .. } | Effect::Resync { .. } => {
            return true;
        }
        Effect::PersistCounts { .. } => return true,
        Effect::CloseLaunch { .. }
        | Effect::RecordLaunched { .. }
        | Effect::Describe { .. }
        | Effect::ReportFinding { .. } => return true,
        Effect::Inspect { .. } => return true,
        Effect::Instruct { cluster, .. } | Effect::Terminate { cluster, .. } => cluster,
        Effect::Launch(order) => &order.cluster,
        Effect::Relaunch(decided) => &decided.machine.launch.cluster,
    };
    settings.mode_of(cluster) == Mode::Act
}

#[cfg(test)]
mod tests;
