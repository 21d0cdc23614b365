//! What the instances of a launch are configured by.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::node_class::{NodeClassSpec, NodeClassStatus};
use crate::{ClusterFacts, InstanceTypeName, Labels, Taint, Text};

/// What the launch templates of an order are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTemplateInput {
    /// The cluster that the instances join.
    pub cluster: Arc<ClusterFacts>,
    /// `spec` of the EC2NodeClass.
    pub node_class: Arc<NodeClassSpec>,
    /// `status` of the EC2NodeClass when the order was decided.
    pub status: Arc<NodeClassStatus>,
    /// Labels of the NodeClaim.
    pub labels: Labels,
    /// `spec.taints` of the NodeClaim.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints` of the NodeClaim.
    pub startup_taints: Vec<Taint>,
    /// The instance types of the order's options that an image boots.
    pub instance_types: BTreeMap<InstanceTypeName, InstanceTypeInput>,
    /// The NodeClaim requests `vpc.amazonaws.com/efa`.
    pub uses_efa: bool,
    /// The NodeClaim requests `eks.amazonaws.com/nitro-sandbox`.
    pub uses_enclave: bool,
}

/// An instance type of a [`LaunchTemplateInput`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTypeInput {
    /// Maximum pods of an instance.
    pub max_pods: u32,
    /// Id of the image.
    pub image: Text,
    /// Name of the image.
    pub image_name: Text,
    /// Number of EFA interfaces of an instance.
    pub efa: u32,
}
