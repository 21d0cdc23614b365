use model::node_class::{
    AmiFamily, AmiTerm, BlockDevice, EbsVolume, InstanceIdentity, MetadataOptions, NetworkInterface, ReservationTerm,
    ResourceTerm, SoftThreshold, Threshold,
};
use model::{Millis, Resources};

use super::*;

fn spec(change: impl FnOnce(&mut NodeClassSpec)) -> NodeClassSpec {
    let mut spec = NodeClassSpec::default();
    change(&mut spec);
    spec
}

fn hash(change: impl FnOnce(&mut NodeClassSpec)) -> Text {
    node_class_hash(&spec(change))
}

#[test]
fn the_hash_of_a_release_is_the_hash_of_every_other() {
    // The fields that a class without settings has, sorted by name, each with its length before it, by the published
    // constants of FNV-1a.
    let fields = [
        ("amiFamily", "AL2023"),
        ("metadataOptions.httpEndpoint", "true"),
        ("metadataOptions.httpProtocolIPv6", "false"),
        ("metadataOptions.httpPutResponseHopLimit", "1"),
        ("metadataOptions.httpTokens", "true"),
        ("role", ""),
    ];
    let mut bytes = 6_u64.to_le_bytes().to_vec();
    for text in fields.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend(u64::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let expected = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, step);
    assert_eq!(hash(|_| {}).as_ref(), format!("{expected:016x}"));
}

#[test]
fn what_selectors_find_is_no_part_of_the_hash() {
    let changed: [fn(&mut NodeClassSpec); 5] = [
        |spec| spec.ami_terms = vec![AmiTerm { id: Some("ami-1".into()), ..AmiTerm::default() }],
        |spec| spec.subnet_terms = vec![ResourceTerm { id: Some("subnet-1".into()), ..ResourceTerm::default() }],
        |spec| spec.security_group_terms = vec![ResourceTerm::default()],
        |spec| spec.reservation_terms = vec![ReservationTerm::default()],
        |spec| spec.ip_prefix_count = Some(1),
    ];
    for (number, change) in changed.into_iter().enumerate() {
        assert_eq!(hash(change), hash(|_| {}), "change {number}");
    }
}

fn volume_of(change: fn(&mut EbsVolume)) -> Vec<BlockDevice> {
    let mut ebs = EbsVolume::default();
    change(&mut ebs);
    vec![BlockDevice { ebs: Some(ebs), ..BlockDevice::default() }]
}

fn soft() -> SoftThreshold {
    SoftThreshold { threshold: Threshold::Bytes(1), grace_period: Millis::new(1) }
}

/// One change for each field that is hashed.
const CHANGES: [fn(&mut NodeClassSpec); 43] = [
    |spec| spec.ami_family = AmiFamily::Bottlerocket,
    |spec| spec.placement_group = true,
    |spec| spec.identity = InstanceIdentity::Role("nodes".into()),
    |spec| spec.identity = InstanceIdentity::Profile("nodes".into()),
    |spec| spec.associate_public_ip = Some(false),
    |spec| spec.associate_public_ip = Some(true),
    |spec| spec.user_data = Some("a".into()),
    |spec| spec.user_data = Some("b".into()),
    |spec| spec.tags = [("a".into(), "b".into())].into(),
    |spec| spec.tags = [("a".into(), "c".into())].into(),
    |spec| spec.kubelet.max_pods = Some(10),
    |spec| spec.kubelet.pods_per_core = Some(10),
    |spec| spec.kubelet.system_reserved = Resources::from_iter([("cpu", 1)]),
    |spec| spec.kubelet.kube_reserved = Resources::from_iter([("cpu", 1)]),
    |spec| spec.kubelet.eviction_hard = [("memory.available".into(), Threshold::Bytes(1))].into(),
    |spec| spec.kubelet_options.cluster_dns = vec!["10.0.0.10".parse().unwrap()],
    |spec| spec.kubelet_options.eviction_soft = [("memory.available".into(), soft())].into(),
    |spec| spec.kubelet_options.eviction_max_pod_grace_period = Some(1),
    |spec| spec.kubelet_options.image_gc_high_threshold_percent = Some(1),
    |spec| spec.kubelet_options.image_gc_low_threshold_percent = Some(1),
    |spec| spec.kubelet_options.cpu_cfs_quota = Some(true),
    |spec| spec.block_devices = vec![BlockDevice { device_name: Some("x".into()), ..BlockDevice::default() }],
    |spec| spec.block_devices = vec![BlockDevice { root_volume: true, ..BlockDevice::default() }],
    |spec| spec.block_devices = volume_of(|ebs| ebs.delete_on_termination = Some(true)),
    |spec| spec.block_devices = volume_of(|ebs| ebs.encrypted = Some(true)),
    |spec| spec.block_devices = volume_of(|ebs| ebs.iops = Some(1)),
    |spec| spec.block_devices = volume_of(|ebs| ebs.kms_key_id = Some("k".into())),
    |spec| spec.block_devices = volume_of(|ebs| ebs.snapshot_id = Some("s".into())),
    |spec| spec.block_devices = volume_of(|ebs| ebs.throughput = Some(1)),
    |spec| spec.block_devices = volume_of(|ebs| ebs.initialization_rate = Some(1)),
    |spec| spec.block_devices = volume_of(|ebs| ebs.size = Some(1)),
    |spec| spec.block_devices = volume_of(|ebs| ebs.volume_type = Some("gp3".into())),
    |spec| spec.instance_store_raid0 = true,
    |spec| spec.network_interfaces = vec![NetworkInterface { card: 0, device: 0, efa_only: false }],
    |spec| spec.network_interfaces = vec![NetworkInterface { card: 0, device: 0, efa_only: true }],
    |spec| spec.connection_tracking.tcp_established = Some(60),
    |spec| spec.connection_tracking.udp_stream = Some(60),
    |spec| spec.connection_tracking.udp = Some(60),
    |spec| spec.detailed_monitoring = true,
    |spec| spec.metadata_options.http_put_response_hop_limit = 2,
    |spec| spec.metadata_options.http_tokens_required = false,
    |spec| spec.nested_virtualization = Some(true),
    |spec| spec.context = Some("c".into()),
];

