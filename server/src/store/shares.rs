//! What each process saw come and go, for the rails of the others.

use std::time::Duration;

/// What is told together, in milliseconds, when it is read: what is read grows with the window and not with the number of
/// processes.
pub const PART_MS: i64 = 10_000;

/// How long the machines of a process count that tells nothing more: it tells them three times in that time.
pub const MACHINES_LAST: Duration = Duration::from_secs(60);

/// What was seen in one part of time. Costs are in micro-dollars per hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Machines that joined their clusters.
    pub joined: i64,
    /// Launches that failed, and machines that did not join in time.
    pub failed: i64,
    /// Machines that it was decided to launch.
    pub launched: i64,
    /// What they cost.
    pub launched_cost: i64,
    /// Machines that it was decided to remove although nothing forces it.
    pub removed: i64,
    /// What they cost.
    pub removed_cost: i64,
}

/// What one process saw in a part of time, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRow {
    /// The number of the part, unique for its process.
    pub part: i64,
    /// How long ago the part ended; 0 while it is running.
    pub ago_ms: i64,
    /// What was seen in it.
    pub seen: Seen,
}

/// What all processes but one saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteCounters {
    /// Machines that nobody has decided to remove, in the clusters of the processes that have told lately.
    pub machines: i64,
    /// How long ago, at least, and what was seen then; a part of time each, oldest first.
    pub parts: Vec<(i64, Seen)>,
}
