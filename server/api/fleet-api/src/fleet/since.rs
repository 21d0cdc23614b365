//! Since when a cluster is as it is: carried on from row to row, over changes of the replica that decides for it.

use fleetwright_proto::v1;
use prost_types::Timestamp;

/// A state that lasts: whether a row has it, since when it says so, and where that is written.
struct Lasting<R> {
    lasts: fn(&R) -> bool,
    since: fn(&R) -> Option<Timestamp>,
    set: fn(&mut R, Option<Timestamp>),
}

/// A state of a row of this type, by the field with its time.
macro_rules! lasting {
    ($time:ident, $lasts:expr) => {
        Lasting { lasts: $lasts, since: |row| row.$time, set: |row, since| row.$time = since }
    };
}

const OF_CLUSTER: [Lasting<v1::Cluster>; 4] = [
    lasting!(plan_error_time, |row| !row.plan_error.is_empty()),
    lasting!(problems_time, |row| !row.problems.is_empty()),
    lasting!(unmanaged_pools_time, |row| !row.unmanaged_pools.is_empty()),
    lasting!(autoscalers_time, |row| !row.autoscalers.is_empty()),
];

const OF_GUARDRAILS: [Lasting<v1::Guardrails>; 5] = [
    lasting!(shadow_time, |row| row.shadow || row.disruption_shadow),
    lasting!(circuit_breaker_time, |row| !row.circuit_breaker_reason.is_empty()),
    lasting!(launches_blocked_time, |row| !row.launches_blocked_reason.is_empty()),
    lasting!(removals_blocked_time, |row| !row.removals_blocked_reason.is_empty()),
    lasting!(backoff_time, |row| row.backoff_pod_count > 0),
];

/// Adds to the row that is observed now since when what it says lasts. A cluster without an agent is as old as the agent's last
/// message, however often its row changes.
pub(super) fn carry(before: Option<&v1::Cluster>, row: v1::Cluster) -> v1::Cluster {
    let now = row.observe_time;
    let mut row = carry_each(&OF_CLUSTER, before, row, now);
    let guardrails = before.and_then(|before| before.guardrails.as_ref());
    row.guardrails = row.guardrails.map(|row| carry_each(&OF_GUARDRAILS, guardrails, row, now));
    // One that was not observed, or had no agent, was seen last when it says so.
    let seen = before.filter(|before| before.stale || !before.connected).and_then(|before| before.observe_time);
    row.observe_time = if row.connected { now } else { seen.or(now) };
    row
}

fn carry_each<R>(lasting: &[Lasting<R>], before: Option<&R>, mut row: R, now: Option<Timestamp>) -> R {
    for Lasting { lasts, since, set } in lasting {
        if lasts(&row) {
            let earlier = before.filter(|before| lasts(before)).and_then(since);
            set(&mut row, earlier.or(now));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_messages::from_millis;

    fn row(at_ms: i64, connected: bool, blocked: &str) -> v1::Cluster {
        v1::Cluster {
            observe_time: Some(from_millis(at_ms)),
            connected,
            guardrails: Some(v1::Guardrails { launches_blocked_reason: blocked.to_owned(), ..Default::default() }),
            ..Default::default()
        }
    }

    fn blocked_since(row: &v1::Cluster) -> Option<Timestamp> {
        row.guardrails.as_ref().and_then(|guardrails| guardrails.launches_blocked_time)
    }

    #[test]
    fn a_state_lasts_since_the_first_of_the_rows_that_have_it() {
        let first = carry(None, row(1_000, true, "a limit"));
        assert_eq!(blocked_since(&first), Some(from_millis(1_000)));
        // Another limit blocks on.
        let second = carry(Some(&first), row(5_000, true, "another limit"));
        assert_eq!(blocked_since(&second), Some(from_millis(1_000)));
        let free = carry(Some(&second), row(6_000, true, ""));
        assert_eq!(blocked_since(&free), None);
        assert_eq!(blocked_since(&carry(Some(&free), row(7_000, true, "a limit"))), Some(from_millis(7_000)));
        // Another replica took the cluster over, and has its stored row.
        let stored = v1::Cluster { stale: true, ..second };
        assert_eq!(blocked_since(&carry(Some(&stored), row(9_000, true, "a limit"))), Some(from_millis(1_000)));
    }

    #[test]
    fn a_cluster_is_as_old_as_the_last_message_of_its_agent() {
        let seen = |row: &v1::Cluster| row.observe_time;
        let live = carry(None, row(1_000, true, ""));
        let lost = carry(Some(&live), row(5_000, false, ""));
        assert_eq!(seen(&lost), Some(from_millis(5_000)), "the agent was there until now");
        let changed = carry(Some(&lost), row(75_000, false, "a limit"));
        assert_eq!(seen(&changed), Some(from_millis(5_000)));
        // A replica that takes it over without its agent has not seen it either.
        let stored = v1::Cluster { stale: true, connected: true, ..live };
        assert_eq!(seen(&carry(Some(&stored), row(90_000, false, ""))), Some(from_millis(1_000)));
        assert_eq!(seen(&carry(Some(&changed), row(95_000, true, ""))), Some(from_millis(95_000)));
    }
}
