//! How many clusters come in at one time.
//!
//! A cluster that comes in costs its lease, its open launches and a whole snapshot. When a thousand come at once, as after a
//! restart, those beyond a few wait with their greeting unanswered, in the order in which they came: what is in memory then is
//! a few snapshots and not a thousand, those that are in are decided for meanwhile, and nobody is cut off half way and begins
//! anew. An agent that waits for its welcome waits as long as the connection lives.

use std::collections::BTreeMap;

use engine::control::ClusterId;
use engine::model::Timestamp;

/// Clusters that come in at one time. The store hands out four leases at a time, and a snapshot is read by a task of its
/// cluster: this keeps both busy on a machine with many processors, and bounds what is half way to some 16 snapshots, 50 MB
/// with 5,000 pods each.
const AT_ONCE: usize = 16;

/// How long a cluster may be on its way in and keep others waiting, in milliseconds. A snapshot of 5,000 pods takes a second on
/// a bad line. Whoever needs longer goes on beside those who are let in after it, and being slow costs little at a time.
const PATIENCE_MS: i64 = 10_000;

/// Who is on the way in, and who waits.
#[derive(Debug)]
pub(super) struct Admission {
    at_once: usize,
    /// By number of arrival: the cluster, and the highest epoch that it has seen.
    waiting: BTreeMap<u64, (ClusterId, u64)>,
    /// The numbers of those that wait.
    numbers: BTreeMap<ClusterId, u64>,
    next_number: u64,
    /// On the way in, since when.
    inside: BTreeMap<ClusterId, Timestamp>,
}

impl Default for Admission {
    fn default() -> Self {
        Self::of(AT_ONCE)
    }
}

impl Admission {
    /// An admission of so many at one time.
    pub(super) fn of(at_once: usize) -> Self {
        Self { at_once, waiting: BTreeMap::new(), numbers: BTreeMap::new(), next_number: 0, inside: BTreeMap::new() }
    }

    /// An agent has greeted. One that waits already keeps its place.
    pub(super) fn greeted(&mut self, cluster: ClusterId, seen: u64) {
        let next = &mut self.next_number;
        let number = *self.numbers.entry(cluster.clone()).or_insert_with(|| {
            *next += 1;
            *next
        });
        self.waiting.insert(number, (cluster, seen));
    }

    /// The agent is welcome. Its patience counts from here: how long its lease took is not its affair.
    pub(super) fn welcomed(&mut self, cluster: &ClusterId, now: Timestamp) {
        self.stop_waiting(cluster);
        self.inside.insert(cluster.clone(), now);
    }

    /// The cluster is in: its snapshot is believed.
    pub(super) fn arrived(&mut self, cluster: &ClusterId) {
        self.inside.remove(cluster);
    }

    /// The agent has gone, or is turned away.
    pub(super) fn left(&mut self, cluster: &ClusterId) {
        self.stop_waiting(cluster);
        self.inside.remove(cluster);
    }

    /// Those whose turn it is, with the highest epoch that each has seen.
    pub(super) fn admit(&mut self, now: Timestamp) -> Vec<(ClusterId, u64)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.inside.retain(|_, since| now.millis_since(*since) < PATIENCE_MS);
        let mut admitted = Vec::new();
        while self.inside.len() < self.at_once {
            let Some((_, (cluster, seen))) = self.waiting.pop_first() else { break };
            self.numbers.remove(&cluster);
            self.inside.insert(cluster.clone(), now);
            admitted.push((cluster, seen));
        }
        admitted
    }

    /// When somebody's patience ends for which others wait.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let since = (!self.waiting.is_empty()).then(|| self.inside.values().min()).flatten()?;
        Some(Timestamp(since.0.saturating_add(PATIENCE_MS)))
    }

    fn stop_waiting(&mut self, cluster: &ClusterId) {
        if let Some(number) = self.numbers.remove(cluster) {
            self.waiting.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ClusterId {
        format!("c{number:04}").as_str().into()
    }

    /// Has a thousand agents greet at once, each of whose snapshots is believed as soon as others have been let in; how many are
    /// on the way in at most, and in which order they came in.
    fn storm(mut admission: Admission) -> (usize, Vec<ClusterId>) {
        (0..1_000).rev().for_each(|number| admission.greeted(name(number), 0));
        let (mut most, mut order) = (0, Vec::new());
        loop {
            let admitted = admission.admit(Timestamp(0));
            most = most.max(admission.inside.len());
            order.extend(admitted.into_iter().map(|(cluster, _)| cluster));
            let Some(first) = admission.inside.keys().next().cloned() else { return (most, order) };
            admission.arrived(&first);
        }
    }

    #[test]
    fn of_a_thousand_that_come_at_once_a_few_are_let_in_at_a_time_in_the_order_in_which_they_came() {
        let (most, order) = storm(Admission::default());
        assert_eq!(most, AT_ONCE);
        assert_eq!(order, (0..1_000).rev().map(name).collect::<Vec<_>>());
        assert_eq!(storm(Admission::of(usize::MAX)).0, 1_000, "switched off, all are half way in at once");
    }

    #[test]
    fn who_is_let_in_and_says_nothing_keeps_others_waiting_for_a_bounded_time() {
        let mut admission = Admission::of(1);
        for cluster in [name(1), name(2), name(3)] {
            admission.greeted(cluster, 0);
        }
        assert_eq!(admission.admit(Timestamp(0)), [(name(1), 0)]);
        // Its lease took 4 s; from its welcome it has 10 s.
        admission.welcomed(&name(1), Timestamp(4_000));
        assert_eq!(admission.next_due(), Some(Timestamp(14_000)));
        assert!(admission.admit(Timestamp(13_999)).is_empty());
        assert_eq!(admission.admit(Timestamp(14_000)), [(name(2), 0)]);
        // It comes again, and waits behind those who were there before.
        admission.left(&name(1));
        admission.greeted(name(1), 0);
        admission.arrived(&name(2));
        assert_eq!(admission.admit(Timestamp(14_000)), [(name(3), 0)]);
    }

    #[test]
    fn who_leaves_keeps_no_place_and_nothing_is_due_while_nobody_waits() {
        let mut admission = Admission::of(1);
        admission.greeted(name(1), 0);
        admission.greeted(name(2), 0);
        admission.greeted(name(3), 0);
        admission.left(&name(2));
        admission.greeted(name(1), 5);
        assert_eq!(admission.admit(Timestamp(0)), [(name(1), 5)], "its last word counts, and its place");
        admission.left(&name(1));
        assert_eq!(admission.admit(Timestamp(0)), [(name(3), 0)]);
        assert_eq!(admission.next_due(), None);
    }
}
