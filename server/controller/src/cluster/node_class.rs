//! EC2NodeClasses, as far as their deletion and validity matter.

use super::record::ClassRecord;
use super::state::ClusterState;
use model::Text;

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
}
