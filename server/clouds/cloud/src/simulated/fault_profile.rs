//! Faults of the simulated cloud: scripted, random, or none.

use model::{CapacityType, InstanceTypeName, Timestamp, Zone};

use super::SeededRng;
use crate::provider::Override;

/// Duration of a random shortage, in milliseconds.
const SHORTAGE_MS: i64 = 120_000;

/// Faults of a simulated cloud. The default has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultProfile {
    /// Seed of all random choices.
    pub seed: u64,
    /// From launch to a running instance, in milliseconds: minimum and maximum.
    pub boot_ms: (i64, i64),
    /// From termination to the end of the instance, in milliseconds.
    pub shutdown_ms: i64,
    /// No offering has capacity.
    pub no_capacity: bool,
    /// Offerings that never have capacity.
    pub shortages: Vec<CapacityShortage>,
    /// Share of offerings without capacity at any time, in percent; the affected ones change.
    pub shortage_percent: u32,
    /// Share of spot instances that are reclaimed, in percent.
    pub interrupted_percent: u32,
    /// From launch to the interruption notice, in milliseconds: minimum and maximum.
    pub interrupted_after_ms: (i64, i64),
    /// Share of lost launch responses, in percent; half of them after the instance was launched.
    pub lost_answers_percent: u32,
    /// Rate limit of calls.
    pub calls: TokenBucket,
    /// Delay until a listing shows a new instance, in milliseconds.
    pub list_lag_ms: i64,
    /// Share of failing listings, in percent.
    pub failed_lists_percent: u32,
    /// Share of instances that listings omit, in percent, always the same ones; by id they are
    /// found.
    pub lacking_lists_percent: u32,
    /// Ignores client tokens: every launch creates an instance. No real cloud does; it demonstrates
    /// what tokens prevent.
    pub ignore_tokens: bool,
}

impl Default for FaultProfile {
    fn default() -> Self {
        Self {
            seed: 0,
            boot_ms: (20_000, 40_000),
            shutdown_ms: 5_000,
            no_capacity: false,
            shortages: Vec::new(),
            shortage_percent: 0,
            interrupted_percent: 0,
            interrupted_after_ms: (60_000, 600_000),
            lost_answers_percent: 0,
            calls: TokenBucket::unlimited(),
            list_lag_ms: 0,
            failed_lists_percent: 0,
            lacking_lists_percent: 0,
            ignore_tokens: false,
        }
    }
}

impl FaultProfile {
    /// Whether `option` has no capacity at `now`.
    pub(super) fn is_unavailable(
        &self,
        rng: &SeededRng,
        option: &Override,
        capacity_type: CapacityType,
        now: Timestamp,
    ) -> bool {
        let slot = u64::try_from(now.as_millis().div_euclid(SHORTAGE_MS)).unwrap_or(0);
        let rng = rng.child("shortage").child(&option.instance_type).child(&option.zone).child(capacity_type.as_str());
        self.no_capacity
            || self.shortages.iter().any(|shortage| shortage.covers(option, capacity_type))
            || rng.child_number(slot).percent(self.shortage_percent)
    }
}

/// Offerings without capacity. `None` matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapacityShortage {
    /// Name of the instance type.
    pub instance_type: Option<InstanceTypeName>,
    /// Name of the availability zone.
    pub zone: Option<Zone>,
    /// Spot, on-demand or reserved.
    pub capacity_type: Option<CapacityType>,
}

impl CapacityShortage {
    fn covers(&self, option: &Override, capacity_type: CapacityType) -> bool {
        self.instance_type.as_ref().is_none_or(|kind| *kind == option.instance_type)
            && self.zone.as_ref().is_none_or(|zone| *zone == option.zone)
            && self.capacity_type.is_none_or(|paid| paid == capacity_type)
    }
}

/// A token bucket over calls (EC2: request throttling).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Maximum burst of calls.
    burst: i64,
    /// Milliseconds per added call; 0 disables the limit.
    refill_ms: i64,
    /// Remaining tokens, in thousandths.
    left: i64,
    since: Timestamp,
}

impl TokenBucket {
    /// A bucket that never rejects a call.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(1, 0)
    }

    /// A burst of `burst` calls, and one more every `refill_ms` milliseconds.
    #[must_use]
    pub fn new(burst: i64, refill_ms: i64) -> Self {
        Self { burst, refill_ms, left: burst.saturating_mul(1000), since: Timestamp::from_millis(0) }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// The delay until one is available, in milliseconds.
    pub fn take_token(&mut self, now: Timestamp) -> Result<(), i64> {
        if self.refill_ms == 0 {
            return Ok(());
        }
        let refilled = (now.duration_since(self.since) * 1000).get() / self.refill_ms;
        self.left = self.left.saturating_add(refilled).min(self.burst.saturating_mul(1000));
        self.since = self.since.max(now);
        if self.left >= 1000 {
            self.left -= 1000;
            return Ok(());
        }
        let missing = 1000 - self.left;
        Err(missing.saturating_mul(self.refill_ms).div_euclid(1000).saturating_add(1))
    }
}
