//! What an account contains when it is created: network, images, roles, clusters, templates, reservations.

mod images;

use std::collections::BTreeMap;

use model::Timestamp;
use serde_json::Value;

use crate::catalogue::RegionCatalogue;
pub use crate::value::Tags;
pub use images::{EKS_VERSIONS, Image};

/// VPC of the seeded subnets.
pub const VPC: &str = "vpc-0a1b2c3d4e5f60001";

/// Tag by which Karpenter's guides have subnets and security groups found.
const DISCOVERY: &str = "karpenter.sh/discovery";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// Subnet id.
    pub id: String,
    /// Zone name.
    pub zone: String,
    /// VPC id.
    pub vpc: String,
    /// First address and prefix length, such as `10.0.0.0` and 18.
    pub cidr: ([u8; 4], u8),
    pub tags: Tags,
}

impl Subnet {
    /// Addresses for instances: all but the first four and the last (VPC: subnet CIDR blocks).
    #[must_use]
    pub fn addresses(&self) -> u32 {
        let host_bits = 32_u32.saturating_sub(u32::from(self.cidr.1));
        1_u32.checked_shl(host_bits).unwrap_or(u32::MAX).saturating_sub(5)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Group id.
    pub id: String,
    /// Group name.
    pub name: String,
    /// VPC id.
    pub vpc: String,
    pub tags: Tags,
}

/// A launch template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSeed {
    pub name: String,
    /// Content by the parameter names of `LaunchTemplateData`, such as `ImageId`.
    pub data: BTreeMap<String, String>,
}

/// A capacity reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Id, such as `cr-0123456789abcdef0`.
    pub id: String,
    /// Instance type name.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Number of instances.
    pub count: u32,
    /// Account id of the owner.
    pub owner: String,
    /// Whether only launches that name it use it; otherwise it is open to every launch that matches.
    pub targeted: bool,
    pub capacity_block: bool,
    /// Whether the owner may take the capacity back.
    pub interruptible: bool,
    /// End in milliseconds since 1970; `None` without a limit.
    pub ends_ms: Option<i64>,
    pub tags: Tags,
}

impl Reservation {
    /// A targeted reservation of `account` without an end.
    #[must_use]
    pub fn targeted(id: &str, instance_type: &str, zone: &str, count: u32, account: &str) -> Self {
        Self {
            id: id.to_owned(),
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            count,
            owner: account.to_owned(),
            targeted: true,
            capacity_block: false,
            interruptible: false,
            ends_ms: None,
            tags: Tags::new(),
        }
    }

    pub(crate) fn has_ended(&self, now: Timestamp) -> bool {
        self.ends_ms.is_some_and(|end| now.as_millis() >= end)
    }
}

/// An IAM role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Role name.
    pub name: String,
    /// External id that AssumeRole must name; `None` when the trust policy asks for none.
    pub external_id: Option<String>,
    /// Whether the trust policy allows `sts:TagSession`; without it, AssumeRole with tags is refused.
    pub tag_session: bool,
    /// Policies of the role as JSON documents. Its sessions may do what these allow; with none, everything.
    pub policies: Vec<Value>,
}

impl Role {
    /// A role that every caller may assume, with tags, and that may do everything.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), external_id: None, tag_session: true, policies: Vec::new() }
    }
}

/// An EKS cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Cluster name.
    pub name: String,
    /// Kubernetes version, such as `1.34`.
    pub version: String,
    /// Endpoint of the API server.
    pub endpoint: String,
    /// Certificate authority in base64.
    pub certificate_authority: String,
    /// Service addresses, IPv4.
    pub service_cidr: String,
    /// `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`.
    pub authentication_mode: String,
    /// Principals with an access entry of type `EC2_LINUX`, as ARNs.
    pub access_entries: Vec<String>,
}

/// Keys of the tags by which an instance is attributed to a cluster and a NodeClaim in the ledger of the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipTags {
    /// Cluster name.
    pub cluster: String,
    pub cluster_uid: String,
    /// NodeClaim name.
    pub claim: String,
    /// NodePool name.
    pub pool: String,
}

