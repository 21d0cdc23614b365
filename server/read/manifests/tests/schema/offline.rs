//! Reading files agrees with the schemas, and the tables of cases cover every rule and field of the
//! schemas.

use std::collections::BTreeSet;

use manifests::karpenter::{NodeClaimManifest, NodeClassManifest, NodeOverlayManifest, NodePoolManifest};
use manifests::schema::definitions;
use manifests::{Cursor, ObjectLocation, Problems};
use serde_json::Value;

use crate::cases::{Refused, accepted, refused};

/// The errors of `object` when it is read from a file.
fn errors(object: &Value) -> Vec<String> {
    let problems = Problems::default();
    let site = ObjectLocation { source: "case".into(), document: 1, object: None, problems: &problems };
    let at = Cursor::root(object, &site);
    let read = match object["kind"].as_str() {
        Some("NodePool") => NodePoolManifest::read(&at, &mut Vec::new()).is_some(),
        Some("NodeClaim") => NodeClaimManifest::read(&at).is_some(),
        Some("NodeOverlay") => NodeOverlayManifest::read(&at).is_some(),
        Some("EC2NodeClass") => NodeClassManifest::read(&at).is_some(),
        other => panic!("no reader for {other:?}"),
    };
    drop(at);
    let errors: Vec<String> = problems.into_errors().iter().map(ToString::to_string).collect();
    assert!(read || !errors.is_empty(), "ignored without an error: {object}");
    errors
}

#[test]
fn objects_that_an_api_server_accepts_are_parsed_without_an_error() {
    for (place, object) in accepted() {
        assert_eq!(errors(&object), [""; 0], "{place} {}", object["metadata"]["name"]);
    }
    for case in refused() {
        assert_eq!(errors(&case.base), [""; 0], "{}", case.place);
    }
}

#[test]
fn objects_that_an_api_server_rejects_are_rejected_offline_too() {
    let cases = refused();
    let disagree = |case: &&Refused| errors(&case.object).is_empty() == case.offline.is_empty();
    let describe = |case: &Refused| format!("{}: {}", case.place, case.message);
    let disagreeing: Vec<String> =
        cases.iter().filter(|case| !case.when_changed).filter(disagree).map(describe).collect();
    assert!(disagreeing.is_empty(), "{}", disagreeing.join("\n"));
}

/// Every message of a rule below `schema`.
fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keywords) => {
            for rule in keywords.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
                found.insert(rule["message"].as_str().unwrap().to_owned());
            }
            keywords.values().for_each(|value| messages(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        _ => {}
    }
}

#[test]
fn every_rule_has_a_case_that_violates_it() {
    let cases = refused();
    for definition in definitions() {
        let mut all = BTreeSet::new();
        messages(&definition.schema(), &mut all);
        let covered: BTreeSet<&str> = cases
            .iter()
            .filter(|case| case.base["kind"] == definition.kind())
            .map(|case| case.message.as_str())
            .collect();
        let uncovered: Vec<&String> = all.iter().filter(|message| !covered.contains(message.as_str())).collect();
        assert!(uncovered.is_empty(), "{}: no case for {uncovered:?}", definition.kind());
    }
}

/// Dotted paths of the fields below `value`, lists passed through.
fn paths_of(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                paths_of(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths_of(item, path, found)),
        _ => {}
    }
}

/// Dotted paths of the fields that `schema` names.
fn fields_of(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(item) = schema.get("items") {
        fields_of(item, path, found);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        fields_of(property, &path, found);
        found.insert(path);
    }
}

#[test]
fn every_field_that_users_set_occurs_in_an_accepted_object() {
    let objects = accepted();
    for definition in definitions() {
        let (mut named, mut written) = (BTreeSet::new(), BTreeSet::new());
        fields_of(&definition.schema()["properties"]["spec"], "spec", &mut named);
        for (_, object) in objects.iter().filter(|(_, object)| object["kind"] == definition.kind()) {
            paths_of(&object["spec"], "spec", &mut written);
        }
        let missing: Vec<&String> = named.difference(&written).collect();
        assert!(missing.is_empty(), "{}: in no accepted object: {missing:?}", definition.kind());
    }
}
