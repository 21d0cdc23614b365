//! What of a pod changes the state of its node.

use super::record::PodRecord;
use model::{NodeName, Text};

/// The parts of a pod that concern its node.
#[derive(PartialEq, Eq)]
pub(super) struct PodPlacement {
    /// The node, unless the pod has ended.
    pub(super) node: Option<NodeName>,
    terminating: bool,
    uid: Text,
}

impl PodPlacement {
    /// Those of `pod`.
    pub(super) fn of(pod: &PodRecord) -> Self {
        Self { node: pod.live_node().cloned(), terminating: pod.terminating, uid: pod.uid.clone() }
    }
}
