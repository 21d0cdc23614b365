//! NodeClaims: creation, launch status, deletion.

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::admission::{Admission, INSTRUCTION_ANNOTATION, Rank, admit_instruction, stale_instruction};
use super::attempt::Attempt;
use super::guard::{RemovalGuard, RemovalTarget, check_removal, is_managed, is_ready};
use crate::api::Api;
use crate::conditions::Conditions;
use crate::error::{ApiError, ErrorKind, ok_if_not_found};
use crate::fields::{amounts_of, map_of, text_at, texts_at};
use crate::object_cache::ObjectCache;
use crate::resource::{NODE, NODE_CLAIM, NODE_POOL, Resource};
use crate::timestamps::now_rfc3339;

/// The finalizer that blocks the deletion of a NodeClaim and its Node until the instance is
/// terminated.
pub(super) const FINALIZER: &str = "karpenter.sh/termination";

/// Creates a claim, owned by the NodePool of that name.
pub(super) async fn create_claim(api: &Api, cache: &ObjectCache, rank: Rank, action: &v1::CreateNodeClaim) -> Attempt {
    let Some(record) = &action.node_claim else {
        return Ok(Done::failed(v1::Outcome::Failed, "the instruction has no NodeClaim"));
    };
    if let Some(evidence) = cache.karpenter_evidence() {
        let why = format!(
            "Karpenter is active in this cluster ({evidence}) and would launch a second instance for the NodeClaim"
        );
        return Ok(Done::failed(v1::Outcome::Failed, why));
    }
    let owner = match &record.owner {
        Some(owner) => Some(owner_reference(api, owner).await?),
        None => None,
    };
    match api.create(&NODE_CLAIM.all(), &manifest(record, owner, rank)).await {
        Ok(_) => Ok(Done::ok()),
        Err(error) if error.kind == ErrorKind::AlreadyExists => Ok(Done::ok()),
        Err(error) => Err(error),
    }
}

async fn owner_reference(api: &Api, owner: &v1::Owner) -> Result<Value, ApiError> {
    let uid = if owner.uid.is_empty() {
        let pool: Value = api.get(&NODE_POOL.one("", &owner.name)).await?;
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
    annotations[INSTRUCTION_ANNOTATION] = json!(rank.to_annotation());
    let class = record.node_class.clone().unwrap_or_default();
    let mut spec = json!({
        "nodeClassRef": { "group": class.group, "kind": class.kind, "name": class.name },
        "requirements": record.requirements.iter().map(requirement).collect::<Vec<_>>(),
    });
    // Empty fields are omitted, as Karpenter omits them.
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

/// Writes the launched instance. Existing labels take precedence: those of the NodePool were
/// written when the claim was created (Karpenter: launch).
pub(super) async fn mark_launched(api: &Api, rank: Rank, action: &v1::MarkLaunched) -> Attempt {
    let claim = match admit_instruction(api, rank, &action.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let path = NODE_CLAIM.one("", &action.node_claim);
    let known = claim.pointer("/metadata/labels").and_then(Value::as_object);
    let missing = action.labels.iter().filter(|label| known.is_none_or(|known| !known.contains_key(&label.key)));
    let missing: Vec<v1::StringPair> = missing.cloned().collect();
    if !missing.is_empty() {
        api.patch(&path, &json!({ "metadata": { "labels": map_of(&missing) } })).await?;
    }
    let mut facts = json!({
        "providerID": action.provider_id,
        "capacity": amounts_of(&action.capacity),
        "allocatable": amounts_of(&action.allocatable),
    });
    if !action.image_id.is_empty() {
        facts["imageID"] = json!(action.image_id);
    }
    write_status(api, &claim, facts, |conditions| {
        conditions.set_true("Launched");
    })
    .await?;
    Ok(Done::ok())
}

/// Writes `fields` and changed conditions into a NodeClaim's status, based on the claim's present
/// conditions.
pub(super) async fn write_status(
    api: &Api,
    claim: &Value,
    fields: Value,
    change: impl FnOnce(&mut Conditions),
) -> Result<(), ApiError> {
    let name = text_at(claim, "/metadata/name");
    let path = NODE_CLAIM.one("", name);
    let current: Value = api.get(&path).await?;
    let mut conditions = Conditions::from_object(&current, now_rfc3339());
    change(&mut conditions);
    conditions.aggregate_ready();
    let mut status = fields;
    status["conditions"] = conditions.into_value();
    let patch = json!({
        "metadata": { "resourceVersion": current.pointer("/metadata/resourceVersion") },
        "status": status,
    });
    api.patch(&format!("{path}/status"), &patch).await?;
    Ok(())
}

/// Deletes a claim and its Node: the Node first, because the claim identifies it.
pub(super) async fn delete_claim(api: &Api, guard: &RemovalGuard, rank: Rank, action: &v1::DeleteNodeClaim) -> Attempt {
    let claim: Option<Value> = ok_if_not_found(api.get(&NODE_CLAIM.one("", &action.node_claim)).await)?;
    if let Some(noted) = claim.as_ref().map(Rank::of_claim).filter(|noted| *noted > rank) {
        return Ok(stale_instruction(noted, &action.node_claim));
    }
    if !action.node.is_empty() {
        let node: Option<Value> = ok_if_not_found(api.get(&NODE.one("", &action.node)).await)?;
        if let Some(node) = node {
            let target = RemovalTarget { claim: &action.node_claim, provider_id: &action.provider_id };
            match check_removal(&node, claim.as_ref(), target) {
                Some(why) => warn!(node = action.node, claim = action.node_claim, why, "node not deleted"),
                None => {
                    // The removal of a Node whose kubelet does not report is not rate limited.
                    if is_ready(&node) {
                        guard.count_removal(&node)?;
                    }
                    delete_object(api, NODE, &node).await?;
                }
            }
        }
    }
    if let Some(claim) = claim.filter(is_managed) {
        delete_object(api, NODE_CLAIM, &claim).await?;
    }
    Ok(Done::ok())
}

/// Deletes an object and removes the agent's finalizer. The UID precondition spares a newer object
/// of the same name.
async fn delete_object(api: &Api, resource: Resource, object: &Value) -> Result<(), ApiError> {
    let path = resource.one("", text_at(object, "/metadata/name"));
    let uid = text_at(object, "/metadata/uid");
    let same = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": uid } });
    let Some(deleted) = ok_if_not_found(api.delete(&path, &same).await)? else { return Ok(()) };
    let finalizers: Vec<String> =
        texts_at(&deleted, "/metadata/finalizers").into_iter().filter(|one| one != FINALIZER).collect();
    let patch = json!({ "metadata": {
        "uid": uid,
        "resourceVersion": deleted.pointer("/metadata/resourceVersion"),
        "finalizers": finalizers,
    } });
    if text_at(&deleted, "/metadata/uid").is_empty() {
        // Without finalizers the API server responds with a Status: the object is deleted.
        return Ok(());
    }
    ok_if_not_found(api.patch(&path, &patch).await)?;
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
        // Epoch 3 and generation 9 are the annotation; absent fields of the record are absent here.
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