impl Default for OwnershipTags {
    fn default() -> Self {
        let key = |name: &str| format!("fleetwright.dev/{name}");
        Self {
            cluster: key("cluster"),
            cluster_uid: key("cluster-uid"),
            claim: key("nodeclaim"),
            pool: key("nodepool"),
        }
    }
}

/// What an account contains when it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSettings {
    /// Region name, such as `eu-west-1`.
    pub region: String,
    /// Account id of twelve digits.
    pub account: String,
    /// What the region sells.
    pub catalogue: RegionCatalogue,
    pub subnets: Vec<Subnet>,
    /// Security groups; the one named `default` of a VPC is used where a launch names none.
    pub security_groups: Vec<SecurityGroup>,
    pub images: Vec<Image>,
    /// SSM parameters by name.
    pub parameters: BTreeMap<String, String>,
    pub launch_templates: Vec<TemplateSeed>,
    /// Capacity reservations.
    pub reservations: Vec<Reservation>,
    pub roles: Vec<Role>,
    /// Instance profiles by name, with the name of their role.
    pub instance_profiles: BTreeMap<String, String>,
    /// EKS clusters.
    pub clusters: Vec<Cluster>,
    /// Tags that attribute instances.
    pub ownership: OwnershipTags,
}

impl AccountSettings {
    /// An account in `region` with one VPC, one subnet of 16,379 addresses for each zone, a security group, the role
    /// `KarpenterNodeRole-<cluster>` with its access entry, and EKS images. Subnets and security group have the
    /// tag `karpenter.sh/discovery=<cluster>`.
    #[must_use]
    pub fn new(region: &str, cluster: &str) -> Self {
        let catalogue = RegionCatalogue::embedded(region);
        let account = "123456789012".to_owned();
        let subnets = (0_u8..).zip(&catalogue.zones).map(|(at, (zone, _))| subnet(at, zone, cluster)).collect();
        let role = format!("KarpenterNodeRole-{cluster}");
        let (images, parameters) = images::eks_images(region);
        Self {
            subnets,
            security_groups: security_groups(cluster),
            images,
            parameters,
            launch_templates: Vec::new(),
            reservations: Vec::new(),
            clusters: vec![eks_cluster(region, cluster, &format!("arn:aws:iam::{account}:role/{role}"))],
            roles: vec![Role::new(role)],
            instance_profiles: BTreeMap::new(),
            ownership: OwnershipTags::default(),
            region: region.to_owned(),
            account,
            catalogue,
        }
    }
}

fn discovery_tags(cluster: &str, name: &str) -> Tags {
    [(DISCOVERY, cluster), ("Name", name)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn subnet(at: u8, zone: &str, cluster: &str) -> Subnet {
    Subnet {
        id: format!("subnet-0a1b2c3d4e5f6{:04}", u32::from(at) + 1),
        zone: zone.to_owned(),
        vpc: VPC.to_owned(),
        // Four networks of /18 in each 10.x.0.0/16.
        cidr: ([10, at / 4, (at % 4) * 64, 0], 18),
        tags: discovery_tags(cluster, &format!("{cluster}-{zone}")),
    }
}

fn security_groups(cluster: &str) -> Vec<SecurityGroup> {
    let group = |id: &str, name: &str, tags: Tags| SecurityGroup {
        id: id.to_owned(),
        name: name.to_owned(),
        vpc: VPC.to_owned(),
        tags,
    };
    let nodes = format!("{cluster}-nodes");
    vec![
        group("sg-0a1b2c3d4e5f60001", "default", Tags::new()),
        group("sg-0a1b2c3d4e5f60002", &nodes, discovery_tags(cluster, &nodes)),
    ]
}

fn eks_cluster(region: &str, name: &str, node_role: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        version: "1.34".to_owned(),
        endpoint: format!("https://0A1B2C3D4E5F6A7B8C9D.gr7.{region}.eks.amazonaws.com"),
        // "certificate authority of a simulated cluster"
        certificate_authority: "Y2VydGlmaWNhdGUgYXV0aG9yaXR5IG9mIGEgc2ltdWxhdGVkIGNsdXN0ZXI=".to_owned(),
        service_cidr: "10.100.0.0/16".to_owned(),
        authentication_mode: "API_AND_CONFIG_MAP".to_owned(),
        access_entries: vec![node_role.to_owned()],
    }
}
