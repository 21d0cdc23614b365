//! What the cluster looks like, kept up to date by the watches ([`crate::watch`]) and told to the agent's link.
//!
//! Only what the server is told is kept, so an update that changes nothing of that (a heartbeat, an annotation of others) ends
//! here. A picture that is taken again, after the API server has forgotten where a watch stood, is compared with the one that is
//! held: what has not changed is not told again, and what is missing is told as removed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::{ClusterError, Observed, Seen};
use fleetwright_proto::v1;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};

use crate::seen::Row;

/// Batches of changes that the agent may be behind. An agent that is further behind takes a picture again.
const CHANGES_BEHIND: usize = 1_024;

/// Scale-ups of others that are remembered at most: those of pods that the watch of pods has not shown yet are among them.
const SCALE_UPS: usize = 20_000;

/// What happened to one object.
#[derive(Debug)]
pub enum Change {
    /// It is there, and looks like this.
    There(Row),
    /// It is gone: namespace and name.
    Gone(String, String),
}

type Key = (String, String);
type Kinds = BTreeMap<v1::ObjectKind, BTreeMap<Key, Seen>>;

/// The picture.
#[derive(Debug)]
pub struct Picture {
    inner: Mutex<Inner>,
    /// Kinds of which there is no picture yet, each with what stands in the way.
    missing: watch::Sender<BTreeMap<v1::ObjectKind, String>>,
}

#[derive(Debug, Default)]
struct Inner {
    kinds: Kinds,
    autoscalers: BTreeMap<String, v1::AutoscalerRecord>,
    /// When another autoscaler said last that it buys for a pod, by the pod's UID.
    scale_ups: FxHashMap<String, i64>,
    watcher: Option<mpsc::Sender<Vec<Seen>>>,
}

