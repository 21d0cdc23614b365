//! Bounds the number of pods in one plan. Further pods are planned immediately afterwards: a round
//! of plans covers all pending pods, by priority and then by age, so that unschedulable pods at its
//! head do not starve the others.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use cluster::PodRecord;
use model::{PodKey, Timestamp};

/// Order in which pods are planned: priority, age, name.
type Rank = (Reverse<i32>, Option<Timestamp>, PodKey);

#[derive(Debug, Clone, Default)]
pub struct DemandCursor {
    /// The last pod that a plan of this round took, while others remain.
    last_taken: Option<Rank>,
    /// Pods that the last plan had no steps left for.
    not_reached: BTreeSet<PodKey>,
    /// Number of plans in this round so far.
    plans: usize,
    remaining: usize,
}

impl DemandCursor {
    /// Whether pods remain that no plan of this round has considered.
    pub fn has_more(&self) -> bool {
        self.last_taken.is_some() || !self.not_reached.is_empty()
    }

    /// Defers pods that the last plan had no steps left for; the next plan takes only them.
    pub fn defer_unreached(&mut self, pods: BTreeSet<PodKey>) {
        self.not_reached = pods;
    }

    /// Number of pods that remain for the next plans of the round.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Index of the last plan in its round, from 0.
    pub fn plan_index(&self) -> usize {
        self.plans.saturating_sub(1)
    }

    /// The pods of `demand` that the next plan takes, in their order: at most `most`, or all for 0.
    pub fn take_pods<'p>(&mut self, mut demand: Vec<&'p PodRecord>, most: usize) -> Vec<&'p PodRecord> {
        self.plans = if self.has_more() { self.plans + 1 } else { 1 };
        let not_reached = std::mem::take(&mut self.not_reached);
        if !not_reached.is_empty() {
            demand.retain(|pod| not_reached.contains(&pod.key));
            return demand;
        }
        let done = self.last_taken.take();
        if let Some(done) = done {
            demand.retain(|pod| rank(pod) > done);
        }
        self.remaining = if most == 0 { 0 } else { demand.len().saturating_sub(most) };
        if self.remaining == 0 {
            return demand;
        }
        demand.sort_by_cached_key(|pod| rank(pod));
        demand.truncate(most);
        self.last_taken = demand.last().map(|pod| rank(pod));
        demand.sort_by(|a, b| a.key.cmp(&b.key));
        demand
    }
}

fn rank(pod: &PodRecord) -> Rank {
    (Reverse(pod.shape.priority), pod.created, pod.key.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use cluster::testing::pod;
    use model::PodShape;

    fn waiting(name: &str, priority: i32, created: i64) -> PodRecord {
        let mut record = pod(name, 100);
        record.shape = Arc::new(PodShape { priority, ..PodShape::clone(&record.shape) });
        record.created = Some(Timestamp::from_millis(created));
        record
    }

    fn names(pods: &[&PodRecord]) -> Vec<String> {
        pods.iter().map(|pod| pod.key.name.to_string()).collect()
    }

    #[test]
    fn a_round_takes_every_pod_once_by_priority_and_then_by_age() {
        let pods = [waiting("a", 0, 30), waiting("b", 0, 10), waiting("c", 5, 99), waiting("d", 0, 20)];
        let demand = || pods.iter().collect::<Vec<_>>();
        let mut demand_cursor = DemandCursor::default();
        // c has the highest priority, b is the oldest of the rest; then d, then a.
        assert_eq!(names(&demand_cursor.take_pods(demand(), 2)), ["b", "c"]);
        assert!(demand_cursor.has_more() && demand_cursor.remaining() == 2);
        assert_eq!(names(&demand_cursor.take_pods(demand(), 2)), ["a", "d"]);
        assert!(!demand_cursor.has_more() && demand_cursor.remaining() == 0 && demand_cursor.plan_index() == 1);
        assert_eq!(names(&demand_cursor.take_pods(demand(), 2)), ["b", "c"], "the next round begins at the head");
        assert_eq!(demand_cursor.plan_index(), 0);
    }

    #[test]
    fn unreached_pods_are_planned_next_and_then_the_round_continues() {
        let pods = [waiting("a", 0, 30), waiting("b", 0, 10), waiting("c", 5, 99), waiting("d", 0, 20)];
        let demand = || pods.iter().collect::<Vec<_>>();
        let mut demand_cursor = DemandCursor::default();
        assert_eq!(names(&demand_cursor.take_pods(demand(), 2)), ["b", "c"]);
        demand_cursor.defer_unreached([pods[1].key.clone()].into());
        assert!(demand_cursor.has_more());
        assert_eq!(names(&demand_cursor.take_pods(demand(), 2)), ["b"]);
        assert_eq!(names(&demand_cursor.take_pods(demand(), 2)), ["a", "d"]);
        assert!(!demand_cursor.has_more());
    }

    #[test]
    fn without_a_limit_or_below_it_all_pods_are_taken_in_order() {
        let pods = [waiting("a", 0, 30), waiting("b", 9, 10)];
        let mut demand_cursor = DemandCursor::default();
        for most in [0, 2, 3] {
            assert_eq!(names(&demand_cursor.take_pods(pods.iter().collect(), most)), ["a", "b"]);
            assert!(!demand_cursor.has_more());
        }
    }
}
