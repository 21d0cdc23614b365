//! NodeClaims: created, marked as launched, let go.

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::guard::{Meant, is_managed, is_ready};
use super::{Admission, Attempt, FINALIZER, OBEYED, Rank, admit, stale};
use crate::cluster::Kubernetes;
use crate::conditions::Conditions;
use crate::error::{ApiError, Kind, gone_is_fine};
use crate::fields::{amounts_of, map_of, text_at, texts_at};
use crate::moment::now_in_seconds;
use crate::resource::{NODE, NODE_CLAIM, NODE_POOL, Resource};

/// Creates a claim. Its owner is the NodePool of that name that is there.
pub(super) async fn create(cluster: &Kubernetes, rank: Rank, order: &v1::CreateNodeClaim) -> Attempt {
    let Some(record) = &order.node_claim else {
        return Ok(Done::not(v1::Outcome::Failed, "the instruction has no NodeClaim"));
    };
    if let Some(evidence) = cluster.picture().karpenter_at_work() {
        let why = format!("Karpenter is at work in this cluster ({evidence}) and would buy a second machine for it");
        return Ok(Done::not(v1::Outcome::Failed, why));
    }
    let owner = match &record.owner {
        Some(owner) => Some(owner_reference(cluster, owner).await?),
        None => None,
    };
    match cluster.api().create(&NODE_CLAIM.all(), &manifest(record, owner, rank)).await {
        Ok(_) => Ok(Done::well()),
        Err(error) if error.kind == Kind::AlreadyExists => Ok(Done::well()),
        Err(error) => Err(error),
    }
}

async fn owner_reference(cluster: &Kubernetes, owner: &v1::Owner) -> Result<Value, ApiError> {
    let uid = if owner.uid.is_empty() {
        let pool: Value = cluster.api().get(&NODE_POOL.one("", &owner.name)).await?;
        text_at(&pool, "/metadata/uid").to_owned()
    } else {
        owner.uid.clone()
    };
    Ok(json!({
        "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": uid,
        "blockOwnerDeletion": true,
    }))
}

/// The object that a record describes.
fn manifest(record: &v1::NodeClaimRecord, owner: Option<Value>, rank: Rank) -> Value {
    let mut annotations = map_of(&record.annotations);
    annotations[OBEYED] = json!(rank.note());
    let class = record.node_class.clone().unwrap_or_default();
    let mut spec = json!({
        "nodeClassRef": { "group": class.group, "kind": class.kind, "name": class.name },
        "requirements": record.requirements.iter().map(requirement).collect::<Vec<_>>(),
    });
    if !record.requests.is_empty() {
        spec["resources"] = json!({ "requests": amounts_of(&record.requests) });
    }
    let lists = [("taints", &record.taints), ("startupTaints", &record.startup_taints)];
    for (key, taints) in lists.into_iter().filter(|(_, taints)| !taints.is_empty()) {
        spec[key] = taints.iter().map(taint).collect();
    }
    let texts = [("terminationGracePeriod", &record.termination_grace_period), ("expireAfter", &record.expire_after)];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        spec[key] = json!(text);
    }
    json!({
        "apiVersion": NODE_CLAIM.api_version(),
        "kind": NODE_CLAIM.kind,
        "metadata": {
            "name": record.name,
            "labels": map_of(&record.labels),
            "annotations": annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": spec,
    })
}

fn requirement(requirement: &v1::ClaimRequirement) -> Value {
    let mut entry = Map::new();
    entry.insert("key".to_owned(), json!(requirement.key));
    entry.insert("operator".to_owned(), json!(requirement.operator));
    if !requirement.values.is_empty() {
        entry.insert("values".to_owned(), json!(requirement.values));
    }
    if let Some(least) = requirement.min_values {
        entry.insert("minValues".to_owned(), json!(least));
    }
    Value::Object(entry)
}

/// A taint as JSON.
pub(super) fn taint(taint: &v1::Taint) -> Value {
    if taint.value.is_empty() {
        json!({ "key": taint.key, "effect": taint.effect })
    } else {
        json!({ "key": taint.key, "value": taint.value, "effect": taint.effect })
    }
}

