//! Cache of the watched objects, filled by the watches ([`crate::watch`]) and sent through the
//! agent's link.
//!
//! The cache holds only the fields that the server receives, so an update of other fields (a
//! heartbeat, a foreign annotation) ends here. A relist, after a watch's resource version has
//! expired, is compared with the cache: unchanged objects are not sent again, and missing ones are
//! sent as removals. When many are missing, a new snapshot is sent instead: removals look like
//! events in the cluster, whereas the server may quarantine a snapshot that lacks so much.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::{ClusterError, ListWatch, Record};
use fleetwright_proto::v1;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::actions::drain::eviction_order::{self, NodePod};
use crate::records::ParsedObject;

/// Capacity of the change channel, in batches. An agent that falls further behind lists the cluster
/// again.
const CHANGES_CAPACITY: usize = 1_024;

/// Maximum number of stored scale-ups of other autoscalers, including those of pods that the pod
/// watch has not delivered yet.
const MAX_SCALE_UPS: usize = 20_000;

/// A relist that lacks more than this many objects and more than this percentage of the kind is
/// sent as a new snapshot. The server quarantines snapshots that lack half, so it must receive them
/// long before.
const RELIST_LOSS_LIMIT: (usize, usize) = (3, 10);

/// A kind that is not listed yet, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MissingKind {
    reason: String,
    /// Decisions are made without it.
    optional: bool,
}

#[derive(Debug)]
pub enum ObjectChange {
    /// The object was added or modified.
    Applied(ParsedObject),
    /// The object was deleted: namespace and name.
    Deleted(String, String),
}

type Key = (String, String);
type Kinds = BTreeMap<v1::ObjectKind, BTreeMap<Key, Record>>;

/// The records of all watched objects, and one subscriber to their changes.
#[derive(Debug)]
pub struct ObjectCache {
    state: Mutex<CacheState>,
    /// Kinds that are not listed yet, each with the reason.
    missing: watch::Sender<BTreeMap<v1::ObjectKind, MissingKind>>,
    /// When Karpenter last wrote to an object, in milliseconds since 1970.
    karpenter_write_ms: AtomicI64,
}

#[derive(Debug, Default)]
struct CacheState {
    kinds: Kinds,
    autoscalers: BTreeMap<String, v1::AutoscalerRecord>,
    /// When another autoscaler last announced a scale-up for a pod, by the pod's UID.
    scale_ups: FxHashMap<String, i64>,
    subscriber: Option<mpsc::Sender<Vec<Record>>>,
}

impl ObjectCache {
    /// A cache that is complete when each of `kinds` was listed.
    #[must_use]
    pub fn new(kinds: impl IntoIterator<Item = v1::ObjectKind>) -> Self {
        let not_asked = MissingKind { reason: "not asked yet".to_owned(), optional: false };
        let missing = kinds.into_iter().map(|kind| (kind, not_asked.clone())).collect();
        Self { state: Mutex::default(), missing: watch::Sender::new(missing), karpenter_write_ms: AtomicI64::new(0) }
    }

    /// Every record, and every change after it. Optional kinds that the role forbids are named
    /// among the records.
    ///
    /// # Errors
    /// [`ClusterError`] when a required kind was not listed within `timeout`; it names the kind and
    /// the reason.
    pub async fn list_and_watch(&self, timeout: Duration) -> Result<ListWatch, ClusterError> {
        let mut missing = self.missing.subscribe();
        let enough = |missing: &BTreeMap<_, MissingKind>| missing.values().all(|one| one.optional);
        let unlisted: Vec<Record> = match tokio::time::timeout(timeout, missing.wait_for(enough)).await {
            Ok(Ok(missing)) => missing.iter().map(|(kind, missing)| unseen_kind(*kind, &missing.reason)).collect(),
            _ => return Err(self.missing_kinds_error()),
        };
        let (subscriber, changes) = mpsc::channel(CHANGES_CAPACITY);
        let mut state = self.state();
        let mut records = state.records();
        records.extend(unlisted);
        state.subscriber = Some(subscriber);
        Ok(ListWatch { records, changes })
    }

