//! Values in messages of the API, and back: times and numbers, names of resources, words of enums, errors. Servers and
//! clients share them.

pub mod caller;
pub mod enum_values;
pub mod errors;
pub mod json_struct;
pub mod recorded_decisions;
pub mod resource;
pub mod resource_names;

use fleetwright_proto::v1;
use model::Timestamp;
use prost_types::Timestamp as ProtoTimestamp;

/// A time as message.
pub fn timestamp(at: Timestamp) -> ProtoTimestamp {
    from_millis(at.as_millis())
}

/// A time in milliseconds since 1970 as message.
pub fn from_millis(at_ms: i64) -> ProtoTimestamp {
    let nanos = i32::try_from(at_ms.rem_euclid(1_000)).unwrap_or_default() * 1_000_000;
    ProtoTimestamp { seconds: at_ms.div_euclid(1_000), nanos }
}

/// Milliseconds since 1970.
pub fn to_millis(at: &ProtoTimestamp) -> i64 {
    at.seconds.saturating_mul(1_000).saturating_add(i64::from(at.nanos) / 1_000_000)
}

pub fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// An epoch, a number of a decision or a position of the log as the API has it. None of them is greater than the greatest
/// number of the store, which is that of a signed integer too.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The inverse of [`signed`]; a negative number is none of the server's.
pub fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// The problem as a notice: a sentence for each page.
pub fn notice(problem: &v1::Problem) -> String {
    let mut summary = problem.summary.chars();
    let first = summary.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}: {}.", summary.as_str(), problem.consequence)
}
