//! Refreshes of the catalogue of each account and region, and what is counted of them.
//!
//! Each replica reads for itself, once for all clusters of an account and region (`refresher`).

#[cfg(feature = "ec2")]
pub(crate) mod refresher;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cloud::catalogue::refreshed::RefreshKind;
use model::Timestamp;
use store::lease::Scope;

use fleet_api::conditions::scope_labels;
use metrics::{Family, Labels, Value};

/// What this process counts of refreshes.
pub(crate) static METRICS: LazyLock<RefreshMetrics> = LazyLock::new(RefreshMetrics::default);

const AGE: &str = "fleetwright_catalogue_age_seconds";
const FAILURES: &str = "fleetwright_catalogue_refresh_failures_total";
const REFUSED: &str = "fleetwright_catalogue_refused_total";
const CHANGES: &str = "fleetwright_catalogue_changes_total";

/// Counts since the process started, by account, region and kind.
#[derive(Debug, Default)]
pub(crate) struct RefreshMetrics(Mutex<BTreeMap<(Scope, RefreshKind), Counts>>);

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// When it was read last.
    read_at: Option<Timestamp>,
    failures: u64,
    refused: u64,
    changes: u64,
}

impl RefreshMetrics {
    /// Counts a read at `now`: whether it changed the catalogue, and the number of its values that are not used.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn count_read(&self, scope: &Scope, kind: RefreshKind, changed: bool, refused: usize, now: Timestamp) {
        let mut all = self.lock();
        let counts = all.entry((scope.clone(), kind)).or_default();
        counts.read_at = Some(now);
        counts.refused += refused as u64;
        counts.changes += u64::from(changed);
    }

    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn count_failure(&self, scope: &Scope, kind: RefreshKind) {
        self.lock().entry((scope.clone(), kind)).or_default().failures += 1;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Scope, RefreshKind), Counts>> {
        // Every critical section changes one entry or reads, so a poisoned lock guards a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metrics at `now`.
    pub(crate) fn families(&self, now: Timestamp) -> Vec<Family> {
        let all = self.lock().clone();
        let fill = |family: Family, value: &dyn Fn(&Counts) -> Option<Value>| {
            let mut family = family.labelled(&["account", "region", "kind"]);
            for ((scope, refreshed), counts) in &all {
                if let Some(value) = value(counts) {
                    family.push(labels(scope, *refreshed), value);
                }
            }
            family
        };
        let age = |counts: &Counts| Some((now.duration_since(counts.read_at?).get() as f64 / 1_000.0).into());
        let help = "Time since this part of the catalogue was read; absent before it was.";
        let ages = fill(Family::gauge(AGE, help), &age);
        let help = "Reads of this part of the catalogue that failed; the last good values stay.";
        let failures = fill(Family::counter(FAILURES, help), &|counts| Some(counts.failures.into()));
        let help = "Prices and instance types of answers that are not used, because they are absurd or unreadable.";
        let refused = fill(Family::counter(REFUSED, help), &|counts| Some(counts.refused.into()));
        let help = "Reads that changed the catalogue, after which NodePools are compiled again.";
        let changes = fill(Family::counter(CHANGES, help), &|counts| Some(counts.changes.into()));
        vec![ages, failures, refused, changes]
    }
}

fn labels(scope: &Scope, kind: RefreshKind) -> Labels {
    let mut labels = scope_labels(scope);
    labels.push(("kind", kind.as_str().to_owned()));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::series;

    #[test]
    fn reads_and_failures_are_counted_by_account_region_and_kind() {
        let metrics = RefreshMetrics::default();
        assert_eq!(series(metrics.families(Timestamp::default())), Vec::<String>::new());
        let scope = |account: &str| Scope::Region { account: account.to_owned(), region: "eu-west-1".to_owned() };
        let at = Timestamp::from_millis;
        metrics.count_read(&scope("1"), RefreshKind::SpotPrices, true, 2, at(1_000));
        metrics.count_read(&scope("1"), RefreshKind::SpotPrices, false, 1, at(2_000));
        metrics.count_failure(&scope("1"), RefreshKind::SpotPrices);
        metrics.count_failure(&scope("2"), RefreshKind::OnDemandPrices);
        let text = series(metrics.families(at(62_500))).join("\n") + "\n";
        let (spot, on_demand) = (
            "account=\"1\",region=\"eu-west-1\",kind=\"spot\"",
            "account=\"2\",region=\"eu-west-1\",kind=\"on_demand\"",
        );
        for line in [
            format!("fleetwright_catalogue_age_seconds{{{spot}}} 60.5\n"),
            format!("fleetwright_catalogue_refresh_failures_total{{{spot}}} 1\n"),
            format!("fleetwright_catalogue_refused_total{{{spot}}} 3\n"),
            format!("fleetwright_catalogue_changes_total{{{spot}}} 1\n"),
            format!("fleetwright_catalogue_refresh_failures_total{{{on_demand}}} 1\n"),
        ] {
            assert!(text.contains(&line), "{line} is missing in:\n{text}");
        }
        assert!(!text.contains(&format!("fleetwright_catalogue_age_seconds{{{on_demand}}}")), "{text}");
    }
}
