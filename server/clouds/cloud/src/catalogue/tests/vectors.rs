//! Capacity and allocatable of known types.

use model::Resources;
use model::node_class::{AmiFamily, KubeletSettings, NetworkInterface, NodeClassSettings, Threshold};

use super::super::{RegionOptions, build};
use super::{MIB, build_us_east_1, builtin, find};

/// Type, pods, allocatable millicores and MiB, as Karpenter documents for AL2023 with defaults.
const KNOWN: [(&str, i64, i64, i64); 16] = [
    ("t3.nano", 4, 1930, 74),
    ("t4g.nano", 4, 1930, 15),
    ("t4g.small", 11, 1930, 1359),
    ("t3.medium", 17, 1930, 3246),
    ("a1.medium", 8, 940, 1392),
    ("m5.large", 29, 1930, 6903),
    ("m6g.large", 29, 1930, 6844),
    ("c6a.48xlarge", 737, 191_450, 355_262),
    ("m5.metal", 737, 95_690, 355_262),
    ("c7gn.16xlarge", 737, 63_770, 112_720),
    ("g4dn.xlarge", 29, 3920, 14_481),
    ("p4d.24xlarge", 737, 95_690, 1_082_712),
    ("p5.48xlarge", 100, 191_450, 1_938_410),
    ("inf2.24xlarge", 737, 95_690, 355_262),
    ("trn1.32xlarge", 247, 127_610, 481_894),
    ("x2iedn.32xlarge", 737, 127_610, 3_871_269),
];

#[test]
fn allocatable_resources_match_karpenters_documentation() {
    let built = build_us_east_1(&NodeClassSettings::default());
    for (name, pods, cpu, memory) in KNOWN {
        let machine = find(&built, name);
        let allocatable = &machine.allocatable;
        assert_eq!(
            (allocatable.get("pods"), allocatable.get("cpu"), allocatable.get("memory")),
            (pods, cpu, memory * MIB),
            "{name}"
        );
        // 20 GiB of disk, less 1 GiB for the kubelet, less 10% (2 GiB) that stays free.
        assert_eq!(allocatable.get("ephemeral-storage"), 17 << 30, "{name}");
    }
}

#[test]
fn devices_are_counted() {
    let built = build_us_east_1(&NodeClassSettings::default());
    for (name, device, count) in [
        ("m5.large", "vpc.amazonaws.com/pod-eni", 9),
        ("c6a.48xlarge", "vpc.amazonaws.com/efa", 1),
        ("g4dn.xlarge", "nvidia.com/gpu", 1),
        ("p4d.24xlarge", "vpc.amazonaws.com/efa", 4),
        ("p4d.24xlarge", "nvidia.com/gpu", 8),
        ("p5.48xlarge", "nvidia.com/gpu", 8),
        ("p5.48xlarge", "vpc.amazonaws.com/efa", 32),
        ("inf2.24xlarge", "aws.amazon.com/neuron", 6),
        ("inf2.24xlarge", "aws.amazon.com/neuroncore", 12), // 6 devices of 2 cores
        ("trn1.32xlarge", "aws.amazon.com/neuron", 16),
        ("trn1.32xlarge", "vpc.amazonaws.com/efa", 8),
        ("trn1.32xlarge", "aws.amazon.com/neuroncore", 32), // 16 devices of 2 cores
        ("g6f.large", "nvidia.com/gpu", 0),                 // a fraction of one
    ] {
        assert_eq!(find(&built, name).capacity.get(device), count, "{name} {device}");
    }
}

#[test]
fn metal_and_accelerators_are_exotic() {
    let built = build_us_east_1(&NodeClassSettings::default());
    for (name, exotic) in [("m5.metal", true), ("c7i.metal-24xl", true), ("g4dn.xlarge", true), ("inf1.xlarge", true)] {
        assert_eq!(find(&built, name).exotic, exotic, "{name}");
    }
    assert!(!find(&built, "m5.large").exotic);
}

#[test]
fn the_kubelet_settings_of_a_nodeclass_change_allocatable_resources() {
    let kubelet = KubeletSettings {
        max_pods: Some(110),
        system_reserved: Resources::from_iter([("cpu", 100), ("memory", 200 * MIB)]),
        kube_reserved: Resources::from_iter([("cpu", 50), ("pid", 1000)]),
        eviction_hard: [
            ("memory.available".into(), Threshold::Millionths(50_000)),
            ("nodefs.available".into(), Threshold::Millionths(1_000_000)),
        ]
        .into(),
        ..KubeletSettings::default()
    };
    let built = build_us_east_1(&NodeClassSettings { kubelet, ..NodeClassSettings::default() });
    let machine = find(&built, "m5.large");
    assert_eq!(machine.capacity.get("pods"), 110);
    assert_eq!(machine.allocatable.get("cpu"), 2000 - 50 - 100); // kubeReserved replaces the computed 70m
    // Memory: 8192 - ceil(614.4) = 7577 MiB. kube-reserved goes by the 29 pods of the interfaces:
    // 11*29+255 = 574 MiB. Eviction: 5% of 7577 MiB = 7945060352 bytes is 397253017.6, rounded up.
    assert_eq!(machine.allocatable.get("memory"), (7577 - 574 - 200) * MIB - 397_253_018);
    assert_eq!(machine.allocatable.get("ephemeral-storage"), 19 << 30); // 100% switches the threshold off
    assert!(!machine.allocatable.contains("pid"));
}

