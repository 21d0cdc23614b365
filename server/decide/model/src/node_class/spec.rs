//! What an EC2NodeClass says about its instances, as far as launches need it.

use std::collections::BTreeMap;

use super::{AmiFamily, HashedFields, KubeletOptions, KubeletSettings, NetworkInterface};
use crate::Text;

/// `spec` of an EC2NodeClass. Everything that changes a launch is here; [`NodeClassSettings`](super::NodeClassSettings)
/// has what changes the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeClassSpec {
    /// The effective image family: `amiFamily`, else the family of the alias, else Custom.
    pub ami_family: AmiFamily,
    /// `amiSelectorTerms`.
    pub ami_terms: Vec<AmiTerm>,
    /// `subnetSelectorTerms`.
    pub subnet_terms: Vec<ResourceTerm>,
    /// `securityGroupSelectorTerms`.
    pub security_group_terms: Vec<ResourceTerm>,
    /// `capacityReservationSelectorTerms`.
    pub reservation_terms: Vec<ReservationTerm>,
    /// `placementGroupSelector` is set.
    pub placement_group: bool,
    /// Who the instances are to AWS.
    pub identity: InstanceIdentity,
    /// `associatePublicIPAddress`; `None` leaves it to the subnet.
    pub associate_public_ip: Option<bool>,
    /// `ipPrefixCount`: address prefixes of each network interface.
    pub ip_prefix_count: Option<i32>,
    /// `userData`.
    pub user_data: Option<Text>,
    /// `tags`.
    pub tags: BTreeMap<Text, Text>,
    /// `kubelet`: what changes allocatable resources.
    pub kubelet: KubeletSettings,
    /// `kubelet`: the rest.
    pub kubelet_options: KubeletOptions,
    /// `blockDeviceMappings`; empty means the default of the family.
    pub block_devices: Vec<BlockDevice>,
    /// `instanceStorePolicy: RAID0`.
    pub instance_store_raid0: bool,
    /// `networkInterfaces`; empty means one interface.
    pub network_interfaces: Vec<NetworkInterface>,
    /// `connectionTracking`.
    pub connection_tracking: ConnectionTracking,
    /// `detailedMonitoring`.
    pub detailed_monitoring: bool,
    /// `metadataOptions`.
    pub metadata_options: MetadataOptions,
    /// `cpuOptions.nestedVirtualization`; `None` when it is not set.
    pub nested_virtualization: Option<bool>,
    /// `context`: passed on to EC2 as it is.
    pub context: Option<Text>,
}

impl NodeClassSpec {
    /// What the hash of the EC2NodeClass covers: `spec` without what a selector finds, which is compared by itself, and
    /// without `ipPrefixCount`, as Karpenter's. Of the image family it covers the effective one. A default is left out, as
    /// an absent field is.
    #[must_use]
    pub fn hashed_fields(&self) -> HashedFields {
        // Every field is named, so that an additional one does not compile until it is covered.
        let Self {
            ami_family,
            ami_terms: _,
            subnet_terms: _,
            security_group_terms: _,
            reservation_terms: _,
            placement_group,
            identity,
            associate_public_ip,
            ip_prefix_count: _,
            user_data,
            tags,
            kubelet,
            kubelet_options,
            block_devices,
            instance_store_raid0,
            network_interfaces,
            connection_tracking,
            detailed_monitoring,
            metadata_options,
            nested_virtualization,
            context,
        } = self;
        let mut fields = HashedFields::default();
        fields.add("amiFamily", Some(ami_family.as_str()));
        fields.add("placementGroupSelector", placement_group.then_some(true));
        match identity {
            InstanceIdentity::Role(role) => fields.add("role", Some(role)),
            InstanceIdentity::Profile(profile) => fields.add("instanceProfile", Some(profile)),
        }
        fields.add("associatePublicIPAddress", associate_public_ip.as_ref());
        fields.add("userData", user_data.as_ref());
        tags.iter().for_each(|(key, value)| fields.add(&format!("tags/{key}"), Some(value)));
        kubelet.add_to(&mut fields);
        kubelet_options.add_to(&mut fields);
        block_devices.iter().for_each(|device| fields.add_object("blockDeviceMappings", Some(device.hashed_fields())));
        fields.add("instanceStorePolicy", instance_store_raid0.then_some("RAID0"));
        network_interfaces.iter().for_each(|one| fields.add("networkInterfaces", Some(one.hashed_text())));
        connection_tracking.add_to(&mut fields);
        fields.add("detailedMonitoring", detailed_monitoring.then_some(true));
        metadata_options.add_to(&mut fields);
        fields.add("cpuOptions.nestedVirtualization", nested_virtualization.filter(|enabled| *enabled));
        fields.add("context", context.as_ref());
        fields
    }
}

/// The role of the instances; exactly one of `role` and `instanceProfile` is set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceIdentity {
    /// `role`: the server makes an instance profile with this role. May contain a path.
    Role(Text),
    /// `instanceProfile`: the name of a profile that the user has made.
    Profile(Text),
}

impl Default for InstanceIdentity {
    fn default() -> Self {
        Self::Role(Text::default())
    }
}

/// A term that selects subnets or security groups. Fields that are set must all match, except that an id excludes the
/// others and a name excludes tags (Karpenter: precedence in terms).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ResourceTerm {
    /// `id`.
    pub id: Option<Text>,
    /// `name`, of security groups.
    pub name: Option<Text>,
    /// `tags`; the value `*` means any.
    pub tags: BTreeMap<Text, Text>,
}

