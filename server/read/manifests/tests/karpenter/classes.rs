//! EC2NodeClasses.

use manifests::karpenter::NodeClassManifest;
use model::node_class::{AmiFamily, NetworkInterface, Threshold};

use super::{messages, read_with};

/// A class with subnets, security groups, a role, and `spec` (indented by two spaces).
pub(super) fn class(spec: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: base\nspec:\n  role: nodes\n  subnetSelectorTerms: [{{tags: {{net: a}}}}]\n  \
         securityGroupSelectorTerms: [{{id: sg-0a1}}]\n{spec}\n"
    )
}

pub(super) const ALIAS: &str = "  amiSelectorTerms: [{alias: al2023@latest}]\n";

pub(super) fn read(yaml: &str) -> (NodeClassManifest, Vec<String>) {
    let (class, errors) = read_with(yaml, NodeClassManifest::read);
    (class.unwrap(), messages(&errors))
}

pub(super) fn good(spec: &str) -> NodeClassManifest {
    let (class, errors) = read(&class(spec));
    assert_eq!(errors, [""; 0]);
    class
}

#[test]
fn the_family_is_the_field_else_the_aliass_else_custom() {
    assert_eq!(good(ALIAS).settings.ami_family, AmiFamily::Al2023);
    assert_eq!(good(&format!("{ALIAS}  amiFamily: Custom")).settings.ami_family, AmiFamily::Custom);
    let by_id = "  amiFamily: Bottlerocket\n  amiSelectorTerms: [{id: ami-0a}]";
    assert_eq!(good(by_id).settings.ami_family, AmiFamily::Bottlerocket);
    let (_, errors) = read(&class("  amiSelectorTerms: [{id: ami-0a}]"));
    assert_eq!(errors, ["spec.amiFamily: missing, but required when amiSelectorTerms has no alias"]);
    let (_, errors) = read(&class(&format!("{ALIAS}  amiFamily: AL2")));
    assert_eq!(errors, ["spec.amiFamily: found \"AL2\", allowed beside the alias in amiSelectorTerms: AL2023, Custom"]);
}

#[test]
fn selector_terms_follow_the_schema() {
    for (terms, wrong) in [
        ("[{alias: AL2023@latest}]", true),
        ("[{alias: windows2022@v20250101}]", true),
        ("[{alias: bottlerocket@1.20.5}]", false),
        ("[{alias: al2@v20250101}]", false),
        ("[{alias: al2@latest}, {alias: al2@latest}]", true),
        ("[{alias: al2@latest, name: x}]", true),
        ("[]", true),
        ("[{owner: self}]", true),
    ] {
        let (_, errors) = read(&class(&format!("  amiSelectorTerms: {terms}\n  amiFamily: Custom")));
        assert_eq!(!errors.is_empty(), wrong, "{terms}: {errors:?}");
    }
    let subnets = |terms: &str| read(&class(ALIAS).replace("[{tags: {net: a}}]", terms)).1;
    assert_eq!(
        subnets("[{id: subnet-0a, tags: {a: b}}, {tags: {a: b}}]"),
        [""; 0],
        "one good term lets the other pass"
    );
    assert_eq!(subnets("[{id: subnet-0a, tags: {a: b}}]").len(), 1);
    assert_eq!(subnets("[{name: x}]"), ["spec.subnetSelectorTerms[0]: a term needs one of tags, id"]);
    assert_eq!(subnets("[{tags: {a: ''}}]").len(), 1);
}

#[test]
fn exactly_one_of_role_and_profile_is_needed() {
    let (_, errors) = read(&class(&format!("{ALIAS}  instanceProfile: p")));
    assert_eq!(errors, ["spec: found both of role and instanceProfile, allowed: exactly one"]);
    let (_, errors) = read(&class(ALIAS).replace("  role: nodes\n", ""));
    assert_eq!(errors, ["spec: found neither of role and instanceProfile, allowed: exactly one"]);
}

#[test]
fn the_kubelet_block_becomes_settings() {
    let kubelet = "  kubelet: {maxPods: 58, podsPerCore: 4, systemReserved: {cpu: 100m}, kubeReserved: {memory: 1Gi}, evictionHard: {memory.available: 5%}}";
    let read = good(&format!("{ALIAS}{kubelet}")).settings.kubelet;
    assert_eq!((read.max_pods, read.pods_per_core), (Some(58), Some(4)));
    assert_eq!((read.system_reserved.get("cpu"), read.kube_reserved.get("memory")), (100, 1 << 30));
    assert_eq!(read.eviction_hard["memory.available"], Threshold::Millionths(50_000));
}

