//! Limits how many clusters are admitted at one time.
//!
//! Admitting a cluster costs its lease, its open launches and a whole snapshot. When a thousand
//! arrive at once, as after a restart, all but a few wait with an unanswered Hello, first come
//! first served. So memory holds a few snapshots rather than a thousand, admitted clusters are
//! decided for meanwhile, and no agent is disconnected halfway. An agent waits for its answer as
//! long as its connection lasts.

use std::collections::BTreeMap;

use model::{ClusterName, Millis, Timestamp};

/// Clusters admitted at one time. The store grants four leases concurrently and each snapshot is
/// decoded by its cluster's task: 16 keep both busy on a machine with many processors and bound the
/// incomplete snapshots to about 50 MB at 5,000 pods each.
pub const ADMISSION_LIMIT: usize = 16;

/// How long an admission in progress blocks others. A snapshot of 5,000 pods takes a second on a
/// slow line. A slower cluster continues beside those admitted after it.
const ADMISSION_TIMEOUT: Millis = Millis::from_secs(10);

/// Admissions in progress and waiting clusters.
#[derive(Debug)]
pub(super) struct Admission {
    limit: usize,
    /// By order of arrival: the cluster and the highest epoch that its agent has stored.
    waiting: BTreeMap<u64, (ClusterName, u64)>,
    positions: BTreeMap<ClusterName, u64>,
    next_number: u64,
    /// Admissions in progress, and since when.
    admitting: BTreeMap<ClusterName, Timestamp>,
}

impl Default for Admission {
    fn default() -> Self {
        Self::with_limit(ADMISSION_LIMIT)
    }
}

impl Admission {
    /// An admission of at most `limit` clusters at one time.
    pub(super) fn with_limit(limit: usize) -> Self {
        Self { limit, waiting: BTreeMap::new(), positions: BTreeMap::new(), next_number: 0, admitting: BTreeMap::new() }
    }

    /// Queues a cluster whose agent sent Hello. One that waits already keeps its place.
    pub(super) fn enqueue(&mut self, cluster: ClusterName, agent_epoch: u64) {
        let next = &mut self.next_number;
        let number = *self.positions.entry(cluster.clone()).or_insert_with(|| {
            *next += 1;
            *next
        });
        self.waiting.insert(number, (cluster, agent_epoch));
    }

    /// Restarts the timeout of a cluster whose agent was accepted: the time that its lease took
    /// does not count.
    pub(super) fn mark_accepted(&mut self, cluster: &ClusterName, now: Timestamp) {
        self.stop_waiting(cluster);
        self.admitting.insert(cluster.clone(), now);
    }

    /// Ends the admission of a cluster whose snapshot was accepted.
    pub(super) fn mark_synced(&mut self, cluster: &ClusterName) {
        self.admitting.remove(cluster);
    }

    /// Removes a cluster whose agent disconnected or was refused.
    pub(super) fn remove(&mut self, cluster: &ClusterName) {
        self.stop_waiting(cluster);
        self.admitting.remove(cluster);
    }

    /// The clusters to admit now, with the highest epoch that each agent has stored.
    pub(super) fn admit_next(&mut self, now: Timestamp) -> Vec<(ClusterName, u64)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.admitting.retain(|_, since| now.duration_since(*since) < ADMISSION_TIMEOUT);
        let mut admitted = Vec::new();
        while self.admitting.len() < self.limit {
            let Some((_, (cluster, agent_epoch))) = self.waiting.pop_first() else { break };
            self.positions.remove(&cluster);
            self.admitting.insert(cluster.clone(), now);
            admitted.push((cluster, agent_epoch));
        }
        admitted
    }

    /// When the oldest admission in progress times out, if clusters wait.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let since = (!self.waiting.is_empty()).then(|| self.admitting.values().min()).flatten()?;
        Some(*since + ADMISSION_TIMEOUT)
    }

    fn stop_waiting(&mut self, cluster: &ClusterName) {
        if let Some(number) = self.positions.remove(cluster) {
            self.waiting.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ClusterName {
        format!("c{number:04}").as_str().into()
    }

    /// Queues a thousand clusters at once; each snapshot is accepted as soon as others are
    /// admitted. Returns the greatest number in progress and the order of admission.
    fn admit_thousand(mut admission: Admission) -> (usize, Vec<ClusterName>) {
        (0..1_000).rev().for_each(|number| admission.enqueue(name(number), 0));
        let (mut most, mut order) = (0, Vec::new());
        loop {
            let admitted = admission.admit_next(Timestamp::from_millis(0));
            most = most.max(admission.admitting.len());
            order.extend(admitted.into_iter().map(|(cluster, _)| cluster));
            let Some(first) = admission.admitting.keys().next().cloned() else { return (most, order) };
            admission.mark_synced(&first);
        }
    }

    #[test]
    fn of_a_thousand_clusters_at_once_a_few_are_admitted_at_a_time_in_order_of_arrival() {
        let (most, order) = admit_thousand(Admission::default());
        assert_eq!(most, ADMISSION_LIMIT);
        assert_eq!(order, (0..1_000).rev().map(name).collect::<Vec<_>>());
        assert_eq!(
            admit_thousand(Admission::with_limit(usize::MAX)).0,
            1_000,
            "without a limit all are in progress at once"
        );
    }

    #[test]
    fn a_silent_admitted_cluster_delays_others_for_a_bounded_time() {
        let mut admission = Admission::with_limit(1);
        for cluster in [name(1), name(2), name(3)] {
            admission.enqueue(cluster, 0);
        }
        assert_eq!(admission.admit_next(Timestamp::from_millis(0)), [(name(1), 0)]);
        // Its lease took 4 s; it has 10 s from its acceptance.
        admission.mark_accepted(&name(1), Timestamp::from_millis(4_000));
        assert_eq!(admission.next_due(), Some(Timestamp::from_millis(14_000)));
        assert!(admission.admit_next(Timestamp::from_millis(13_999)).is_empty());
        assert_eq!(admission.admit_next(Timestamp::from_millis(14_000)), [(name(2), 0)]);
        // It reconnects and waits behind the clusters that were queued before.
        admission.remove(&name(1));
        admission.enqueue(name(1), 0);
        admission.mark_synced(&name(2));
        assert_eq!(admission.admit_next(Timestamp::from_millis(14_000)), [(name(3), 0)]);
    }

    #[test]
    fn a_removed_cluster_keeps_no_place_and_nothing_is_due_without_waiting_clusters() {
        let mut admission = Admission::with_limit(1);
        admission.enqueue(name(1), 0);
        admission.enqueue(name(2), 0);
        admission.enqueue(name(3), 0);
        admission.remove(&name(2));
        admission.enqueue(name(1), 5);
        assert_eq!(
            admission.admit_next(Timestamp::from_millis(0)),
            [(name(1), 5)],
            "its latest epoch counts, and its place"
        );
        admission.remove(&name(1));
        assert_eq!(admission.admit_next(Timestamp::from_millis(0)), [(name(3), 0)]);
        assert_eq!(admission.next_due(), None);
    }
}
