//! What the agent of a fake cluster reports of machines of the simulated cloud: NodeClaim, Node and pods of the machine
//! with a number, and its EC2NodeClass. Callers replace the fields that their cluster changes.

use fleetwright_proto::simulation::v1 as cloud;
use fleetwright_proto::v1;
use serde_json::{Value, json};

/// The Node of an initialized machine.
pub(crate) fn node(n: usize, machine: &cloud::Instance) -> v1::NodeRecord {
    v1::NodeRecord {
        name: format!("n-{n}"),
        uid: format!("uid of n-{n}"),
        provider_id: machine.provider_id.clone(),
        labels: labels(n, machine),
        capacity: amounts(),
        allocatable: amounts(),
        conditions: vec![condition("Ready", "True")],
        created_at_ms: 1,
        ..v1::NodeRecord::default()
    }
}

pub(crate) fn claim(n: usize, machine: &cloud::Instance) -> v1::NodeClaimRecord {
    v1::NodeClaimRecord {
        name: format!("m{n}"),
        uid: format!("uid of m{n}"),
        labels: labels(n, machine),
        annotations: vec![pair("fleetwright.dev/managed", "true")],
        node_class: Some(v1::NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        }),
        provider_id: machine.provider_id.clone(),
        capacity: amounts(),
        allocatable: amounts(),
        expire_after: "Never".to_owned(),
        created_at_ms: 1,
        conditions: ["Launched", "Registered", "Initialized"].map(|kind| condition(kind, "True")).into(),
        owner: Some(owner("karpenter.sh/v1", "NodePool", "default")),
        ..v1::NodeClaimRecord::default()
    }
}

/// A pod that runs on the machine.
pub(crate) fn pod(name: &str, n: usize) -> v1::PodRecord {
    v1::PodRecord {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        node_name: format!("n-{n}"),
        phase: v1::PodPhase::Running.into(),
        created_at_ms: 1,
        started_at_ms: 1,
        ready: true,
        ..v1::PodRecord::default()
    }
}

/// The EC2NodeClass `default`.
pub(crate) fn class() -> v1::ManifestRecord {
    let any = json!([{"tags": {"a": "b"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": any,
                 "securityGroupSelectorTerms": any},
    });
    manifest(v1::ObjectKind::Ec2NodeClass, &class)
}

/// An object named `default`.
pub(crate) fn manifest(kind: v1::ObjectKind, object: &Value) -> v1::ManifestRecord {
    v1::ManifestRecord {
        kind: kind.into(),
        name: "default".to_owned(),
        json: object.to_string().into_bytes(),
        resource_version: "1".to_owned(),
    }
}

pub(crate) fn condition(kind: &str, status: &str) -> v1::Condition {
    v1::Condition { r#type: kind.to_owned(), status: status.to_owned(), ..v1::Condition::default() }
}

pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> v1::Owner {
    v1::Owner { api_version: api_version.to_owned(), kind: kind.to_owned(), name: name.to_owned(), uid: String::new() }
}

fn labels(n: usize, machine: &cloud::Instance) -> Vec<v1::StringPair> {
    vec![
        pair("karpenter.sh/nodepool", "default"),
        pair("karpenter.sh/registered", "true"),
        pair("karpenter.sh/initialized", "true"),
        pair("karpenter.sh/capacity-type", &machine.capacity_type),
        pair("kubernetes.io/arch", "amd64"),
        pair("kubernetes.io/os", "linux"),
        pair("kubernetes.io/hostname", &format!("n-{n}")),
        pair("node.kubernetes.io/instance-type", &machine.instance_type),
        pair("topology.kubernetes.io/zone", &machine.zone),
    ]
}

fn pair(key: &str, value: &str) -> v1::StringPair {
    v1::StringPair { key: key.to_owned(), value: value.to_owned() }
}

fn amounts() -> Vec<v1::Quantity> {
    let amount = |name: &str, value: &str| v1::Quantity { resource: name.to_owned(), amount: value.to_owned() };
    vec![amount("cpu", "2"), amount("memory", "8Gi"), amount("pods", "30")]
}
