//! Agents that wait while another replica holds their cluster's lease.
//!
//! Either that replica was killed and its lease expires, or it still runs and hands over a cluster
//! whose agent has disconnected. A refused agent would return late, because its back-off grows, and
//! perhaps to the wrong replica again. So its Hello stays unanswered and the lease is retried:
//! soon, for a holder that hands over at once; periodically, for a holder that notices the
//! disconnect late; and when the lease expires. A holder that keeps the lease longer has an agent
//! too, and the waiting agent is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{ClusterName, Millis, Timestamp};

use store::clock;

/// Delay between the disconnect of a cluster's agent and the release of its lease to a replica that
/// requested it. That replica has requested the lease because the agent connected there, and
/// re-acquiring a lease discards the request; the delay covers an agent that left the other replica
/// as well and is reconnecting here.
pub(super) const HANDOVER_DELAY: Millis = Millis::new(500);

/// First retry: the holder receives the request, hands over and notifies.
const FIRST_RETRY: Millis = Millis::new(HANDOVER_DELAY.get() + 500);

const RETRY_INTERVAL: Millis = Millis::from_secs(5);

/// Minimum delay before the retry of a lease that is about to expire.
const MIN_RETRY: Millis = Millis::new(50);

/// How long an agent waits: twice the default lease duration.
const MAX_WAIT: Millis = Millis::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct HandoverWait(BTreeMap<ClusterName, WaitingAgent>);

#[derive(Debug)]
struct WaitingAgent {
    /// Highest epoch that the agent has stored.
    agent_epoch: u64,
    since: Timestamp,
    /// When the lease is retried; `None` while a call is in flight.
    retry_at: Option<Timestamp>,
}

impl HandoverWait {
    /// Begins or continues the wait of a cluster whose lease another replica holds for `expires_in`
    /// unless it is renewed. Returns whether the agent may wait.
    pub(super) fn begin_wait(
        &mut self,
        cluster: &ClusterName,
        agent_epoch: u64,
        expires_in: Duration,
        now: Timestamp,
    ) -> bool {
        let known = self.0.get(cluster).map(|waiting| waiting.since);
        let (since, step) = known.map_or((now, FIRST_RETRY), |since| (since, RETRY_INTERVAL));
        if now.duration_since(since) >= MAX_WAIT {
            self.0.remove(cluster);
            return false;
        }
        let expires = clock::millis(expires_in) + Millis::new(1);
        let retry_at = now + step.min(expires).max(MIN_RETRY);
        self.0.insert(cluster.clone(), WaitingAgent { agent_epoch, since, retry_at: Some(retry_at) });
        true
    }

    /// Ends the wait of this cluster.
    pub(super) fn cancel(&mut self, cluster: &ClusterName) {
        self.0.remove(cluster);
    }

    /// The clusters whose leases are to be retried now, with the highest epoch that each agent has
    /// stored.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<(ClusterName, u64)> {
        let is_due = |waiting: &WaitingAgent| waiting.retry_at.is_some_and(|retry_at| retry_at <= now);
        let due = self.0.iter_mut().filter(|(_, waiting)| is_due(waiting)).map(|(cluster, waiting)| {
            waiting.retry_at = None;
            (cluster.clone(), waiting.agent_epoch)
        });
        due.collect()
    }

    /// When the next retry is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|waiting| waiting.retry_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The retry moments of a lease that expires at `expires`, for an agent that arrived at 0; and
    /// when the agent is refused if the lease never expires.
    fn retry_moments(expires: i64) -> (Vec<i64>, Option<i64>) {
        let (mut handover_wait, cluster) = (HandoverWait::default(), ClusterName::from("blue"));
        let (mut now, mut moments) = (Timestamp::from_millis(0), Vec::new());
        while now.as_millis() < expires {
            let left = Duration::from_millis((expires - now.as_millis()).unsigned_abs());
            if !handover_wait.begin_wait(&cluster, 7, left, now) {
                return (moments, Some(now.as_millis()));
            }
            now = handover_wait.next_due().unwrap();
            assert!(handover_wait.take_due(now - Millis::new(1)).is_empty());
            assert_eq!(handover_wait.take_due(now), [(cluster.clone(), 7)]);
            assert_eq!(handover_wait.next_due(), None, "a call is in flight");
            moments.push(now.as_millis());
        }
        (moments, None)
    }

    #[test]
    fn the_lease_of_a_killed_replica_is_retried_when_it_expires() {
        // After 1 s, then every 5 s, and a millisecond after 23 s.
        assert_eq!(retry_moments(23_000), (vec![1_000, 6_000, 11_000, 16_000, 21_000, 23_001], None));
        assert_eq!(retry_moments(400), (vec![401], None));
        assert_eq!(retry_moments(10), (vec![50], None));
    }

    #[test]
    fn an_agent_whose_cluster_is_not_handed_over_is_refused_after_a_minute() {
        let (moments, turned_away) = retry_moments(i64::MAX);
        // 1 s and twelve times 5 s.
        assert_eq!((moments.len(), turned_away), (13, Some(61_000)));
    }

    #[test]
    fn a_disconnected_agent_causes_no_further_retries() {
        let (mut handover_wait, cluster) = (HandoverWait::default(), ClusterName::from("blue"));
        assert!(handover_wait.begin_wait(&cluster, 0, Duration::from_secs(30), Timestamp::from_millis(0)));
        handover_wait.cancel(&cluster);
        assert_eq!(
            (handover_wait.next_due(), handover_wait.take_due(Timestamp::from_millis(99_000))),
            (None, Vec::new())
        );
    }
}
