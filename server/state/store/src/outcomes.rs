//! Outcomes of launches, from which the odds of launches to come are learned: the same at every replica, and after a restart.

use std::time::Duration;

/// Outcomes that one read returns at most; the next read continues after them.
pub const OUTCOMES_AT_ONCE: usize = 10_000;

/// How long outcomes are kept: then what is usual has lost almost all of their weight.
pub const KEPT: Duration = Duration::from_hours(28);

/// What became of a launch in one capacity pool. Process and sequence identify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeRow {
    /// The process that launched: one life of a replica.
    pub process: String,
    /// Number of the outcome in that process.
    pub sequence: u64,
    /// The account that alone it says something about; `None` for all accounts.
    pub account: Option<String>,
    /// Zone id; the zone's name in `account` when its id is not known.
    pub zone: String,
    /// Instance type.
    pub instance_type: String,
    /// Capacity type: spot, on-demand, reserved.
    pub capacity_type: String,
    /// Number of instances that were asked for.
    pub asked: u32,
    /// Number of instances that were launched.
    pub launched: u32,
}

/// An outcome as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutcome {
    /// A later outcome has a higher number.
    pub number: u64,
    /// Time since it was stored, by the store's clock.
    pub age: Duration,
    /// The outcome.
    pub row: OutcomeRow,
}
