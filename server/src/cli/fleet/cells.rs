//! Texts of table cells.

use prost_types::Timestamp;
use store::clock;

use crate::cli::remote::moment;
use crate::fleet::encode::to_millis;

/// The id at this place of a name: `clusters/0/nodes/1`.
pub(super) fn id(name: &str, index: usize) -> String {
    name.split('/').nth(2 * index + 1).unwrap_or_default().to_owned()
}

pub(super) fn time(time: Option<&Timestamp>) -> String {
    time.map(|time| moment(to_millis(time))).unwrap_or_default()
}

/// A time as `2026-01-01T00:00:00Z`.
pub(super) fn rfc3339(time: &Timestamp) -> String {
    jiff::Timestamp::from_millisecond(to_millis(time)).map(|at| at.to_string()).unwrap_or_default()
}

/// A time as `2026-01-01 00:00` (UTC).
pub(super) fn day_and_time(time: &Timestamp) -> String {
    rfc3339(time).chars().take(16).map(|one| if one == 'T' { ' ' } else { one }).collect()
}

/// How long ago: `3d`, `4h`, `5m`, `6s`; empty if that is not known.
pub(super) fn age(since: Option<&Timestamp>, now_ms: i64) -> String {
    let Some(since) = since else { return String::new() };
    let seconds = now_ms.saturating_sub(to_millis(since)).max(0) / 1_000;
    match seconds {
        86_400.. => format!("{}d", seconds / 86_400),
        3_600.. => format!("{}h", seconds / 3_600),
        60.. => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// `1500m of 4000m`.
pub(super) fn of_millis(requested: i64, allocatable: i64) -> String {
    format!("{requested}m/{allocatable}m")
}

pub(super) fn of_mebibytes(requested: i64, allocatable: i64) -> String {
    const MEBIBYTE: i64 = 1 << 20;
    format!("{}Mi/{}Mi", requested / MEBIBYTE, allocatable / MEBIBYTE)
}

/// The name of an enum's value without its prefix, in lower case.
pub(crate) fn lower(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).replace('_', "-").to_lowercase()
}

pub(super) fn now_ms() -> i64 {
    clock::now().as_millis()
}

/// Micro-dollars as dollars with four decimals.
pub(in crate::cli) fn usd(micro_usd: i64) -> String {
    let tenths = micro_usd.div_euclid(100) + i64::from(micro_usd.rem_euclid(100) >= 50);
    let sign = if tenths < 0 { "-" } else { "" };
    let tenths = tenths.unsigned_abs();
    format!("{sign}{}.{:04}", tenths / 10_000, tenths % 10_000)
}