/// Writes what was launched. Labels that are there win: the NodePool's own were put there when the claim was made (Karpenter:
/// launch).
pub(super) async fn mark_launched(cluster: &Kubernetes, rank: Rank, order: &v1::MarkLaunched) -> Attempt {
    let claim = match admit(cluster, rank, &order.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let path = NODE_CLAIM.one("", &order.node_claim);
    let known = claim.pointer("/metadata/labels").and_then(Value::as_object);
    let missing = order.labels.iter().filter(|label| known.is_none_or(|known| !known.contains_key(&label.key)));
    let missing: Vec<v1::StringPair> = missing.cloned().collect();
    if !missing.is_empty() {
        cluster.api().patch(&path, &json!({ "metadata": { "labels": map_of(&missing) } })).await?;
    }
    let facts = json!({
        "providerID": order.provider_id,
        "capacity": amounts_of(&order.capacity),
        "allocatable": amounts_of(&order.allocatable),
    });
    write_status(cluster, &claim, facts, |conditions| {
        conditions.set_true("Launched");
    })
    .await?;
    Ok(Done::well())
}

/// Writes `fields` and changed conditions into a NodeClaim's status. The conditions are those of the claim at this moment.
pub(super) async fn write_status(
    cluster: &Kubernetes,
    claim: &Value,
    fields: Value,
    change: impl FnOnce(&mut Conditions),
) -> Result<(), ApiError> {
    let name = text_at(claim, "/metadata/name");
    let path = NODE_CLAIM.one("", name);
    let current: Value = cluster.api().get(&path).await?;
    let mut conditions = Conditions::of(&current, now_in_seconds());
    change(&mut conditions);
    conditions.sum_up_claim();
    let mut status = fields;
    status["conditions"] = conditions.into_value();
    let patch = json!({
        "metadata": { "resourceVersion": current.pointer("/metadata/resourceVersion") },
        "status": status,
    });
    cluster.api().patch(&format!("{path}/status"), &patch).await?;
    Ok(())
}

/// Lets a claim and its Node go: the Node first, because the claim says which one it is until the end.
pub(super) async fn delete(cluster: &Kubernetes, rank: Rank, order: &v1::DeleteNodeClaim) -> Attempt {
    let claim: Option<Value> = gone_is_fine(cluster.api().get(&NODE_CLAIM.one("", &order.node_claim)).await)?;
    if let Some(noted) = claim.as_ref().map(Rank::noted).filter(|noted| *noted > rank) {
        return Ok(stale(noted, &order.node_claim));
    }
    if !order.node.is_empty() {
        let node: Option<Value> = gone_is_fine(cluster.api().get(&NODE.one("", &order.node)).await)?;
        if let Some(node) = node {
            let meant = Meant { claim: &order.node_claim, provider_id: &order.provider_id };
            match cluster.guard().refusal(&node, claim.as_ref(), meant) {
                Some(why) => warn!(node = order.node, claim = order.node_claim, why, "a Node is left alone"),
                None => {
                    // One whose kubelet is silent has nothing left to lose.
                    if is_ready(&node) {
                        cluster.guard().pace(&node)?;
                    }
                    let_go(cluster, NODE, &node).await?;
                }
            }
        }
    }
    if let Some(claim) = claim.filter(is_managed) {
        let_go(cluster, NODE_CLAIM, &claim).await?;
    }
    Ok(Done::well())
}

/// Deletes an object and takes our finalizer off it. One of that name that was made since is another object and stays.
async fn let_go(cluster: &Kubernetes, resource: Resource, object: &Value) -> Result<(), ApiError> {
    let path = resource.one("", text_at(object, "/metadata/name"));
    let uid = text_at(object, "/metadata/uid");
    let same = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": uid } });
    let Some(deleted) = gone_is_fine(cluster.api().delete(&path, &same).await)? else { return Ok(()) };
    let finalizers: Vec<String> =
        texts_at(&deleted, "/metadata/finalizers").into_iter().filter(|one| one != FINALIZER).collect();
    let patch = json!({ "metadata": {
        "uid": uid,
        "resourceVersion": deleted.pointer("/metadata/resourceVersion"),
        "finalizers": finalizers,
    } });
    if text_at(&deleted, "/metadata/uid").is_empty() {
        // Without finalizers the API server answers with a Status: the object is gone.
        return Ok(());
    }
    gone_is_fine(cluster.api().patch(&path, &patch).await)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_the_object_that_karpenter_would_write() {
        let pair = |key: &str, value: &str| v1::StringPair { key: key.into(), value: value.into() };
        let record = v1::NodeClaimRecord {
            name: "general-7".into(),
            labels: vec![pair("karpenter.sh/nodepool", "general")],
            annotations: vec![pair("fleetwright.dev/managed", "true")],
            node_class: Some(v1::NodeClassReference {
                group: "karpenter.k8s.aws".into(),
                kind: "EC2NodeClass".into(),
                name: "default".into(),
            }),
            requirements: vec![v1::ClaimRequirement {
                key: "karpenter.sh/capacity-type".into(),
                operator: "Exists".into(),
                values: Vec::new(),
                min_values: Some(1),
            }],
            taints: vec![v1::Taint { key: "team".into(), value: String::new(), effect: "NoSchedule".into() }],
            requests: vec![v1::Quantity { resource: "cpu".into(), amount: "1500m".into() }],
            expire_after: "720h".into(),
            ..v1::NodeClaimRecord::default()
        };
        let expected = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": "general-7",
                "labels": { "karpenter.sh/nodepool": "general" },
                "annotations": { "fleetwright.dev/managed": "true", "fleetwright.dev/obeyed": "3/9" },
                "finalizers": ["karpenter.sh/termination"],
                "ownerReferences": [],
            },
            "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "Exists", "minValues": 1 }],
                "resources": { "requests": { "cpu": "1500m" } },
                "taints": [{ "key": "team", "effect": "NoSchedule" }],
                "expireAfter": "720h",
            },
        });
        assert_eq!(manifest(&record, None, Rank { epoch: 3, generation: 9 }), expected);
    }
}
