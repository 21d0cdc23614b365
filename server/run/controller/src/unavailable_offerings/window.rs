//! How long refusals exclude an offering.

use model::Millis;

/// Exclusion after the first refusal. Capacity that is short for half a minute is common, so the first probe comes early.
pub const BASE_WINDOW: Millis = Millis::from_secs(30);

/// Longest exclusion: a dead offering costs the fleet six launches an hour, and capacity that returns is found within
/// ten minutes.
const LONGEST_WINDOW: Millis = Millis::from_mins(10);

/// How long refusals are remembered after the last one. Probes of an offering that someone wants come at most ten
/// minutes apart, so an hour without a refusal means that nobody has tried: what was known says nothing about the
/// capacity of today.
pub const FORGOTTEN_AFTER: Millis = Millis::from_mins(60);

/// Exclusion after `failures` refusals in a row, without jitter: the one probe that follows makes no herd.
pub(super) fn window(base: Millis, failures: u32) -> Millis {
    let doublings = failures.saturating_sub(1).min(32);
    let window = Millis::new(base.get().saturating_mul(1_i64 << doublings));
    window.min(LONGEST_WINDOW.max(base))
}
