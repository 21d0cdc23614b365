//! All clusters of the fleet, whichever replica decides for them: those of this process, those that other replicas tell of,
//! and for the rest what the store has.
//!
//! Of two sources the higher epoch wins. A cluster without a source that answers is kept and marked stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_proto::v1;
use model::{ClusterName, Timestamp};
use prost::Message;
use store::replicas::ClusterSummaryRow;
use tracing::warn;

use super::change_log::{Change, ChangeLog};
use super::since;

/// Where a summary comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This process decides for the cluster.
    Own,
    /// The replica of this instance does, and its connection is open.
    Replica(Arc<str>),
    /// No replica that answers does.
    Stored,
}

#[derive(Debug)]
struct Entry {
    row: Arc<v1::Cluster>,
    source: Source,
    /// Whether the store has it in this state.
    written: bool,
}

#[derive(Default)]
struct State {
    clusters: BTreeMap<ClusterName, Entry>,
    /// Last message of each replica whose connection is open.
    heard: BTreeMap<Arc<str>, Timestamp>,
}

#[derive(Default)]
pub struct Directory {
    state: Mutex<State>,
    changes: ChangeLog<v1::Cluster>,
}

impl Directory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changes(&self) -> &ChangeLog<v1::Cluster> {
        &self.changes
    }

    /// Sets the summaries of clusters that this process decides for, `None` once it does not any more at `now`, and publishes their
    /// views by `publish_views`. Other threads see both change at the same time: a client that has seen a change in a
    /// summary also finds it in the metrics, which are read from views, and the other way round.
    pub(crate) fn publish_own(
        &self,
        summaries: Vec<(ClusterName, Option<v1::Cluster>)>,
        now: Timestamp,
        publish_views: impl FnOnce(),
    ) {
        let mut state = self.lock();
        publish_views();
        for (cluster, summary) in summaries {
            match summary {
                Some(row) => self.set(&mut state, &cluster, row, Source::Own),
                None => {
                    let is_lost = |name: &ClusterName, entry: &Entry| *name == cluster && entry.source == Source::Own;
                    self.set_stale(&mut state, Some(now), is_lost);
                }
            }
        }
    }

    /// A replica told of clusters, or that it is there, at `now`.
    pub(crate) fn set_of_replica(&self, instance: &Arc<str>, rows: Vec<v1::Cluster>, now: Timestamp) {
        let mut state = self.lock();
        state.heard.insert(Arc::clone(instance), now);
        for row in rows {
            let Some(cluster) = cluster_of(&row) else { continue };
            self.set(&mut state, &cluster, row, Source::Replica(Arc::clone(instance)));
        }
    }

    /// A replica decides for these clusters no more.
    pub(crate) fn release_of_replica(&self, instance: &Arc<str>, clusters: &BTreeSet<ClusterName>) {
        let source = Source::Replica(Arc::clone(instance));
        let mut state = self.lock();
        let heard = state.heard.get(instance).copied();
        self.set_stale(&mut state, heard, |name, entry| entry.source == source && clusters.contains(name));
    }

    /// The connection to a replica ended.
    pub(crate) fn lose_replica(&self, instance: &Arc<str>) {
        let source = Source::Replica(Arc::clone(instance));
        let mut state = self.lock();
        let heard = state.heard.remove(instance);
        self.set_stale(&mut state, heard, |_, entry| entry.source == source);
    }

    /// Clusters of a replica whose connection is open.
    pub(crate) fn clusters_of(&self, instance: &Arc<str>) -> BTreeSet<ClusterName> {
        let source = Source::Replica(Arc::clone(instance));
        let state = self.lock();
        state.clusters.iter().filter(|(_, entry)| entry.source == source).map(|(name, _)| name.clone()).collect()
    }

    /// What the store has: all clusters that exist, and summaries of most of them.
    pub(crate) fn set_stored(&self, clusters: &[String], rows: Vec<ClusterSummaryRow>) {
        let mut state = self.lock();
        let known: BTreeSet<&str> = clusters.iter().map(String::as_str).collect();
        let gone = |name: &ClusterName, entry: &Entry| entry.source == Source::Stored && !known.contains(&***name);
        let forgotten: Vec<ClusterName> =
            state.clusters.iter().filter(|(name, entry)| gone(name, entry)).map(|(name, _)| name.clone()).collect();
        for name in forgotten {
            if let Some(entry) = state.clusters.remove(&name) {
                self.changes.push(&name, [Change::Deleted(entry.row)]);
            }
        }
        let mut missing: BTreeSet<&str> = known;
        for row in rows {
            missing.remove(&*row.cluster);
            let name = ClusterName::from(row.cluster.clone());
            if state.clusters.get(&name).is_none_or(|entry| is_newer(&row, entry))
                && let Some(summary) = decode(&row)
            {
                self.set(&mut state, &name, summary, Source::Stored);
            }
        }
        for cluster in missing {
            self.set_without_summary(&mut state, &ClusterName::from(cluster));
        }
    }

    /// The store has this cluster, which may not be known yet. Returns who answers for it.
    pub(crate) fn add_stored(&self, cluster: &ClusterName) -> Source {
        let mut state = self.lock();
        self.set_without_summary(&mut state, cluster);
        state.clusters.get(cluster).map_or(Source::Stored, |entry| entry.source.clone())
    }

    /// Own summaries that the store does not have in their present state. They count as written until they change.
    pub(crate) fn take_unwritten(&self) -> Vec<ClusterSummaryRow> {
        let mut state = self.lock();
        let own = state.clusters.iter_mut().filter(|(_, entry)| entry.source == Source::Own && !entry.written);
        own.map(|(cluster, entry)| {
            entry.written = true;
            ClusterSummaryRow {
                cluster: cluster.to_string(),
                epoch: api_messages::unsigned(entry.row.epoch),
                replica: entry.row.replica.clone(),
                observed_ms: entry.row.observe_time.as_ref().map_or(0, api_messages::to_millis),
                summary: entry.row.encode_to_vec(),
            }
        })
        .collect()
    }

    pub(crate) fn mark_unwritten(&self, rows: &[ClusterSummaryRow]) {
        let mut state = self.lock();
        for row in rows {
            if let Some(entry) = state.clusters.get_mut(&*row.cluster) {
                entry.written = false;
            }
        }
    }

    /// Clusters that this process decides for.
    pub fn own(&self) -> BTreeSet<ClusterName> {
        let state = self.lock();
        let own = state.clusters.iter().filter(|(_, entry)| entry.source == Source::Own);
        own.map(|(name, _)| name.clone()).collect()
    }

    /// How many clusters of the fleet `is_counted`, whoever decides for them.
    pub fn count(&self, is_counted: impl Fn(&ClusterName) -> bool) -> usize {
        self.lock().clusters.keys().filter(|name| is_counted(name)).count()
    }

    /// Who answers for a cluster; `None` if it does not exist.
    pub fn source(&self, cluster: &ClusterName) -> Option<Source> {
        self.lock().clusters.get(cluster).map(|entry| entry.source.clone())
    }

    /// A cluster, as it is at `now`.
    pub fn get(&self, cluster: &ClusterName, now: Timestamp) -> Option<v1::Cluster> {
        let state = self.lock();
        state.clusters.get(cluster).map(|entry| present(&state, entry, now))
    }

    /// All clusters, or those of this process, by name, as they are at `now`.
    pub fn all(&self, own_only: bool, now: Timestamp) -> Vec<v1::Cluster> {
        let state = self.lock();
        let entries = state.clusters.values().filter(|entry| !own_only || entry.source == Source::Own);
        entries.map(|entry| present(&state, entry, now)).collect()
    }

    /// A row of a change, as it is at `now`.
    pub(crate) fn present(&self, row: &v1::Cluster, now: Timestamp) -> v1::Cluster {
        let state = self.lock();
        let entry = cluster_of(row).and_then(|name| state.clusters.get(&name));
        match entry {
            Some(entry) if entry.row.name == row.name => present(&state, entry, now),
            _ => row.clone(),
        }
    }

    /// Names of the clusters for which no replica that answers decides.
    pub fn unreachable(&self) -> Vec<String> {
        let state = self.lock();
        let stale = state.clusters.values().filter(|entry| entry.source == Source::Stored);
        stale.map(|entry| entry.row.name.clone()).collect()
    }

    fn set(&self, state: &mut State, cluster: &ClusterName, row: v1::Cluster, source: Source) {
        let row = v1::Cluster { stale: source == Source::Stored, ..row };
        let known = state.clusters.get(cluster);
        // Also of this process: it may not have noticed yet that it lost the lease.
        if known.is_some_and(|known| known.row.epoch > row.epoch && known.source != Source::Stored) {
            return;
        }
        let before = known.map(|known| Arc::clone(&known.row));
        let row = if source == Source::Own { since::carry(before.as_deref(), row) } else { row };
        let is_same = before.as_ref().is_some_and(|before| is_same(before, &row));
        let written = is_same && known.is_some_and(|known| known.written && known.source == source);
        let row = Arc::new(row);
        if !is_same {
            self.changes.push(cluster, [Change::Set { row: Arc::clone(&row), before }]);
        }
        state.clusters.insert(cluster.clone(), Entry { row, source, written });
    }

    /// A cluster that the store has, unless it is known already.
    fn set_without_summary(&self, state: &mut State, cluster: &ClusterName) {
        if !state.clusters.contains_key(cluster) {
            let row = v1::Cluster { name: api_messages::resource_names::cluster(cluster), ..v1::Cluster::default() };
            self.set(state, cluster, row, Source::Stored);
        }
    }

    /// Nobody decides for these clusters any more; they were `seen` last then.
    fn set_stale(&self, state: &mut State, seen: Option<Timestamp>, is_lost: impl Fn(&ClusterName, &Entry) -> bool) {
        for (name, entry) in state.clusters.iter_mut().filter(|(name, entry)| is_lost(name, entry)) {
            let before = Arc::clone(&entry.row);
            let seen = seen.filter(|_| before.connected).map(api_messages::timestamp);
            let observe_time = seen.or(before.observe_time);
            entry.row = Arc::new(v1::Cluster { stale: true, observe_time, ..v1::Cluster::clone(&before) });
            entry.source = Source::Stored;
            self.changes.push(name, [Change::Set { row: Arc::clone(&entry.row), before: Some(before) }]);
        }
    }
}

