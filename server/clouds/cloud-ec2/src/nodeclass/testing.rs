//! Terms and queries for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::node_class::{
    AmiFamily, AmiTerm, InstanceIdentity, NodeClassQuery, NodeClassSpec, NodeClassStatus, Resolution, ResourceTerm,
};
use model::{ClusterFacts, Text};

pub(super) fn tags(pairs: &[(&str, &str)]) -> BTreeMap<Text, Text> {
    pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}

pub(super) fn by_id(id: &str) -> ResourceTerm {
    ResourceTerm { id: Some(id.into()), ..ResourceTerm::default() }
}

pub(super) fn by_name(name: &str) -> ResourceTerm {
    ResourceTerm { name: Some(name.into()), ..ResourceTerm::default() }
}

pub(super) fn by_tags(pairs: &[(&str, &str)]) -> ResourceTerm {
    ResourceTerm { tags: tags(pairs), ..ResourceTerm::default() }
}

pub(super) fn by_alias(alias: &str) -> AmiTerm {
    AmiTerm { alias: Some(alias.into()), ..AmiTerm::default() }
}

/// EC2NodeClass `default` of cluster `c1`: AL2023, role `nodes`, selectors by the tag `cluster`.
pub(super) fn query() -> NodeClassQuery {
    let spec = NodeClassSpec {
        ami_family: AmiFamily::Al2023,
        ami_terms: vec![by_alias("al2023@latest")],
        subnet_terms: vec![by_tags(&[("cluster", "c1")])],
        security_group_terms: vec![by_tags(&[("cluster", "c1")])],
        identity: InstanceIdentity::Role("nodes".into()),
        ..NodeClassSpec::default()
    };
    let facts = ClusterFacts {
        endpoint: "https://c1.example".into(),
        certificate_authority: "Y2E=".into(),
        service_cidr: Some("10.100.0.0/16".into()),
        dns: vec![[10, 100, 0, 10].into()],
        kubernetes_version: "v1.35.2".into(),
    };
    NodeClassQuery {
        cluster: "c1".into(),
        cluster_uid: "uid-c1".into(),
        name: "default".into(),
        uid: "uid-nc".into(),
        spec: Arc::new(spec),
        status: Arc::new(NodeClassStatus::default()),
        facts: Arc::new(facts),
    }
}

/// Reason and message of a condition that is not met or unknown.
pub(super) fn parts(resolution: &Resolution) -> (&str, &str) {
    match resolution {
        Resolution::Met => ("", ""),
        Resolution::Missing { reason, message } | Resolution::Unknown { reason, message } => (reason, message),
    }
}
