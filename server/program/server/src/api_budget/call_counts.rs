//! Counts calls that EC2 throttled, and those that were given up, for each account and region.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::lease::Scope;

use fleet_api::conditions::scope_labels;
use metrics::Family;

/// What this process counts of its calls.
pub(crate) static CALLS: CallCounts = CallCounts(Mutex::new(BTreeMap::new()));

/// Counts since the process started, by account and region.
#[derive(Debug)]
pub(crate) struct CallCounts(Mutex<BTreeMap<Scope, Counts>>);

#[derive(Debug, Default)]
pub(crate) struct Counts {
    throttled: u64,
    given_up: u64,
}

/// Name, help text and value of a counter.
type Metric = (&'static str, &'static str, fn(&Counts) -> u64);

const METRICS: [Metric; 2] = [
    ("fleetwright_ec2_calls_throttled_total", "Calls of EC2 that AWS throttled, of this process.", |counts| {
        counts.throttled
    }),
    (
        "fleetwright_ec2_calls_given_up_total",
        "Calls of EC2 that waited too long for the rate limit of their action and are made again, of this process.",
        |counts| counts.given_up,
    ),
];

impl CallCounts {
    /// Shows the counters of an account and region from now on.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn begin(&self, scope: &Scope) {
        self.counts().entry(scope.clone()).or_default();
    }

    /// Counts a call that EC2 throttled.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn record_throttled(&self, scope: &Scope) {
        self.counts().entry(scope.clone()).or_default().throttled += 1;
    }

    /// Counts a call that was given up without a token, and is made again.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn record_given_up(&self, scope: &Scope) {
        self.counts().entry(scope.clone()).or_default().given_up += 1;
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Scope, Counts>> {
        // Every critical section is one map operation or reads, so a poisoned lock guards a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let counts = self.counts();
        let family = |(name, help, value): Metric| {
            let mut family = Family::counter(name, help).labelled(&["account", "region"]);
            for (scope, counts) in &*counts {
                family.push(scope_labels(scope), value(counts).into());
            }
            family
        };
        METRICS.into_iter().map(family).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics;

    #[test]
    fn each_account_and_region_is_counted_by_itself() {
        let counts = CallCounts(Mutex::default());
        let scope = |region: &str| Scope::Region { account: "1".to_owned(), region: region.to_owned() };
        counts.begin(&scope("us-east-1"));
        counts.record_throttled(&scope("eu-west-1"));
        counts.record_throttled(&scope("eu-west-1"));
        counts.record_given_up(&scope("us-east-1"));
        let expected = [
            "fleetwright_ec2_calls_throttled_total{account=\"1\",region=\"eu-west-1\"} 2",
            "fleetwright_ec2_calls_throttled_total{account=\"1\",region=\"us-east-1\"} 0",
            "fleetwright_ec2_calls_given_up_total{account=\"1\",region=\"eu-west-1\"} 0",
            "fleetwright_ec2_calls_given_up_total{account=\"1\",region=\"us-east-1\"} 1",
        ];
        assert_eq!(metrics::series(counts.families()), expected);
    }
}
