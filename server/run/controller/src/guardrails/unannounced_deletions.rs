//! Objects that the agent deleted without a preceding termination: a list that lacks objects looks
//! like their deletion, one by one.
//!
//! Almost every object announces its end. A pod is terminating or terminal before it is removed,
//! its Node is removed, or it had no Node; a Node has a deletion timestamp or is not ready; a
//! NodeClaim has a deletion timestamp or was not launched; either may be terminating; a NodePool has a deletion
//! timestamp while it waits for its NodeClaims. Deletions without such an announcement
//! ([`ClusterState::unannounced_deletion`](cluster::ClusterState::unannounced_deletion)) are
//! counted within a window, and the objects are kept. When too much of the previous state is lost,
//! the objects are restored and the cluster enters [`quarantine`](super::quarantine). Until then, a
//! Node that lost a pod in this way is not treated as empty.

use std::collections::VecDeque;

use super::ObjectCounts;
use cluster::Object;
use model::{Millis, NodeName, Timestamp};

/// Deleted objects, oldest first.
#[derive(Debug, Default)]
pub struct UnannouncedDeletions {
    entries: VecDeque<(Timestamp, Object)>,
    counts: ObjectCounts,
}

impl UnannouncedDeletions {
    pub fn record(&mut self, object: Object, now: Timestamp) {
        self.counts = self.counts.plus(one(&object));
        self.entries.push_back((now, object));
    }

    /// Drops deletions that are `window` old or older.
    pub fn expire(&mut self, window: Millis, now: Timestamp) {
        while let Some((_, object)) = self.entries.front().filter(|(at, _)| now.duration_since(*at) >= window) {
            self.counts = self.counts.minus(one(object));
            self.entries.pop_front();
        }
    }

    #[must_use]
    pub fn counts(&self) -> ObjectCounts {
        self.counts
    }

    /// Removes and returns all deleted objects.
    pub fn drain(&mut self) -> Vec<Object> {
        self.counts = ObjectCounts::default();
        self.entries.drain(..).map(|(_, object)| object).collect()
    }

    /// When the last recorded pod deletion on `node` expires.
    #[must_use]
    pub fn last_pod_loss_expiry(&self, node: &NodeName, window: Millis) -> Option<Timestamp> {
        let on_node = |object: &Object| matches!(object, Object::Pod(pod) if pod.node.as_ref() == Some(node));
        let last = self.entries.iter().rev().find(|(_, object)| on_node(object));
        last.map(|(at, _)| *at + window)
    }
}

/// Counts with one object of this kind.
#[must_use]
pub fn one(object: &Object) -> ObjectCounts {
    let mut one = ObjectCounts::default();
    match object {
        Object::Pod(pod) => one.pods = usize::from(pod.is_bound_workload()),
        Object::Node(_) => one.nodes = 1,
        Object::Claim(_) => one.claims = 1,
        Object::Pool(_) => one.pools = 1,
        _ => {}
    }
    one
}
