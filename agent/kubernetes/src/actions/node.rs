//! Nodes: registration and initialization.

use std::sync::Arc;

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Map, Value, json};

use super::admission::{Admission, Rank, admit_instruction};
use super::attempt::Attempt;
use super::claim::{FINALIZER, taint, write_status};
use crate::api::Api;
use crate::error::{ApiError, ErrorKind};
use crate::fields::{list_at, map_of, text_at, texts_at};
use crate::nomination::{self, PendingRegistrations};
use crate::object_cache::ObjectCache;
use crate::resource::{NODE, NODE_CLAIM};

/// The taint that nodes join with; it repels pods until the node is registered.
const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Immediate retries for a Node that changes while its taint is removed; after that the instruction
/// is retried as any other.
const MAX_READS: u32 = 5;

/// Prefix of annotations that Fleetwright uses on NodeClaims; they are not copied to the Node.
const OWN_PREFIX: &str = "fleetwright.dev/";

/// Registers a Node. The Node's metadata and taints are written first, then the nominations, and
/// the unregistered taint is removed last; before that, the nominations of all Nodes that are
/// registered at the same time are set as well.
pub(super) async fn register_node(
    api: &Api,
    cache: &Arc<ObjectCache>,
    registrations: &PendingRegistrations,
    supports_nomination: bool,
    rank: Rank,
    action: &v1::RegisterNode,
) -> Attempt {
    let registration = registrations.begin_registration();
    let claim = match admit_instruction(api, rank, &action.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let path = NODE.one("", &action.node);
    let node: Value = api.get(&path).await?;
    let node = match registration_patch(&node, &claim, action) {
        Some(patch) => api.patch(&path, &patch).await?,
        None => node,
    };
    if has_unregistered_taint(&node) && supports_nomination {
        nomination::nominate_pods(api, cache, &action.node, &action.nominations).await;
    }
    registration.await_others().await;
    remove_unregistered_taint(api, &path, node).await?;
    let facts = json!({ "nodeName": action.node });
    write_status(api, &claim, facts, |conditions| {
        conditions.set_true("Registered");
    })
    .await?;
    Ok(Done::ok())
}

/// Nominates a registered Node for pods.
pub(super) async fn nominate_pods(
    api: &Api,
    cache: &Arc<ObjectCache>,
    supports_nomination: bool,
    action: &v1::NominatePods,
) -> Attempt {
    if supports_nomination {
        nomination::nominate_pods(api, cache, &action.node, &action.nominations).await;
    }
    Ok(Done::ok())
}

/// The patch that adds finalizer, owner, labels, annotations and taints to a Node; `None` when it
/// has them all.
fn registration_patch(node: &Value, claim: &Value, action: &v1::RegisterNode) -> Option<Value> {
    let mut metadata = Map::new();
    let mut finalizers = texts_at(node, "/metadata/finalizers");
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    let mut owners = list_at(node, "/metadata/ownerReferences");
    let uid = text_at(claim, "/metadata/uid");
    if !owners.iter().any(|owner| text_at(owner, "/uid") == uid) {
        owners.push(owner_reference(claim));
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    let labels = differing(node.pointer("/metadata/labels"), &map_of(&action.labels), |_| true);
    let from_claim = claim.pointer("/metadata/annotations").cloned().unwrap_or_default();
    let not_own = |key: &str| !key.starts_with(OWN_PREFIX);
    let annotations = differing(node.pointer("/metadata/annotations"), &from_claim, not_own);
    for (key, map) in [("labels", labels), ("annotations", annotations)] {
        if !map.is_empty() {
            metadata.insert(key.to_owned(), Value::Object(map));
        }
    }
    let mut taints = list_at(node, "/spec/taints");
    let wanted = action.taints.iter().map(taint).filter(|one| !has_taint(&taints, one)).collect::<Vec<_>>();
    let taints_change = !wanted.is_empty();
    taints.extend(wanted);
    if metadata.is_empty() && !taints_change {
        return None;
    }
    // Lists replace the Node's lists as a whole, so the patch applies only to the version that was
    // read.
    metadata.insert("resourceVersion".to_owned(), json!(node.pointer("/metadata/resourceVersion")));
    let mut patch = json!({ "metadata": metadata });
    if taints_change {
        patch["spec"] = json!({ "taints": taints });
    }
    Some(patch)
}

fn owner_reference(claim: &Value) -> Value {
    json!({
        "apiVersion": NODE_CLAIM.api_version(), "kind": NODE_CLAIM.kind,
        "name": text_at(claim, "/metadata/name"), "uid": text_at(claim, "/metadata/uid"),
        "blockOwnerDeletion": true,
    })
}

/// Entries of `wanted` that `present` lacks or has with another value.
fn differing(present: Option<&Value>, wanted: &Value, counts: impl Fn(&str) -> bool) -> Map<String, Value> {
    let wanted = wanted.as_object().into_iter().flatten();
    let differs = |(key, value): &(&String, &Value)| present.and_then(|map| map.get(*key)) != Some(*value);
    wanted.filter(|(key, _)| counts(key)).filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Taints are the same when key and effect are (Kubernetes: taint matching).
fn has_taint(taints: &[Value], one: &Value) -> bool {
    taints.iter().any(|taint| taint["key"] == one["key"] && taint["effect"] == one["effect"])
}

fn has_unregistered_taint(node: &Value) -> bool {
    list_at(node, "/spec/taints").iter().any(|taint| taint["key"] == UNREGISTERED)
}

/// Removes the unregistered taint and labels the Node as registered. `node` is the version read
/// last; it is read again only after a conflict, because Nodes register within milliseconds of one
/// another.
async fn remove_unregistered_taint(api: &Api, path: &str, mut node: Value) -> Result<(), ApiError> {
    let mut reads = 0;
    while let Some(patch) = registered_patch(&node) {
        match api.patch(path, &patch).await {
            Err(error) if error.kind == ErrorKind::Conflict && reads < MAX_READS => reads += 1,
            answer => return answer.map(drop),
        }
        node = api.get(path).await?;
    }
    Ok(())
}

/// The patch that removes the unregistered taint of `node` and labels it as registered; `None` when
/// both are done.
fn registered_patch(node: &Value) -> Option<Value> {
    let registered = text_at(node, "/metadata/labels/karpenter.sh~1registered") == "true";
    let mut taints = list_at(node, "/spec/taints");
    taints.retain(|taint| taint["key"] != UNREGISTERED);
    (!registered || has_unregistered_taint(node)).then(|| {
        json!({
            "metadata": {
                "resourceVersion": node.pointer("/metadata/resourceVersion"),
                "labels": { "karpenter.sh/registered": "true" },
            },
            "spec": { "taints": taints },
        })
    })
}

/// Labels a Node as initialized.
pub(super) async fn initialize_node(api: &Api, rank: Rank, action: &v1::InitializeNode) -> Attempt {
    let claim = match admit_instruction(api, rank, &action.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let label = json!({ "metadata": { "labels": { "karpenter.sh/initialized": "true" } } });
    api.patch(&NODE.one("", &action.node), &label).await?;
    write_status(api, &claim, json!({}), |conditions| {
        conditions.set_true("Initialized");
    })
    .await?;
    Ok(Done::ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Value {
        json!({ "metadata": { "name": "general-7", "uid": "u7", "annotations": {
            "karpenter.sh/nodepool-hash": "5", "fleetwright.dev/obeyed": "3/9", "people": "wrote this",
        } } })
    }

    fn action() -> v1::RegisterNode {
        v1::RegisterNode {
            node_claim: "general-7".into(),
            node: "n".into(),
            labels: vec![v1::StringPair { key: "team".into(), value: "shop".into() }],
            taints: vec![v1::Taint { key: "gpu".into(), value: "yes".into(), effect: "NoSchedule".into() }],
            nominations: Vec::new(),
        }
    }

    fn node() -> Value {
        json!({
            "metadata": { "name": "n", "resourceVersion": "11", "labels": { "team": "other" } },
            "spec": { "taints": [{ "key": "karpenter.sh/unregistered", "effect": "NoExecute" }] },
        })
    }

    #[test]
    fn a_node_gets_the_metadata_of_claim_and_instruction_and_keeps_its_taint() {
        let patch = registration_patch(&node(), &claim(), &action()).unwrap();
        let expected = json!({
            "metadata": {
                "finalizers": ["karpenter.sh/termination"],
                "ownerReferences": [{
                    "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "general-7", "uid": "u7",
                    "blockOwnerDeletion": true,
                }],
                "labels": { "team": "shop" },
                "annotations": { "karpenter.sh/nodepool-hash": "5", "people": "wrote this" },
                "resourceVersion": "11",
            },
            "spec": { "taints": [
                { "key": "karpenter.sh/unregistered", "effect": "NoExecute" },
                { "key": "gpu", "value": "yes", "effect": "NoSchedule" },
            ] },
        });
        assert_eq!(patch, expected);
    }

    #[test]
    fn a_taint_of_the_same_key_and_effect_is_there_already_whatever_its_value() {
        let mut node = node();
        node["spec"]["taints"] = json!([{ "key": "gpu", "value": "no", "effect": "NoSchedule" }]);
        assert!(registration_patch(&node, &claim(), &action()).unwrap().get("spec").is_none());
    }

    #[test]
    fn a_node_that_has_everything_is_not_written() {
        let mut node = node();
        node["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        node["metadata"]["ownerReferences"] = json!([{ "uid": "u7" }]);
        node["metadata"]["labels"] = json!({ "team": "shop" });
        node["metadata"]["annotations"] = json!({ "karpenter.sh/nodepool-hash": "5", "people": "wrote this" });
        node["spec"]["taints"] = json!([{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }]);
        assert_eq!(registration_patch(&node, &claim(), &action()), None);
    }
}
