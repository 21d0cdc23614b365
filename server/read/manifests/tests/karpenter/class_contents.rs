//! `spec` and `status` of EC2NodeClasses, as launches need them.

use std::collections::BTreeMap;

use model::node_class::{
    AmiFamily, AmiTerm, BlockDevice, ConnectionTracking, EbsVolume, ImageEntry, InstanceIdentity, KubeletOptions,
    KubeletSettings, MetadataOptions, NetworkInterface, NodeClassSpec, NodeClassStatus, ReservationEntry,
    ReservationStatus, ReservationTerm, ResourceTerm, SecurityGroupEntry, SoftThreshold, SubnetEntry, Threshold,
};
use model::{Millis, Operator, Requirement, Requirements, Text, Timestamp};

use super::classes::{ALIAS, class, good, read};

/// A class that sets every field of `spec`, with metadata.
const FULL: &str = "apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: full, uid: 0b-1c, generation: 4}
spec:
  amiFamily: Bottlerocket
  amiSelectorTerms:
  - {name: 'rocket-*', owner: self, tags: {team: a}}
  - {id: ami-0a1}
  - {ssmParameter: /images/rocket}
  subnetSelectorTerms: [{id: subnet-0a}, {tags: {net: '*'}}]
  securityGroupSelectorTerms: [{name: nodes}, {id: sg-0a1}]
  capacityReservationSelectorTerms: [{id: cr-0a}, {ownerID: '123456789012', instanceMatchCriteria: open, tags: {b: c}}]
  placementGroupSelector: {name: near}
  instanceProfile: made-by-hand
  associatePublicIPAddress: false
  ipPrefixCount: 2
  userData: 'a = 1'
  tags: {cost: x, empty: ''}
  kubelet:
    clusterDNS: [10.100.0.10, 'fd00::a']
    maxPods: 58
    evictionSoft: {memory.available: 500Mi, nodefs.available: 5%}
    evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 500ms}
    evictionMaxPodGracePeriod: 60
    imageGCHighThresholdPercent: 80
    imageGCLowThresholdPercent: 70
    cpuCFSQuota: false
  blockDeviceMappings:
  - {deviceName: /dev/xvda, ebs: {volumeSize: 4Gi, encrypted: true}}
  - deviceName: /dev/xvdb
    rootVolume: true
    ebs: {volumeSize: 1T, volumeType: io2, iops: 5000, throughput: 250, kmsKeyID: key, deleteOnTermination: false, snapshotID: snap-1, volumeInitializationRate: 200}
  instanceStorePolicy: RAID0
  networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}]
  connectionTracking: {tcpEstablishedTimeout: 600, udpTimeout: 45}
  detailedMonitoring: true
  metadataOptions: {httpEndpoint: disabled, httpProtocolIPv6: enabled, httpPutResponseHopLimit: 3, httpTokens: optional}
  cpuOptions: {nestedVirtualization: disabled}
  context: opaque
";

fn map(entries: &[(&str, &str)]) -> BTreeMap<Text, Text> {
    entries.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}

fn some(text: &str) -> Option<Text> {
    Some(text.into())
}

fn full_kubelet_options() -> KubeletOptions {
    let soft = |threshold, millis| SoftThreshold { threshold, grace_period: Millis::new(millis) };
    KubeletOptions {
        cluster_dns: vec!["10.100.0.10".parse().unwrap(), "fd00::a".parse().unwrap()],
        eviction_soft: BTreeMap::from([
            ("memory.available".into(), soft(Threshold::Bytes(524_288_000), 90_000)), // 500 * 1024 * 1024
            ("nodefs.available".into(), soft(Threshold::Millionths(50_000), 500)),
        ]),
        eviction_max_pod_grace_period: Some(60),
        image_gc_high_threshold_percent: Some(80),
        image_gc_low_threshold_percent: Some(70),
        cpu_cfs_quota: Some(false),
    }
}

