//! Labels: defined, known to be absent, and undefined.

use model::node_class::{AmiFamily, NodeClassSettings};

use super::super::{Snapshot, unknown_label_keys};
use super::{build_us_east_1, builtin, find, label};

fn aws(key: &str) -> String {
    format!("karpenter.k8s.aws/{key}")
}

#[test]
fn labels_follow_name_and_figures() {
    let built = build_us_east_1(&NodeClassSettings::default());
    for (name, key, expected) in [
        ("m5.large", "instance-category", "In [m]"),
        ("m5.large", "instance-generation", "In [5]"),
        ("m5.large", "instance-family", "In [m5]"),
        ("m5.large", "instance-size", "In [large]"),
        ("m5.large", "instance-cpu", "In [2]"),
        ("m5.large", "instance-memory", "In [8192]"),
        ("m5.large", "instance-network-bandwidth", "In [750]"),
        ("m5.large", "instance-cpu-sustained-clock-speed-mhz", "In [3100]"),
        ("m5.large", "instance-capability-flex", "In [false]"),
        ("m5.large", "instance-tenancy", "In [dedicated, default]"),
        ("c7i-flex.large", "instance-capability-flex", "In [true]"),
        ("m6g.large", "instance-cpu-manufacturer", "In [aws]"),
        ("u-6tb1.56xlarge", "instance-category", "In [u]"),
        ("u-6tb1.56xlarge", "instance-generation", "In [1]"),
        ("u7i-12tb.224xlarge", "instance-generation", "In [7]"),
        ("m5.metal", "instance-hypervisor", "In []"), // one value, the empty one
        ("t2.medium", "instance-hypervisor", "In [xen]"),
        ("g4dn.xlarge", "instance-gpu-name", "In [t4]"),
        ("g4dn.xlarge", "instance-gpu-manufacturer", "In [nvidia]"),
        ("g4dn.xlarge", "instance-gpu-memory", "In [16384]"),
        ("g4dn.xlarge", "instance-local-nvme", "In [125]"),
        ("inf2.24xlarge", "instance-accelerator-name", "In [inferentia2]"),
        ("trn1.32xlarge", "instance-accelerator-manufacturer", "In [aws]"),
        ("trn1.32xlarge", "instance-accelerator-count", "In [16]"),
    ] {
        assert_eq!(label(find(&built, name), &aws(key)).as_deref(), Some(expected), "{name} {key}");
    }
    assert!(find(&built, "m5.metal").labels.get(&aws("instance-hypervisor")).unwrap().has(""));
}

#[test]
fn absent_devices_are_known_to_be_absent() {
    let built = build_us_east_1(&NodeClassSettings::default());
    let machine = find(&built, "m5.large");
    for key in ["instance-gpu-count", "instance-gpu-name", "instance-accelerator-count", "instance-local-nvme"] {
        assert_eq!(label(machine, &aws(key)).as_deref(), Some("DoesNotExist"), "{key}");
    }
    // AWS guarantees no bandwidth for t2.
    let burstable = find(&built, "t2.medium");
    assert_eq!(label(burstable, &aws("instance-network-bandwidth")).as_deref(), Some("DoesNotExist"));
}

#[test]
fn labels_missing_in_the_data_are_undefined_and_listed() {
    let unknown = unknown_label_keys(builtin());
    let expected = ["instance-ebs-bandwidth", "instance-encryption-in-transit-supported", "nitro-sandbox"];
    let groups = ["placement-group-id", "placement-group-partition"];
    assert_eq!(unknown, expected.iter().chain(&groups).map(|key| aws(key)).collect::<Vec<_>>());
    let built = build_us_east_1(&NodeClassSettings::default());
    assert!(unknown.iter().all(|key| find(&built, "m5.large").labels.get(key).is_none()));
}

#[test]
fn keys_of_offerings_are_no_labels_of_types() {
    let built = build_us_east_1(&NodeClassSettings::default());
    let machine = find(&built, "m5.large");
    assert_eq!(label(machine, "topology.kubernetes.io/region").as_deref(), Some("In [us-east-1]"));
    let zonal = ["topology.kubernetes.io/zone", "karpenter.sh/capacity-type"].into_iter();
    for key in zonal.chain(built.catalogue.offering_keys.iter().map(AsRef::as_ref)) {
        assert!(machine.labels.get(key).is_none(), "{key}");
    }
}

#[test]
fn windows_runs_on_amd64_only() {
    let settings = NodeClassSettings { ami_family: AmiFamily::Windows2022, ..NodeClassSettings::default() };
    let built = build_us_east_1(&settings);
    let (intel, arm) = (find(&built, "m5.large"), find(&built, "m6g.large"));
    assert_eq!(label(intel, "kubernetes.io/os").as_deref(), Some("In [windows]"));
    assert_eq!(label(intel, "node.kubernetes.io/windows-build").as_deref(), Some("In [10.0.20348]"));
    assert!(!arm.labels.get("kubernetes.io/os").unwrap().is_satisfiable());
    assert!(super::is_available(intel) && !super::is_available(arm));
    assert_eq!(intel.capacity.get("vpc.amazonaws.com/PrivateIPv4Address"), 9); // 10 addresses, one is the interface's own
    let linux = build_us_east_1(&NodeClassSettings::default());
    assert_eq!(label(find(&linux, "m5.large"), "kubernetes.io/os").as_deref(), Some("In [linux]"));
    assert_eq!(label(find(&linux, "m5.large"), "node.kubernetes.io/windows-build").as_deref(), Some("DoesNotExist"));
}

#[test]
fn explicit_types_have_defaults_and_known_absences() {
    let file = br#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue","regions":[{"name":"rack","zones":["rack-1"]}],"types":[
      {"name":"big","labels":{"kubernetes.io/arch":"arm64","example.com/disk":"fast"},"capacity":{"cpu":"8","memory":"32Gi"},
       "offerings":[{"zone":"rack-1","capacityType":"on-demand","priceUsdPerHour":1}]},
      {"name":"box","capacity":{"cpu":4,"memory":"16Gi"},
       "offerings":[{"zone":"rack-1","capacityType":"on-demand","priceUsdPerHour":0.5}]}]}"#;
    let snapshot = Snapshot::parse(file).unwrap();
    let built = super::build(&snapshot, &super::RegionOptions::new("rack"), &NodeClassSettings::default());
    let (big, plain) = (find(&built, "big"), find(&built, "box"));
    assert_eq!(label(big, "kubernetes.io/arch").as_deref(), Some("In [arm64]"));
    assert_eq!(label(plain, "kubernetes.io/arch").as_deref(), Some("In [amd64]"));
    assert_eq!(label(plain, "kubernetes.io/os").as_deref(), Some("In [linux]"));
    assert_eq!(label(plain, "node.kubernetes.io/instance-type").as_deref(), Some("In [box]"));
    assert_eq!(label(big, "example.com/disk").as_deref(), Some("In [fast]"));
    assert_eq!(label(plain, "example.com/disk").as_deref(), Some("DoesNotExist"));
}
