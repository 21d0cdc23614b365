//! Objects that cannot be read: what of them can be, so that they count as there.
//!
//! A Node that is left out looks like one that is gone, and so does a pod on the node that it runs on. Of these kinds, and of
//! NodeClaims, the fields that say which object it is and where it belongs are read one by one; a field that is not of its type is
//! passed over, and the record says why. Of other kinds the object stays as it was read last.

use agent::Seen;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use serde_json::{Map, Value, json};

use super::shape::Shared;
use super::{Read, Row, claim, node, pod};

/// What can be read of an object that [`Read`] refuses for this `reason`; `None` when too little can, or when the kind is none that
/// must be known to be there.
pub(crate) fn read(kind: v1::ObjectKind, text: &str, reason: &str, shared: &mut Shared) -> Option<Row> {
    let (read, spec, status): (Read, &[&str], &[&str]) = match kind {
        v1::ObjectKind::Node => (node::read, &["providerID"], &[]),
        v1::ObjectKind::NodeClaim => (claim::read, &[], &["providerID", "nodeName"]),
        v1::ObjectKind::Pod => (pod::read, &["nodeName"], &["phase"]),
        _ => return None,
    };
    let object: Value = serde_json::from_str(text).ok()?;
    let bare = json!({
        "metadata": metadata(&object),
        "spec": texts(&object["spec"], spec),
        "status": texts(&object["status"], status),
    });
    let row = read(&bare.to_string(), shared).ok().filter(|row| !row.name.is_empty())?;
    with_problem(row, reason)
}

/// The row with the reason, where its record has room for one. A pod that waits is not planned by what little is known of it.
fn with_problem(mut row: Row, reason: &str) -> Option<Row> {
    match &mut row.seen {
        Seen::Pod { record, .. } => (!record.node_name.is_empty()).then_some(row),
        Seen::Plain(change) => {
            match &mut **change {
                Change::Node(record) => reason.clone_into(&mut record.problem),
                Change::NodeClaim(record) => reason.clone_into(&mut record.problem),
                _ => return None,
            }
            Some(row)
        }
        Seen::DaemonSet { .. } => None,
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

    fn opaque(kind: v1::ObjectKind, object: &Value) -> Option<Row> {
        read(kind, &object.to_string(), "field x: why", &mut Shared::default())
    }

    #[test]
    fn a_node_that_cannot_be_read_is_there_with_its_name_its_machine_and_the_reason() {
        let object = json!({
            "metadata": { "name": "n1", "uid": "u", "labels": { "a": "b", "c": 7 }, "finalizers": "one" },
            "spec": { "providerID": "aws:///z/i-1", "taints": 3 }, "status": { "capacity": [] },
        });
        assert!(node::read(&object.to_string(), &mut Shared::default()).is_err());
        let row = opaque(v1::ObjectKind::Node, &object).unwrap();
        let Seen::Plain(change) = row.seen else { panic!("no record") };
        let Change::Node(record) = *change else { panic!("no node") };
        assert_eq!((record.name.as_str(), record.provider_id.as_str()), ("n1", "aws:///z/i-1"));
        assert_eq!((record.problem.as_str(), record.labels.len()), ("field x: why", 1));
    }

    #[test]
    fn a_claim_stays_ours_and_a_pod_stays_where_it_runs() {
        let claim = json!({
            "metadata": { "name": "c", "annotations": { "fleetwright.dev/managed": "true" } },
            "spec": { "requirements": "none" }, "status": { "providerID": "p", "nodeName": "n1" },
        });
        let Seen::Plain(change) = opaque(v1::ObjectKind::NodeClaim, &claim).unwrap().seen else { panic!("no record") };
        let Change::NodeClaim(record) = *change else { panic!("no claim") };
        assert_eq!((record.annotations[0].value.as_str(), record.provider_id.as_str()), ("true", "p"));
        let pod = |node: &str| json!({ "metadata": { "name": "p" }, "spec": { "nodeName": node, "tolerations": 1 } });
        assert!(opaque(v1::ObjectKind::Pod, &pod("n1")).is_some());
        assert!(opaque(v1::ObjectKind::Pod, &pod("")).is_none(), "what it asks for is not known");
        assert!(opaque(v1::ObjectKind::Namespace, &json!({ "metadata": { "name": "n" } })).is_none());
        assert!(opaque(v1::ObjectKind::Node, &json!([])).is_none());
    }
}
