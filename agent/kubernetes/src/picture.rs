//! What the cluster looks like, kept up to date by the watches ([`crate::watch`]) and told to the agent's link.
//!
//! Only what the server is told is kept, so an update that changes nothing of that (a heartbeat, an annotation of others) ends
//! here. A picture that is taken again, after the API server has forgotten where a watch stood, is compared with the one that is
//! held: what has not changed is not told again, and what is missing is told as removed. When much is missing, the whole picture is
//! told anew instead: removals look like what happened in the cluster, while a snapshot that lacks so much is one that the server
//! may doubt.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::{ClusterError, Observed, Seen};
use fleetwright_proto::v1;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::obey::drain::order::{self, Guest};
use crate::seen::Row;

/// Batches of changes that the agent may be behind. An agent that is further behind takes a picture again.
const CHANGES_BEHIND: usize = 1_024;

/// Scale-ups of others that are remembered at most: those of pods that the watch of pods has not shown yet are among them.
const SCALE_UPS: usize = 20_000;

/// A picture that is taken again and lacks more than this many objects and more than this share of them, in percent, of what was
/// there is told as a whole. The server doubts snapshots that lack half; what it is to judge must reach it long before.
const MUCH_MISSING: (usize, usize) = (3, 10);

/// What stands in the way of a picture of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    why: String,
    /// Decisions are made without it.
    dispensable: bool,
}

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
    missing: watch::Sender<BTreeMap<v1::ObjectKind, Missing>>,
    /// When Karpenter last wrote to an object, in milliseconds since 1970.
    karpenter_wrote: AtomicI64,
    /// [`MUCH_MISSING`], but in tests that show what it is for.
    much_missing: (usize, usize),
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
        let not_asked = Missing { why: "not asked yet".to_owned(), dispensable: false };
        let missing = kinds.into_iter().map(|kind| (kind, not_asked.clone())).collect();
        Self {
            inner: Mutex::default(),
            missing: watch::Sender::new(missing),
            karpenter_wrote: AtomicI64::new(0),
            much_missing: MUCH_MISSING,
        }
    }

    /// Everything that is seen, and every change after it. Kinds that may not be seen and that decisions are made without are named
    /// among the records.
    ///
    /// # Errors
    /// [`ClusterError`] when some other kind has not been seen after `patience`; it names the kind and the reason.
    pub async fn observe(&self, patience: Duration) -> Result<Observed, ClusterError> {
        let mut missing = self.missing.subscribe();
        let enough = |missing: &BTreeMap<_, Missing>| missing.values().all(|one| one.dispensable);
        let unseen: Vec<Seen> = match tokio::time::timeout(patience, missing.wait_for(enough)).await {
            Ok(Ok(missing)) => missing.iter().map(|(kind, missing)| unseen(*kind, &missing.why)).collect(),
            _ => return Err(self.whats_missing()),
        };
        let (watcher, changes) = mpsc::channel(CHANGES_BEHIND);
        let mut inner = self.inner();
        let mut records = inner.records();
        records.extend(unseen);
        inner.watcher = Some(watcher);
        Ok(Observed { records, changes })
    }

    /// Everything of one kind: what is neither among `rows` nor `unread`, which are there and cannot be read, is gone.
    pub fn replace(&self, kind: v1::ObjectKind, rows: Vec<Row>, unread: &[(String, String)]) {
        let mut inner = self.inner();
        let mut before = inner.kinds.remove(&kind).unwrap_or_default();
        let there = before.len();
        let mut seen = Vec::new();
        for key in unread {
            if let Some(held) = before.remove(key) {
                inner.kinds.entry(kind).or_default().insert(key.clone(), held);
            }
        }
        for row in rows {
            let held = before.remove(&(row.namespace.clone(), row.name.clone()));
            if let Some(held) = held {
                inner.kinds.entry(kind).or_default().insert((row.namespace.clone(), row.name.clone()), held);
            }
            seen.extend(inner.apply(kind, Change::There(row)));
        }
        let (few, percent) = self.much_missing;
        let gone = before.len();
        let much = gone > few && gone * 100 > percent * there;
        for ((namespace, name), _) in before {
            seen.push(Seen::removed(kind, namespace, name));
        }
        if much {
            warn!(
                kind = word(kind),
                gone, there, "a picture that was taken again lacks much of what was there; all of it is told anew"
            );
            inner.watcher = None;
        }
        inner.tell(seen);
        let mut dispensed = false;
        self.missing.send_if_modified(|missing| {
            let known = missing.remove(&kind);
            dispensed = known.as_ref().is_some_and(|known| known.dispensable);
            known.is_some()
        });
        if dispensed {
            inner.tell(vec![unseen(kind, "")]);
        }
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

    /// The picture of this kind cannot be had, for this reason; with `dispensable` decisions are made without it. Changes nothing once
    /// it has been seen.
    pub fn fails(&self, kind: v1::ObjectKind, reason: &str, dispensable: bool) {
        let changed = self.missing.send_if_modified(|missing| {
            let Some(known) = missing.get_mut(&kind) else { return false };
            let changed = known.dispensable != dispensable;
            *known = Missing { why: reason.to_owned(), dispensable };
            changed
        });
        if changed && dispensable {
            warn!(
                kind = word(kind),
                reason, "decisions are made without objects of this kind, which the agent may not see"
            );
            self.inner().tell(vec![unseen(kind, reason)]);
        }
    }

    /// Karpenter last wrote to some object at this moment, in milliseconds since 1970.
    pub fn karpenter_wrote(&self, at_ms: i64) {
        self.karpenter_wrote.fetch_max(at_ms, Ordering::Relaxed);
    }

    /// When Karpenter last wrote to an object that is watched; 0 when it never did.
    #[must_use]
    pub fn karpenter_last_wrote(&self) -> i64 {
        self.karpenter_wrote.load(Ordering::Relaxed)
    }

    /// What shows that Karpenter is at work; `None` when nothing does.
    #[must_use]
    pub fn karpenter_at_work(&self) -> Option<String> {
        let inner = self.inner();
        inner.autoscalers.get("karpenter").filter(|record| record.live).map(|record| record.evidence.clone())
    }

    /// The pods that stand on these nodes at `now`, by node.
    #[must_use]
    pub(crate) fn guests(&self, nodes: &BTreeSet<String>, now: i64) -> BTreeMap<String, Vec<Guest>> {
        let inner = self.inner();
        let mut guests: BTreeMap<String, Vec<Guest>> = nodes.iter().map(|node| (node.clone(), Vec::new())).collect();
        for seen in inner.kinds.get(&v1::ObjectKind::Pod).into_iter().flat_map(BTreeMap::values) {
            let Seen::Pod { record, shape, volume_claims, .. } = seen else { continue };
            if let Some(there) = guests.get_mut(&record.node_name) {
                there.push(order::guest(record, shape, volume_claims.as_ref(), now));
            }
        }
        guests
    }

    /// Whether there is the Node of this name that is the machine of this provider id; every machine when that is empty, and a Node
    /// that has no provider id yet is any machine's.
    #[must_use]
    pub fn has_node(&self, name: &str, provider_id: &str) -> bool {
        let key = (String::new(), name.to_owned());
        let inner = self.inner();
        let Some(Seen::Plain(change)) = inner.kinds.get(&v1::ObjectKind::Node).and_then(|nodes| nodes.get(&key)) else {
            return false;
        };
        let v1::change::Change::Node(record) = &**change else { return false };
        provider_id.is_empty() || record.provider_id.is_empty() || record.provider_id == provider_id
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

    /// Another autoscaler is, or is not, at work. Told when that, or what shows it, changes, not with every renewal of its lease.
    pub fn autoscaler(&self, record: v1::AutoscalerRecord) {
        let mut inner = self.inner();
        let known = inner.autoscalers.get(&record.name);
        let changed = known.map_or(record.live, |known| known.live != record.live || known.evidence != record.evidence);
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
        let required = missing.iter().filter(|(_, missing)| !missing.dispensable);
        let reasons: Vec<String> =
            required.map(|(kind, missing)| format!("{} ({})", word(*kind), missing.why)).collect();
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

/// That a kind is not seen, for this reason; that it is seen again, without one.
fn unseen(kind: v1::ObjectKind, reason: &str) -> Seen {
    let unseen = v1::UnseenKind { kind: kind.into(), reason: reason.to_owned() };
    Seen::plain(v1::change::Change::Unseen(unseen))
}

/// A kind as in `OBJECT_KIND_NODE_POOL`, in words: `node pool`.
fn word(kind: v1::ObjectKind) -> String {
    kind.as_str_name().trim_start_matches("OBJECT_KIND_").replace('_', " ").to_lowercase()
}

#[cfg(test)]
impl Picture {
    /// The same picture, which tells whatever a relist lacks as removals.
    fn trusting_relists(self) -> Self {
        Self { much_missing: (usize::MAX, 100), ..self }
    }
}

#[cfg(test)]
mod tests;
