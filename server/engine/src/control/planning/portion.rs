//! How many pods one plan takes. Those beyond the bound are planned next, at once: a round of plans goes through all pods that
//! wait, by priority and then by age, so that pods without a place at its head keep no other pod from being looked at.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::cluster::{PodKey, PodRecord};
use crate::model::Timestamp;

/// The order in which pods are taken: priority, age, name.
type Rank = (Reverse<i32>, Option<Timestamp>, PodKey);

/// How far the present round has come.
#[derive(Debug, Clone, Default)]
pub struct Portion {
    /// The last pod that a plan of this round took, while others are left.
    taken_to: Option<Rank>,
    /// Pods that the last plan had no steps left for.
    not_reached: BTreeSet<PodKey>,
    /// Plans of this round so far.
    plans: usize,
    left: usize,
}

impl Portion {
    /// Whether the round goes on: pods are left that no plan of it has looked at.
    pub fn goes_on(&self) -> bool {
        self.taken_to.is_some() || !self.not_reached.is_empty()
    }

    /// The last plan had no steps left for these: the next one is theirs.
    pub fn did_not_reach(&mut self, pods: BTreeSet<PodKey>) {
        self.not_reached = pods;
    }

    /// Pods that were left to the next plan of the round.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Which plan of its round the last one was, counted from 0.
    pub fn number(&self) -> usize {
        self.plans.saturating_sub(1)
    }

    /// The pods out of `demand` that the next plan takes, in their order: at most `most` of them, all with 0.
    pub fn take<'p>(&mut self, mut demand: Vec<&'p PodRecord>, most: usize) -> Vec<&'p PodRecord> {
        self.plans = if self.goes_on() { self.plans + 1 } else { 1 };
        let not_reached = std::mem::take(&mut self.not_reached);
        if !not_reached.is_empty() {
            demand.retain(|pod| not_reached.contains(&pod.key));
            return demand;
        }
        let done = self.taken_to.take();
        if let Some(done) = done {
            demand.retain(|pod| rank(pod) > done);
        }
        self.left = if most == 0 { 0 } else { demand.len().saturating_sub(most) };
        if self.left == 0 {
            return demand;
        }
        demand.sort_by_cached_key(|pod| rank(pod));
        demand.truncate(most);
        self.taken_to = demand.last().map(|pod| rank(pod));
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
    use crate::cluster::testing::pod;
    use crate::model::PodShape;

    fn waiting(name: &str, priority: i32, created: i64) -> PodRecord {
        let mut record = pod(name, 100);
        record.shape = Arc::new(PodShape { priority, ..PodShape::clone(&record.shape) });
        record.created = Some(Timestamp(created));
        record
    }

    fn names(pods: &[&PodRecord]) -> Vec<String> {
        pods.iter().map(|pod| pod.key.name.to_string()).collect()
    }

    #[test]
    fn a_round_takes_the_important_first_then_the_old_and_every_pod_once() {
        let pods = [waiting("a", 0, 30), waiting("b", 0, 10), waiting("c", 5, 99), waiting("d", 0, 20)];
        let demand = || pods.iter().collect::<Vec<_>>();
        let mut portion = Portion::default();
        // c is the most important, b the oldest of the rest; then d, then a.
        assert_eq!(names(&portion.take(demand(), 2)), ["b", "c"]);
        assert!(portion.goes_on() && portion.left() == 2);
        assert_eq!(names(&portion.take(demand(), 2)), ["a", "d"]);
        assert!(!portion.goes_on() && portion.left() == 0 && portion.number() == 1);
        assert_eq!(names(&portion.take(demand(), 2)), ["b", "c"], "the next round begins at the head");
        assert_eq!(portion.number(), 0);
    }

    #[test]
    fn what_a_plan_did_not_reach_is_next_and_then_the_round_goes_on() {
        let pods = [waiting("a", 0, 30), waiting("b", 0, 10), waiting("c", 5, 99), waiting("d", 0, 20)];
        let demand = || pods.iter().collect::<Vec<_>>();
        let mut portion = Portion::default();
        assert_eq!(names(&portion.take(demand(), 2)), ["b", "c"]);
        portion.did_not_reach([pods[1].key.clone()].into());
        assert!(portion.goes_on());
        assert_eq!(names(&portion.take(demand(), 2)), ["b"]);
        assert_eq!(names(&portion.take(demand(), 2)), ["a", "d"]);
        assert!(!portion.goes_on());
    }

    #[test]
    fn without_a_bound_or_below_it_all_are_taken_as_they_are() {
        let pods = [waiting("a", 0, 30), waiting("b", 9, 10)];
        let mut portion = Portion::default();
        for most in [0, 2, 3] {
            assert_eq!(names(&portion.take(pods.iter().collect(), most)), ["a", "b"]);
            assert!(!portion.goes_on());
        }
    }
}