fn full_disks() -> Vec<BlockDevice> {
    let small = EbsVolume { encrypted: Some(true), size: Some(4 << 30), ..EbsVolume::default() };
    let large = EbsVolume {
        delete_on_termination: Some(false),
        encrypted: None,
        iops: Some(5_000),
        kms_key_id: some("key"),
        snapshot_id: some("snap-1"),
        throughput: Some(250),
        initialization_rate: Some(200),
        size: Some(1_000_000_000_000),
        volume_type: some("io2"),
    };
    vec![
        BlockDevice { device_name: some("/dev/xvda"), root_volume: false, ebs: Some(small) },
        BlockDevice { device_name: some("/dev/xvdb"), root_volume: true, ebs: Some(large) },
    ]
}

#[test]
fn launches_get_every_field_of_the_spec() {
    let (class, errors) = read(FULL);
    assert_eq!(errors, [""; 0]);
    assert_eq!((class.uid.as_ref(), class.generation), ("0b-1c", 4));
    let expected = NodeClassSpec {
        ami_family: AmiFamily::Bottlerocket,
        ami_terms: vec![
            AmiTerm { name: some("rocket-*"), owner: some("self"), tags: map(&[("team", "a")]), ..AmiTerm::default() },
            AmiTerm { id: some("ami-0a1"), ..AmiTerm::default() },
            AmiTerm { ssm_parameter: some("/images/rocket"), ..AmiTerm::default() },
        ],
        subnet_terms: vec![
            ResourceTerm { id: some("subnet-0a"), ..ResourceTerm::default() },
            ResourceTerm { tags: map(&[("net", "*")]), ..ResourceTerm::default() },
        ],
        security_group_terms: vec![
            ResourceTerm { name: some("nodes"), ..ResourceTerm::default() },
            ResourceTerm { id: some("sg-0a1"), ..ResourceTerm::default() },
        ],
        reservation_terms: vec![
            ReservationTerm { id: some("cr-0a"), ..ReservationTerm::default() },
            ReservationTerm {
                id: None,
                owner_id: some("123456789012"),
                instance_match_criteria: some("open"),
                tags: map(&[("b", "c")]),
            },
        ],
        placement_group: true,
        identity: InstanceIdentity::Profile("made-by-hand".into()),
        associate_public_ip: Some(false),
        ip_prefix_count: Some(2),
        user_data: some("a = 1"),
        tags: map(&[("cost", "x"), ("empty", "")]),
        kubelet: KubeletSettings { max_pods: Some(58), ..KubeletSettings::default() },
        kubelet_options: full_kubelet_options(),
        block_devices: full_disks(),
        instance_store_raid0: true,
        network_interfaces: vec![NetworkInterface { card: 0, device: 0, efa_only: false }],
        connection_tracking: ConnectionTracking { tcp_established: Some(600), udp_stream: None, udp: Some(45) },
        detailed_monitoring: true,
        metadata_options: MetadataOptions {
            http_endpoint: false,
            http_protocol_ipv6: true,
            http_put_response_hop_limit: 3,
            http_tokens_required: false,
        },
        nested_virtualization: Some(false),
        context: some("opaque"),
    };
    assert_eq!(class.spec, expected);
}

#[test]
fn a_field_that_is_absent_has_the_default_of_the_schema() {
    let class = good(ALIAS);
    let expected = NodeClassSpec {
        ami_family: AmiFamily::Al2023,
        ami_terms: vec![AmiTerm { alias: some("al2023@latest"), ..AmiTerm::default() }],
        subnet_terms: vec![ResourceTerm { tags: map(&[("net", "a")]), ..ResourceTerm::default() }],
        security_group_terms: vec![ResourceTerm { id: some("sg-0a1"), ..ResourceTerm::default() }],
        identity: InstanceIdentity::Role("nodes".into()),
        // The CustomResourceDefinition: enabled, disabled, 1, required.
        metadata_options: MetadataOptions {
            http_endpoint: true,
            http_protocol_ipv6: false,
            http_put_response_hop_limit: 1,
            http_tokens_required: true,
        },
        ..NodeClassSpec::default()
    };
    assert_eq!(class.spec, expected);
    assert_eq!((class.uid.as_ref(), class.generation, class.status), ("", 0, NodeClassStatus::default()));
    let hops = good(&format!("{ALIAS}  metadataOptions: {{httpPutResponseHopLimit: 2}}")).spec.metadata_options;
    assert_eq!(hops, MetadataOptions { http_put_response_hop_limit: 2, ..expected.metadata_options });
}

