//! Guardrails: limits that every decision must pass before it takes effect.
//!
//! A guardrail never plans. It inspects a decision and lets it pass, blocks it with a reason, or
//! blocks all decisions of the cluster. Each guardrail is a value with pure functions and has a test
//! that fails while it is off. It is switched off by its own setting or by an operator's
//! confirmation; `replacement` has neither, and only a test disables it (`disabled_guards`). A
//! reason is a value ([`BlockReason`], [`QuarantineReason`](quarantine::QuarantineReason),
//! [`RemovalRefusal`](removal::RemovalRefusal)) and is compared as one; its `Display` is the
//! sentence for operators. The guardrails:
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
//! Reading order: [`settings`], then the guardrails in the order above; `fleet` and `cluster` own
//! their state, [`fleet_counters`] combines the counters of all replicas, `enforcement` applies the
//! guardrails to decisions, [`view`] reports them.

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
pub mod settings;
pub(crate) mod shadow;
mod shadow_content;
pub mod sliding_window;
pub(crate) mod snapshot_acceptance;
pub mod unannounced_deletions;
pub mod view;

pub use block::{Block, BlockReason};
pub(crate) use cluster::ClusterGuardrails;
pub(super) use disabled_guards::DisabledGuards;
pub(super) use disabled_guards::Guard;
pub(crate) use effect_filter::is_allowed_by_mode;
pub(crate) use fleet::{Guardrails, ReplacementRoom};
pub use freeze::Freeze;
pub(crate) use freeze::Freezes;
pub(crate) use launch_backoff::BackedOffPods;
pub use mode::Mode;
pub use object_counts::ObjectCounts;
pub use recent_launch::{RESTORE_WINDOW, RecentLaunch};
pub use settings::GuardrailSettings;
pub use view::GuardrailsView;

#[cfg(test)]
mod tests;
