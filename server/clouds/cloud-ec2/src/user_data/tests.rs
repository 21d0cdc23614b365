//! Expectations are worked out by hand from the formats of nodeadm, MIME and Bottlerocket.

mod al2023;
mod bottlerocket;
mod labels;
mod merging;
mod values;

use std::sync::Arc;

use model::node_class::{AmiFamily, KubeletOptions, KubeletSettings, SoftThreshold, Threshold};
use model::{CapacityType, ClusterFacts, ClusterName, Effect, Millis, Resources, Taint, Text};

use super::*;

/// A node of the cluster `demo` without settings of its own.
fn input(family: AmiFamily) -> UserDataInput {
    UserDataInput {
        cluster_name: ClusterName::from("demo"),
        cluster: Arc::new(ClusterFacts {
            endpoint: Text::from("https://api.example"),
            certificate_authority: Text::from("Q0E="), // "CA"
            service_cidr: Some(Text::from("10.100.0.0/16")),
            dns: vec!["10.100.0.10".parse().unwrap()],
            kubernetes_version: Text::from("v1.35.2"),
        }),
        family,
        labels: [("karpenter.sh/nodepool".into(), "default".into())].into(),
        capacity_type: CapacityType::Spot,
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_pods: 29,
        kubelet: KubeletSettings::default(),
        kubelet_options: KubeletOptions::default(),
        instance_store_raid0: false,
        user_data: None,
        ami_version: None,
    }
}

fn with_user_data(family: AmiFamily, user_data: &str) -> UserDataInput {
    UserDataInput { user_data: Some(Text::from(user_data)), ..input(family) }
}

/// Every field of `spec.kubelet` that both families have.
fn set_kubelet(input: &mut UserDataInput) {
    input.kubelet.max_pods = Some(7);
    input.kubelet.system_reserved = Resources::from_iter([("cpu", 100), ("memory", 200 << 20), ("pid", 1000)]);
    input.kubelet.kube_reserved = Resources::from_iter([("ephemeral-storage", 1 << 30)]);
    input.kubelet.eviction_hard = [
        ("memory.available".into(), Threshold::Millionths(50_000)),
        ("nodefs.available".into(), Threshold::Bytes(1 << 30)),
    ]
    .into();
    let soft = SoftThreshold { threshold: Threshold::Millionths(75_000), grace_period: Millis::from_secs(90) };
    input.kubelet_options = KubeletOptions {
        cluster_dns: vec!["169.254.20.10".parse().unwrap()],
        eviction_soft: [("memory.available".into(), soft)].into(),
        eviction_max_pod_grace_period: Some(60),
        image_gc_high_threshold_percent: Some(85),
        image_gc_low_threshold_percent: Some(80),
        cpu_cfs_quota: Some(false),
    };
}

fn taint(key: &str, value: &str, effect: Effect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

#[test]
fn custom_user_data_is_unchanged() {
    let text = "#!/bin/sh\r\n--//\r\nexec join \"$1\"\r\n";
    assert_eq!(render(&with_user_data(AmiFamily::Custom, text)).as_deref(), Ok(text));
    assert_eq!(render(&input(AmiFamily::Custom)).as_deref(), Ok(""));
}

#[test]
fn families_that_cannot_be_started_are_refused() {
    for family in [AmiFamily::Al2, AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025] {
        assert_eq!(
            render(&input(family)).unwrap_err().to_string(),
            format!(
                "user data for the family {} is not supported: set spec.amiFamily to AL2023, Bottlerocket or Custom",
                family.as_str()
            )
        );
    }
}

#[test]
fn user_data_longer_than_ec2_allows_is_refused() {
    let longest = "x".repeat(16_384);
    assert_eq!(render(&with_user_data(AmiFamily::Custom, &longest)), Ok(longest));
    let error = render(&with_user_data(AmiFamily::Custom, &"x".repeat(16_385))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "user data has 16385 bytes, and EC2 allows 16384: shorten spec.userData, or let it load its larger part at boot"
    );
    // The NodeConfig is counted.
    for family in [AmiFamily::Al2023, AmiFamily::Bottlerocket] {
        let script =
            if family == AmiFamily::Al2023 { "#!/bin/sh\n#".to_owned() } else { "[settings]\nmotd = '".to_owned() };
        let end = if family == AmiFamily::Al2023 { "" } else { "'" };
        let text = script + &"x".repeat(16_300) + end;
        assert!(text.len() <= MAX_BYTES);
        assert!(matches!(render(&with_user_data(family, &text)), Err(UserDataError::TooLong { .. })), "{family:?}");
    }
}

#[test]
fn the_order_of_taints_changes_nothing() {
    for family in [AmiFamily::Al2023, AmiFamily::Bottlerocket] {
        let taints = [taint("b", "1", Effect::NoSchedule), taint("a", "", Effect::NoExecute)];
        let one = UserDataInput { taints: taints.to_vec(), ..input(family) };
        let other = UserDataInput {
            taints: vec![taints[1].clone()],
            startup_taints: vec![taints[0].clone(), taints[1].clone()],
            ..input(family)
        };
        assert_eq!(render(&one), render(&other));
    }
}

#[test]
fn a_node_requires_the_facts_of_its_cluster() {
    type Removal = fn(&mut UserDataInput);
    let removals: [(Removal, &str); 5] = [
        (|input| input.cluster_name = ClusterName::default(), "the name of the cluster is missing"),
        (
            |input| Arc::make_mut(&mut input.cluster).endpoint = Text::from(""),
            "the endpoint of the API server is missing",
        ),
        (
            |input| Arc::make_mut(&mut input.cluster).endpoint = Text::from("api.example"),
            "the endpoint of the API server: found \"api.example\"",
        ),
        (
            |input| Arc::make_mut(&mut input.cluster).certificate_authority = Text::from(""),
            "the certificate authority of the API server is missing",
        ),
        (
            |input| Arc::make_mut(&mut input.cluster).certificate_authority = Text::from("Q0E"),
            "the certificate authority of the API server: found",
        ),
    ];
    for family in [AmiFamily::Al2023, AmiFamily::Bottlerocket] {
        for (remove, message) in removals {
            let mut input = input(family);
            remove(&mut input);
            let error = render(&input).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
