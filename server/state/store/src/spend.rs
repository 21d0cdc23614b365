//! What machines have cost, and sums of it: every report is a cut of the same intervals.

use cost::CostParts;

/// Days for which intervals are kept by the hour. Older ones of a machine are merged into one for each day (UTC).
pub const HOURS_KEPT_DAYS: i64 = 7;

/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;

/// Milliseconds of a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// What is summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendQuery {
    /// Restricts to these clusters; `None` for all.
    pub clusters: Option<Vec<String>>,
    /// Intervals that begin then or later, in milliseconds since 1970.
    pub from_ms: i64,
    /// Intervals that begin before.
    pub to_ms: i64,
    /// Length of the periods that are summed apart.
    pub period: SpendPeriod,
    /// What is summed apart in each period.
    pub group: SpendGroup,
}

/// Length of the periods of a report. They begin at whole hours and days (UTC), whatever the query's times are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendPeriod {
    /// Hours. Intervals that are merged count in the hour in which their day begins for the machine.
    Hour,
    /// Days.
    Day,
    /// One period.
    Whole,
}

impl SpendPeriod {
    /// Milliseconds of a period; `None` for the whole time.
    #[must_use]
    pub const fn length_ms(self) -> Option<i64> {
        match self {
            Self::Hour => Some(HOUR_MS),
            Self::Day => Some(DAY_MS),
            Self::Whole => None,
        }
    }
}

/// What a report groups by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendGroup {
    /// Nothing: one sum.
    None,
    /// Cluster.
    Cluster,
    /// NodePool of a cluster.
    Pool,
    /// Capacity type.
    CapacityType,
    /// Instance type.
    InstanceType,
    /// Zone.
    Zone,
}

/// A sum of intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpendRow {
    /// When its period begins, in milliseconds since 1970: the query's `from_ms` for one period.
    pub period_ms: i64,
    /// The cluster, if the group belongs to one; else empty.
    pub cluster: String,
    /// The group in it; empty for a whole cluster, and for one sum.
    pub group: String,
    /// Time of all machines, in milliseconds.
    pub machine_ms: i64,
    /// What it was spent on, in micro-dollars.
    pub parts: CostParts,
}

/// Filter and page of the intervals themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalFilter {
    /// The cluster.
    pub cluster: String,
    /// Intervals that begin then or later, in milliseconds since 1970.
    pub from_ms: i64,
    /// Intervals that begin before.
    pub to_ms: i64,
    /// Restricts to those after this start and NodeClaim.
    pub after: Option<(i64, String)>,
    /// Maximum number.
    pub limit: u32,
}
