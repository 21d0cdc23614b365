//! The condition `ValidationSucceeded`: what must hold before the first launch, apart from what the selectors found.

mod kubelet;

use std::collections::{BTreeMap, BTreeSet};

use model::Text;
use model::node_class::{AmiFamily, NodeClassQuery, ReservationStatus, Resolution};

use super::conditions::{AMIS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY, missing, unknown};
use super::eks::{AccessEntry, EksCluster};
use super::images::unsupported_family;
use super::reservations::CAPACITY_BLOCK;
use super::security_groups::FoundGroup;
use super::subnets::FoundSubnet;
use crate::call_error::{CallError, CallErrorClass};

/// Tags by which instances, templates and profiles are found again; a user's value would hide them.
const RESERVED_TAGS: [&str; 4] =
    ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];
const RESERVED_PREFIXES: [&str; 2] = ["kubernetes.io/cluster", "fleetwright.dev/"];

pub(super) struct Validation<'a> {
    pub(super) query: &'a NodeClassQuery,
    pub(super) conditions: &'a BTreeMap<&'static str, Resolution>,
    /// EKS's answer; `None` when it says that it has no such cluster.
    pub(super) eks: Result<Option<&'a EksCluster>, &'a CallError>,
    pub(super) access: &'a AccessEntry,
    /// Why the cluster has no session of its role.
    pub(super) session: Option<&'a CallError>,
    /// Whether launches are made in a session of the cluster, which policies confine to what has its tag.
    pub(super) is_confined: bool,
    pub(super) subnets: &'a [FoundSubnet],
    pub(super) groups: &'a [FoundGroup],
    pub(super) reservations: &'a [ReservationStatus],
}

