//! Nodes: let in when they have come up, put into service when they are complete.

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Map, Value, json};

use super::claim::{taint, write_status};
use super::{Admission, Attempt, FINALIZER, Rank, admit};
use crate::cluster::Kubernetes;
use crate::error::{ApiError, Kind};
use crate::fields::{list_at, map_of, text_at, texts_at};
use crate::hints;
use crate::resource::{NODE, NODE_CLAIM};

/// The taint that nodes join with, and that keeps pods away until they are registered.
const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// A Node that changes while it is being opened is read again so many times at once; after that, as any instruction is tried again.
const READS: u32 = 5;

/// Annotations of a NodeClaim that are notes of ours and have no place on its Node.
const OWN_NOTES: &str = "fleetwright.dev/";

/// Lets a Node in. Everything that must be true of it when pods come is written first, then the hints, and the taint comes off
/// last; between the two, the hints of every other node that is being let in at this time are set as well.
pub(super) async fn register(cluster: &Kubernetes, rank: Rank, order: &v1::RegisterNode) -> Attempt {
    let turn = cluster.registrations().enter();
    let claim = match admit(cluster, rank, &order.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let path = NODE.one("", &order.node);
    let node: Value = cluster.api().get(&path).await?;
    let node = match prepared(&node, &claim, order) {
        Some(patch) => cluster.api().patch(&path, &patch).await?,
        None => node,
    };
    if is_barred(&node) && cluster.may_hint() {
        hints::set(cluster.api(), &order.node, &order.hints).await;
    }
    turn.hints_are_set().await;
    admit_pods(cluster, &path, node).await?;
    let facts = json!({ "nodeName": order.node });
    write_status(cluster, &claim, facts, |conditions| {
        conditions.set_true("Registered");
    })
    .await?;
    Ok(Done::well())
}

/// Hints at a Node that is open already.
pub(super) async fn hint(cluster: &Kubernetes, order: &v1::HintPods) -> Attempt {
    if cluster.may_hint() {
        hints::set(cluster.api(), &order.node, &order.hints).await;
    }
    Ok(Done::well())
}

/// The patch that gives a Node its finalizer, owner, labels, annotations and taints; `None` when it has them all.
fn prepared(node: &Value, claim: &Value, order: &v1::RegisterNode) -> Option<Value> {
    let mut metadata = Map::new();
    let mut finalizers = texts_at(node, "/metadata/finalizers");
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    let mut owners = list_at(node, "/metadata/ownerReferences");
    let uid = text_at(claim, "/metadata/uid");
    if !owners.iter().any(|owner| text_at(owner, "/uid") == uid) {
        owners.push(owner(claim));
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    let labels = differing(node.pointer("/metadata/labels"), &map_of(&order.labels), |_| true);
    let from_claim = claim.pointer("/metadata/annotations").cloned().unwrap_or_default();
    let foreign = |key: &str| !key.starts_with(OWN_NOTES);
    let annotations = differing(node.pointer("/metadata/annotations"), &from_claim, foreign);
    for (key, map) in [("labels", labels), ("annotations", annotations)] {
        if !map.is_empty() {
            metadata.insert(key.to_owned(), Value::Object(map));
        }
    }
    let mut taints = list_at(node, "/spec/taints");
    let wanted = order.taints.iter().map(taint).filter(|one| !has_taint(&taints, one)).collect::<Vec<_>>();
    let taints_change = !wanted.is_empty();
    taints.extend(wanted);
    if metadata.is_empty() && !taints_change {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(node.pointer("/metadata/resourceVersion")));
    let mut patch = json!({ "metadata": metadata });
    if taints_change {
        patch["spec"] = json!({ "taints": taints });
    }
    Some(patch)
}

fn owner(claim: &Value) -> Value {
    json!({
        "apiVersion": NODE_CLAIM.api_version(), "kind": NODE_CLAIM.kind,
        "name": text_at(claim, "/metadata/name"), "uid": text_at(claim, "/metadata/uid"),
        "blockOwnerDeletion": true,
    })
}

/// Entries of `wanted` that `present` lacks or has otherwise.
fn differing(present: Option<&Value>, wanted: &Value, counts: impl Fn(&str) -> bool) -> Map<String, Value> {
    let wanted = wanted.as_object().into_iter().flatten();
    let differs = |(key, value): &(&String, &Value)| present.and_then(|map| map.get(*key)) != Some(*value);
    wanted.filter(|(key, _)| counts(key)).filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Taints are the same when key and effect are (Kubernetes: taint matching).
fn has_taint(taints: &[Value], one: &Value) -> bool {
    taints.iter().any(|taint| taint["key"] == one["key"] && taint["effect"] == one["effect"])
}

fn is_barred(node: &Value) -> bool {
    list_at(node, "/spec/taints").iter().any(|taint| taint["key"] == UNREGISTERED)
}

/// Takes the taint off and says that the Node is registered. `node` is what was read last; nodes open within milliseconds of one
/// another, so only one that has changed since is read again.
async fn admit_pods(cluster: &Kubernetes, path: &str, mut node: Value) -> Result<(), ApiError> {
    let mut reads = 0;
    while let Some(patch) = opening(&node) {
        match cluster.api().patch(path, &patch).await {
            Err(error) if error.kind == Kind::Conflict && reads < READS => reads += 1,
            answer => return answer.map(drop),
        }
        node = cluster.api().get(path).await?;
    }
    Ok(())
}

/// The patch that opens `node`; `None` when it is open.
fn opening(node: &Value) -> Option<Value> {
    let registered = text_at(node, "/metadata/labels/karpenter.sh~1registered") == "true";
    let mut taints = list_at(node, "/spec/taints");
    taints.retain(|taint| taint["key"] != UNREGISTERED);
    (!registered || is_barred(node)).then(|| {
        json!({
            "metadata": {
                "resourceVersion": node.pointer("/metadata/resourceVersion"),
                "labels": { "karpenter.sh/registered": "true" },
            },
            "spec": { "taints": taints },
        })
    })
}

/// Puts a Node into service.
pub(super) async fn initialize(cluster: &Kubernetes, rank: Rank, order: &v1::InitializeNode) -> Attempt {
    let claim = match admit(cluster, rank, &order.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let label = json!({ "metadata": { "labels": { "karpenter.sh/initialized": "true" } } });
    cluster.api().patch(&NODE.one("", &order.node), &label).await?;
    write_status(cluster, &claim, json!({}), |conditions| {
        conditions.set_true("Initialized");
    })
    .await?;
    Ok(Done::well())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Value {
        json!({ "metadata": { "name": "general-7", "uid": "u7", "annotations": {
            "karpenter.sh/nodepool-hash": "5", "fleetwright.dev/obeyed": "3/9", "people": "wrote this",
        } } })
    }

    fn order() -> v1::RegisterNode {
        v1::RegisterNode {
            node_claim: "general-7".into(),
            node: "n".into(),
            labels: vec![v1::StringPair { key: "team".into(), value: "shop".into() }],
            taints: vec![v1::Taint { key: "gpu".into(), value: "yes".into(), effect: "NoSchedule".into() }],
            hints: Vec::new(),
        }
    }

    fn node() -> Value {
        json!({
            "metadata": { "name": "n", "resourceVersion": "11", "labels": { "team": "other" } },
            "spec": { "taints": [{ "key": "karpenter.sh/unregistered", "effect": "NoExecute" }] },
        })
    }

    #[test]
    fn a_node_gets_what_its_claim_and_the_order_say_and_keeps_its_taint() {
        let patch = prepared(&node(), &claim(), &order()).unwrap();
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
        assert!(prepared(&node, &claim(), &order()).unwrap().get("spec").is_none());
    }

    #[test]
    fn a_node_that_has_everything_is_not_written() {
        let mut node = node();
        node["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        node["metadata"]["ownerReferences"] = json!([{ "uid": "u7" }]);
        node["metadata"]["labels"] = json!({ "team": "shop" });
        node["metadata"]["annotations"] = json!({ "karpenter.sh/nodepool-hash": "5", "people": "wrote this" });
        node["spec"]["taints"] = json!([{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }]);
        assert_eq!(prepared(&node, &claim(), &order()), None);
    }
}
