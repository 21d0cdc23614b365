//! What user data is rendered from, and why there is none.

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

/// Why there is no user data for a node. The message names the field and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// A family whose nodes this version cannot start.
    #[error("user data for the family {family} is not supported: set spec.amiFamily to AL2023, Bottlerocket or Custom")]
    UnsupportedFamily {
        /// The name in `spec.amiFamily`.
        family: &'static str,
    },
    /// The rendered user data is longer than EC2 allows.
    #[error(
        "user data has {bytes} bytes, and EC2 allows {MAX_BYTES}: shorten spec.userData, or let it load its larger part at boot"
    )]
    TooLong {
        /// Length before base64.
        bytes: usize,
    },
    /// A value that the family requires.
    #[error("{field} is missing, and {family} nodes cannot join without it: {remedy}")]
    Missing { field: &'static str, family: &'static str, remedy: &'static str },
    /// A value that the node would refuse.
    #[error("{field}: found {found:?}, allowed: {allowed}")]
    Invalid {
        field: String,
        /// Its value, or the kind of its value.
        found: String,
        allowed: &'static str,
    },
    /// A field that the family cannot express.
    #[error("{field} is not supported by the family {family}: remove it, or choose another spec.amiFamily")]
    UnsupportedField { field: &'static str, family: &'static str },
    /// `spec.userData` cannot be read in the format of its family.
    #[error("spec.userData is not valid {format}: {problem}")]
    Malformed {
        /// `MIME`, `TOML` or `YAML`.
        format: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
}