impl Validation<'_> {
    /// The first check that fails, in Karpenter's order: what waiting does not repair comes first.
    pub(super) fn condition(&self) -> Resolution {
        let checks = [
            Self::unsupported,
            Self::snapshots,
            Self::session,
            Self::service_cidr,
            Self::kubelet,
            Self::cluster_facts,
            Self::dependencies,
            Self::tags,
            Self::vpc,
            Self::access_entry,
        ];
        checks.into_iter().find_map(|check| check(self)).unwrap_or(Resolution::Met)
    }

    fn family(&self) -> AmiFamily {
        self.query.spec.ami_family
    }

    fn unsupported(&self) -> Option<Resolution> {
        let family = self.family();
        if family == AmiFamily::Al2 || family.windows_build().is_some() {
            return Some(missing("UnsupportedAMIFamily", unsupported_family(family)));
        }
        if self.query.spec.placement_group {
            let message = "spec.placementGroupSelector is not supported: remove it, instances are launched without a \
                           placement group";
            return Some(missing("UnsupportedPlacementGroup", message));
        }
        let blocks = self.reservations.iter().filter(|found| &*found.entry.reservation_type == CAPACITY_BLOCK);
        let blocks: Vec<&str> = blocks.map(|found| &*found.entry.id).collect();
        let message = || {
            let ids = blocks.join(", ");
            format!("capacity blocks are not supported: spec.capacityReservationSelectorTerms must not select {ids}")
        };
        (!blocks.is_empty()).then(|| missing("UnsupportedCapacityBlock", message()))
    }

    /// Whoever may write EC2NodeClasses could attach any snapshot that the server may use to a node, and read it.
    fn snapshots(&self) -> Option<Resolution> {
        let mut disks = self.query.spec.block_devices.iter().filter_map(|disk| disk.ebs.as_ref());
        let snapshot = disks.find_map(|volume| volume.snapshot_id.as_deref()).filter(|_| !self.is_confined)?;
        let message = format!(
            "spec.blockDeviceMappings names the snapshot {snapshot}, which may be another cluster's: it is allowed where \
             launches are made with a role of the cluster, whose policy admits snapshots with its tag (deploy/README.md, \
             roles)"
        );
        Some(missing("SnapshotNotConfined", message))
    }

    /// Every launch needs a session of the cluster.
    fn session(&self) -> Option<Resolution> {
        let error = self.session?;
        match error.class() {
            CallErrorClass::NotAssumable => Some(missing(error.reason(), error.to_string())),
            _ => Some(unknown(error.reason(), error.to_string())),
        }
    }

    /// AL2023 nodes cannot join without the addresses of Services.
    fn service_cidr(&self) -> Option<Resolution> {
        let reported = self.query.facts.service_cidr.is_some();
        if self.family() != AmiFamily::Al2023 || reported {
            return None;
        }
        let cluster = &self.query.cluster;
        let lacks = format!(
            "the service CIDR of cluster {cluster} is not known, and AL2023 nodes cannot join without it: check that its \
             agent reports it"
        );
        let reason = "ClusterCIDRResolutionFailed";
        match &self.eks {
            Ok(Some(EksCluster { service_cidr: Some(_), .. })) => None,
            Ok(Some(_)) => Some(missing(reason, format!("{lacks}; EKS does not show it"))),
            Ok(None) => Some(missing(reason, format!("{lacks}; EKS has no cluster of this name"))),
            Err(error) if error.class() == CallErrorClass::Denied => {
                Some(missing(reason, format!("{lacks}, or: {error}")))
            }
            Err(error) => Some(unknown(reason, format!("{lacks}; {error}"))),
        }
    }

    fn kubelet(&self) -> Option<Resolution> {
        let spec = &self.query.spec;
        kubelet::invalid(&spec.kubelet, &spec.kubelet_options)
            .map(|message| missing("InvalidKubeletConfiguration", message))
            .or_else(|| {
                let unsupported = kubelet::unsupported(self.family(), &spec.kubelet, &spec.kubelet_options)?;
                Some(missing("UnsupportedKubeletConfiguration", unsupported))
            })
    }

    /// User data of every family but Custom needs the address and the authority of the API server.
    fn cluster_facts(&self) -> Option<Resolution> {
        let facts = &self.query.facts;
        let needed =
            [("the API server's URL", &facts.endpoint), ("its certificate authority", &facts.certificate_authority)];
        let lacks: Vec<&str> = needed.iter().filter(|(_, fact)| fact.is_empty()).map(|(name, _)| *name).collect();
        if self.family() == AmiFamily::Custom || lacks.is_empty() {
            return None;
        }
        let message = format!(
            "the agent of cluster {} has not reported {}, which its nodes need to join: check that the agent runs, or set \
             it in the agent's configuration",
            self.query.cluster,
            lacks.join(" and ")
        );
        Some(unknown("ClusterFactsMissing", message))
    }

    fn dependencies(&self) -> Option<Resolution> {
        let needed = [AMIS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY];
        let reason = "DependenciesNotReady";
        if let Some(unmet) =
            needed.iter().find(|name| matches!(self.conditions.get(*name), Some(Resolution::Missing { .. })))
        {
            return Some(missing(reason, format!("{unmet} is false: its message says what is missing")));
        }
        let open = needed.iter().find(|name| self.conditions.get(*name) != Some(&Resolution::Met))?;
        Some(unknown(reason, format!("{open} is unknown: its message says what could not be looked up")))
    }

    fn tags(&self) -> Option<Resolution> {
        let reserved = |key: &&Text| {
            let has_prefix = |prefix: &&str| key.starts_with(*prefix);
            key.is_empty() || RESERVED_TAGS.contains(&key.as_ref()) || RESERVED_PREFIXES.iter().any(has_prefix)
        };
        let key = self.query.spec.tags.keys().find(reserved)?;
        let message = format!("spec.tags has the key {key:?}, which is empty or reserved for the server: remove it");
        Some(missing("TagValidationFailed", message))
    }

    /// An instance cannot have a security group of another VPC than its subnet's.
    fn vpc(&self) -> Option<Resolution> {
        let of_subnets: BTreeSet<&Text> = self.subnets.iter().map(|found| &found.vpc).collect();
        let foreign = |vpc: &Text| !vpc.is_empty() && !of_subnets.contains(vpc);
        let group = self.groups.iter().find(|found| foreign(&found.vpc))?;
        let vpcs: Vec<&str> = of_subnets.iter().map(|vpc| vpc.as_ref()).collect();
        let message = format!(
            "the security group {} is in {}, and the subnets are in {}: restrict spec.securityGroupSelectorTerms to the \
             VPC of the subnets",
            group.entry.id,
            group.vpc,
            vpcs.join(", ")
        );
        Some(missing("SecurityGroupSubnetVPCMismatch", message))
    }

    fn access_entry(&self) -> Option<Resolution> {
        let AccessEntry::Missing(arn) = self.access else { return None };
        let cluster = &self.query.cluster;
        let message = format!(
            "the EKS cluster {cluster} admits nodes by access entries and has none for the role {arn}: run `aws eks \
             create-access-entry --cluster-name {cluster} --principal-arn {arn} --type EC2_LINUX`"
        );
        Some(missing("AccessEntryNotFound", message))
    }
}

#[cfg(test)]
mod tests;
