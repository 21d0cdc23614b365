//! Refreshes of the catalogue of each account and region, and what is counted of them.
//!
//! Each replica reads for itself, once for all clusters of an account and region (`refresher`).

#[cfg(feature = "ec2")]
pub(crate) mod refresher;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cloud::catalogue::refreshed::RefreshKind;
use model::Timestamp;
use replica::offerings::region_and_account;
use store::lease::Scope;

use crate::escape::escape_label;

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

    /// Counts a read that failed.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn count_failure(&self, scope: &Scope, kind: RefreshKind) {
        self.lock().entry((scope.clone(), kind)).or_default().failures += 1;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Scope, RefreshKind), Counts>> {
        // Every critical section changes one entry or reads, so a poisoned lock guards a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renders the Prometheus text format at `now`; nothing before the first refresh.
    pub(crate) fn render(&self, now: Timestamp) -> String {
        let all = self.lock().clone();
        if all.is_empty() {
            return String::new();
        }
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Counts) -> Option<f64>| {
            // Writing to a String cannot fail.
            let _always = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for ((scope, refreshed), counts) in &all {
                let Some(value) = value(counts) else { continue };
                let _always = writeln!(text, "{name}{{{}}} {value}", labels(scope, *refreshed));
            }
        };
        let age = |counts: &Counts| Some(now.duration_since(counts.read_at?).get() as f64 / 1_000.0);
        family(AGE, "gauge", "Time since this part of the catalogue was read; absent before it was.", &age);
        let help = "Reads of this part of the catalogue that failed; the last good values stay.";
        family(FAILURES, "counter", help, &|counts| Some(counts.failures as f64));
        let help = "Prices and instance types of answers that are not used, because they are absurd or unreadable.";
        family(REFUSED, "counter", help, &|counts| Some(counts.refused as f64));
        let help = "Reads that changed the catalogue, after which NodePools are compiled again.";
        family(CHANGES, "counter", help, &|counts| Some(counts.changes as f64));
        text
    }
}

fn labels(scope: &Scope, kind: RefreshKind) -> String {
    let (region, account) = region_and_account(scope);
    let (account, region) = (escape_label(account), escape_label(region));
    format!("account=\"{account}\",region=\"{region}\",kind=\"{}\"", kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_failures_are_counted_by_account_region_and_kind() {
        let metrics = RefreshMetrics::default();
        assert_eq!(metrics.render(Timestamp::default()), "");
        let scope = |account: &str| Scope::Region { account: account.to_owned(), region: "eu-west-1".to_owned() };
        let at = Timestamp::from_millis;
        metrics.count_read(&scope("1"), RefreshKind::SpotPrices, true, 2, at(1_000));
        metrics.count_read(&scope("1"), RefreshKind::SpotPrices, false, 1, at(2_000));
        metrics.count_failure(&scope("1"), RefreshKind::SpotPrices);
        metrics.count_failure(&scope("2"), RefreshKind::OnDemandPrices);
        let text = metrics.render(at(62_500));
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
