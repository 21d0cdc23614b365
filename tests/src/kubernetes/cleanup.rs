//! Deletes every object that scenarios create, by force, so that each starts with an empty cluster.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE_PREFIX, Poll, wait_until};
use super::deploy::AGENT;

const TIMEOUT: Duration = Duration::from_secs(120);

/// Owners precede the objects that they create.
const SCENARIO_KINDS: [(&str, &str); 11] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Pod"),
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.sh/v1", "NodeClaim"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("v1", "Node"),
    // The stored epoch: every environment has a new server, whose epochs start again.
    ("coordination.k8s.io/v1", "Lease"),
];

/// Deletes objects until none is left.
///
/// # Errors
/// When an object is not deleted in time.
pub(super) async fn delete_scenario_objects(cluster: &Cluster) -> anyhow::Result<()> {
    for (api_version, kind) in SCENARIO_KINDS {
        let objects = cluster.everywhere(api_version, kind);
        let poll = || async {
            let mut left = objects.list(&ListParams::default()).await?.items;
            left.retain(|object| belongs_to_scenario(kind, object));
            for object in &left {
                force_delete(&cluster.at(object.namespace().as_deref(), api_version, kind), &object.name_any()).await?;
            }
            Ok(if left.is_empty() { Poll::Ready(()) } else { Poll::Pending(format!("{} left", left.len())) })
        };
        wait_until(&format!("no {kind} left"), TIMEOUT, poll).await?;
    }
    Ok(())
}

/// Whether an object belongs to a scenario. An existing cluster may have other nodes and pods,
/// which are not deleted.
fn belongs_to_scenario(kind: &str, object: &DynamicObject) -> bool {
    let provider = object.data.pointer("/spec/providerID").and_then(Value::as_str).unwrap_or_default();
    match (object.namespace().as_deref(), kind) {
        (None, "Node") => provider.starts_with("aws:///"),
        (None, _) => true,
        (Some(namespace), "Lease") => namespace == AGENT.0,
        (Some(namespace), _) => namespace.starts_with(NAMESPACE_PREFIX),
    }
}

async fn force_delete(objects: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    let free = json!({ "metadata": { "finalizers": null } });
    let answers = [
        objects.patch(name, &PatchParams::default(), &Patch::Merge(free)).await.map(drop),
        objects
            .delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
            .await
            .map(drop),
    ];
    for answer in answers {
        match answer {
            Err(kube::Error::Api(refused)) if [404, 409].contains(&refused.code) => {}
            answered => answered?,
        }
    }
    Ok(())
}
