//! NodePools, EC2NodeClasses and NodeOverlays: sent as users wrote them, without the API server's
//! bookkeeping. The server launches instances with the user data of an EC2NodeClass, so that is sent
//! too; the copies of objects in annotations are not.

use agent::Record;
use fleetwright_proto::v1;
use serde_json::{Map, Value};

use super::object::ParsedObject;
use super::shape::ShapeInterner;

/// The copy of the object that `kubectl apply` stores in an annotation.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub fn parse_pool(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    parse(v1::ObjectKind::NodePool, json)
}

pub fn parse_class(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    parse(v1::ObjectKind::Ec2NodeClass, json)
}

pub fn parse_overlay(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    parse(v1::ObjectKind::NodeOverlay, json)
}

fn parse(kind: v1::ObjectKind, json: &str) -> serde_json::Result<ParsedObject> {
    let mut object: Map<String, Value> = serde_json::from_str(json)?;
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let text = |key: &str| {
        let value = metadata.as_ref().and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let (name, uid, resource_version) = (text("name"), text("uid"), text("resourceVersion"));
    if let Some(metadata) = metadata {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    let record = v1::ManifestRecord {
        kind: kind.into(),
        name: name.clone(),
        json: serde_json::to_vec(&object)?,
        resource_version,
    };
    Ok(ParsedObject {
        namespace: String::new(),
        name,
        uid,
        record: Record::plain(v1::change::Change::Manifest(record)),
    })
}
