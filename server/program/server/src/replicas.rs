//! Compares the settings of the replicas on one store, and detects duplicate owner names.
//!
//! Each replica registers its settings and reads those of the other live replicas. Differences are
//! logged and exported as a metric; nothing is refused, since a roll-out has both values for a
//! while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use auth::tls::Certificates;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use metrics::Family;
use store::Store;
use store::replicas::{REPLICA_HEARTBEAT, ReplicaRow};

/// Interval at which it is checked whether the replica has to be registered again.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Result of the last comparison, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    others: AtomicUsize,
    differing: AtomicUsize,
    same_owner: AtomicUsize,
}

impl Replicas {
    fn set(&self, found: &Comparison) {
        self.others.store(found.others, Ordering::Relaxed);
        self.differing.store(found.differing.len(), Ordering::Relaxed);
        self.same_owner.store(found.same_owner, Ordering::Relaxed);
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let gauges = [
            ("fleetwright_replicas_other", "Servers that live beside this one on the same database.", &self.others),
            (
                "fleetwright_replicas_with_other_settings",
                "Servers beside this one that run by other settings of guardrails, cloud or retention.",
                &self.differing,
            ),
            (
                "fleetwright_replicas_of_the_same_owner",
                "Servers beside this one that take leases under its lease.owner; anything above 0 is a fault.",
                &self.same_owner,
            ),
        ];
        let family = |(name, help, value): (_, _, &AtomicUsize)| {
            Family::gauge(name, help).with(Vec::new(), value.load(Ordering::Relaxed).into())
        };
        gauges.into_iter().map(family).collect()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Comparison {
    others: usize,
    /// Keys with different values, by owner of the other replica.
    differing: BTreeMap<String, Vec<String>>,
    /// Other replicas with the owner name of this one.
    same_owner: usize,
}

fn compare(own: &ReplicaRow, others: &[ReplicaRow]) -> Comparison {
    let mut found = Comparison { others: others.len(), ..Comparison::default() };
    for other in others {
        found.same_owner += usize::from(other.owner == own.owner);
        // A key unknown to one of them belongs to another release, as during a roll-out.
        let both = own.settings.iter().filter_map(|(key, value)| Some((key, value, other.settings.get(key)?)));
        let differ: Vec<String> = both.filter(|(_, own, other)| own != other).map(|(key, ..)| key.clone()).collect();
        if !differ.is_empty() {
            found.differing.insert(other.owner.clone(), differ);
        }
    }
    found
}

/// Logs the changes since `before`.
fn log_changes(found: &Comparison, before: &Comparison, own: &ReplicaRow) {
    for (replica, keys) in &found.differing {
        if before.differing.get(replica) != Some(keys) {
            let keys = keys.join(", ");
            warn!(replica, keys, "replica settings differ; configure equal values on all replicas");
        }
    }
    if found.differing.is_empty() && !before.differing.is_empty() {
        info!("settings of all replicas match again");
    }
    if found.same_owner > before.same_owner {
        error!(owner = own.owner, "duplicate lease.owner; set a unique lease.owner on every server");
    }
}

/// Registers this replica and compares, once a minute until `stop`, and when its certificate has changed.
///
/// # Errors
/// Never: a failed comparison is repeated a minute later.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    (mut own, certificates): (ReplicaRow, Option<Arc<Certificates>>),
    replicas: Arc<Replicas>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut before = Comparison::default();
    let mut registered: Option<Instant> = None;
    let mut due = tokio::time::interval(CHECK_INTERVAL);
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        let certificate = certificates.as_ref().map(|certificates| certificates.digest()).unwrap_or_default();
        let is_current = registered.is_some_and(|at| at.elapsed() < REPLICA_HEARTBEAT);
        if is_current && certificate == own.endpoint.certificate {
            continue;
        }
        own.endpoint.certificate = certificate;
        registered = Some(Instant::now());
        match store.register_replica(&own).await {
            Ok(others) => {
                let found = compare(&own, &others);
                log_changes(&found, &before, &own);
                replicas.set(&found);
                before = found;
            }
            Err(error) => warn!(%error, "could not compare settings with other replicas"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: &str, settings: &[(&str, &str)]) -> ReplicaRow {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ReplicaRow { instance: format!("{owner}-1"), owner: owner.to_owned(), settings, ..ReplicaRow::default() }
    }

    #[test]
    fn keys_that_differ_are_named_and_those_of_another_release_are_not() {
        let own = row("a", &[("guardrails.freeze", "1"), ("cloud.region", "2"), ("store.keep-log", "3")]);
        let same = row("b", &[("guardrails.freeze", "1"), ("cloud.region", "2"), ("store.keep-log", "3")]);
        assert_eq!(compare(&own, std::slice::from_ref(&same)), Comparison { others: 1, ..Comparison::default() });
        let other = row("c", &[("guardrails.freeze", "9"), ("cloud.region", "2"), ("guardrails.new", "7")]);
        let found = compare(&own, &[same, other]);
        assert_eq!(found.differing, [("c".to_owned(), vec!["guardrails.freeze".to_owned()])].into());
        assert_eq!((found.others, found.same_owner), (2, 0));
    }

    #[test]
    fn a_replica_with_the_same_owner_is_found_whatever_its_settings() {
        let own = row("a", &[("guardrails.freeze", "1")]);
        let other = ReplicaRow { instance: "a-2".to_owned(), ..own.clone() };
        assert_eq!(compare(&own, &[other]), Comparison { others: 1, same_owner: 1, ..Comparison::default() });
    }

    #[test]
    fn the_metrics_show_the_comparison() {
        let replicas = Replicas::default();
        let differing = [("b".to_owned(), vec!["cloud.region".to_owned()])].into();
        replicas.set(&Comparison { others: 3, differing, same_owner: 1 });
        let values = metrics::series(replicas.families());
        assert_eq!(
            values,
            [
                "fleetwright_replicas_other 3",
                "fleetwright_replicas_with_other_settings 1",
                "fleetwright_replicas_of_the_same_owner 1",
            ]
        );
    }
}