impl Picture {
    /// A picture that is complete when each of `kinds` has been seen.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = v1::ObjectKind>) -> Self {
        let missing = kinds.into_iter().map(|kind| (kind, "not asked yet".to_owned())).collect();
        Self { inner: Mutex::default(), missing: watch::Sender::new(missing) }
    }

    /// Everything that is seen, and every change after it.
    ///
    /// # Errors
    /// [`ClusterError`] when some kind has not been seen after `patience`; it names the kind and the reason.
    pub async fn observe(&self, patience: Duration) -> Result<Observed, ClusterError> {
        let mut missing = self.missing.subscribe();
        let complete = tokio::time::timeout(patience, missing.wait_for(BTreeMap::is_empty)).await;
        if complete.is_err() {
            return Err(self.whats_missing());
        }
        let (watcher, changes) = mpsc::channel(CHANGES_BEHIND);
        let mut inner = self.inner();
        let records = inner.records();
        inner.watcher = Some(watcher);
        Ok(Observed { records, changes })
    }

    /// Everything of one kind: what is not among `rows` is gone.
    pub fn replace(&self, kind: v1::ObjectKind, rows: Vec<Row>) {
        let mut inner = self.inner();
        let mut before = inner.kinds.remove(&kind).unwrap_or_default();
        let mut seen = Vec::new();
        for row in rows {
            let held = before.remove(&(row.namespace.clone(), row.name.clone()));
            if let Some(held) = held {
                inner.kinds.entry(kind).or_default().insert((row.namespace.clone(), row.name.clone()), held);
            }
            seen.extend(inner.apply(kind, Change::There(row)));
        }
        for ((namespace, name), _) in before {
            seen.push(Seen::removed(kind, namespace, name));
        }
        inner.tell(seen);
        drop(inner);
        self.missing.send_if_modified(|missing| missing.remove(&kind).is_some());
    }

    /// What happened to objects of one kind, in order.
    pub fn update(&self, kind: v1::ObjectKind, changes: Vec<Change>) {
        let mut inner = self.inner();
        let mut seen = Vec::new();
        for change in changes {
            seen.extend(inner.apply(kind, change));
        }
        inner.tell(seen);
    }

    /// The picture of this kind cannot be had, for this reason. Changes nothing once it has been seen.
    pub fn fails(&self, kind: v1::ObjectKind, reason: &str) {
        self.missing.send_if_modified(|missing| {
            if let Some(known) = missing.get_mut(&kind) {
                reason.clone_into(known);
            }
            false
        });
    }

    /// Whether there has been a picture of this kind.
    #[must_use]
    pub fn has_seen(&self, kind: v1::ObjectKind) -> bool {
        !self.missing.borrow().contains_key(&kind)
    }

    /// Another autoscaler said that it buys for a pod.
    pub fn scale_up(&self, namespace: &str, name: &str, uid: &str, at_ms: i64) {
        let mut inner = self.inner();
        if inner.scale_ups.len() >= SCALE_UPS {
            // The newest half stays: the others are older than anybody holds a pod back for.
            let mut moments: Vec<i64> = inner.scale_ups.values().copied().collect();
            moments.sort_unstable();
            let middle = moments[moments.len() / 2];
            inner.scale_ups.retain(|_, moment| *moment > middle);
        }
        let moment = inner.scale_ups.entry(uid.to_owned()).or_default();
        *moment = at_ms.max(*moment);
        let key = (namespace.to_owned(), name.to_owned());
        let held = inner.kinds.get_mut(&v1::ObjectKind::Pod).and_then(|pods| pods.get_mut(&key));
        let Some(Seen::Pod { record, .. }) = held else { return };
        if record.uid == uid && record.foreign_scale_up_ms < at_ms {
            record.foreign_scale_up_ms = at_ms;
            let seen = inner.kinds[&v1::ObjectKind::Pod][&key].clone();
            inner.tell(vec![seen]);
        }
    }

    /// Another autoscaler is, or is not, at work. Told when that changes, not with every renewal of its lease.
    pub fn autoscaler(&self, record: v1::AutoscalerRecord) {
        let mut inner = self.inner();
        let known = inner.autoscalers.get(&record.name);
        let changed = known.map_or(record.live, |known| known.live != record.live);
        if changed {
            inner.autoscalers.insert(record.name.clone(), record.clone());
            inner.tell(vec![Seen::plain(v1::change::Change::Autoscaler(record))]);
        }
    }

    /// Nodes with this annotation, each with its value, as soon as nodes have been seen.
    pub async fn annotated_nodes(&self, annotation: &str) -> Vec<(String, String)> {
        let mut missing = self.missing.subscribe();
        // The sender lives as long as this picture.
        let _seen = missing.wait_for(|missing| !missing.contains_key(&v1::ObjectKind::Node)).await;
        let inner = self.inner();
        let nodes = inner.kinds.get(&v1::ObjectKind::Node).into_iter().flat_map(BTreeMap::values);
        let value = |seen: &Seen| {
            let Seen::Plain(change) = seen else { return None };
            let v1::change::Change::Node(record) = &**change else { return None };
            let pair = record.annotations.iter().find(|pair| pair.key == annotation)?;
            Some((record.name.clone(), pair.value.clone()))
        };
        nodes.filter_map(value).collect()
    }

    /// The PersistentVolume that a claim is bound to; empty when it is not, `None` when there is no such claim.
    #[must_use]
    pub fn volume_of(&self, namespace: &str, claim: &str) -> Option<String> {
        let inner = self.inner();
        let claims = inner.kinds.get(&v1::ObjectKind::PersistentVolumeClaim)?;
        match claims.get(&(namespace.to_owned(), claim.to_owned()))? {
            Seen::Plain(change) => match &**change {
                v1::change::Change::PersistentVolumeClaim(record) => Some(record.volume_name.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    fn whats_missing(&self) -> ClusterError {
        let missing = self.missing.borrow();
        let reasons: Vec<String> = missing.iter().map(|(kind, why)| format!("{} ({why})", word(*kind))).collect();
        ClusterError {
            tried: "see the whole cluster".to_owned(),
            reason: format!("no picture of {}", reasons.join(", ")),
        }
    }

    /// Every change is made in one step, so a poisoned lock guards a whole picture.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn apply(&mut self, kind: v1::ObjectKind, change: Change) -> Option<Seen> {
        let objects = self.kinds.entry(kind).or_default();
        match change {
            Change::Gone(namespace, name) => {
                let gone = objects.remove(&(namespace.clone(), name.clone()))?;
                if let Seen::Pod { record, .. } = &gone {
                    self.scale_ups.remove(&record.uid);
                }
                Some(Seen::removed(kind, namespace, name))
            }
            Change::There(Row { namespace, name, uid, mut seen }) => {
                if let Seen::Pod { record, .. } = &mut seen {
                    record.foreign_scale_up_ms = self.scale_ups.get(&uid).copied().unwrap_or_default();
                }
                match objects.entry((namespace, name)) {
                    Entry::Occupied(held) if *held.get() == seen => return None,
                    Entry::Occupied(mut held) => {
                        held.insert(seen.clone());
                    }
                    Entry::Vacant(place) => {
                        place.insert(seen.clone());
                    }
                }
                Some(seen)
            }
        }
    }

    /// Hands changes to whoever observes. One that is too far behind is let go: the end of its changes makes it look again.
    fn tell(&mut self, seen: Vec<Seen>) {
        if let Some(watcher) = self.watcher.take_if(|_| !seen.is_empty())
            && watcher.try_send(seen).is_ok()
        {
            self.watcher = Some(watcher);
        }
    }

    fn records(&self) -> Vec<Seen> {
        let autoscalers = self.autoscalers.values().cloned().map(v1::change::Change::Autoscaler).map(Seen::plain);
        self.kinds.values().flat_map(BTreeMap::values).cloned().chain(autoscalers).collect()
    }
}

/// A kind as in `OBJECT_KIND_NODE_POOL`, in words: `node pool`.
fn word(kind: v1::ObjectKind) -> String {
    kind.as_str_name().trim_start_matches("OBJECT_KIND_").replace('_', " ").to_lowercase()
}

#[cfg(test)]
mod tests;
