//! Launch and removal counters per process, for the fleet-wide guardrails of the other replicas.

use std::time::Duration;

/// Size of a time bucket, in milliseconds, when counters are read: the result grows with the
/// window, not with the number of processes.
pub const BUCKET_MS: i64 = 10_000;

/// Lifetime of a process's instance count without a new report; a process reports three times as
/// often.
pub const INSTANCE_COUNT_TTL: Duration = Duration::from_secs(60);

/// Counters of one time bucket. Costs are in micro-dollars per hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValues {
    /// Instances whose Nodes joined.
    pub joined: i64,
    /// Failed launches, and instances that did not join in time.
    pub failed: i64,
    /// Planned launches.
    pub launched: i64,
    /// Hourly cost of those instances.
    pub launched_cost: i64,
    /// Planned voluntary removals.
    pub removed: i64,
    /// Hourly cost of those instances.
    pub removed_cost: i64,
}

/// Counters of one process in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRow {
    /// Bucket number, unique per process.
    pub bucket: i64,
    /// Age of the bucket's end; 0 while it is running.
    pub ago_ms: i64,
    /// Counters of the bucket.
    pub seen: CounterValues,
}

/// Summed counters of the other processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteCounters {
    /// Instances without a planned removal, over the processes that reported lately.
    pub machines: i64,
    /// (Minimum age, counters) per bucket, oldest first.
    pub buckets: Vec<(i64, CounterValues)>,
}
