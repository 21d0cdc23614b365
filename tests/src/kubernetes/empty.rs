//! Takes everything out of a cluster that scenarios put there, by force: what one leaves behind is no part of the next.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACES, Seen, until};
use super::world::AGENT;

const PATIENCE: Duration = Duration::from_secs(120);

/// In this order: what makes others comes before them.
const MADE: [(&str, &str); 11] = [
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
    // The highest epoch that an agent has obeyed: a world has a server of its own, which counts from the beginning.
    ("coordination.k8s.io/v1", "Lease"),
];

/// Returns when nothing is left.
///
/// # Errors
/// When something does not go.
pub(super) async fn all_that_scenarios_make(cluster: &Cluster) -> anyhow::Result<()> {
    for (api_version, kind) in MADE {
        let objects = cluster.everywhere(api_version, kind);
        let look = || async {
            let mut left = objects.list(&ListParams::default()).await?.items;
            left.retain(|object| is_a_scenarios(kind, object));
            for object in &left {
                remove(&cluster.at(object.namespace().as_deref(), api_version, kind), &object.name_any()).await?;
            }
            Ok(if left.is_empty() { Seen::Done(()) } else { Seen::NotYet(format!("{} left", left.len())) })
        };
        until(&format!("no {kind} left"), PATIENCE, look).await?;
    }
    Ok(())
}

/// A cluster that was given may have nodes and pods of its own.
fn is_a_scenarios(kind: &str, object: &DynamicObject) -> bool {
    let provider = object.data.pointer("/spec/providerID").and_then(Value::as_str).unwrap_or_default();
    match (object.namespace().as_deref(), kind) {
        (None, "Node") => provider.starts_with("aws:///"),
        (None, _) => true,
        (Some(namespace), "Lease") => namespace == AGENT.0,
        (Some(namespace), _) => namespace.starts_with(NAMESPACES),
    }
}

async fn remove(objects: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
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
