//! Disks, network interfaces and metadata options of a NodeClass.

use core::net::IpAddr;

use model::node_class::{AmiFamily, BlockDevice, EbsVolume, MetadataOptions, NodeClassSpec};

use super::content::{BlockDeviceMapping, Ebs, Interface, Metadata, Timeouts};

/// Regions whose EC2 does not know `HttpProtocolIpv6` (Karpenter AWS: launch templates).
const WITHOUT_METADATA_IPV6: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

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

pub(super) fn metadata(options: &MetadataOptions, region: &str) -> Metadata {
    let ipv6 = (!WITHOUT_METADATA_IPV6.contains(&region)).then_some(options.http_protocol_ipv6);
    Metadata {
        endpoint: options.http_endpoint,
        ipv6,
        hop_limit: options.http_put_response_hop_limit,
        tokens_required: options.http_tokens_required,
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
