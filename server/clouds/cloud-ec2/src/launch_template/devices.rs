//! Disks, network interfaces and metadata options of a launch template: their values, which its name is made from, what of
//! a NodeClass they are taken from, and the request.

use core::net::IpAddr;

use aws_sdk_ec2::types::{
    ConnectionTrackingSpecificationRequest, LaunchTemplateBlockDeviceMappingRequest,
    LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateHttpTokensState, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
    LaunchTemplateInstanceMetadataTagsState, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, VolumeType,
};
use model::node_class::{AmiFamily, BlockDevice, EbsVolume, MetadataOptions, NodeClassSpec};
use model::{InstanceTypeInput, LaunchTemplateInput};
use serde::Serialize;

/// Regions whose EC2 does not know `HttpProtocolIpv6` (Karpenter AWS: launch templates).
const WITHOUT_METADATA_IPV6: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BlockDeviceMapping {
    pub(crate) device: Option<String>,
    pub(crate) ebs: Option<Ebs>,
}

impl BlockDeviceMapping {
    pub(super) fn request(&self) -> LaunchTemplateBlockDeviceMappingRequest {
        LaunchTemplateBlockDeviceMappingRequest::builder()
            .set_device_name(self.device.clone())
            .set_ebs(self.ebs.as_ref().map(Ebs::request))
            .build()
    }
}

/// The disks: those of the NodeClass, else the family's defaults (Karpenter AWS: blockDeviceMappings).
pub(super) fn block_devices(spec: &NodeClassSpec) -> Vec<BlockDeviceMapping> {
    if !spec.block_devices.is_empty() {
        return spec.block_devices.iter().map(mapping).collect();
    }
    match spec.ami_family {
        AmiFamily::Al2 | AmiFamily::Al2023 => vec![default_disk("/dev/xvda", 20)],
        AmiFamily::Bottlerocket => vec![default_disk("/dev/xvda", 4), default_disk("/dev/xvdb", 20)],
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            vec![default_disk("/dev/sda1", 50)]
        }
        AmiFamily::Custom => Vec::new(),
    }
}

fn default_disk(device: &str, size_gib: i32) -> BlockDeviceMapping {
    let (encrypted, volume_type) = (Some(true), Some("gp3".to_owned()));
    let ebs = Ebs { encrypted, size_gib: Some(size_gib), volume_type, ..Ebs::default() };
    BlockDeviceMapping { device: Some(device.to_owned()), ebs: Some(ebs) }
}

fn mapping(disk: &BlockDevice) -> BlockDeviceMapping {
    BlockDeviceMapping { device: disk.device_name.as_deref().map(str::to_owned), ebs: disk.ebs.as_ref().map(ebs) }
}

/// An EBS volume; fields as in EC2's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub(crate) struct Ebs {
    pub(crate) delete_on_termination: Option<bool>,
    pub(crate) encrypted: Option<bool>,
    pub(crate) iops: Option<i32>,
    pub(crate) kms_key_id: Option<String>,
    pub(crate) snapshot_id: Option<String>,
    pub(crate) throughput: Option<i32>,
    pub(crate) initialization_rate: Option<i32>,
    pub(crate) size_gib: Option<i32>,
    pub(crate) volume_type: Option<String>,
}

impl Ebs {
    fn request(&self) -> LaunchTemplateEbsBlockDeviceRequest {
        LaunchTemplateEbsBlockDeviceRequest::builder()
            .set_delete_on_termination(self.delete_on_termination)
            .set_encrypted(self.encrypted)
            .set_iops(self.iops)
            .set_kms_key_id(self.kms_key_id.clone())
            .set_snapshot_id(self.snapshot_id.clone())
            .set_throughput(self.throughput)
            .set_volume_initialization_rate(self.initialization_rate)
            .set_volume_size(self.size_gib)
            .set_volume_type(self.volume_type.as_deref().map(VolumeType::from))
            .build()
    }
}

/// EC2 refuses zero `iops` and `throughput`; they mean the default.
fn ebs(volume: &EbsVolume) -> Ebs {
    let number = |value: Option<i64>| value.filter(|value| *value != 0).and_then(|value| i32::try_from(value).ok());
    let text = |value: &Option<model::Text>| value.as_deref().map(str::to_owned);
    Ebs {
        delete_on_termination: volume.delete_on_termination,
        encrypted: volume.encrypted,
        iops: number(volume.iops),
        kms_key_id: text(&volume.kms_key_id),
        snapshot_id: text(&volume.snapshot_id),
        throughput: number(volume.throughput),
        initialization_rate: number(volume.initialization_rate),
        size_gib: number(volume.size.map(whole_gib)),
        volume_type: text(&volume.volume_type),
    }
}

/// Bytes as GiB, rounded up.
fn whole_gib(bytes: i64) -> i64 {
    const GIB: i64 = 1 << 30;
    bytes / GIB + i64::from(bytes % GIB > 0)
}

/// Options of the instance metadata service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Metadata {
    pub(crate) endpoint: bool,
    /// `None` in regions that do not know the field.
    pub(crate) ipv6: Option<bool>,
    pub(crate) hop_limit: i32,
    pub(crate) tokens_required: bool,
}

