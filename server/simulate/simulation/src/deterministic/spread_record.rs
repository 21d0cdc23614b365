//! How workloads were spread over zones when a drain began.

use model::{NodeName, Text, Timestamp};

use crate::kube::cluster::spread::PodsByZone;

/// A workload with a pod on a Node when its voluntary drain began.
#[derive(Debug)]
pub(super) struct SpreadBefore {
    pub(super) node: NodeName,
    pub(super) workload: Text,
    pub(super) max_skew: usize,
    pub(super) replicas: usize,
    pub(super) zones: PodsByZone,
    pub(super) begun: Timestamp,
}
