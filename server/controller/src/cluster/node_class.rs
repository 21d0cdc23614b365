//! EC2NodeClasses, as far as their deletion and validity matter.

use super::record::ClassRecord;
use super::state::ClusterState;
use model::{ClusterFacts, Text};
use std::sync::Arc;

impl ClusterState {
    /// EC2NodeClasses, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassRecord> {
        self.auxiliary().classes()
    }

    /// What the cluster says about itself, for its nodes; empty until the agent has said it.
    #[must_use]
    pub fn facts(&self) -> &Arc<ClusterFacts> {
        self.auxiliary().facts()
    }

    /// Replaces what the cluster says about itself.
    pub fn set_facts(&mut self, facts: ClusterFacts) {
        self.auxiliary_mut().set_facts(facts);
    }

    /// The EC2NodeClass of that name.
    #[must_use]
    pub fn class(&self, name: &Text) -> Option<&ClassRecord> {
        self.auxiliary().class(name)
    }
}
