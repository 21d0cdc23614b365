//! Texts of table cells.

use fleetwright_proto::v1;
use prost_types::Timestamp;
use store::clock;

use api_messages::{enum_values, to_millis};
use command::rows::moment;

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

/// When it ends, and how long that is from now: `10:05:00, in 4m`; empty if that is not known.
pub(super) fn end(end: Option<&Timestamp>, now_ms: i64) -> String {
    let Some(end) = end else { return String::new() };
    let now = Timestamp { seconds: now_ms.div_euclid(1_000), nanos: 0 };
    format!("{}, in {}", moment(to_millis(end)), age(Some(&now), to_millis(end)))
}

/// `1500m of 4000m`.
pub(super) fn of_millis(requested: i64, allocatable: i64) -> String {
    format!("{requested}m/{allocatable}m")
}

pub(super) fn of_mebibytes(requested: i64, allocatable: i64) -> String {
    const MEBIBYTE: i64 = 1 << 20;
    format!("{}Mi/{}Mi", requested / MEBIBYTE, allocatable / MEBIBYTE)
}

/// Usage of a NodePool and its limit: `24/100`, or the usage alone where there is no limit.
pub(super) fn of_limit(pool: &v1::Pool, resource: &str) -> String {
    let found = pool.resources.iter().find(|found| found.resource == resource);
    found
        .map(
            |found| {
                if found.limit.is_empty() { found.usage.clone() } else { format!("{}/{}", found.usage, found.limit) }
            },
        )
        .unwrap_or_default()
}

/// Usage and limit of the resources that have no column: `nvidia.com/gpu 2/4`.
pub(super) fn other_limits(pool: &v1::Pool) -> String {
    let is_other =
        |found: &&v1::PoolResource| !found.limit.is_empty() && !matches!(&*found.resource, "cpu" | "memory" | "nodes");
    let limits = pool.resources.iter().filter(is_other);
    limits.map(|found| format!("{} {}/{}", found.resource, found.usage, found.limit)).collect::<Vec<_>>().join(", ")
}

/// Nodes that use up the budgets, and what these allow: `1/2`, or of each reason where they differ.
pub(super) fn disruptions(pool: &v1::Pool) -> String {
    let allowed = &pool.disruption_allowances;
    let in_use = pool.disrupted_node_count;
    match allowed.first() {
        None => in_use.to_string(),
        Some(first) if allowed.iter().all(|one| one.node_count == first.node_count) => {
            format!("{in_use}/{}", first.node_count)
        }
        Some(_) => {
            let each = |one: &v1::DisruptionAllowance| {
                format!("{}/{} {}", in_use, one.node_count, enum_values::disruption_reason_word(one.reason()))
            };
            allowed.iter().map(each).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The name of an enum's value without its prefix, in lower case.
pub fn lower(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).replace('_', "-").to_lowercase()
}

pub(super) fn now_ms() -> i64 {
    clock::now().as_millis()
}

/// Micro-dollars as dollars with four decimals.
pub(crate) fn usd(micro_usd: i64) -> String {
    let tenths = micro_usd.div_euclid(100) + i64::from(micro_usd.rem_euclid(100) >= 50);
    let sign = if tenths < 0 { "-" } else { "" };
    let tenths = tenths.unsigned_abs();
    format!("{sign}{}.{:04}", tenths / 10_000, tenths % 10_000)
}
