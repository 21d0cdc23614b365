//! Which EC2NodeClasses are to be resolved, and what they were resolved to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::node_class::{NodeClassQuery, NodeClassSpec, ResolvedNodeClass};
use model::{ClusterFacts, Millis, Text, Timestamp};

/// A resolution without an answer is requested again after this time.
const ANSWER_TIMEOUT: Millis = Millis::from_mins(2);

/// Resolutions of the EC2NodeClasses of one cluster.
#[derive(Debug, Default)]
pub(crate) struct NodeClassResolver {
    classes: BTreeMap<Text, Entry>,
}

/// Resolution of one EC2NodeClass.
#[derive(Debug)]
struct Entry {
    /// What the last resolution was requested for.
    spec: Arc<NodeClassSpec>,
    facts: Arc<ClusterFacts>,
    /// When the next resolution is due; while one is requested, when its answer is overdue.
    due: Timestamp,
    resolved: Option<Arc<ResolvedNodeClass>>,
}

impl NodeClassResolver {
    /// The last result for the EC2NodeClass of that name.
    pub(crate) fn resolved(&self, name: &Text) -> Option<&Arc<ResolvedNodeClass>> {
        self.classes.get(name)?.resolved.as_ref()
    }

    /// When the next resolution is due.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        self.classes.values().map(|entry| entry.due).min()
    }

    /// Whether the class is to be resolved now: it is new, it or the facts have changed, or its time has come.
    pub(super) fn is_due(
        &self,
        name: &Text,
        spec: &Arc<NodeClassSpec>,
        facts: &Arc<ClusterFacts>,
        now: Timestamp,
    ) -> bool {
        let known = self.classes.get(name);
        known.is_none_or(|entry| entry.spec != *spec || entry.facts != *facts || entry.due <= now)
    }

    /// Counts the class as requested if it is to be resolved now; returns whether it is.
    pub(super) fn request(
        &mut self,
        name: &Text,
        spec: &Arc<NodeClassSpec>,
        facts: &Arc<ClusterFacts>,
        now: Timestamp,
    ) -> bool {
        if !self.is_due(name, spec, facts, now) {
            return false;
        }
        let resolved = self.classes.remove(name).and_then(|entry| entry.resolved);
        let (spec, facts) = (Arc::clone(spec), Arc::clone(facts));
        self.classes.insert(name.clone(), Entry { spec, facts, due: now + ANSWER_TIMEOUT, resolved });
        true
    }

    /// Whether the answer is to the last request. One to an earlier spec is dropped: its own answer follows.
    pub(super) fn is_awaited(&self, query: &NodeClassQuery) -> bool {
        self.classes.get(&query.name).is_some_and(|entry| entry.spec == query.spec && entry.facts == query.facts)
    }

    /// Records an answer; returns whether it is a different result. An answer to an earlier spec is
    /// dropped: its own answer follows.
    pub(super) fn record(&mut self, query: &NodeClassQuery, resolved: ResolvedNodeClass, next: Timestamp) -> bool {
        if !self.is_awaited(query) {
            return false;
        }
        let Some(entry) = self.classes.get_mut(&query.name) else { return false };
        entry.due = next;
        let changed = entry.resolved.as_ref().is_none_or(|known| !known.is_same_result(&resolved));
        if changed {
            entry.resolved = Some(Arc::new(resolved));
        }
        changed
    }

    pub(super) fn retain(&mut self, names: &BTreeSet<Text>) {
        self.classes.retain(|name, _| names.contains(name));
    }
}

#[cfg(test)]
mod tests;
