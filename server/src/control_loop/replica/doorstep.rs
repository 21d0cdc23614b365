//! Agents that wait here while another replica decides for their cluster.
//!
//! That replica was killed, and its leases run out; or it goes on, and hands a cluster over whose agent has gone. An agent that
//! is sent away meanwhile comes back late, since its waits grow, and perhaps to the wrong replica again. So its greeting stays
//! unanswered, and the lease is tried again: soon, for a holder that hands over at once; now and then, for one that notices
//! late that the agent has gone; and when the lease runs out. A holder that keeps it for longer than that has an agent too,
//! and this one is turned away.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::control::ClusterId;
use engine::model::Timestamp;

use super::HAND_OVER_MS;

/// Until the lease is tried again for the first time, in milliseconds: its holder is told, hands over and says so.
const FIRST_MS: i64 = HAND_OVER_MS + 500;

/// Until it is tried again after that, in milliseconds.
const AGAIN_MS: i64 = 5_000;

/// A lease that is about to run out is tried again after so long at the earliest, in milliseconds.
const LEAST_MS: i64 = 50;

/// How long an agent waits, in milliseconds: twice what a lease lasts, unless leases are set to last long.
const PATIENCE_MS: i64 = 60_000;

/// Who waits.
#[derive(Debug, Default)]
pub(super) struct Doorstep(BTreeMap<ClusterId, Waiting>);

#[derive(Debug)]
struct Waiting {
    /// The highest epoch that its cluster has seen.
    seen: u64,
    since: Timestamp,
    /// When its lease is tried again; `None` while it is being tried.
    again: Option<Timestamp>,
}

impl Doorstep {
    /// The lease of a cluster whose agent is here is held by another replica, for so long unless it is prolonged. Says whether
    /// the agent may wait.
    pub(super) fn held(&mut self, cluster: &ClusterId, seen: u64, expires_in: Duration, now: Timestamp) -> bool {
        let known = self.0.get(cluster).map(|waiting| waiting.since);
        let (since, step) = known.map_or((now, FIRST_MS), |since| (since, AGAIN_MS));
        if now.millis_since(since) >= PATIENCE_MS {
            self.0.remove(cluster);
            return false;
        }
        let expires = i64::try_from(expires_in.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
        let again = Timestamp(now.0.saturating_add(step.min(expires).max(LEAST_MS)));
        self.0.insert(cluster.clone(), Waiting { seen, since, again: Some(again) });
        true
    }

    /// Nobody waits for this cluster any more.
    pub(super) fn over(&mut self, cluster: &ClusterId) {
        self.0.remove(cluster);
    }

    /// Those whose leases are to be tried again, with the highest epoch that each has seen.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<(ClusterId, u64)> {
        let is_due = |waiting: &Waiting| waiting.again.is_some_and(|again| again <= now);
        let due = self.0.iter_mut().filter(|(_, waiting)| is_due(waiting)).map(|(cluster, waiting)| {
            waiting.again = None;
            (cluster.clone(), waiting.seen)
        });
        due.collect()
    }

    /// When a lease is to be tried again.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|waiting| waiting.again).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments at which the lease of a killed replica is tried that runs out at `expires`, for an agent that came at 0; and
    /// when the agent is turned away, if the lease never runs out.
    fn tried(expires: i64) -> (Vec<i64>, Option<i64>) {
        let (mut doorstep, cluster) = (Doorstep::default(), ClusterId::from("blue"));
        let (mut now, mut moments) = (Timestamp(0), Vec::new());
        while now.0 < expires {
            let left = Duration::from_millis((expires - now.0).unsigned_abs());
            if !doorstep.held(&cluster, 7, left, now) {
                return (moments, Some(now.0));
            }
            now = doorstep.next_due().unwrap();
            assert!(doorstep.due(Timestamp(now.0 - 1)).is_empty());
            assert_eq!(doorstep.due(now), [(cluster.clone(), 7)]);
            assert_eq!(doorstep.next_due(), None, "it is being tried");
            moments.push(now.0);
        }
        (moments, None)
    }

    #[test]
    fn the_lease_of_a_killed_replica_is_tried_when_it_runs_out() {
        // After 1 s, every 5 s from there, and a millisecond after 23 s.
        assert_eq!(tried(23_000), (vec![1_000, 6_000, 11_000, 16_000, 21_000, 23_001], None));
        assert_eq!(tried(400), (vec![401], None));
        assert_eq!(tried(10), (vec![50], None));
    }

    #[test]
    fn an_agent_whose_cluster_stays_elsewhere_is_turned_away_after_a_minute() {
        let (moments, turned_away) = tried(i64::MAX);
        // 1 s and twelve times 5 s.
        assert_eq!((moments.len(), turned_away), (13, Some(61_000)));
    }

    #[test]
    fn who_has_gone_is_tried_no_more() {
        let (mut doorstep, cluster) = (Doorstep::default(), ClusterId::from("blue"));
        assert!(doorstep.held(&cluster, 0, Duration::from_secs(30), Timestamp(0)));
        doorstep.over(&cluster);
        assert_eq!((doorstep.next_due(), doorstep.due(Timestamp(99_000))), (None, Vec::new()));
    }
}
