//! Orders and settings for tests.

use cloud::provider::{LaunchRequest, Override};
use model::{CapacityType, Text};

use crate::settings::{LaunchTemplate, Settings};

pub(crate) fn option(instance_type: &str, zone: &str) -> Override {
    Override { instance_type: instance_type.into(), zone: zone.into() }
}

/// Claim `web-abcde` of pool `web` in cluster `c1`, first attempt.
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
    }
}

/// `eu-west-1`, template `nodes` version 7, subnets in zones `a` and `b`.
pub(crate) fn settings() -> Settings {
    let subnet = |(zone, id): (&str, &str)| (zone.to_owned(), id.to_owned());
    Settings {
        region: "eu-west-1".to_owned(),
        endpoint: None,
        template: LaunchTemplate { name: "nodes".to_owned(), version: "7".to_owned() },
        subnets: [("eu-west-1a", "subnet-a"), ("eu-west-1b", "subnet-b")].map(subnet).into(),
    }
}
