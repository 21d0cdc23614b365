//! The crash point of a launch that a kill hit, from the cloud's ledger and the database's rows,
//! whatever the aim was.
//!
//! ```text
//!   row written        call takes effect       answer leaves        end written
//!  ─────┤  intent → call  ├  call → response  ├ response → record ├─────
//! ```

use std::collections::BTreeSet;

use fleetwright_proto::simulation::v1::LaunchCall;
use serde::Serialize;

/// A phase of a launch in which a crash is critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CrashPoint {
    /// The intent is recorded; the cloud has not received the call.
    IntentToCall,
    /// The cloud has launched the instance; its answer is in flight.
    CallToResponse,
    /// The cloud has answered; the outcome is not recorded.
    ResponseToRecord,
}

impl CrashPoint {
    /// All crash points, in order.
    pub const ALL: [Self; 3] = [Self::IntentToCall, Self::CallToResponse, Self::ResponseToRecord];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::IntentToCall => "intent to call",
            Self::CallToResponse => "call to response",
            Self::ResponseToRecord => "response to record",
        }
    }
}

/// A kill. Times are in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    pub started: i64,
    pub at: i64,
}

/// The row of one launch attempt. Times are in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentRow {
    pub cluster: String,
    pub token: String,
    /// When the intent was recorded.
    pub created: i64,
    /// When the outcome was recorded.
    pub settled: Option<i64>,
    /// When the launch was closed.
    pub closed: Option<i64>,
}

/// The crash points that `kill` hit, for at least one launch each. Only launches that the killed
/// process handled count: it recorded them or called the cloud for them.
pub fn hit(kill: &Kill, rows: &[IntentRow], calls: &[LaunchCall]) -> BTreeSet<CrashPoint> {
    rows.iter().filter_map(|row| crash_point(kill, row, calls)).collect()
}

fn crash_point(kill: &Kill, row: &IntentRow, calls: &[LaunchCall]) -> Option<CrashPoint> {
    let ended = |at: Option<i64>| at.is_some_and(|at| at <= kill.at);
    if row.created > kill.at || ended(row.settled) || ended(row.closed) {
        return None;
    }
    let of_row =
        |call: &&LaunchCall| call.cluster == row.cluster && call.token == row.token && call.arrived_us <= kill.at;
    let called: Vec<&LaunchCall> = calls.iter().filter(of_row).collect();
    if called.is_empty() {
        return (row.created >= kill.started).then_some(CrashPoint::IntentToCall);
    }
    let last = called.iter().filter(|call| call.arrived_us >= kill.started).max_by_key(|call| call.arrived_us)?;
    let answered = last.answered_us.is_some_and(|answered| answered <= kill.at);
    Some(if answered { CrashPoint::ResponseToRecord } else { CrashPoint::CallToResponse })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(created: i64, settled: Option<i64>) -> IntentRow {
        IntentRow { cluster: "c".to_owned(), token: "t".to_owned(), created, settled, closed: None }
    }

    fn call(arrived_us: i64, answered_us: Option<i64>) -> LaunchCall {
        LaunchCall { token: "t".to_owned(), cluster: "c".to_owned(), arrived_us, answered_us, ..LaunchCall::default() }
    }

    /// A process that starts at 100 and is killed at 200.
    const KILL: Kill = Kill { started: 100, at: 200 };

    fn at(row: IntentRow, calls: &[LaunchCall]) -> Vec<CrashPoint> {
        hit(&KILL, &[row], calls).into_iter().collect()
    }

    #[test]
    fn a_kill_is_classified_by_rows_and_ledger() {
        assert_eq!(at(row(150, None), &[]), [CrashPoint::IntentToCall]);
        assert_eq!(
            at(row(150, None), &[call(210, Some(220))]),
            [CrashPoint::IntentToCall],
            "it arrived after the kill"
        );
        assert_eq!(at(row(150, None), &[call(160, None)]), [CrashPoint::CallToResponse]);
        assert_eq!(at(row(150, Some(230)), &[call(160, Some(220))]), [CrashPoint::CallToResponse]);
        assert_eq!(at(row(150, Some(230)), &[call(160, Some(190))]), [CrashPoint::ResponseToRecord]);
        assert_eq!(at(row(150, Some(195)), &[call(160, Some(190))]), []);
        assert_eq!(at(row(201, None), &[]), []);
    }

    #[test]
    fn an_inherited_launch_counts_once_this_process_handled_it() {
        assert_eq!(at(row(50, None), &[]), [], "this process has not handled it");
        assert_eq!(at(row(50, None), &[call(60, Some(70))]), []);
        assert_eq!(at(row(50, None), &[call(60, None), call(150, None)]), [CrashPoint::CallToResponse]);
    }

    #[test]
    fn launches_of_different_clusters_are_distinct() {
        let other = LaunchCall { cluster: "d".to_owned(), ..call(160, None) };
        assert_eq!(at(row(150, None), &[other]), [CrashPoint::IntentToCall]);
    }
}