    /// Replaces all objects of one kind: an object that is neither in `objects_read` nor in
    /// `unreadable` (it exists, but cannot be parsed) is removed.
    pub fn replace_objects(
        &self,
        kind: v1::ObjectKind,
        objects_read: Vec<ParsedObject>,
        unreadable: &[(String, String)],
    ) {
        let mut state = self.state();
        let mut before = state.kinds.remove(&kind).unwrap_or_default();
        let there = before.len();
        let mut records = Vec::new();
        // Objects that exist, readable or not, are taken out of `before`. The remaining ones are
        // missing in the list.
        for key in unreadable {
            if let Some(held) = before.remove(key) {
                state.kinds.entry(kind).or_default().insert(key.clone(), held);
            }
        }
        for row in objects_read {
            let held = before.remove(&(row.namespace.clone(), row.name.clone()));
            if let Some(held) = held {
                state.kinds.entry(kind).or_default().insert((row.namespace.clone(), row.name.clone()), held);
            }
            records.extend(state.apply_change(kind, ObjectChange::Applied(row)));
        }
        let (few, percent) = RELIST_LOSS_LIMIT;
        let gone = before.len();
        let much = gone > few && gone * 100 > percent * there;
        for ((namespace, name), _) in before {
            records.push(Record::removed(kind, namespace, name));
        }
        if much {
            warn!(kind = kind_name(kind), gone, there, "relist lacks many objects; sending a new snapshot");
            state.subscriber = None;
        }
        state.publish(records);
        let mut was_optional = false;
        self.missing.send_if_modified(|missing| {
            let known = missing.remove(&kind);
            was_optional = known.as_ref().is_some_and(|known| known.optional);
            known.is_some()
        });
        if was_optional {
            state.publish(vec![unseen_kind(kind, "")]);
        }
    }

    /// Applies changes of one kind, in order.
    pub fn apply_changes(&self, kind: v1::ObjectKind, changes: Vec<ObjectChange>) {
        let mut state = self.state();
        let mut records = Vec::new();
        for change in changes {
            records.extend(state.apply_change(kind, change));
        }
        state.publish(records);
    }

    /// Records why this kind cannot be listed; with `optional`, the cache is complete without it.
    /// No effect once the kind was listed.
    pub fn mark_failed(&self, kind: v1::ObjectKind, reason: &str, optional: bool) {
        let changed = self.missing.send_if_modified(|missing| {
            let Some(known) = missing.get_mut(&kind) else { return false };
            let changed = known.optional != optional;
            *known = MissingKind { reason: reason.to_owned(), optional };
            changed
        });
        if changed && optional {
            warn!(kind = kind_name(kind), reason, "optional kind forbidden; continuing without it");
            self.state().publish(vec![unseen_kind(kind, reason)]);
        }
    }

    /// Records a write of Karpenter, in milliseconds since 1970.
    pub fn record_karpenter_write(&self, at_ms: i64) {
        self.karpenter_write_ms.fetch_max(at_ms, Ordering::Relaxed);
    }

    /// When Karpenter last wrote to an object that is watched; 0 when it never did.
    #[must_use]
    pub fn last_karpenter_write_ms(&self) -> i64 {
        self.karpenter_write_ms.load(Ordering::Relaxed)
    }

    /// Evidence that Karpenter is active; `None` without any.
    #[must_use]
    pub fn karpenter_evidence(&self) -> Option<String> {
        let state = self.state();
        state.autoscalers.get("karpenter").filter(|record| record.live).map(|record| record.evidence.clone())
    }

