//! Pods of one cluster, and the indices that decisions need instead of a pass over all pods.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::record::PodRecord;
use model::{NodeName, PodKey, Text};

/// Pods of one cluster, by namespace and name.
#[derive(Debug, Clone, Default)]
pub(super) struct PodTable {
    pods: BTreeSet<ByKey>,
    indices: PodIndices,
}

/// A pod, compared by its key alone.
#[derive(Debug, Clone)]
struct ByKey(PodRecord);

impl Borrow<PodKey> for ByKey {
    fn borrow(&self) -> &PodKey {
        &self.0.key
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

/// Indices and counts; each of them changes only in [`PodIndices::update`], or is built in
/// [`PodIndices::of`].
#[derive(Debug, Clone, Default, PartialEq)]
struct PodIndices {
    by_node: FxHashMap<NodeName, BTreeSet<PodKey>>,
    /// Number of non-terminal pods on each node, without DaemonSet pods.
    non_daemon: FxHashMap<NodeName, usize>,
    /// Unschedulable pods. With the pods of terminating nodes they are all that planning may have
    /// to place, however many pods run.
    unplaced: BTreeSet<PodKey>,
    /// Pods that another component nominated for a node.
    nominated: BTreeSet<PodKey>,
    /// Number of ready pods of each workload, by namespace and workload.
    ready: FxHashMap<(Text, Text), usize>,
    ended: usize,
    /// Number of workload pods that are bound and not terminating.
    bound: usize,
    /// Number of workload pods that are not bound.
    pending: usize,
}

/// A table filled at once: the work for each pod is smaller than that of [`PodTable::insert`], and
/// the trees are full. Of pods with the same key, the last counts.
impl FromIterator<PodRecord> for PodTable {
    fn from_iter<I: IntoIterator<Item = PodRecord>>(pods: I) -> Self {
        let pods: BTreeSet<ByKey> = pods.into_iter().map(ByKey).collect();
        let indices = PodIndices::of(pods.iter().map(|pod| &pod.0));
        Self { pods, indices }
    }
}

impl PodTable {
    /// Inserts a pod, which replaces the one with its key.
    pub(super) fn insert(&mut self, pod: PodRecord) {
        let known = self.pods.get(&pod.key).map(|known| &known.0);
        self.indices.update(known, Some(&pod));
        self.pods.replace(ByKey(pod));
    }

    /// Removes a pod and returns it.
    pub(super) fn remove(&mut self, key: &PodKey) -> Option<PodRecord> {
        let known = self.pods.take(key).map(|pod| pod.0);
        self.indices.update(known.as_ref(), None);
        known
    }

    /// Rebuilds the trees: a B-tree grown in key order is half empty, one built at once is full.
    pub(super) fn compact(&mut self) {
        self.pods = std::mem::take(&mut self.pods).into_iter().collect();
        for pods in self.indices.by_node.values_mut() {
            *pods = std::mem::take(pods).into_iter().collect();
        }
    }

    pub(super) fn get(&self, key: &PodKey) -> Option<&PodRecord> {
        self.pods.get(key).map(|pod| &pod.0)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &PodKey> {
        self.iter().map(|pod| &pod.key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.iter().map(|pod| &pod.0)
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Unschedulable pods (`PodRecord::is_unschedulable`).
    pub(super) fn unplaced(&self) -> impl Iterator<Item = &PodKey> {
        self.indices.unplaced.iter()
    }

    /// Pods that another component nominated for a node.
    pub(super) fn nominated(&self) -> impl Iterator<Item = &PodKey> {
        self.indices.nominated.iter()
    }

    /// Non-terminal pods on `node`.
    pub(super) fn on_node(&self, node: &NodeName) -> impl Iterator<Item = &PodKey> {
        self.indices.by_node.get(node).into_iter().flatten()
    }

    /// Number of non-terminal pods on each node that has one, without DaemonSet pods.
    pub(super) fn non_daemon(&self) -> &FxHashMap<NodeName, usize> {
        &self.indices.non_daemon
    }

    /// Number of ready pods of the workload of `pod`.
    pub(super) fn ready_with(&self, pod: &PodRecord) -> usize {
        self.indices.ready.get(&workload_of(pod)).copied().unwrap_or(0)
    }

    /// Number of pods that have not ended.
    pub(super) fn live(&self) -> usize {
        self.pods.len() - self.indices.ended
    }

    /// Number of workload pods that are bound and not terminating, and of those not bound.
    pub(super) fn workload(&self) -> (usize, usize) {
        (self.indices.bound, self.indices.pending)
    }
}

impl PodIndices {
    /// Indices of these pods, which are in the order of their keys.
    fn of<'p>(pods: impl Iterator<Item = &'p PodRecord>) -> Self {
        let mut indices = Self::default();
        let mut by_node: FxHashMap<NodeName, Vec<PodKey>> = FxHashMap::default();
        for pod in pods {
            indices.update_all_but_by_node(None, Some(pod));
            if let Some(node) = pod.live_node() {
                match by_node.get_mut(node) {
                    Some(pods) => pods.push(pod.key.clone()),
                    None => {
                        by_node.insert(node.clone(), vec![pod.key.clone()]);
                    }
                }
            }
        }
        indices.by_node = by_node.into_iter().map(|(node, pods)| (node, pods.into_iter().collect())).collect();
        indices
    }

    /// A pod changes from `known` to `pod`.
    fn update(&mut self, known: Option<&PodRecord>, pod: Option<&PodRecord>) {
        self.update_by_node(known, pod);
        self.update_all_but_by_node(known, pod);
    }

    fn update_all_but_by_node(&mut self, known: Option<&PodRecord>, pod: Option<&PodRecord>) {
        let count = |counted: fn(&PodRecord) -> bool, pod: Option<&PodRecord>| usize::from(pod.is_some_and(counted));
        let recount = |total: usize, counted| total + count(counted, pod) - count(counted, known);
        self.ended = recount(self.ended, PodRecord::is_terminal);
        self.bound = recount(self.bound, PodRecord::is_bound_workload);
        self.pending = recount(self.pending, PodRecord::is_pending_workload);
        self.count_non_daemon(known, -1);
        self.count_non_daemon(pod, 1);
        self.count_ready(known, pod);
        update_index(&mut self.unplaced, PodRecord::is_unschedulable, known, pod);
        update_index(&mut self.nominated, |pod| pod.nominated.is_some(), known, pod);
    }

    fn update_by_node(&mut self, known: Option<&PodRecord>, pod: Option<&PodRecord>) {
        let before = known.and_then(|known| Some((&known.key, known.live_node()?)));
        let after = pod.and_then(|pod| Some((&pod.key, pod.live_node()?)));
        if before == after {
            return;
        }
        if let Some((key, node)) = before
            && let Some(pods) = self.by_node.get_mut(node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
        if let Some((key, node)) = after {
            match self.by_node.get_mut(node) {
                Some(pods) => {
                    pods.insert(key.clone());
                }
                None => {
                    self.by_node.insert(node.clone(), BTreeSet::from([key.clone()]));
                }
            }
        }
    }

    fn count_ready(&mut self, known: Option<&PodRecord>, pod: Option<&PodRecord>) {
        let of = |pod: Option<&PodRecord>| pod.filter(|pod| pod.ready).map(workload_of);
        let (before, after) = (of(known), of(pod));
        if before == after {
            return;
        }
        if let Some(workload) = after {
            *self.ready.entry(workload).or_default() += 1;
        }
        if let Some(workload) = before
            && let Some(count) = self.ready.get_mut(&workload)
        {
            *count -= 1;
            if *count == 0 {
                self.ready.remove(&workload);
            }
        }
    }

    fn count_non_daemon(&mut self, pod: Option<&PodRecord>, by: isize) {
        let Some(node) = pod.filter(|pod| pod.daemon.is_none()).and_then(PodRecord::live_node) else { return };
        let count = self.non_daemon.get(node).copied().unwrap_or(0).saturating_add_signed(by);
        if count == 0 {
            self.non_daemon.remove(node);
        } else if let Some(known) = self.non_daemon.get_mut(node) {
            *known = count;
        } else {
            self.non_daemon.insert(node.clone(), count);
        }
    }
}

/// Namespace and workload of a pod.
fn workload_of(pod: &PodRecord) -> (Text, Text) {
    (pod.key.namespace.clone(), pod.workload.clone())
}

/// Updates `index`, the keys of pods for which `listed` holds, when a pod changes from `known` to
/// `pod`.
fn update_index(
    index: &mut BTreeSet<PodKey>,
    listed: impl Fn(&PodRecord) -> bool,
    known: Option<&PodRecord>,
    pod: Option<&PodRecord>,
) {
    let (before, after) = (known.filter(|pod| listed(pod)), pod.filter(|pod| listed(pod)));
    match (before, after) {
        (Some(known), None) => {
            index.remove(&known.key);
        }
        (None, Some(pod)) => {
            index.insert(pod.key.clone());
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodPhase;
    use crate::testing::{key, pod, text};

    /// A pod whose fields that indices depend on follow from the bits of `seed`.
    fn variant(name: &str, seed: u64) -> PodRecord {
        let bit = |at: u64| seed >> at & 1 == 1;
        PodRecord {
            node: bit(0).then(|| text(if bit(1) { "a" } else { "b" })),
            phase: if bit(2) && bit(3) { PodPhase::Succeeded } else { PodPhase::Running },
            daemon: (bit(4) && bit(5)).then(|| text("d")),
            nominated: bit(6).then(|| text("a")),
            terminating: bit(7) && bit(8),
            ready: bit(9),
            workload: text(if bit(10) { "ReplicaSet/x" } else { "ReplicaSet/y" }),
            ..pod(name, 100)
        }
    }

    #[test]
    fn indices_after_changes_equal_those_of_a_table_filled_at_once() {
        let mut table = PodTable::default();
        let mut seed: u64 = 7;
        for step in 0..2_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let name = format!("p{}", seed >> 33 & 7);
            if seed >> 40 & 3 == 0 {
                table.remove(&key(&name));
            } else {
                table.insert(variant(&name, seed >> 48));
            }
            let filled: PodTable = table.iter().cloned().collect();
            assert_eq!(table.indices, filled.indices, "after step {step}");
        }
        assert!(table.unplaced().count() + table.nominated().count() > 0, "the variants are indexed");
    }
}
