//! Writes status, finalizers, annotations and labels of objects that users own, never their spec.

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Map, Value, json};

use super::attempt::Attempt;
use crate::api::Api;
use crate::conditions::Conditions;
use crate::error::ok_if_not_found;
use crate::fields::{map_of, texts_at};
use crate::resource;
use crate::timestamps::now_rfc3339;

/// Writes the parts that differ. A missing object is a success.
pub(super) async fn write_object(api: &Api, action: &v1::WriteObject) -> Attempt {
    let kind = action.kind();
    let writable = [v1::ObjectKind::NodePool, v1::ObjectKind::Ec2NodeClass, v1::ObjectKind::NodeClaim];
    let Some(resource) = resource::of_kind(kind).filter(|_| writable.contains(&kind)) else {
        return Ok(Done::failed(
            v1::Outcome::Unsupported,
            format!("the agent writes no objects of kind {}", kind.as_str_name()),
        ));
    };
    let status: Option<Map<String, Value>> = match action.status.as_slice() {
        [] => None,
        bytes => match serde_json::from_slice(bytes) {
            Ok(status) => Some(status),
            Err(error) => {
                return Ok(Done::failed(
                    v1::Outcome::Failed,
                    format!("the status of the instruction is no JSON object: {error}"),
                ));
            }
        },
    };
    let path = resource.one("", &action.name);
    let Some(object) = ok_if_not_found(api.get::<Value>(&path).await)? else { return Ok(Done::ok()) };
    // Metadata first: the patch returns the version that the status patch must apply to.
    let object = match metadata_patch(&object, action) {
        Some(patch) => match ok_if_not_found(api.patch(&path, &patch).await)? {
            Some(object) => object,
            None => return Ok(Done::ok()),
        },
        None => object,
    };
    if let Some(status) = status
        && let Some(patch) = status_patch(&object, status, kind == v1::ObjectKind::NodeClaim, now_rfc3339())
    {
        ok_if_not_found(api.patch(&format!("{path}/status"), &patch).await)?;
    }
    Ok(Done::ok())
}

/// The patch of finalizers, annotations and labels; `None` when the object has them.
fn metadata_patch(object: &Value, action: &v1::WriteObject) -> Option<Value> {
    let mut metadata = Map::new();
    let before = texts_at(object, "/metadata/finalizers");
    let mut finalizers = before.clone();
    finalizers.retain(|one| !action.remove_finalizers.contains(one));
    let missing = action.add_finalizers.iter().filter(|one| !before.contains(one));
    finalizers.extend(missing.cloned());
    if finalizers != before {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    for (key, wanted) in [("annotations", map_of(&action.annotations)), ("labels", map_of(&action.labels))] {
        let there = object.pointer(&format!("/metadata/{key}"));
        let differs = |(name, value): &(&String, &Value)| there.and_then(|map| map.get(*name)) != Some(*value);
        if wanted.as_object().is_some_and(|wanted| wanted.iter().any(|entry| differs(&entry))) {
            metadata.insert(key.to_owned(), wanted);
        }
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(object.pointer("/metadata/resourceVersion")));
    Some(json!({ "metadata": metadata }))
}

/// The patch of the status; `None` when it changes nothing.
fn status_patch(object: &Value, mut status: Map<String, Value>, aggregates_ready: bool, now: String) -> Option<Value> {
    if let Some(Value::Array(entries)) = status.remove("conditions") {
        let mut conditions = Conditions::from_object(object, now);
        conditions.merge_entries(&entries);
        if aggregates_ready {
            conditions.aggregate_ready();
        }
        status.insert("conditions".to_owned(), conditions.into_value());
    }
    let there = object.get("status").cloned().unwrap_or_else(|| json!({}));
    let wanted = Value::Object(status);
    let mut merged = there.clone();
    merge_patch(&mut merged, &wanted);
    (merged != there).then(|| {
        json!({
            "metadata": { "resourceVersion": object.pointer("/metadata/resourceVersion") },
            "status": wanted,
        })
    })
}

/// JSON merge patch (RFC 7396), to detect a patch that changes nothing.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn pool() -> Value {
        json!({
            "metadata": { "resourceVersion": "4", "generation": 1, "finalizers": ["a"], "annotations": { "x": "1" } },
            "status": { "nodes": 2, "resources": { "cpu": "4" }, "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }] },
        })
    }

    fn patch(status: Value) -> Option<Value> {
        status_patch(&pool(), status.as_object().unwrap().clone(), false, NOW.to_owned())
    }

    #[test]
    fn an_unchanged_status_is_not_written() {
        let ready = json!({ "type": "Ready", "status": "True", "reason": "Ready" });
        assert_eq!(patch(json!({ "nodes": 2, "conditions": [ready] })), None);
        assert_eq!(patch(json!({ "imageID": null })), None);
    }

    #[test]
    fn a_status_is_merged_on_the_version_that_was_read() {
        let written = patch(json!({ "nodes": 3, "resources": { "cpu": null, "memory": "1Gi" } })).unwrap();
        assert_eq!(written["metadata"]["resourceVersion"], "4");
        assert_eq!(written["status"], json!({ "nodes": 3, "resources": { "cpu": null, "memory": "1Gi" } }));
        let failed = json!({ "conditions": [{ "type": "Ready", "status": "False", "reason": "NodeClassNotReady" }] });
        assert_eq!(patch(failed).unwrap()["status"]["conditions"][0]["lastTransitionTime"], NOW);
    }

    #[test]
    fn finalizers_come_and_go_and_others_stay() {
        let action = |add: &[&str], remove: &[&str]| v1::WriteObject {
            add_finalizers: add.iter().map(|one| (*one).to_owned()).collect(),
            remove_finalizers: remove.iter().map(|one| (*one).to_owned()).collect(),
            annotations: vec![v1::StringPair { key: "x".into(), value: "1".into() }],
            ..v1::WriteObject::default()
        };
        let finalizers = |action| metadata_patch(&pool(), &action).map(|patch| patch["metadata"]["finalizers"].clone());
        assert_eq!(finalizers(action(&["b"], &[])), Some(json!(["a", "b"])));
        assert_eq!(finalizers(action(&[], &["a"])), Some(json!([])));
        assert_eq!(finalizers(action(&["a"], &["b"])), None);
    }
}