    /// The pods on these nodes at `now`, by node.
    #[must_use]
    pub(crate) fn pods_on_nodes(&self, nodes: &BTreeSet<String>, now: i64) -> BTreeMap<String, Vec<NodePod>> {
        let state = self.state();
        let mut pods: BTreeMap<String, Vec<NodePod>> = nodes.iter().map(|node| (node.clone(), Vec::new())).collect();
        for record in state.kinds.get(&v1::ObjectKind::Pod).into_iter().flat_map(BTreeMap::values) {
            let Record::Pod { record, shape, volume_claims, .. } = record else { continue };
            if let Some(there) = pods.get_mut(&record.node_name) {
                there.push(eviction_order::node_pod(record, shape, volume_claims.as_ref(), now));
            }
        }
        pods
    }

    /// Whether `pod` waits without a nomination for `node`, as far as the watch has shown. A pod that it has not shown does.
    #[must_use]
    pub(crate) fn lacks_nomination(&self, pod: &v1::PodNomination, node: &str) -> bool {
        let key = (pod.namespace.clone(), pod.name.clone());
        let state = self.state();
        let known = state.kinds.get(&v1::ObjectKind::Pod).and_then(|pods| pods.get(&key));
        let Some(Record::Pod { record, .. }) = known else { return true };
        let is_nominated = record.nominated_by_agent && record.nominated_node_name == node;
        record.uid != pod.uid || (record.node_name.is_empty() && !is_nominated)
    }

    /// Whether a Node of this name with this provider id exists. An empty provider id matches every
    /// Node, and so does a Node without one.
    #[must_use]
    pub fn has_node(&self, name: &str, provider_id: &str) -> bool {
        let key = (String::new(), name.to_owned());
        let state = self.state();
        let Some(Record::Plain(change)) = state.kinds.get(&v1::ObjectKind::Node).and_then(|nodes| nodes.get(&key))
        else {
            return false;
        };
        let v1::change::Change::Node(record) = &**change else { return false };
        provider_id.is_empty() || record.provider_id.is_empty() || record.provider_id == provider_id
    }

    #[must_use]
    pub fn is_synced(&self, kind: v1::ObjectKind) -> bool {
        !self.missing.borrow().contains_key(&kind)
    }

    /// Records a scale-up that another autoscaler announced for a pod.
    pub fn record_scale_up(&self, namespace: &str, name: &str, uid: &str, at_ms: i64) {
        let mut state = self.state();
        if state.scale_ups.len() >= MAX_SCALE_UPS {
            // Keeps the newer half: older entries no longer defer any pod.
            let mut moments: Vec<i64> = state.scale_ups.values().copied().collect();
            moments.sort_unstable();
            let middle = moments[moments.len() / 2];
            state.scale_ups.retain(|_, moment| *moment > middle);
        }
        let moment = state.scale_ups.entry(uid.to_owned()).or_default();
        *moment = at_ms.max(*moment);
        let key = (namespace.to_owned(), name.to_owned());
        let held = state.kinds.get_mut(&v1::ObjectKind::Pod).and_then(|pods| pods.get_mut(&key));
        let Some(Record::Pod { record, .. }) = held else { return };
        if record.uid == uid && record.external_scale_up_ms < at_ms {
            record.external_scale_up_ms = at_ms;
            let record = state.kinds[&v1::ObjectKind::Pod][&key].clone();
            state.publish(vec![record]);
        }
    }

    /// Updates the state of another autoscaler. Published when the state or its evidence changes,
    /// not with every renewal of its lease.
    pub fn update_autoscaler(&self, record: v1::AutoscalerRecord) {
        let mut state = self.state();
        let known = state.autoscalers.get(&record.name);
        let changed = known.map_or(record.live, |known| known.live != record.live || known.evidence != record.evidence);
        if changed {
            state.autoscalers.insert(record.name.clone(), record.clone());
            state.publish(vec![Record::plain(v1::change::Change::Autoscaler(record))]);
        }
    }

