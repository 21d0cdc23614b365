//! Where in the life of a launch a kill fell: by the cloud's book and the database's rows, whatever was aimed at.
//!
//! ```text
//!   row written        call takes effect       answer leaves        end written
//!  ─────┤  intent → call  ├  call → response  ├ response → record ├─────
//! ```

use std::collections::BTreeSet;

use fleetwright_proto::simulation::v1::LaunchCall;

/// A part of a launch in which a death is awkward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    /// It is written down, and the cloud does not know of it.
    IntentToCall,
    /// The cloud has acted, and its answer is on its way.
    CallToResponse,
    /// The answer has left the cloud, and is not written down.
    ResponseToRecord,
}

impl Window {
    /// All of them, in their order.
    pub(crate) const ALL: [Self; 3] = [Self::IntentToCall, Self::CallToResponse, Self::ResponseToRecord];

    /// For people.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::IntentToCall => "intent to call",
            Self::CallToResponse => "call to response",
            Self::ResponseToRecord => "response to record",
        }
    }
}

/// A kill. Moments are in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    /// When the process that was killed had begun.
    pub(crate) life: i64,
    /// When it was killed.
    pub(crate) at: i64,
}

/// What the database says of one attempt of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Cluster.
    pub(crate) cluster: String,
    /// Token.
    pub(crate) token: String,
    /// When it was written down.
    pub(crate) created: i64,
    /// When its end was, if it was.
    pub(crate) settled: Option<i64>,
    /// When it was closed, if it was.
    pub(crate) closed: Option<i64>,
}

/// The windows that `kill` fell into, for at least one launch each. Only launches that the killed process had its hands on
/// count: it wrote them down, or it called the cloud for them.
pub(crate) fn fell(kill: &Kill, rows: &[Row], calls: &[LaunchCall]) -> BTreeSet<Window> {
    rows.iter().filter_map(|row| window(kill, row, calls)).collect()
}

fn window(kill: &Kill, row: &Row, calls: &[LaunchCall]) -> Option<Window> {
    let ended = |at: Option<i64>| at.is_some_and(|at| at <= kill.at);
    if row.created > kill.at || ended(row.settled) || ended(row.closed) {
        return None;
    }
    let of_row =
        |call: &&LaunchCall| call.cluster == row.cluster && call.token == row.token && call.arrived_us <= kill.at;
    let called: Vec<&LaunchCall> = calls.iter().filter(of_row).collect();
    if called.is_empty() {
        return (row.created >= kill.life).then_some(Window::IntentToCall);
    }
    let last = called.iter().filter(|call| call.arrived_us >= kill.life).max_by_key(|call| call.arrived_us)?;
    let answered = last.answered_us.is_some_and(|answered| answered <= kill.at);
    Some(if answered { Window::ResponseToRecord } else { Window::CallToResponse })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(created: i64, settled: Option<i64>) -> Row {
        Row { cluster: "c".to_owned(), token: "t".to_owned(), created, settled, closed: None }
    }

    fn call(arrived_us: i64, answered_us: Option<i64>) -> LaunchCall {
        LaunchCall { token: "t".to_owned(), cluster: "c".to_owned(), arrived_us, answered_us, ..LaunchCall::default() }
    }

    /// A process that begins at 100 and is killed at 200.
    const KILL: Kill = Kill { life: 100, at: 200 };

    fn at(row: Row, calls: &[LaunchCall]) -> Vec<Window> {
        fell(&KILL, &[row], calls).into_iter().collect()
    }

    #[test]
    fn a_kill_falls_where_the_books_say() {
        assert_eq!(at(row(150, None), &[]), [Window::IntentToCall]);
        assert_eq!(at(row(150, None), &[call(210, Some(220))]), [Window::IntentToCall], "it arrived after the kill");
        assert_eq!(at(row(150, None), &[call(160, None)]), [Window::CallToResponse]);
        assert_eq!(at(row(150, Some(230)), &[call(160, Some(220))]), [Window::CallToResponse]);
        assert_eq!(at(row(150, Some(230)), &[call(160, Some(190))]), [Window::ResponseToRecord]);
        assert_eq!(at(row(150, Some(195)), &[call(160, Some(190))]), []);
        assert_eq!(at(row(201, None), &[]), []);
    }

    #[test]
    fn what_an_earlier_process_left_counts_when_this_one_took_it_up() {
        assert_eq!(at(row(50, None), &[]), [], "this process did nothing about it yet");
        assert_eq!(at(row(50, None), &[call(60, Some(70))]), []);
        assert_eq!(at(row(50, None), &[call(60, None), call(150, None)]), [Window::CallToResponse]);
    }

    #[test]
    fn a_launch_of_the_same_name_in_another_cluster_is_another() {
        let other = LaunchCall { cluster: "d".to_owned(), ..call(160, None) };
        assert_eq!(at(row(150, None), &[other]), [Window::IntentToCall]);
    }
}
