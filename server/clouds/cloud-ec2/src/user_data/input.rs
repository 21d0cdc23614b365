//! What user data is rendered from.

use std::sync::Arc;

use model::node_class::{AmiFamily, KubeletOptions, KubeletSettings};
use model::{CapacityType, ClusterFacts, ClusterName, Labels, Taint, Text};

/// Length that EC2 allows for user data, in bytes before base64 (EC2 User Guide, "Run commands when
/// you launch an EC2 instance with user data input").
pub const MAX_BYTES: usize = 16 << 10;

/// What the user data of a node is rendered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserDataInput {
    /// Name of the EKS cluster that the node joins.
    pub cluster_name: ClusterName,
    /// What the cluster says about itself. Its DNS is used unless `spec.kubelet.clusterDNS` has addresses.
    pub cluster: Arc<ClusterFacts>,
    pub family: AmiFamily,
    /// Labels of the NodeClaim. Those that a kubelet may not set are left out.
    pub labels: Labels,
    /// Capacity type of the launch, which becomes a label.
    pub capacity_type: CapacityType,
    /// `spec.taints` of the NodeClaim.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints` of the NodeClaim.
    pub startup_taints: Vec<Taint>,
    /// Maximum pods of the instance types of the launch. It replaces `kubelet.max_pods`.
    pub max_pods: u32,
    /// `spec.kubelet`: what changes allocatable resources.
    pub kubelet: KubeletSettings,
    /// `spec.kubelet`: the rest.
    pub kubelet_options: KubeletOptions,
    /// `instanceStorePolicy: RAID0`.
    pub instance_store_raid0: bool,
    /// `spec.userData`.
    pub user_data: Option<Text>,
    /// Version of the Bottlerocket image: the version itself, an alias, or the name of the image;
    /// `None` when it is unknown.
    pub ami_version: Option<Text>,
}