    /// Nodes with this annotation and its value, once nodes were listed.
    pub async fn annotated_nodes(&self, annotation: &str) -> Vec<(String, String)> {
        let mut missing = self.missing.subscribe();
        // The cache owns the sender, so that the channel stays open.
        let _seen = missing.wait_for(|missing| !missing.contains_key(&v1::ObjectKind::Node)).await;
        let state = self.state();
        let nodes = state.kinds.get(&v1::ObjectKind::Node).into_iter().flat_map(BTreeMap::values);
        let value = |record: &Record| {
            let Record::Plain(change) = record else { return None };
            let v1::change::Change::Node(record) = &**change else { return None };
            let pair = record.annotations.iter().find(|pair| pair.key == annotation)?;
            Some((record.name.clone(), pair.value.clone()))
        };
        nodes.filter_map(value).collect()
    }

    /// The PersistentVolume that a claim is bound to; empty when unbound, `None` without such a
    /// claim.
    #[must_use]
    pub fn volume_for_claim(&self, namespace: &str, claim: &str) -> Option<String> {
        let state = self.state();
        let claims = state.kinds.get(&v1::ObjectKind::PersistentVolumeClaim)?;
        match claims.get(&(namespace.to_owned(), claim.to_owned()))? {
            Record::Plain(change) => match &**change {
                v1::change::Change::PersistentVolumeClaim(record) => Some(record.volume_name.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    fn missing_kinds_error(&self) -> ClusterError {
        let missing = self.missing.borrow();
        let required = missing.iter().filter(|(_, missing)| !missing.optional);
        let reasons: Vec<String> =
            required.map(|(kind, missing)| format!("{} ({})", kind_name(*kind), missing.reason)).collect();
        ClusterError {
            operation: "list the cluster".to_owned(),
            reason: format!("not listed yet: {}", reasons.join(", ")),
        }
    }

    /// Every change is one step, so the state behind a poisoned lock is consistent.
    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn apply_change(&mut self, kind: v1::ObjectKind, change: ObjectChange) -> Option<Record> {
        let objects = self.kinds.entry(kind).or_default();
        match change {
            ObjectChange::Deleted(namespace, name) => {
                let gone = objects.remove(&(namespace.clone(), name.clone()))?;
                if let Record::Pod { record, .. } = &gone {
                    self.scale_ups.remove(&record.uid);
                }
                Some(Record::removed(kind, namespace, name))
            }
            ObjectChange::Applied(ParsedObject { namespace, name, uid, mut record }) => {
                if let Record::Pod { record, .. } = &mut record {
                    record.external_scale_up_ms = self.scale_ups.get(&uid).copied().unwrap_or_default();
                }
                match objects.entry((namespace, name)) {
                    Entry::Occupied(held) if *held.get() == record => return None,
                    Entry::Occupied(mut held) => {
                        held.insert(record.clone());
                    }
                    Entry::Vacant(place) => {
                        place.insert(record.clone());
                    }
                }
                Some(record)
            }
        }
    }

    /// Sends changes to the subscriber. A subscriber that is too far behind is dropped: the end of
    /// its channel makes it list again.
    fn publish(&mut self, records: Vec<Record>) {
        if let Some(subscriber) = self.subscriber.take_if(|_| !records.is_empty())
            && subscriber.try_send(records).is_ok()
        {
            self.subscriber = Some(subscriber);
        }
    }

    fn records(&self) -> Vec<Record> {
        let autoscalers = self.autoscalers.values().cloned().map(v1::change::Change::Autoscaler).map(Record::plain);
        self.kinds.values().flat_map(BTreeMap::values).cloned().chain(autoscalers).collect()
    }
}

/// A record that a kind cannot be listed, for this reason; an empty reason means that it can again.
fn unseen_kind(kind: v1::ObjectKind, reason: &str) -> Record {
    let unlisted = v1::UnavailableKind { kind: kind.into(), reason: reason.to_owned() };
    Record::plain(v1::change::Change::Unseen(unlisted))
}

/// The name of a kind, such as `node pool` for `OBJECT_KIND_NODE_POOL`.
fn kind_name(kind: v1::ObjectKind) -> String {
    kind.as_str_name().trim_start_matches("OBJECT_KIND_").replace('_', " ").to_lowercase()
}

#[cfg(test)]
mod tests;
