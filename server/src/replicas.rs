//! Whether the servers that share a store run by the same settings, and under names of their own.
//!
//! Each tells the store which settings it runs by, and hears of those that live beside it. Settings that differ are said in the
//! log and in a metric; nothing is refused, since a roll-out of a new setting has both for a while.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::store::Store;
use crate::store::replicas::{ReplicaRow, TOLD_EVERY};

/// What was found, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    others: AtomicUsize,
    differing: AtomicUsize,
    namesakes: AtomicUsize,
}

impl Replicas {
    fn set(&self, found: &Found) {
        self.others.store(found.others, Ordering::Relaxed);
        self.differing.store(found.differing.len(), Ordering::Relaxed);
        self.namesakes.store(found.namesakes, Ordering::Relaxed);
    }

    /// The gauges, in Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        let gauges = [
            ("fleetwright_replicas_beside", "Servers that live beside this one on the same database.", &self.others),
            (
                "fleetwright_replicas_with_other_settings",
                "Servers beside this one that run by other settings of rails, cloud or retention.",
                &self.differing,
            ),
            (
                "fleetwright_replicas_of_the_same_owner",
                "Servers beside this one that take leases under its lease.owner; anything above 0 is a fault.",
                &self.namesakes,
            ),
        ];
        let mut text = String::new();
        for (name, help, value) in gauges {
            let value = value.load(Ordering::Relaxed);
            let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}

/// What a server finds out about the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    others: usize,
    /// Keys whose values differ, by owner of the other one.
    differing: BTreeMap<String, Vec<String>>,
    /// Others with the name of this one.
    namesakes: usize,
}

fn compare(own: &ReplicaRow, others: &[ReplicaRow]) -> Found {
    let mut found = Found { others: others.len(), ..Found::default() };
    for other in others {
        found.namesakes += usize::from(other.owner == own.owner);
        // A key that one of them does not know is of another release, which a roll-out brings.
        let both = own.settings.iter().filter_map(|(key, value)| Some((key, value, other.settings.get(key)?)));
        let differ: Vec<String> = both.filter(|(_, own, other)| own != other).map(|(key, ..)| key.clone()).collect();
        if !differ.is_empty() {
            found.differing.insert(other.owner.clone(), differ);
        }
    }
    found
}

/// Says what has changed since `before`.
fn say(found: &Found, before: &Found, own: &ReplicaRow) {
    for (replica, keys) in &found.differing {
        if before.differing.get(replica) != Some(keys) {
            let keys = keys.join(", ");
            warn!(
                replica,
                keys,
                "another server of this database runs by other settings: which guardrails hold, what is bought and what is kept \
                 depends on which of them decides; give all of them the same values (a roll-out has both for a while)"
            );
        }
    }
    if found.differing.is_empty() && !before.differing.is_empty() {
        info!("all servers of this database run by the same settings again");
    }
    if found.namesakes > before.namesakes {
        error!(
            owner = own.owner,
            "another server takes leases under the same lease.owner at the same time: each takes the other's leases and decides \
             beside it; give every server a lease.owner of its own, or none"
        );
    }
}

/// Tells and hears once a minute until `stop`.
///
/// # Errors
/// Never: a store that does not answer is told a minute later.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    own: ReplicaRow,
    replicas: Arc<Replicas>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut before = Found::default();
    let mut due = tokio::time::interval(TOLD_EVERY);
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        match store.tell_replica(&own).await {
            Ok(others) => {
                let found = compare(&own, &others);
                say(&found, &before, &own);
                replicas.set(&found);
                before = found;
            }
            Err(error) => warn!(%error, "whether other servers run by the same settings is not known"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: &str, settings: &[(&str, &str)]) -> ReplicaRow {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ReplicaRow { instance: format!("{owner}-1"), owner: owner.to_owned(), settings }
    }

    #[test]
    fn keys_that_differ_are_named_and_those_of_another_release_are_not() {
        let own = row("a", &[("rails.freeze", "1"), ("cloud.region", "2"), ("store.keep-log", "3")]);
        let same = row("b", &[("rails.freeze", "1"), ("cloud.region", "2"), ("store.keep-log", "3")]);
        assert_eq!(compare(&own, std::slice::from_ref(&same)), Found { others: 1, ..Found::default() });
        let other = row("c", &[("rails.freeze", "9"), ("cloud.region", "2"), ("rails.new", "7")]);
        let found = compare(&own, &[same, other]);
        assert_eq!(found.differing, [("c".to_owned(), vec!["rails.freeze".to_owned()])].into());
        assert_eq!((found.others, found.namesakes), (2, 0));
    }

    #[test]
    fn a_server_of_the_same_name_is_found_whatever_it_runs_by() {
        let own = row("a", &[("rails.freeze", "1")]);
        let other = ReplicaRow { instance: "a-2".to_owned(), ..own.clone() };
        assert_eq!(compare(&own, &[other]), Found { others: 1, namesakes: 1, ..Found::default() });
    }

    #[test]
    fn the_metrics_count_what_was_found() {
        let replicas = Replicas::default();
        let differing = [("b".to_owned(), vec!["cloud.region".to_owned()])].into();
        replicas.set(&Found { others: 3, differing, namesakes: 1 });
        let values: Vec<String> =
            replicas.render().lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
        assert_eq!(
            values,
            [
                "fleetwright_replicas_beside 3",
                "fleetwright_replicas_with_other_settings 1",
                "fleetwright_replicas_of_the_same_owner 1",
            ]
        );
    }
}