#[test]
fn the_kubelet_block_is_checked() {
    for block in [
        "{imageGCHighThresholdPercent: 50, imageGCLowThresholdPercent: 50}",
        "{evictionSoft: {memory.available: 1Gi}}",
        "{evictionHard: {disk: 5%}}",
        "{evictionHard: {memory.available: 101%}}",
        "{kubeReserved: {gpu: '1'}}",
        "{systemReserved: {cpu: 1}}",
        "{systemReserved: {cpu: -100m}}",
        "{maxPods: -1}",
    ] {
        let (_, errors) = read(&class(&format!("{ALIAS}  kubelet: {block}")));
        assert_eq!(errors.len(), 1, "{block}: {errors:?}");
    }
}

#[test]
fn the_disk_that_holds_pods_is_found() {
    let disk = |device: &str, size: &str, root: bool| {
        format!("{{deviceName: {device}, rootVolume: {root}, ebs: {{volumeSize: {size}}}}}")
    };
    let (xvda, xvdb) = (disk("/dev/xvda", "4Gi", false), disk("/dev/xvdb", "200Gi", false));
    let size = |head: &str, disks: &[String]| {
        good(&format!("{head}  blockDeviceMappings: [{}]", disks.join(", "))).settings.ephemeral_storage
    };
    let rocket = "  amiSelectorTerms: [{alias: bottlerocket@latest}]\n";
    let custom = "  amiFamily: Custom\n  amiSelectorTerms: [{id: ami-0a}]\n";
    assert_eq!(size(ALIAS, &[xvda.clone(), xvdb.clone()]), Some(4 << 30));
    assert_eq!(size(rocket, &[xvda.clone(), xvdb.clone()]), Some(200 << 30));
    assert_eq!(size(custom, &[xvdb.clone(), xvda.clone()]), Some(4 << 30), "the last one");
    assert_eq!(size(ALIAS, &[xvda, disk("/dev/sdf", "1T", true)]), Some(1_000_000_000_000));
    assert_eq!(size(ALIAS, &[xvdb]), None, "the family's default holds");
    for bad in [
        "{volumeSize: 100}",
        "{volumeSize: 100Mi}",
        "{volumeSize: 60000Gi}",
        "{}",
        "{volumeSize: 1Gi, volumeInitializationRate: 100}",
        "{volumeSize: 1Gi, volumeType: gp4}",
    ] {
        let (_, errors) =
            read(&class(&format!("{ALIAS}  blockDeviceMappings: [{{deviceName: /dev/xvda, ebs: {bad}}}]")));
        assert_eq!(errors.len(), 1, "{bad}: {errors:?}");
    }
}

#[test]
fn network_interfaces_keep_their_rules() {
    let interface = |card: u32, device: u32, kind: &str| {
        format!("{{networkCardIndex: {card}, deviceIndex: {device}, interfaceType: {kind}}}")
    };
    let spec = |entries: &[String]| format!("{ALIAS}  networkInterfaces: [{}]", entries.join(", "));
    let read_all =
        good(&spec(&[interface(0, 0, "interface"), interface(0, 1, "efa-only")])).settings.network_interfaces;
    assert_eq!(read_all[1], NetworkInterface { card: 0, device: 1, efa_only: true });
    for wrong in [
        vec![interface(1, 0, "interface")],
        vec![interface(0, 0, "interface"); 2],
        vec![interface(0, 0, "interface"), interface(1, 0, "efa-only"), interface(1, 1, "efa-only")],
    ] {
        let (_, errors) = read(&class(&spec(&wrong)));
        assert_eq!(errors.len(), 1, "{wrong:?}: {errors:?}");
    }
}

