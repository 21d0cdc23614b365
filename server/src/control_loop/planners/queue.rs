//! Which plan is made next. Without clocks and threads: the moment is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::control::{ClusterId, PlanRequest};

/// What a pod counts for when plans are put in their order: about what planning it takes. A plan is behind those that came after
/// it only as long as they are smaller by more than this makes of it.
const PER_POD: Duration = Duration::from_micros(100);

/// However large a plan is, it is behind those that came after it for no longer than this.
const LATEST: Duration = Duration::from_secs(10);

/// Plans of this weight at most are small.
const SMALL: usize = 2_000;

/// The plans of a cluster whose last one took longer are not small, whatever they look like.
const QUICK: Duration = Duration::from_millis(500);

/// What a thread takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Plans that look small, of clusters whose plans are quick.
    Small,
    /// Any.
    Any,
}

/// Plans that wait. One for each cluster at most: a cluster's plan makes the one before it needless.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<ClusterId, Waiting>,
    /// Clusters whose plans are being made, in the order in which they are to be taken; follows `waiting`.
    order: BTreeSet<(Duration, u64, ClusterId)>,
    running: BTreeSet<ClusterId>,
    slow: BTreeSet<ClusterId>,
    number: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    request: PlanRequest,
    weight: usize,
    place: (Duration, u64, ClusterId),
}

impl Queue {
    /// A plan is asked for at `at`, since any moment.
    pub(super) fn push(&mut self, request: PlanRequest, at: Duration) {
        let (cluster, weight) = (request.cluster.clone(), request.weight());
        let size = PER_POD.saturating_mul(u32::try_from(weight).unwrap_or(u32::MAX)).min(LATEST);
        self.number += 1;
        let place = (at + size, self.number, cluster.clone());
        self.order.insert(place.clone());
        if let Some(before) = self.waiting.insert(cluster, Waiting { request, weight, place }) {
            self.order.remove(&before.place);
        }
    }

    /// The plan that is made next on `lane`.
    pub(super) fn next(&mut self, lane: Lane) -> Option<PlanRequest> {
        let may = |cluster: &ClusterId| {
            let weight = self.waiting.get(cluster).map_or(0, |waiting| waiting.weight);
            let fits = lane == Lane::Any || (weight <= SMALL && !self.slow.contains(cluster));
            fits && !self.running.contains(cluster)
        };
        let cluster = self.order.iter().map(|(_, _, cluster)| cluster).find(|cluster| may(cluster)).cloned()?;
        let Waiting { request, place, .. } = self.waiting.remove(&cluster)?;
        self.order.remove(&place);
        self.running.insert(cluster);
        Some(request)
    }

    /// The plan of `cluster` that was being made is there.
    pub(super) fn done(&mut self, cluster: &ClusterId, took: Duration) {
        self.running.remove(cluster);
        if took > QUICK {
            self.slow.insert(cluster.clone());
        } else {
            self.slow.remove(cluster);
        }
    }

    /// Nothing is taken any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use engine::control::PlanNumber;
    use engine::input::PlanningInput;
    use engine::model::{Pod, PodShape};

    use super::*;

    fn request(cluster: &str, pods: usize) -> PlanRequest {
        let pod = |at: usize| Pod {
            namespace: "default".into(),
            name: at.to_string().into(),
            shape: 0,
            labels: 0,
            volumes: None,
            created: None,
            workload: "Pod/x".into(),
            leaves: None,
            invalid: None,
        };
        let input = PlanningInput {
            shapes: vec![PodShape::default()],
            pods: (0..pods).map(pod).collect(),
            ..PlanningInput::default()
        };
        PlanRequest { number: PlanNumber(1), cluster: cluster.into(), input }
    }

    fn queue(requests: &[(&str, usize, u64)]) -> Queue {
        let mut queue = Queue::default();
        for (cluster, pods, at) in requests {
            queue.push(request(cluster, *pods), Duration::from_millis(*at));
        }
        queue
    }

    fn taken(queue: &mut Queue, lane: Lane) -> String {
        queue.next(lane).map_or_else(|| "none".to_owned(), |request| request.cluster.to_string())
    }

    #[test]
    fn small_plans_pass_large_ones_that_came_a_little_earlier() {
        // 3,000 pods count for 300 ms, 100 for 10 ms.
        let mut queue = queue(&[("large", 3_000, 0), ("small", 100, 200), ("late", 100, 295)]);
        let order = [(); 4].map(|()| taken(&mut queue, Lane::Any));
        assert_eq!(order, ["small", "large", "late", "none"]);
    }

    #[test]
    fn the_lane_of_small_plans_takes_no_other_and_none_of_a_cluster_whose_plans_are_slow() {
        let mut queue = queue(&[("large", 2_001, 0), ("slow", 1, 0), ("small", 2_000, 0)]);
        queue.done(&"slow".into(), Duration::from_millis(501));
        assert_eq!(taken(&mut queue, Lane::Small), "small");
        assert_eq!(taken(&mut queue, Lane::Small), "none");
        queue.done(&"slow".into(), Duration::from_millis(1));
        assert_eq!(taken(&mut queue, Lane::Small), "slow", "it is quick again");
        assert_eq!(taken(&mut queue, Lane::Any), "large");
    }

    #[test]
    fn a_cluster_has_one_plan_at_a_time_and_its_latest_counts() {
        let mut queue = queue(&[("a", 1, 0), ("b", 1, 1)]);
        assert_eq!(taken(&mut queue, Lane::Any), "a");
        queue.push(request("a", 1), Duration::ZERO);
        queue.push(request("a", 7), Duration::ZERO);
        assert_eq!(taken(&mut queue, Lane::Any), "b");
        assert_eq!(taken(&mut queue, Lane::Any), "none", "a's first is not there yet");
        queue.done(&"a".into(), Duration::ZERO);
        assert_eq!(queue.next(Lane::Any).map(|request| request.input.pods.len()), Some(7));
        assert_eq!(taken(&mut queue, Lane::Any), "none");
    }
}