#[test]
fn addresses_and_grace_periods_that_a_kubelet_cannot_read_are_errors() {
    let errors = |block: &str| read(&class(&format!("{ALIAS}  kubelet: {block}"))).1;
    assert_eq!(
        errors("{clusterDNS: [10.0.0.10, dns.local]}"),
        [r#"spec.kubelet.clusterDNS[1]: found "dns.local", allowed: an IP address, such as 10.100.0.10"#]
    );
    assert_eq!(
        errors("{evictionSoft: {memory.available: 1Gi}, evictionSoftGracePeriod: {memory.available: soon}}"),
        [concat!(
            r#"spec.kubelet.evictionSoftGracePeriod["memory.available"]: found "soon", "#,
            "allowed: a duration of zero or more, such as 90s or 1m30s"
        )]
    );
}

#[test]
fn launches_get_what_the_selectors_found() {
    let status = "status:
  subnets: [{id: subnet-0b, zone: eu-west-1b, zoneID: euw1-az2}, {id: subnet-0a, zone: eu-west-1a}]
  securityGroups: [{id: sg-0a1, name: nodes}, {id: sg-0a2}]
  amis:
  - {id: ami-0b, name: new, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}
  - {id: ami-0a, name: old, deprecated: true, requirements: []}
  capacityReservations:
  - {id: cr-0a, availabilityZone: eu-west-1a, instanceType: m7g.large, ownerID: '123456789012', instanceMatchCriteria: targeted, reservationType: capacity-block, state: expiring, endTime: 1970-01-02T00:00:00Z, interruptible: true}
  instanceProfile: profile-1
";
    let (read, errors) = read(&format!("{}{status}", class(ALIAS)));
    assert_eq!(errors, [""; 0]);
    let arm = Requirement::new("kubernetes.io/arch", Operator::In, [Text::from("arm64")]);
    let image = |id: &str, name: &str, deprecated, requirements| ImageEntry {
        id: id.into(),
        name: name.into(),
        deprecated,
        requirements,
    };
    let subnet = |id: &str, zone: &str, zone_id| SubnetEntry { id: id.into(), zone: zone.into(), zone_id };
    let group = |id: &str, name: &str| SecurityGroupEntry { id: id.into(), name: name.into() };
    let entry = ReservationEntry {
        id: "cr-0a".into(),
        zone: "eu-west-1a".into(),
        instance_type: "m7g.large".into(),
        expiring: true,
        reservation_type: "capacity-block".into(),
        interruptible: true,
        count: None,
    };
    let expected = NodeClassStatus {
        subnets: Some(vec![
            subnet("subnet-0b", "eu-west-1b", some("euw1-az2")),
            subnet("subnet-0a", "eu-west-1a", None),
        ]),
        security_groups: Some(vec![group("sg-0a1", "nodes"), group("sg-0a2", "")]),
        images: Some(vec![
            image("ami-0b", "new", false, Requirements::from_iter([arm])),
            image("ami-0a", "old", true, Requirements::default()),
        ]),
        reservations: Some(vec![ReservationStatus {
            entry,
            instance_match_criteria: "targeted".into(),
            owner_id: "123456789012".into(),
            end: Some(Timestamp::from_millis(86_400_000)),
        }]),
        instance_profile: some("profile-1"),
    };
    assert_eq!(read.status, expected);
}
