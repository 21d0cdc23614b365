//! What an agent took back lately without having shown its end first: a list that lacks objects looks like their deletion, one
//! by one.
//!
//! Almost everything that ends in a cluster announces it: a pod is terminating or has ended before it is removed, its Node goes,
//! or it had no Node; a Node has a deletion timestamp or is not ready, a NodeClaim has one, or either is on its way out; a
//! NodePool has a deletion timestamp when it waits for its NodeClaims. What is gone without that
//! ([`ClusterState::unannounced`](crate::cluster::ClusterState::unannounced)) is counted for a while and remembered whole. When it
//! is too much of what there was, it is put back and the agent is not believed ([`quarantine`](super::quarantine)). Until that is
//! known, no Node that lost a pod in this way is taken to be empty.

use std::collections::VecDeque;

use super::quarantine::Extent;
use crate::cluster::Object;
use crate::model::{Text, Timestamp};

/// Objects that were lost, oldest first.
#[derive(Debug, Default)]
pub struct Losses {
    entries: VecDeque<(Timestamp, Object)>,
    counts: Extent,
}

impl Losses {
    /// An object is gone.
    pub fn note(&mut self, object: Object, now: Timestamp) {
        self.counts = self.counts.plus(one(&object));
        self.entries.push_back((now, object));
    }

    /// Forgets what was lost `window_ms` before `now` or earlier.
    pub fn forget_past(&mut self, window_ms: i64, now: Timestamp) {
        while let Some((_, object)) = self.entries.front().filter(|(at, _)| now.millis_since(*at) >= window_ms) {
            self.counts = self.counts.minus(one(object));
            self.entries.pop_front();
        }
    }

    /// How much was lost.
    #[must_use]
    pub fn counts(&self) -> Extent {
        self.counts
    }

    /// Everything that was lost; nothing of it is remembered.
    pub fn take(&mut self) -> Vec<Object> {
        self.counts = Extent::default();
        self.entries.drain(..).map(|(_, object)| object).collect()
    }

    /// When the last pod that `node` lost is forgotten.
    #[must_use]
    pub fn troubles(&self, node: &Text, window_ms: i64) -> Option<Timestamp> {
        let on_node = |object: &Object| matches!(object, Object::Pod(pod) if pod.node.as_ref() == Some(node));
        let last = self.entries.iter().rev().find(|(_, object)| on_node(object));
        last.map(|(at, _)| Timestamp(at.0.saturating_add(window_ms)))
    }
}

/// One object of its kind.
#[must_use]
pub fn one(object: &Object) -> Extent {
    let mut one = Extent::default();
    match object {
        Object::Pod(pod) => one.pods = usize::from(pod.is_bound_workload()),
        Object::Node(_) => one.nodes = 1,
        Object::Claim(_) => one.claims = 1,
        Object::Pool(_) => one.pools = 1,
        _ => {}
    }
    one
}