#[test]
fn pods_follow_cores_interfaces_and_family() {
    let pods = |family, kubelet: KubeletSettings, reserved_enis| {
        let settings = NodeClassSettings { ami_family: family, kubelet, ..NodeClassSettings::default() };
        let region_options = RegionOptions { reserved_enis, ..RegionOptions::new("us-east-1") };
        let built = build(builtin(), &region_options, &settings);
        let machine = find(&built, "m5.large");
        let memory = (machine.capacity.get("memory") - machine.allocatable.get("memory")) / MIB;
        (machine.capacity.get("pods"), memory)
    };
    let plain = KubeletSettings::default;
    let per_core = || KubeletSettings { pods_per_core: Some(4), ..plain() };
    // Overhead in MiB: 11 * P + 255 + 100. P is 29 by interfaces for families that count by
    // interfaces.
    assert_eq!(pods(AmiFamily::Al2023, plain(), 0), (29, 674));
    assert_eq!(pods(AmiFamily::Al2023, plain(), 1), (20, 674)); // (3 - 1) * 9 + 2
    assert_eq!(pods(AmiFamily::Al2023, plain(), 3), (0, 674));
    assert_eq!(pods(AmiFamily::Al2, per_core(), 0), (8, 674)); // 4 * 2 cores
    assert_eq!(pods(AmiFamily::Bottlerocket, per_core(), 0), (29, 674)); // does not know podsPerCore
    let twenty = KubeletSettings { max_pods: Some(20), ..plain() };
    assert_eq!(pods(AmiFamily::Bottlerocket, twenty, 0), (20, 575)); // 11 * 20 + 355
    assert_eq!(pods(AmiFamily::Windows2022, plain(), 0), (110, 1565)); // 11 * 110 + 355
}

#[test]
fn disks_come_from_the_nodeclass_or_the_machine() {
    let disk =
        |settings: &NodeClassSettings, name| find(&build_us_east_1(settings), name).capacity.get("ephemeral-storage");
    let plain = NodeClassSettings::default();
    let raid = NodeClassSettings { instance_store_raid0: true, ephemeral_storage: Some(100 << 30), ..plain.clone() };
    let windows = NodeClassSettings { ami_family: AmiFamily::Windows2019, ..plain.clone() };
    assert_eq!(disk(&raid, "g4dn.xlarge"), 125_000_000_000); // 125 GB, decimal
    assert_eq!(disk(&raid, "m5.large"), 100 << 30); // has no local disk
    assert_eq!(disk(&plain, "g4dn.xlarge"), 20 << 30);
    assert_eq!(disk(&windows, "m5.large"), 50 << 30);
}

#[test]
fn interfaces_that_only_carry_efa_take_addresses_away() {
    let interface = |device, efa_only| NetworkInterface { card: 0, device, efa_only };
    let settings = NodeClassSettings {
        network_interfaces: vec![interface(0, false), interface(1, true)],
        ..NodeClassSettings::default()
    };
    let machine = build_us_east_1(&settings);
    let machine = find(&machine, "c6a.48xlarge");
    assert_eq!(machine.capacity.get("vpc.amazonaws.com/efa"), 1);
    assert_eq!(machine.capacity.get("pods"), 14 * 49 + 2);
}

#[test]
fn volume_limits_stay_below_what_aws_documents() {
    let built = build_us_east_1(&NodeClassSettings::default());
    for (name, volumes) in [
        ("m5.large", 25),     // 28 shared slots, less two interfaces and the root volume
        ("c7i.large", 31),    // 32 of its own, less the root volume
        ("c7i.48xlarge", 63), // at least 64 of its own at that size
        ("m7g.large", 25),    // shared, though of the seventh generation
        ("m5d.large", 17),    // up to eight more slots go to devices
        ("d3.8xlarge", 1),    // 3 slots beside 24 disks, less interface and root volume
        ("t2.medium", 38),    // 39 before Nitro, less the root volume
        ("m8g.metal-24xl", 38),
    ] {
        assert_eq!(find(&built, name).allocatable.get("attachable-volumes-ebs.csi.aws.com"), volumes, "{name}");
        assert!(!find(&built, name).capacity.contains("attachable-volumes-ebs.csi.aws.com"));
    }
}
