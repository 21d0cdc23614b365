//! The planning queue. It has no clock and no thread: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller::{PlanAnswer, PlanJob};
use model::ClusterName;
use tokio::sync::mpsc;

/// Assumed planning time of one pod, for ordering. A plan is overtaken only by plans that are
/// smaller by more than the time it arrived earlier.
const DELAY_PER_POD: Duration = Duration::from_micros(100);

/// Upper bound of the delay that size adds to a plan.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Greatest weight of a small plan.
const SMALL_PLAN_WEIGHT: usize = 2_000;

/// A cluster whose last plan took longer has no small plans, whatever their weight.
const FAST_PLAN: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannerClass {
    /// Small plans of clusters whose last plan was fast.
    Small,
    Any,
}

/// A plan that the task of a cluster asks for, and where that task takes answers.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) job: PlanJob,
    pub(super) answers: mpsc::UnboundedSender<PlanAnswer>,
}

/// Queued plans, at most one per cluster: a newer plan replaces the older one.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<ClusterName, QueuedPlan>,
    /// Queue order of the clusters in `waiting`.
    order: BTreeSet<(Duration, u64, ClusterName)>,
    running: BTreeSet<ClusterName>,
    slow: BTreeSet<ClusterName>,
    number: u64,
    closed: bool,
}

#[derive(Debug)]
struct QueuedPlan {
    submission: Submission,
    weight: usize,
    priority: (Duration, u64, ClusterName),
}

impl Queue {
    /// Queues a plan requested at `at`, measured from any fixed moment.
    pub(super) fn push(&mut self, submission: Submission, at: Duration) {
        let (cluster, weight) = (submission.job.cluster().clone(), submission.job.weight());
        let size = DELAY_PER_POD.saturating_mul(u32::try_from(weight).unwrap_or(u32::MAX)).min(MAX_DELAY);
        self.number += 1;
        let priority = (at + size, self.number, cluster.clone());
        self.order.insert(priority.clone());
        if let Some(before) = self.waiting.insert(cluster, QueuedPlan { submission, weight, priority }) {
            self.order.remove(&before.priority);
        }
    }

    /// Takes the next plan that a thread of this class may make.
    pub(super) fn next(&mut self, class: PlannerClass) -> Option<Submission> {
        let eligible = |cluster: &ClusterName| {
            let weight = self.waiting.get(cluster).map_or(0, |waiting| waiting.weight);
            let fits = class == PlannerClass::Any || (weight <= SMALL_PLAN_WEIGHT && !self.slow.contains(cluster));
            fits && !self.running.contains(cluster)
        };
        let cluster = self.order.iter().map(|(_, _, cluster)| cluster).find(|cluster| eligible(cluster)).cloned()?;
        let QueuedPlan { submission, priority, .. } = self.waiting.remove(&cluster)?;
        self.order.remove(&priority);
        self.running.insert(cluster);
        Some(submission)
    }

    /// Takes the waiting plan of `cluster`.
    pub(super) fn remove(&mut self, cluster: &ClusterName) -> Option<Submission> {
        let QueuedPlan { submission, priority, .. } = self.waiting.remove(cluster)?;
        self.order.remove(&priority);
        Some(submission)
    }

    /// Marks the plan of `cluster` as finished after `took`.
    pub(super) fn finish(&mut self, cluster: &ClusterName, took: Duration) {
        self.running.remove(cluster);
        if took > FAST_PLAN {
            self.slow.insert(cluster.clone());
        } else {
            self.slow.remove(cluster);
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use controller::{PlanNumber, PlanRequest};
    use model::input::PlanningInput;
    use model::{Pod, PodShape};

    use super::*;

    fn job(cluster: &str, pods: usize) -> Submission {
        let pod = |at: usize| Pod {
            namespace: "default".into(),
            name: at.to_string().into(),
            shape: 0,
            labels: 0,
            volumes: None,
            created: None,
            workload: "Pod/x".into(),
            moved_from: None,
            invalid: None,
        };
        let input = PlanningInput {
            shapes: vec![PodShape::default()],
            pods: (0..pods).map(pod).collect(),
            ..PlanningInput::default()
        };
        let request = PlanRequest { number: PlanNumber(1), cluster: cluster.into(), input, disruption: None };
        Submission { job: PlanJob::Pods(Box::new(request)), answers: mpsc::unbounded_channel().0 }
    }

    fn queue(requests: &[(&str, usize, u64)]) -> Queue {
        let mut queue = Queue::default();
        for (cluster, pods, at) in requests {
            queue.push(job(cluster, *pods), Duration::from_millis(*at));
        }
        queue
    }

    fn next_cluster(queue: &mut Queue, class: PlannerClass) -> String {
        queue.next(class).map_or_else(|| "none".to_owned(), |next| next.job.cluster().to_string())
    }

    #[test]
    fn small_plans_overtake_large_ones_that_arrived_slightly_earlier() {
        // 3,000 pods count for 300 ms, 100 for 10 ms.
        let mut queue = queue(&[("large", 3_000, 0), ("small", 100, 200), ("late", 100, 295)]);
        let order = [(); 4].map(|()| next_cluster(&mut queue, PlannerClass::Any));
        assert_eq!(order, ["small", "large", "late", "none"]);
    }

    #[test]
    fn the_thread_for_small_plans_takes_no_large_plan_and_none_of_a_slow_cluster() {
        let mut queue = queue(&[("large", 2_001, 0), ("slow", 1, 0), ("small", 2_000, 0)]);
        queue.finish(&"slow".into(), Duration::from_millis(501));
        assert_eq!(next_cluster(&mut queue, PlannerClass::Small), "small");
        assert_eq!(next_cluster(&mut queue, PlannerClass::Small), "none");
        queue.finish(&"slow".into(), Duration::from_millis(1));
        assert_eq!(next_cluster(&mut queue, PlannerClass::Small), "slow", "its plans are fast again");
        assert_eq!(next_cluster(&mut queue, PlannerClass::Any), "large");
    }

    #[test]
    fn a_removed_plan_is_not_taken() {
        let mut queue = queue(&[("a", 3, 0), ("b", 1, 1)]);
        assert_eq!(queue.remove(&"a".into()).map(|next| next.job.into_request().input.pods.len()), Some(3));
        assert!(queue.remove(&"a".into()).is_none());
        assert_eq!([(); 2].map(|()| next_cluster(&mut queue, PlannerClass::Any)), ["b", "none"]);
    }

    #[test]
    fn a_cluster_has_one_plan_in_progress_and_its_latest_request_replaces_earlier_ones() {
        let mut queue = queue(&[("a", 1, 0), ("b", 1, 1)]);
        assert_eq!(next_cluster(&mut queue, PlannerClass::Any), "a");
        queue.push(job("a", 1), Duration::ZERO);
        queue.push(job("a", 7), Duration::ZERO);
        assert_eq!(next_cluster(&mut queue, PlannerClass::Any), "b");
        assert_eq!(next_cluster(&mut queue, PlannerClass::Any), "none", "a's first plan is still in progress");
        queue.finish(&"a".into(), Duration::ZERO);
        assert_eq!(queue.next(PlannerClass::Any).map(|next| next.job.into_request().input.pods.len()), Some(7));
        assert_eq!(next_cluster(&mut queue, PlannerClass::Any), "none");
    }
}
