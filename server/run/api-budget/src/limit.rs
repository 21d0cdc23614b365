//! EC2's limits, as ceilings of the learned rates.

/// A token, in the unit of levels.
pub(crate) const TOKEN: i64 = 1_000_000;

/// The limit of a bucket: tokens, and how fast they return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Thousandths of a token per second.
    refill: i64,
    burst: i64,
    /// Tokens of a bucket that nobody has used yet.
    first: i64,
}

/// Reads (`Describe*`).
const READS: Limit = Limit::new(20_000, 100);
/// CreateFleet and writes of launch templates, which share one bucket; also other writes, whose limits are not known.
const WRITES: Limit = Limit::new(5_000, 50);
const TERMINATIONS: Limit = Limit::new(5_000, 100);
const TAGS: Limit = Limit::new(10_000, 100);
/// Instances that are launched, and instances that are terminated. No other process is likely to have emptied it.
const INSTANCES: Limit = Limit { first: 1_000, ..Limit::new(2_000, 1_000) };

impl Limit {
    /// `refill` thousandths of a token per second, and bursts of `burst` tokens. A new bucket has the tokens of one
    /// second: others may have emptied EC2's bucket.
    #[must_use]
    pub const fn new(refill: i64, burst: i64) -> Self {
        let refill = if refill < 1 { 1 } else { refill };
        let burst = if burst < 1 { 1 } else { burst };
        let second = refill / 1_000;
        let first = if second < 1 {
            1
        } else if second < burst {
            second
        } else {
            burst
        };
        Self { refill, burst, first }
    }

    /// This limit, with `tokens` in a bucket that nobody has used yet.
    #[must_use]
    pub const fn starting_with(self, tokens: i64) -> Self {
        Self { first: tokens, ..self }
    }

    /// `percent` of this limit, for an account whose limits AWS has raised or whose other users need a part of them; at
    /// least one percent.
    #[must_use]
    pub fn percent(self, percent: u32) -> Self {
        let part = |value: i64| (value.saturating_mul(i64::from(percent.max(1))) / 100).max(1);
        Self { refill: part(self.refill), burst: part(self.burst), first: part(self.first) }
    }

    /// The highest rate, in thousandths of a token per second.
    #[must_use]
    pub const fn refill(self) -> i64 {
        self.refill
    }

    pub(crate) fn first_level(self) -> i64 {
        self.first * TOKEN
    }

    /// Level of a full bucket at the learned `rate`: an account with a lower rate has a smaller burst.
    pub(crate) fn full_level(self, rate: i64) -> i64 {
        let by_rate = (i128::from(self.burst * TOKEN) * i128::from(rate) / i128::from(self.refill)).max(TOKEN.into());
        i64::try_from(by_rate).unwrap_or(i64::MAX)
    }
}

/// The buckets from which a call of this EC2 action takes a token each, by name (EC2: request throttling; the figures are
/// those of the published defaults).
#[must_use]
pub fn buckets_of(action: &str) -> Vec<(&str, Limit)> {
    match action {
        "CreateFleet" => vec![("LaunchedInstances", INSTANCES), (FLEETS_AND_TEMPLATES, WRITES)],
        "CreateLaunchTemplate" | "DeleteLaunchTemplate" => vec![(FLEETS_AND_TEMPLATES, WRITES)],
        "TerminateInstances" => vec![("TerminatedInstances", INSTANCES), (action, TERMINATIONS)],
        "CreateTags" => vec![(action, TAGS)],
        _ if action.starts_with("Describe") => vec![(action, READS)],
        _ => vec![(action, WRITES)],
    }
}

const FLEETS_AND_TEMPLATES: &str = "CreateFleet";
