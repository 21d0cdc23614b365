//! What the selectors of an EC2NodeClass found in the account: its `status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{NodeClassSpec, ReservationEntry};
use crate::{ClusterFacts, ClusterName, Requirements, Text, Timestamp, Zone};

/// `status` of an EC2NodeClass, without conditions. `None` in a field means that it has never been resolved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeClassStatus {
    /// `subnets`, those with most free addresses first.
    pub subnets: Option<Vec<SubnetEntry>>,
    /// `securityGroups`, by id.
    pub security_groups: Option<Vec<SecurityGroupEntry>>,
    /// `amis`, newest first.
    pub images: Option<Vec<ImageEntry>>,
    /// `capacityReservations`, by id.
    pub reservations: Option<Vec<ReservationStatus>>,
    /// `instanceProfile`: name of the profile that instances are launched with.
    pub instance_profile: Option<Text>,
}

/// An entry of `status.subnets`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubnetEntry {
    /// `id`.
    pub id: Text,
    /// `zone`: name of the zone.
    pub zone: Zone,
    /// `zoneID`; `None` when it is unknown.
    pub zone_id: Option<Text>,
}

/// An entry of `status.securityGroups`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecurityGroupEntry {
    /// `id`.
    pub id: Text,
    /// `name`.
    pub name: Text,
}

/// An entry of `status.amis`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageEntry {
    /// `id`.
    pub id: Text,
    /// `name`.
    pub name: Text,
    /// `deprecated`.
    pub deprecated: bool,
    /// `requirements`: the instance types that boot it.
    pub requirements: Requirements,
}

/// An entry of `status.capacityReservations`, with what the status does not show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationStatus {
    /// What planning needs; `count` is the number of free instances when it was resolved.
    pub entry: ReservationEntry,
    /// `instanceMatchCriteria`: `open` or `targeted`.
    pub instance_match_criteria: Text,
    /// `ownerID`: an account id.
    pub owner_id: Text,
    /// `endTime`; `None` when it has no end.
    pub end: Option<Timestamp>,
}

/// Conditions of an EC2NodeClass about what its selectors find, in the order of their names (Karpenter AWS:
/// conditions).
pub const RESOLVED_CONDITIONS: [&str; 5] =
    ["AMIsReady", "CapacityReservationsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady"];

/// Result of resolving one condition of an EC2NodeClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// The condition is met.
    Met,
    /// The condition is not met: something is missing in the account.
    Missing {
        /// Reason in CamelCase, such as `SubnetsNotFound`.
        reason: Text,
        /// What is missing, and what to do.
        message: Text,
    },
    /// It could not be looked up now; the last good value stays.
    Unknown {
        /// Reason in CamelCase.
        reason: Text,
        /// What failed, and what to do.
        message: Text,
    },
}

/// Result of resolving an EC2NodeClass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedNodeClass {
    /// What was found. A field whose condition is unknown has the last good value.
    pub status: NodeClassStatus,
    /// Result for each condition, by type, such as `SubnetsReady`.
    pub conditions: BTreeMap<&'static str, Resolution>,
    /// When what a condition is about was found in the account, by type of the condition: the time of its oldest answer.
    /// A condition without a time is about something that was not found now.
    pub found_at: BTreeMap<&'static str, Timestamp>,
    /// Addresses of Services as the cloud knows them, for clusters whose facts lack them.
    pub service_cidr: Option<Text>,
}

/// A request to resolve an EC2NodeClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClassQuery {
    /// Name of the cluster.
    pub cluster: ClusterName,
    /// UID of the cluster; empty when unknown.
    pub cluster_uid: Text,
    /// Name of the EC2NodeClass.
    pub name: Text,
    /// UID of the EC2NodeClass.
    pub uid: Text,
    /// Its `spec`.
    pub spec: Arc<NodeClassSpec>,
    /// Its `status` as observed.
    pub status: Arc<NodeClassStatus>,
    /// What the cluster says about itself.
    pub facts: Arc<ClusterFacts>,
}

impl ResolvedNodeClass {
    /// Whether both say the same, whenever it was found.
    #[must_use]
    pub fn is_same_result(&self, other: &Self) -> bool {
        let Self { status, conditions, found_at: _, service_cidr } = self;
        (status, conditions, service_cidr) == (&other.status, &other.conditions, &other.service_cidr)
    }
}

impl NodeClassStatus {
    /// The image of an instance type with these labels: the first whose requirements they meet (Karpenter AWS: images
    /// of instance types). `None` when no image boots it.
    #[must_use]
    pub fn image_for<'s>(&'s self, labels: &Requirements) -> Option<&'s ImageEntry> {
        Self::first_image(self.images.as_deref()?, labels)
    }

    /// The first of `images` that boots an instance type with these labels.
    #[must_use]
    pub fn first_image<'s>(images: &'s [ImageEntry], labels: &Requirements) -> Option<&'s ImageEntry> {
        images.iter().find(|image| labels.first_incompatible(&image.requirements, |_| true).is_none())
    }

    /// The subnets of a zone.
    pub fn subnets_in<'s>(&'s self, zone: &'s Zone) -> impl Iterator<Item = &'s SubnetEntry> {
        self.subnets.iter().flatten().filter(move |subnet| subnet.zone == *zone)
    }
}
