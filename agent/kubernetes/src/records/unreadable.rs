//! Parses the identifying fields of objects that do not parse as a whole, so that they count as
//! existing.
//!
//! An omitted Node looks like a deleted one, and so does a pod on its node. For these kinds and for
//! NodeClaims the fields that identify the object and its place are read one by one; a field of the
//! wrong type is skipped, and the record states the reason. An object of any other kind keeps its
//! last record.

use agent::Record;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use serde_json::{Map, Value, json};

use super::object::{ParsedObject, Parser};
use super::shape::ShapeInterner;
use super::{claim, node, pod};

/// The partial record of an object that its [`Parser`] refuses for this `reason`; `None` when too
/// few fields are readable, or for a kind whose existence does not matter.
pub(crate) fn parse(
    kind: v1::ObjectKind,
    text: &str,
    reason: &str,
    shared: &mut ShapeInterner,
) -> Option<ParsedObject> {
    let (parser, spec, status): (Parser, &[&str], &[&str]) = match kind {
        v1::ObjectKind::Node => (node::parse, &["providerID"], &[]),
        v1::ObjectKind::NodeClaim => (claim::parse, &[], &["providerID", "nodeName"]),
        v1::ObjectKind::Pod => (pod::parse, &["nodeName"], &["phase"]),
        _ => return None,
    };
    let object: Value = serde_json::from_str(text).ok()?;
    let bare = json!({
        "metadata": metadata(&object),
        "spec": texts(&object["spec"], spec),
        "status": texts(&object["status"], status),
    });
    let parsed = parser(&bare.to_string(), shared).ok().filter(|parsed| !parsed.name.is_empty())?;
    with_problem(parsed, reason)
}

/// Adds the reason to the record, where the record has a field for it. A pending pod is not planned
/// from a partial record.
fn with_problem(mut parsed: ParsedObject, reason: &str) -> Option<ParsedObject> {
    match &mut parsed.record {
        Record::Pod { record, .. } => (!record.node_name.is_empty()).then_some(parsed),
        Record::Plain(change) => {
            match &mut **change {
                Change::Node(record) => reason.clone_into(&mut record.problem),
                Change::NodeClaim(record) => reason.clone_into(&mut record.problem),
                _ => return None,
            }
            Some(parsed)
        }
        Record::DaemonSet { .. } => None,
    }
}

fn metadata(object: &Value) -> Value {
    let found = &object["metadata"];
    let mut metadata = texts(found, &["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"]);
    for key in ["labels", "annotations"] {
        let pairs = found[key].as_object().into_iter().flatten().filter(|(_, value)| value.is_string());
        metadata
            .insert(key.to_owned(), Value::Object(pairs.map(|(key, value)| (key.clone(), value.clone())).collect()));
    }
    let owners = found["ownerReferences"].as_array().into_iter().flatten();
    let owner = |owner: &Value| {
        let mut known = texts(owner, &["apiVersion", "kind", "name", "uid"]);
        known.insert("controller".to_owned(), json!(owner["controller"] == true));
        Value::Object(known)
    };
    metadata.insert("ownerReferences".to_owned(), owners.map(owner).collect());
    Value::Object(metadata)
}

fn texts(object: &Value, keys: &[&str]) -> Map<String, Value> {
    let found = keys.iter().filter_map(|key| Some(((*key).to_owned(), object.get(*key)?.clone())));
    found.filter(|(_, value)| value.is_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opaque(kind: v1::ObjectKind, object: &Value) -> Option<ParsedObject> {
        parse(kind, &object.to_string(), "field x: why", &mut ShapeInterner::default())
    }

    #[test]
    fn a_node_that_cannot_be_read_is_there_with_its_name_its_machine_and_the_reason() {
        let object = json!({
            "metadata": { "name": "n1", "uid": "u", "labels": { "a": "b", "c": 7 }, "finalizers": "one" },
            "spec": { "providerID": "aws:///z/i-1", "taints": 3 }, "status": { "capacity": [] },
        });
        assert!(node::parse(&object.to_string(), &mut ShapeInterner::default()).is_err());
        let parsed = opaque(v1::ObjectKind::Node, &object).unwrap();
        let Record::Plain(change) = parsed.record else { panic!("no record") };
        let Change::Node(record) = *change else { panic!("no node") };
        assert_eq!((record.name.as_str(), record.provider_id.as_str()), ("n1", "aws:///z/i-1"));
        assert_eq!((record.problem.as_str(), record.labels.len()), ("field x: why", 1));
    }

    #[test]
    fn an_unreadable_claim_stays_managed_and_an_unreadable_pod_stays_bound() {
        let claim = json!({
            "metadata": { "name": "c", "annotations": { "fleetwright.dev/managed": "true" } },
            "spec": { "requirements": "none" }, "status": { "providerID": "p", "nodeName": "n1" },
        });
        let Record::Plain(change) = opaque(v1::ObjectKind::NodeClaim, &claim).unwrap().record else {
            panic!("no record")
        };
        let Change::NodeClaim(record) = *change else { panic!("no claim") };
        assert_eq!((record.annotations[0].value.as_str(), record.provider_id.as_str()), ("true", "p"));
        let pod = |node: &str| json!({ "metadata": { "name": "p" }, "spec": { "nodeName": node, "tolerations": 1 } });
        assert!(opaque(v1::ObjectKind::Pod, &pod("n1")).is_some());
        assert!(opaque(v1::ObjectKind::Pod, &pod("")).is_none(), "what it asks for is not known");
        assert!(opaque(v1::ObjectKind::Namespace, &json!({ "metadata": { "name": "n" } })).is_none());
        assert!(opaque(v1::ObjectKind::Node, &json!([])).is_none());
    }
}
