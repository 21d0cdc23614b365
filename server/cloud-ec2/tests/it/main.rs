//! The provider against the simulated EC2: real SDK, real sockets, EC2's query protocol, on loopback.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod account;
mod discovery;
mod endpoint;
mod launch;
mod lifecycle;
mod services;

use cloud::provider::{LaunchRequest, Override};
use cloud_ec2::{Ec2Cloud, LaunchTemplate, Settings};
use endpoint::Endpoint;
use model::{CapacityType, Text, Timestamp};

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
    }
}

fn adapter(endpoint: String) -> Ec2Cloud {
    adapter_by(settings(endpoint))
}

fn settings(endpoint: String) -> Settings {
    let subnet = |(zone, id): (&str, &str)| (zone.to_owned(), id.to_owned());
    Settings {
        region: "eu-west-1".to_owned(),
        endpoint: Some(endpoint),
        template: LaunchTemplate { name: "nodes".to_owned(), version: "7".to_owned() },
        subnets: [("eu-west-1a", "subnet-a"), ("eu-west-1b", "subnet-b")].map(subnet).into(),
    }
}

fn adapter_by(settings: Settings) -> Ec2Cloud {
    let credentials = aws_sdk_ec2::config::Credentials::new("AKIDTEST", "secret", None, None, "test");
    Ec2Cloud::with_credentials(settings, credentials, || NOW)
}

/// A simulated EC2, and a provider connected to it.
async fn connect() -> (Endpoint, Ec2Cloud) {
    let ec2 = Endpoint::start().await;
    let cloud = adapter(ec2.url());
    (ec2, cloud)
}
