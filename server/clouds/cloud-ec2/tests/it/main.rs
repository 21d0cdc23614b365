//! The provider through the real SDK and real sockets on loopback: launches and instances on the simulated EC2, lookups
//! on a fake that answers what a test gives it.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod account;
mod call_budget;
mod collection;
mod conformance;
mod discovery;
mod embedded_region;
mod endpoint;
mod fake_ec2;
mod interruption;
mod launch;
mod lifecycle;
mod node_class;
mod node_class_profile;
mod policy;
mod prices;
mod roles;
mod services;

use std::sync::Arc;

use cloud::provider::{LaunchRequest, Override};
use cloud_ec2::{Ec2Cloud, Settings};
use endpoint::Endpoint;
use model::node_class::{InstanceIdentity, NodeClassSpec, NodeClassStatus, SecurityGroupEntry, SubnetEntry};
use model::{CapacityType, ClusterFacts, InstanceTypeInput, Labels, LaunchTemplateInput, Text, Timestamp};

/// Time of all calls in these tests: 2026-01-02T03:04:05Z.
const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

fn option(instance_type: &str, zone: &str) -> Override {
    Override { instance_type: instance_type.into(), zone: zone.into() }
}

/// A spot order for claim `name` in cluster `c1`: `m5.large` in zone b before `c5.large` in zone a.
fn order(name: &str) -> LaunchRequest {
    LaunchRequest {
        token: Text::from(format!("{name}-1")),
        cluster: "c1".into(),
        cluster_uid: Text::from("uid-1"),
        claim: name.into(),
        pool: "web".into(),
        node_class: Text::from("default"),
        capacity_type: CapacityType::Spot,
        overrides: vec![option("m5.large", "eu-west-1b"), option("c5.large", "eu-west-1a")],
        reservation: None,
        terms: Text::default(),
        template: Some(Arc::new(template_input())),
    }
}

/// AL2023 with every default in cluster `c1`: `subnet-a` and `subnet-b` in zones a and b, image `ami-nodes`.
fn template_input() -> LaunchTemplateInput {
    let subnet = |id: &str, zone: &str| SubnetEntry { id: id.into(), zone: zone.into(), zone_id: None };
    let kind = |name: &str| {
        let (image, image_name) = (Text::from("ami-nodes"), Text::from("al2023"));
        (name.into(), InstanceTypeInput { max_pods: 29, image, image_name, efa: 0 })
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
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        instance_types: ["m5.large", "c5.large"].map(kind).into(),
        uses_efa: false,
        uses_enclave: false,
    }
}

fn adapter(endpoint: String) -> Ec2Cloud {
    adapter_at(endpoint, || NOW)
}

fn settings(endpoint: String) -> Settings {
    Settings { region: "eu-west-1".to_owned(), endpoint: Some(endpoint), ..Settings::default() }
}

fn adapter_at(endpoint: String, clock: fn() -> Timestamp) -> Ec2Cloud {
    adapter_by(settings(endpoint), clock)
}

fn adapter_by(settings: Settings, clock: fn() -> Timestamp) -> Ec2Cloud {
    let credentials = aws_sdk_ec2::config::Credentials::new("AKIDTEST", "secret", None, None, "test");
    Ec2Cloud::with_credentials(settings, credentials, clock)
}

/// A simulated EC2, and a provider connected to it.
async fn connect() -> (Endpoint, Ec2Cloud) {
    let ec2 = Endpoint::start().await;
    let cloud = adapter(ec2.url());
    (ec2, cloud)
}
