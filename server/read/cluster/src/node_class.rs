//! EC2NodeClasses, and what new nodes need to join the cluster.

use std::sync::Arc;

use super::record::ClassRecord;
use super::state::ClusterState;
use model::{ClusterFacts, Text};

impl ClusterState {
    /// EC2NodeClasses, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassRecord> {
        self.auxiliary().classes()
    }

    /// The EC2NodeClass of that name.
    #[must_use]
    pub fn class(&self, name: &Text) -> Option<&ClassRecord> {
        self.auxiliary().class(name)
    }

    /// What new nodes need to join the cluster, as its agent reported it last; empty before.
    #[must_use]
    pub fn facts(&self) -> &Arc<ClusterFacts> {
        self.auxiliary().facts()
    }

    /// Replaces the facts. They stay when a snapshot replaces all objects.
    pub fn set_facts(&mut self, facts: Arc<ClusterFacts>) {
        self.auxiliary_mut().set_facts(facts);
    }
}
