//! Manifests of a simulated cluster: NodePools and one EC2NodeClass.

use fleetwright_proto::v1;
use serde_json::{Value, json};

/// The records that an agent sends: the EC2NodeClass `default`, then these NodePools.
pub fn manifests(pools: &[Value]) -> Vec<v1::ManifestRecord> {
    // What an account that is made for the cluster `demo` has.
    let simulated = json!([{"tags": {"karpenter.sh/discovery": "demo"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole-demo",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": simulated,
            "securityGroupSelectorTerms": simulated,
        },
    });
    let class = record(v1::ObjectKind::Ec2NodeClass, &class);
    std::iter::once(class).chain(pools.iter().map(|pool| record(v1::ObjectKind::NodePool, pool))).collect()
}

/// A NodePool whose empty nodes are removed after `consolidate_after`, any number at once.
pub fn pool(name: &str, requirements: &[Value], consolidate_after: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": requirements,
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": consolidate_after,
                "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

/// A requirement that a label has one of `values`.
pub fn one_of(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

fn record(kind: v1::ObjectKind, object: &Value) -> v1::ManifestRecord {
    v1::ManifestRecord {
        kind: kind.into(),
        name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        json: object.to_string().into_bytes(),
        resource_version: "1".to_owned(),
    }
}
