//! What is compared, and what came of it.

use std::fmt;

use model::node_class::{ImageEntry, ReservationStatus, SecurityGroupEntry, SubnetEntry};
use model::{Catalogue, InstanceDetails, Labels, Requirements, Text, Timestamp};

/// A hash and the version of the function that made it. Hashes of different versions are not
/// comparable.
pub type VersionedHash = (Text, Text);

/// A launched NodeClaim. What is `None` is unknown, and no drift follows from it.
#[derive(Debug, Clone, Copy)]
pub struct DriftClaim<'a> {
    /// `metadata.labels`.
    pub labels: &'a Labels,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// The annotations `karpenter.sh/nodepool-hash` and its version.
    pub karpenter_hash: Option<&'a VersionedHash>,
    /// The annotations `fleetwright.dev/nodepool-hash` and its version.
    pub own_hash: Option<&'a VersionedHash>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version.
    pub class_hash: Option<&'a VersionedHash>,
    /// The annotations `fleetwright.dev/ec2nodeclass-hash` and its version.
    pub own_class_hash: Option<&'a VersionedHash>,
    /// `status.imageID`.
    pub image: Option<&'a Text>,
    /// What the cloud lists of its instance.
    pub instance: Option<&'a InstanceDetails>,
    /// Reason and message of a condition `Drifted` that is accepted as it stands, such as one of a
    /// captured cluster.
    pub condition: Option<(&'a Text, &'a Text)>,
}

/// The NodePool of a NodeClaim, and its NodeClass, as they are now.
#[derive(Debug, Clone, Copy)]
pub struct DriftPool<'a> {
    /// The annotations `karpenter.sh/nodepool-hash` and its version.
    pub karpenter_hash: Option<&'a VersionedHash>,
    /// [`NodePoolTemplate::hash`](crate::NodePoolTemplate::hash) with [`HASH_VERSION`](crate::HASH_VERSION).
    pub own_hash: Option<&'a VersionedHash>,
    /// Requirements of the template, merged with its labels or not.
    pub requirements: &'a Requirements,
    /// Labels of the template. The hash covers them, and requirements on their keys are not
    /// compared.
    pub labels: &'a Labels,
    /// The instance types that the NodePool may launch, before requirements. An empty one is
    /// unknown.
    pub catalogue: &'a Catalogue,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version.
    pub class_hash: Option<&'a VersionedHash>,
    /// [`node_class_hash`](crate::node_class_hash) of the EC2NodeClass with
    /// [`NODE_CLASS_HASH_VERSION`](crate::NODE_CLASS_HASH_VERSION).
    pub own_class_hash: Option<&'a VersionedHash>,
    /// What the selectors of the NodeClass find.
    pub selected: Selected<'a>,
}

/// Why a NodeClaim has drifted: what the condition `Drifted` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    pub reason: DriftReason,
    /// What differs, in one sentence.
    pub message: Text,
}

/// The reason of a condition `Drifted`, with the spelling of Karpenter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriftReason {
    /// The hash of the NodePool's template differs.
    NodePoolDrifted,
    /// The labels do not satisfy the NodePool's requirements.
    RequirementsDrifted,
    /// The instance type, or its offering, does not exist any more.
    InstanceTypeNotFound,
    /// The hash of the NodeClass differs.
    NodeClassDrift,
    /// The NodeClass selects another image for the instance type.
    AmiDrift,
    /// The NodeClass selects other security groups.
    SecurityGroupDrift,
    /// The NodeClass does not select the subnet.
    SubnetDrift,
    /// The NodeClass does not select the capacity reservation.
    CapacityReservationDrift,
    /// The reason of a condition that was given.
    Given(Text),
}

impl DriftReason {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::NodePoolDrifted => "NodePoolDrifted",
            Self::RequirementsDrifted => "RequirementsDrifted",
            Self::InstanceTypeNotFound => "InstanceTypeNotFound",
            Self::NodeClassDrift => "NodeClassDrift",
            Self::AmiDrift => "AMIDrift",
            Self::SecurityGroupDrift => "SecurityGroupDrift",
            Self::SubnetDrift => "SubnetDrift",
            Self::CapacityReservationDrift => "CapacityReservationDrift",
            Self::Given(reason) => reason,
        }
    }
}

impl fmt::Display for DriftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the selectors of a NodeClass find. Nothing drifts from what is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Selected<'a> {
    /// Images, newest first; `None` or empty while they are unknown.
    pub images: Option<&'a [ImageEntry]>,
    /// Security groups; `None` or empty while they are unknown.
    pub security_groups: Option<&'a [SecurityGroupEntry]>,
    /// Subnets; `None` or empty while they are unknown.
    pub subnets: Option<&'a [SubnetEntry]>,
    /// Capacity reservations; `None` while they are unknown.
    pub reservations: Option<&'a [ReservationStatus]>,
}

pub(crate) fn drift(reason: DriftReason, message: impl Into<Text>) -> Drift {
    Drift { reason, message: message.into() }
}
