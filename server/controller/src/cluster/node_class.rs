//! EC2NodeClasses, as far as their deletion and validity matter.

use super::state::ClusterState;
use model::Text;

/// An EC2NodeClass without its specification, which the catalogue of its NodePools covers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassRecord {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.generation`.
    pub generation: i64,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It carries the finalizer `karpenter.k8s.aws/termination`.
    pub has_finalizer: bool,
    /// Why its specification cannot be read; `None` when it can.
    pub invalid: Option<Text>,
}

impl ClusterState {
    /// EC2NodeClasses, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassRecord> {
        self.auxiliary.classes.values()
    }

    /// The EC2NodeClass of that name.
    #[must_use]
    pub fn class(&self, name: &Text) -> Option<&ClassRecord> {
        self.auxiliary.classes.get(name)
    }
}
