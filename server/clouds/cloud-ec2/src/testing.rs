//! Orders for tests.

use std::sync::Arc;

use cloud::provider::{LaunchRequest, Override};
use model::node_class::{InstanceIdentity, NodeClassSpec, NodeClassStatus, SecurityGroupEntry, SubnetEntry};
use model::{CapacityType, ClusterFacts, InstanceTypeInput, Labels, LaunchTemplateInput, Text};

use crate::subnet_addresses::SubnetAddresses;
use crate::terms::{Resolved, Terms};

pub(crate) const REGION: &str = "eu-west-1";

pub(crate) fn option(instance_type: &str, zone: &str) -> Override {
    Override { instance_type: instance_type.into(), zone: zone.into() }
}

/// Claim `web-abcde` of pool `web` in cluster `c1`, first attempt, without an input of launch templates.
pub(crate) fn order(capacity_type: CapacityType, overrides: &[Override]) -> LaunchRequest {
    LaunchRequest {
        token: Text::from("web-abcde-1"),
        cluster: "c1".into(),
        cluster_uid: Text::from("uid-1"),
        claim: "web-abcde".into(),
        pool: "web".into(),
        node_class: Text::from("default"),
        capacity_type,
        overrides: overrides.to_vec(),
        reservation: None,
        terms: Text::default(),
        template: None,
    }
}

/// AL2023 with every default: a role, one security group, `subnet-a` and `subnet-b` in zones `a` and `b`
/// of the region, image `ami-1`, 29 pods on `m5.large` and `c5.large`.
pub(crate) fn input() -> LaunchTemplateInput {
    let subnet = |id: &str, zone: &str| SubnetEntry { id: id.into(), zone: zone.into(), zone_id: None };
    let kind = |name: &str| {
        let input = InstanceTypeInput {
            max_pods: 29,
            image: Text::from("ami-1"),
            image_name: Text::from("amazon-eks-node-al2023-x86_64-standard-1.35-v20260101"),
            efa: 0,
        };
        (name.into(), input)
    };
    LaunchTemplateInput {
        cluster: Arc::new(ClusterFacts {
            endpoint: Text::from("https://c1.example"),
            certificate_authority: Text::from("Q0E="),
            service_cidr: Some(Text::from("10.100.0.0/16")),
            dns: vec![[10, 100, 0, 10].into()],
            kubernetes_version: Text::from("v1.35.2"),
        }),
        node_class: Arc::new(NodeClassSpec {
            identity: InstanceIdentity::Role(Text::from("nodes")),
            ..NodeClassSpec::default()
        }),
        status: Arc::new(NodeClassStatus {
            subnets: Some(vec![subnet("subnet-a", "eu-west-1a"), subnet("subnet-b", "eu-west-1b")]),
            security_groups: Some(vec![SecurityGroupEntry { id: Text::from("sg-1"), name: Text::from("nodes") }]),
            images: None,
            reservations: None,
            instance_profile: Some(Text::from("c1_nodes")),
        }),
        labels: [(Text::from("karpenter.sh/nodepool"), Text::from("web"))].into_iter().collect::<Labels>(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        instance_types: ["m5.large", "c5.large"].map(kind).into(),
        uses_efa: false,
        uses_enclave: false,
    }
}

/// What `request` resolves to with [`input`].
pub(crate) fn resolved(request: &LaunchRequest) -> Resolved {
    Resolved::of(request, &input(), REGION, &SubnetAddresses::default())
}

/// The terms of `request` with [`input`].
pub(crate) fn terms(request: &LaunchRequest) -> Terms {
    resolved(request).terms
}
