//! Warnings of launches that fail: one for each NodePool and error code in a minute, because a shortage of capacity fails
//! every launch.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cloud::provider::CloudError;
use model::{ClusterName, LaunchFailure, LaunchOrder, Millis, PoolName, Text, Timestamp};
use tracing::{debug, warn};

/// Least time between two warnings of one NodePool and error code.
const WINDOW: Millis = Millis::from_mins(1);
/// Time after which a NodePool whose launches do not fail any more is forgotten.
const MEMORY: Millis = Millis::from_hours(1);

/// A NodePool and an error code that the log has warned of.
#[derive(Debug)]
struct Warned {
    at: Timestamp,
    /// Number of launches that have failed since.
    since: u64,
}

/// What the log has warned of, by cluster, NodePool and error code.
#[derive(Debug, Default)]
pub struct LaunchWarnings(Mutex<BTreeMap<(ClusterName, PoolName, Text), Warned>>);

impl LaunchWarnings {
    /// Logs that the launch of `order` failed at `now`: as a warning if one is due, else for those who debug.
    pub(super) fn log(&self, order: &LaunchOrder, failure: &LaunchFailure, error: &CloudError, now: Timestamp) {
        let LaunchOrder { cluster, claim, pool, attempt, .. } = order;
        let code = error_code(failure);
        match self.count(order, code, now) {
            Some(launches) => warn!(
                %cluster, node_pool = %pool, code, launches, node_claim = %claim, attempt, %error, "launch failed"
            ),
            None => debug!(%cluster, node_pool = %pool, code, node_claim = %claim, attempt, %error, "launch failed"),
        }
    }

    /// Counts the launch of `order`, which failed at `now`. If a warning is due, returns the number of launches that failed
    /// since the last one, with this launch.
    fn count(&self, order: &LaunchOrder, code: &str, now: Timestamp) -> Option<u64> {
        let key = (order.cluster.clone(), order.pool.clone(), Text::from(code));
        // Every critical section changes whole entries, so a poisoned lock guards a consistent map.
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut launches = 1;
        if let Some(last) = warned.get_mut(&key) {
            last.since += 1;
            if now.duration_since(last.at) < WINDOW {
                return None;
            }
            launches = last.since;
        }
        warned.retain(|_, last| now.duration_since(last.at) < MEMORY);
        warned.insert(key, Warned { at: now, since: 0 });
        Some(launches)
    }
}

fn error_code(failure: &LaunchFailure) -> &str {
    match failure {
        LaunchFailure::InsufficientCapacity { .. } => "InsufficientCapacity",
        LaunchFailure::Refused { code, .. } => code,
    }
}

#[cfg(test)]
mod tests {
    use model::{CapacityType, PriorityLane};

    use super::*;

    fn order(cluster: &str, pool: &str) -> LaunchOrder {
        LaunchOrder {
            cluster: cluster.into(),
            cluster_uid: Text::default(),
            claim: "a".into(),
            attempt: 1,
            token: Text::default(),
            pool: pool.into(),
            node_class: Text::default(),
            capacity_type: CapacityType::Spot,
            options: Vec::new(),
            reservation: None,
            terms: Text::default(),
            template: None,
            lane: PriorityLane::Pending,
            repeats: false,
        }
    }

    #[test]
    fn launches_of_a_pool_that_fail_alike_are_one_warning_a_minute_with_their_number() {
        let warnings = LaunchWarnings::default();
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let shop = order("shop", "default");
        let counted = |seconds: i64| warnings.count(&shop, "InsufficientCapacity", at(seconds));
        assert_eq!([0, 1, 30, 59].map(counted), [Some(1), None, None, None]);
        // The three that were left out, and this one.
        assert_eq!([60, 119, 120].map(counted), [Some(4), None, Some(2)]);
    }

    #[test]
    fn another_cluster_pool_or_error_code_is_a_warning_of_its_own() {
        let (warnings, now) = (LaunchWarnings::default(), Timestamp::default());
        let shop = order("shop", "default");
        let codes = ["InsufficientCapacity", "UnauthorizedOperation"];
        assert_eq!(codes.map(|code| warnings.count(&shop, code, now)), [Some(1), Some(1)]);
        for other in [order("bank", "default"), order("shop", "gpu")] {
            assert_eq!(warnings.count(&other, codes[0], now), Some(1), "{other:?}");
        }
        assert_eq!(codes.map(|code| warnings.count(&shop, code, now)), [None, None]);
    }

    #[test]
    fn a_pool_without_failures_for_an_hour_is_forgotten() {
        let warnings = LaunchWarnings::default();
        let pools = || warnings.0.lock().expect("no test panics with the lock").len();
        let _first = warnings.count(&order("shop", "default"), "InsufficientCapacity", Timestamp::default());
        for (seconds, expected) in [(3_599, 2), (3_600, 2)] {
            let now = Timestamp::from_millis(seconds * 1_000);
            let _another = warnings.count(&order("shop", &format!("pool-{seconds}")), "InsufficientCapacity", now);
            assert_eq!(pools(), expected, "after {seconds} s");
        }
    }
}