#[test]
fn status_bounds_zones_and_brings_reservations_and_images() {
    let status = "status:\n  subnets: [{id: s1, zone: eu-west-1b, zoneID: euw1-az2}, {id: s2, zone: eu-west-1a}, {id: s3, zone: eu-west-1b}]\n  \
                  capacityReservations: [{id: cr-0a, availabilityZone: eu-west-1a, instanceType: m7g.large, state: expiring}]\n  \
                  amis: [{id: ami-0a, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}]\n";
    let (read, errors) = read(&format!("{}{status}", class(ALIAS)));
    assert_eq!(errors, [""; 0]);
    let zones: Vec<_> = read
        .settings
        .zones
        .unwrap()
        .into_iter()
        .map(|zone| (zone.name.to_string(), zone.id.map(|id| id.to_string())))
        .collect();
    assert_eq!(zones, [("eu-west-1a".to_owned(), None), ("eu-west-1b".to_owned(), Some("euw1-az2".to_owned()))]);
    assert!(read.settings.reservations[0].expiring);
    assert!(read.settings.ami_requirements[0].get("kubernetes.io/arch").unwrap().has("arm64"));
    assert_eq!(good(ALIAS).settings.zones, None, "without status every zone has a subnet");
}

#[test]
fn an_unready_or_deleted_class_has_a_reason() {
    let (unready, _) = read(&format!(
        "{}status: {{conditions: [{{type: Ready, status: 'False', reason: SubnetsNotFound}}]}}\n",
        class(ALIAS)
    ));
    assert_eq!(
        unready.not_ready.as_deref(),
        Some("its EC2NodeClass is not ready: its condition Ready is False: SubnetsNotFound")
    );
    let reserved = "spec.tags has the key karpenter.sh/nodepool";
    let invalid = format!("{{type: ValidationSucceeded, status: 'False', message: '{reserved}'}}");
    let because =
        Some(format!("its EC2NodeClass is not ready: its condition ValidationSucceeded is False: {reserved}"));
    let root = "{type: Ready, status: 'False', reason: UnhealthyDependents}";
    for conditions in [invalid.clone(), format!("{root}, {invalid}")] {
        let (unready, _) = read(&format!("{}status: {{conditions: [{conditions}]}}\n", class(ALIAS)));
        assert_eq!(unready.not_ready.as_deref(), because.as_deref(), "{conditions}");
    }
    let subnets = "{type: SubnetsReady, status: 'False', message: no subnet}";
    let (unready, _) = read(&format!("{}status: {{conditions: [{root}, {invalid}, {subnets}]}}\n", class(ALIAS)));
    let because = "its EC2NodeClass is not ready: its condition SubnetsReady is False: no subnet";
    assert_eq!(unready.not_ready.as_deref(), Some(because), "what validation fails on");
    let ready = "{type: Ready, status: 'True'}, {type: CapacityReservationsReady, status: Unknown}";
    let (ready, _) = read(&format!("{}status: {{conditions: [{ready}]}}\n", class(ALIAS)));
    assert_eq!(ready.not_ready, None, "Ready does not depend on it");
    let (leaving, _) =
        read(&class(ALIAS).replace("name: base", "name: base\n  deletionTimestamp: 2026-01-01T00:00:00Z"));
    assert_eq!(leaving.not_ready.as_deref(), Some("its EC2NodeClass is being deleted"));
}

#[test]
fn tags_have_the_bounds_of_ec2() {
    let tags = |tags: &str| read(&class(&format!("{ALIAS}  tags: {tags}"))).1;
    let many = |count: usize| {
        let tags: Vec<String> = (0..count).map(|number| format!("t{number}: v")).collect();
        format!("{{{}}}", tags.join(", "))
    };
    let (key, value) = ("k".repeat(128), "\u{e9}".repeat(256));
    assert_eq!(tags(&format!("{{'{key}': '{value}', Aws: x}}")), [""; 0], "characters count, not bytes");
    assert_eq!(tags(&many(40)), [""; 0]);
    for (wrong, expected) in [
        (many(41), "spec.tags: 41 tags, allowed: at most 40".to_owned()),
        (format!("{{'{key}k': v}}"), "its key has 129 characters, allowed by EC2: at most 128".to_owned()),
        (format!("{{a: '{value}v'}}"), "spec.tags.a: 257 characters, allowed by EC2: at most 256".to_owned()),
        ("{'AWS:team': v}".to_owned(), "keys that begin with aws: are reserved by EC2".to_owned()),
    ] {
        let errors = tags(&wrong);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(&expected), "{errors:?}");
    }
}