impl Metadata {
    /// Tags stay out of the metadata service, which refuses keys with a slash.
    pub(super) fn request(&self) -> LaunchTemplateInstanceMetadataOptionsRequest {
        use LaunchTemplateInstanceMetadataEndpointState as Endpoint;
        use LaunchTemplateInstanceMetadataProtocolIpv6 as Ipv6;
        let endpoint = if self.endpoint { Endpoint::Enabled } else { Endpoint::Disabled };
        let ipv6 = self.ipv6.map(|on| if on { Ipv6::Enabled } else { Ipv6::Disabled });
        let tokens = match self.tokens_required {
            true => LaunchTemplateHttpTokensState::Required,
            false => LaunchTemplateHttpTokensState::Optional,
        };
        LaunchTemplateInstanceMetadataOptionsRequest::builder()
            .http_endpoint(endpoint)
            .set_http_protocol_ipv6(ipv6)
            .http_put_response_hop_limit(self.hop_limit)
            .http_tokens(tokens)
            .instance_metadata_tags(LaunchTemplateInstanceMetadataTagsState::Disabled)
            .build()
    }
}

pub(super) fn metadata(options: &MetadataOptions, region: &str) -> Metadata {
    let ipv6 = (!WITHOUT_METADATA_IPV6.contains(&region)).then_some(options.http_protocol_ipv6);
    Metadata {
        endpoint: options.http_endpoint,
        ipv6,
        hop_limit: options.http_put_response_hop_limit,
        tokens_required: options.http_tokens_required,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Interface {
    pub(crate) card: Option<i32>,
    pub(crate) device: i32,
    /// `interface`, `efa` or `efa-only`; `None` leaves it to EC2.
    pub(crate) kind: Option<&'static str>,
    pub(crate) security_groups: Vec<String>,
    pub(crate) associate_public_ip: Option<bool>,
    pub(crate) ipv4_prefixes: Option<i32>,
    pub(crate) ipv6_prefixes: Option<i32>,
    /// The interface gets a primary IPv6 address.
    pub(crate) primary_ipv6: bool,
    pub(crate) connection_tracking: Option<Timeouts>,
}

/// Timeouts of tracked connections, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Timeouts {
    pub(crate) tcp_established: Option<i32>,
    pub(crate) udp_stream: Option<i32>,
    pub(crate) udp: Option<i32>,
}

impl Interface {
    pub(super) fn request(&self) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
        let tracking = self.connection_tracking.as_ref().map(|timeouts| {
            ConnectionTrackingSpecificationRequest::builder()
                .set_tcp_established_timeout(timeouts.tcp_established)
                .set_udp_stream_timeout(timeouts.udp_stream)
                .set_udp_timeout(timeouts.udp)
                .build()
        });
        LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
            .set_network_card_index(self.card)
            .device_index(self.device)
            .set_interface_type(self.kind.map(str::to_owned))
            .set_groups(Some(self.security_groups.clone()))
            .set_associate_public_ip_address(self.associate_public_ip)
            .set_ipv4_prefix_count(self.ipv4_prefixes)
            .set_ipv6_prefix_count(self.ipv6_prefixes)
            .set_primary_ipv6(self.primary_ipv6.then_some(true))
            .set_ipv6_address_count(self.primary_ipv6.then_some(1))
            .set_connection_tracking_specification(tracking)
            .build()
    }
}

/// The network interfaces: those of the NodeClass; else one for each EFA if `efa` is not 0; else one.
pub(super) fn interfaces(spec: &NodeClassSpec, groups: &[String], dns: &[IpAddr], efa: u32) -> Vec<Interface> {
    let plain = interface(spec, groups, dns.first().is_some_and(IpAddr::is_ipv6));
    let index = |index: u32| i32::try_from(index).unwrap_or(i32::MAX);
    if !spec.network_interfaces.is_empty() {
        let each = spec.network_interfaces.iter().map(|wanted| {
            let card = Some(index(wanted.card));
            let device = index(wanted.device);
            if wanted.efa_only {
                Interface { card, device, kind: Some("efa-only"), ..without_addresses(groups) }
            } else {
                Interface { card, device, kind: Some("interface"), ..plain.clone() }
            }
        });
        return each.collect();
    }
    if efa > 0 {
        let of_card = |card: u32| Interface {
            card: Some(index(card)),
            device: i32::from(card != 0),
            kind: Some("efa"),
            ..plain.clone()
        };
        return (0..efa).map(of_card).collect();
    }
    vec![plain]
}

fn interface(spec: &NodeClassSpec, groups: &[String], ipv6: bool) -> Interface {
    let tracking = spec.connection_tracking;
    Interface {
        associate_public_ip: spec.associate_public_ip,
        ipv4_prefixes: spec.ip_prefix_count.filter(|count| !ipv6 && *count > 0),
        ipv6_prefixes: spec.ip_prefix_count.filter(|count| ipv6 && *count > 0),
        primary_ipv6: ipv6,
        connection_tracking: tracking.is_set().then_some(Timeouts {
            tcp_established: tracking.tcp_established,
            udp_stream: tracking.udp_stream,
            udp: tracking.udp,
        }),
        ..without_addresses(groups)
    }
}

/// An interface that carries no address of its own.
fn without_addresses(groups: &[String]) -> Interface {
    Interface {
        card: None,
        device: 0,
        kind: None,
        security_groups: groups.to_vec(),
        associate_public_ip: None,
        ipv4_prefixes: None,
        ipv6_prefixes: None,
        primary_ipv6: false,
        connection_tracking: None,
    }
}

/// Number of EFA interfaces of an instance of the type `kind` that needs them and whose NodeClass names none.
pub(super) fn efa_interfaces(kind: &InstanceTypeInput, input: &LaunchTemplateInput) -> u32 {
    if input.uses_efa && input.node_class.network_interfaces.is_empty() { kind.efa } else { 0 }
}
