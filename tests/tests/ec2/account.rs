//! A provider of one account, and orders from what the account has.

use std::cell::Cell;
use std::sync::Arc;

use aws_sdk_ec2::config::Credentials;
use cloud::conformance::{CLUSTER, CLUSTER_UID};
use cloud::provider::{LaunchRequest, Override};
use cloud_ec2::{Ec2Cloud, Settings};
use model::node_class::{InstanceIdentity, NodeClassSpec, NodeClassStatus, SecurityGroupEntry, SubnetEntry};
use model::{CapacityType, ClusterFacts, InstanceTypeInput, Labels, LaunchTemplateInput, Text, Timestamp};
use simulated_ec2::AccountSettings;

pub(crate) const REGION: &str = "eu-west-1";

/// 2026-01-02T03:04:05Z.
const BEGIN: Timestamp = Timestamp::from_millis(1_767_323_045_000);

thread_local! {
    /// The provider's clock is a function without state, and a test with its tasks runs on one thread.
    static NOW: Cell<Timestamp> = const { Cell::new(BEGIN) };
}

pub(crate) fn now() -> Timestamp {
    NOW.get()
}

/// Sets the time of this test.
pub(crate) fn set_time(time: Timestamp) {
    NOW.set(time);
}

pub(crate) fn credentials() -> Credentials {
    Credentials::new("AKIDTEST", "secret", None, None, "test")
}

/// A provider whose services are all at `endpoint`.
pub(crate) fn provider(endpoint: String) -> Ec2Cloud {
    let settings = Settings { region: REGION.to_owned(), endpoint: Some(endpoint), ..Settings::default() };
    Ec2Cloud::with_credentials(settings, credentials(), now)
}

/// What orders refer to.
#[derive(Debug, Clone)]
pub(crate) struct Resources {
    /// A subnet in `eu-west-1a`.
    pub(crate) subnet_a: String,
    /// A subnet in `eu-west-1b`.
    pub(crate) subnet_b: String,
    /// Image for x86-64.
    pub(crate) image: String,
    pub(crate) security_group: String,
    pub(crate) instance_profile: String,
}

impl Resources {
    /// Those of a simulated account with the instance profile `nodes`.
    pub(crate) fn of(settings: &AccountSettings) -> Self {
        let subnet = |zone: &str| settings.subnets.iter().find(|subnet| subnet.zone == zone).unwrap().id.clone();
        Self {
            subnet_a: subnet("eu-west-1a"),
            subnet_b: subnet("eu-west-1b"),
            image: settings.images.iter().find(|image| image.architecture == "x86_64").unwrap().id.clone(),
            security_group: settings.security_groups[0].id.clone(),
            instance_profile: "nodes".to_owned(),
        }
    }

    /// A spot order for `claim`: `m5.large` in zone b before `c5.large` in zone a.
    pub(crate) fn order(&self, claim: &str) -> LaunchRequest {
        let option = |kind: &str, zone: &str| Override { instance_type: kind.into(), zone: zone.into() };
        LaunchRequest {
            token: Text::from(format!("{claim}-1")),
            cluster: CLUSTER.into(),
            cluster_uid: Text::from(CLUSTER_UID),
            claim: claim.into(),
            pool: "web".into(),
            node_class: Text::from("default"),
            capacity_type: CapacityType::Spot,
            overrides: vec![option("m5.large", "eu-west-1b"), option("c5.large", "eu-west-1a")],
            reservation: None,
            terms: Text::default(),
            template: Some(Arc::new(self.template())),
        }
    }

    /// AL2023 with every default.
    fn template(&self) -> LaunchTemplateInput {
        let subnet = |id: &str, zone: &str| SubnetEntry { id: id.into(), zone: zone.into(), zone_id: None };
        let kind = |name: &str| {
            let (image, image_name) = (Text::from(&*self.image), Text::from("al2023"));
            (name.into(), InstanceTypeInput { max_pods: 29, image, image_name, efa: 0 })
        };
        let group = SecurityGroupEntry { id: Text::from(&*self.security_group), name: Text::from("nodes") };
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
                subnets: Some(vec![subnet(&self.subnet_a, "eu-west-1a"), subnet(&self.subnet_b, "eu-west-1b")]),
                security_groups: Some(vec![group]),
                images: None,
                reservations: None,
                instance_profile: Some(Text::from(&*self.instance_profile)),
            }),
            labels: Labels::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            instance_types: ["m5.large", "c5.large"].map(kind).into(),
            uses_efa: false,
            uses_enclave: false,
        }
    }
}