/// A term that selects images.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AmiTerm {
    /// `alias`: family and version, such as `al2023@latest`. Excludes every other field.
    pub alias: Option<Text>,
    /// `id`.
    pub id: Option<Text>,
    /// `name`; may contain `*`.
    pub name: Option<Text>,
    /// `owner`: an account id, or `self`, `amazon`, `aws-marketplace`.
    pub owner: Option<Text>,
    /// `tags`; the value `*` means any.
    pub tags: BTreeMap<Text, Text>,
    /// `ssmParameter`: name of a parameter that has the id.
    pub ssm_parameter: Option<Text>,
}

/// A term that selects capacity reservations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReservationTerm {
    /// `id`. Excludes the others.
    pub id: Option<Text>,
    /// `ownerID`: an account id.
    pub owner_id: Option<Text>,
    /// `instanceMatchCriteria`: `open` or `targeted`.
    pub instance_match_criteria: Option<Text>,
    /// `tags`; the value `*` means any.
    pub tags: BTreeMap<Text, Text>,
}

/// An entry of `blockDeviceMappings`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockDevice {
    /// `deviceName`.
    pub device_name: Option<Text>,
    /// `rootVolume`.
    pub root_volume: bool,
    /// `ebs`.
    pub ebs: Option<EbsVolume>,
}

impl BlockDevice {
    fn hashed_fields(&self) -> HashedFields {
        let Self { device_name, root_volume, ebs } = self;
        let mut fields = HashedFields::default();
        fields.add("deviceName", device_name.as_ref());
        fields.add("rootVolume", root_volume.then_some(true));
        fields.add_object("ebs", ebs.as_ref().map(EbsVolume::hashed_fields));
        fields
    }
}

/// An EBS volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EbsVolume {
    /// `deleteOnTermination`.
    pub delete_on_termination: Option<bool>,
    /// `encrypted`.
    pub encrypted: Option<bool>,
    /// `iops`.
    pub iops: Option<i64>,
    /// `kmsKeyID`.
    pub kms_key_id: Option<Text>,
    /// `snapshotID`.
    pub snapshot_id: Option<Text>,
    /// `throughput`, in MiB/s.
    pub throughput: Option<i64>,
    /// `volumeInitializationRate`, in MiB/s.
    pub initialization_rate: Option<i64>,
    /// `volumeSize`, in bytes.
    pub size: Option<i64>,
    /// `volumeType`, such as `gp3`.
    pub volume_type: Option<Text>,
}

impl EbsVolume {
    fn hashed_fields(&self) -> HashedFields {
        let Self {
            delete_on_termination,
            encrypted,
            iops,
            kms_key_id,
            snapshot_id,
            throughput,
            initialization_rate,
            size,
            volume_type,
        } = self;
        let mut fields = HashedFields::default();
        fields.add("deleteOnTermination", delete_on_termination.as_ref());
        fields.add("encrypted", encrypted.as_ref());
        fields.add("iops", iops.as_ref());
        fields.add("kmsKeyID", kms_key_id.as_ref());
        fields.add("snapshotID", snapshot_id.as_ref());
        fields.add("throughput", throughput.as_ref());
        fields.add("volumeInitializationRate", initialization_rate.as_ref());
        fields.add("size", size.as_ref());
        fields.add("volumeType", volume_type.as_ref());
        fields
    }
}

/// `connectionTracking`: timeouts in seconds; `None` is EC2's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnectionTracking {
    /// `tcpEstablishedTimeout`.
    pub tcp_established: Option<i32>,
    /// `udpStreamTimeout`.
    pub udp_stream: Option<i32>,
    /// `udpTimeout`.
    pub udp: Option<i32>,
}

impl ConnectionTracking {
    /// Whether it is set.
    #[must_use]
    pub fn is_set(self) -> bool {
        self != Self::default()
    }

    fn add_to(self, fields: &mut HashedFields) {
        let Self { tcp_established, udp_stream, udp } = self;
        fields.add("connectionTracking.tcpEstablishedTimeout", tcp_established);
        fields.add("connectionTracking.udpStreamTimeout", udp_stream);
        fields.add("connectionTracking.udpTimeout", udp);
    }
}

/// `metadataOptions`. The default is that of the CustomResourceDefinition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataOptions {
    /// `httpEndpoint`.
    pub http_endpoint: bool,
    /// `httpProtocolIPv6`.
    pub http_protocol_ipv6: bool,
    /// `httpPutResponseHopLimit`, 1 to 64.
    pub http_put_response_hop_limit: i32,
    /// `httpTokens` is `required`.
    pub http_tokens_required: bool,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: true,
            http_protocol_ipv6: false,
            http_put_response_hop_limit: 1,
            http_tokens_required: true,
        }
    }
}

impl MetadataOptions {
    fn add_to(self, fields: &mut HashedFields) {
        let Self { http_endpoint, http_protocol_ipv6, http_put_response_hop_limit, http_tokens_required } = self;
        fields.add("metadataOptions.httpEndpoint", Some(http_endpoint));
        fields.add("metadataOptions.httpProtocolIPv6", Some(http_protocol_ipv6));
        fields.add("metadataOptions.httpPutResponseHopLimit", Some(http_put_response_hop_limit));
        fields.add("metadataOptions.httpTokens", Some(http_tokens_required));
    }
}