#[test]
fn every_other_field_changes_the_hash() {
    let mut hashes: Vec<Text> = CHANGES.into_iter().map(hash).collect();
    let endpoint = hash(|spec| spec.metadata_options.http_endpoint = false);
    let ipv6 = hash(|spec| spec.metadata_options.http_protocol_ipv6 = true);
    hashes.extend([hash(|_| {}), endpoint, ipv6]);
    let all = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), all, "two changes have one hash");
}

#[test]
fn a_default_that_is_written_equals_an_absent_field() {
    let defaults: [fn(&mut NodeClassSpec); 3] = [
        |spec| spec.metadata_options = MetadataOptions::default(),
        |spec| spec.nested_virtualization = Some(false),
        |spec| spec.kubelet.pods_per_core = Some(0),
    ];
    for (number, change) in defaults.into_iter().enumerate() {
        assert_eq!(hash(change), hash(|_| {}), "default {number}");
    }
}

#[test]
fn the_order_of_lists_does_not_matter() {
    let device = |name: &str| BlockDevice { device_name: Some(name.into()), ..BlockDevice::default() };
    let interface = |device| NetworkInterface { card: 0, device, efa_only: false };
    let ordered = hash(|spec| {
        spec.block_devices = vec![device("a"), device("b")];
        spec.network_interfaces = vec![interface(0), interface(1)];
        spec.kubelet_options.cluster_dns = vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
    });
    let turned = hash(|spec| {
        spec.block_devices = vec![device("b"), device("a")];
        spec.network_interfaces = vec![interface(1), interface(0)];
        spec.kubelet_options.cluster_dns = vec!["10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()];
    });
    assert_eq!(ordered, turned);
}

#[test]
fn a_device_is_hashed_as_a_whole() {
    // The fields of two devices, taken together, are equal.
    let device =
        |name: &str, root_volume| BlockDevice { device_name: Some(name.into()), root_volume, ..BlockDevice::default() };
    let one = hash(|spec| spec.block_devices = vec![device("a", true), device("b", false)]);
    let other = hash(|spec| spec.block_devices = vec![device("a", false), device("b", true)]);
    assert_ne!(one, other);
}

#[test]
fn the_hash_of_all_fields_together_stays() {
    let mut spec = NodeClassSpec::default();
    // Of two changes of one field the later one counts.
    CHANGES.into_iter().for_each(|change| change(&mut spec));
    spec.block_devices = vec![
        BlockDevice { device_name: Some("/dev/xvda".into()), root_volume: true, ebs: None },
        BlockDevice { device_name: Some("/dev/xvdb".into()), root_volume: false, ebs: Some(volume_with_all_fields()) },
    ];
    assert_eq!(node_class_hash(&spec).as_ref(), "9249dbcc5a2b9eed");
}

fn volume_with_all_fields() -> EbsVolume {
    EbsVolume {
        delete_on_termination: Some(true),
        encrypted: Some(true),
        iops: Some(3_000),
        kms_key_id: Some("key".into()),
        snapshot_id: Some("snap-1".into()),
        throughput: Some(125),
        initialization_rate: Some(100),
        size: Some(20 << 30),
        volume_type: Some("gp3".into()),
    }
}