fn cluster_of(row: &v1::Cluster) -> Option<ClusterName> {
    api_messages::resource_names::parse_cluster(&row.name).ok()
}

/// Equal but for the time.
fn is_same(one: &v1::Cluster, other: &v1::Cluster) -> bool {
    one.stale == other.stale && v1::Cluster { observe_time: one.observe_time, ..other.clone() } == *one
}

/// A cluster is as old as the last message of the replica that decides for it; without its agent, as that of the agent.
fn present(state: &State, entry: &Entry, now: Timestamp) -> v1::Cluster {
    let mut row = v1::Cluster::clone(&entry.row);
    let heard = match &entry.source {
        Source::Own if row.connected => Some(now),
        Source::Replica(instance) if row.connected => state.heard.get(instance).copied(),
        Source::Own | Source::Replica(_) | Source::Stored => None,
    };
    let observed = row.observe_time.as_ref().map(api_messages::to_millis);
    let latest = observed.max(heard.map(Timestamp::as_millis));
    row.observe_time = latest.map(api_messages::from_millis);
    row
}

fn is_newer(row: &ClusterSummaryRow, entry: &Entry) -> bool {
    let known = (entry.row.epoch, entry.row.observe_time.as_ref().map_or(0, api_messages::to_millis));
    entry.source == Source::Stored && known < (api_messages::signed(row.epoch), row.observed_ms)
}

fn decode(row: &ClusterSummaryRow) -> Option<v1::Cluster> {
    match v1::Cluster::decode(&*row.summary) {
        Ok(summary) => Some(v1::Cluster {
            name: api_messages::resource_names::cluster(&row.cluster),
            epoch: api_messages::signed(row.epoch),
            replica: row.replica.clone(),
            observe_time: Some(api_messages::from_millis(row.observed_ms)),
            ..summary
        }),
        Err(error) => {
            warn!(cluster = row.cluster, %error, "stored cluster summary is not readable");
            None
        }
    }
}

#[cfg(test)]
mod tests;
