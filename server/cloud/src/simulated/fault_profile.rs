//! What goes wrong, and when: by script, by chance, or never.

use engine::model::{CapacityType, Text, Timestamp};

use super::SeededRng;
use crate::provider::Override;

/// How long a shortage by chance lasts, in milliseconds.
const SHORTAGE_MS: i64 = 120_000;

/// The conditions that a simulated cloud works under. The default is a calm day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultProfile {
    /// Seed of everything that chance decides.
    pub seed: u64,
    /// From purchase to a running machine, in milliseconds: least and most.
    pub boot_ms: (i64, i64),
    /// From termination to the end of the machine, in milliseconds.
    pub shutdown_ms: i64,
    /// Nothing at all is to be had.
    pub no_capacity: bool,
    /// What is not to be had, by script.
    pub shortages: Vec<CapacityShortage>,
    /// How many of all offerings are not to be had at any one time, in percent; which ones changes.
    pub shortage_percent: u32,
    /// How many spot machines are taken back, in percent.
    pub interrupted_percent: u32,
    /// From purchase to the warning, in milliseconds: least and most.
    pub interrupted_after_ms: (i64, i64),
    /// How many answers to launches get lost, in percent; half of them after the machine was bought.
    pub lost_answers_percent: u32,
    /// How often calls are allowed.
    pub calls: Bucket,
    /// How long it takes until the listing shows a machine, in milliseconds.
    pub list_lag_ms: i64,
    /// How many listings fail, in percent.
    pub failed_lists_percent: u32,
    /// How many machines listings lack, in percent, always the same; by id they are known.
    pub lacking_lists_percent: u32,
    /// Tokens mean nothing: every launch buys a machine. No cloud is like that; it shows what tokens are good for.
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
            calls: Bucket::unlimited(),
            list_lag_ms: 0,
            failed_lists_percent: 0,
            lacking_lists_percent: 0,
            ignore_tokens: false,
        }
    }
}

impl FaultProfile {
    /// Whether `option` is not to be had at `now`.
    pub(super) fn is_short(
        &self,
        dice: &SeededRng,
        option: &Override,
        capacity_type: CapacityType,
        now: Timestamp,
    ) -> bool {
        let slot = u64::try_from(now.0.div_euclid(SHORTAGE_MS)).unwrap_or(0);
        let die = dice.child("shortage").child(&option.instance_type).child(&option.zone).child(capacity_type.as_str());
        self.no_capacity
            || self.shortages.iter().any(|shortage| shortage.covers(option, capacity_type))
            || die.child_number(slot).percent(self.shortage_percent)
    }
}

/// Offerings that are not to be had. What is `None` covers everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapacityShortage {
    /// Of this instance type.
    pub instance_type: Option<Text>,
    /// In this zone.
    pub zone: Option<Text>,
    /// Paid for like this.
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
pub struct Bucket {
    /// Calls that may be made at once.
    burst: i64,
    /// Milliseconds until one more call is allowed; 0 means that calls are not counted.
    refill_ms: i64,
    /// Thousandths of a call that are left.
    left: i64,
    since: Timestamp,
}

impl Bucket {
    /// Calls are not counted.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(1, 0)
    }

    /// `burst` calls at once, and one more every `refill_ms` milliseconds.
    #[must_use]
    pub fn new(burst: i64, refill_ms: i64) -> Self {
        Self { burst, refill_ms, left: burst.saturating_mul(1000), since: Timestamp(0) }
    }

    /// Takes one call, or says after how many milliseconds there is one.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), i64> {
        if self.refill_ms == 0 {
            return Ok(());
        }
        let refilled = now.millis_since(self.since).saturating_mul(1000) / self.refill_ms;
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
