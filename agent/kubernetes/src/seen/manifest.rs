//! NodePools, EC2NodeClasses and NodeOverlays: they travel as people wrote them, without what the API server notes beside and
//! without what may hold secrets.

use agent::Seen;
use fleetwright_proto::v1;
use serde_json::{Map, Value};

use super::Row;
use super::shape::Shared;

/// The copy of the object that `kubectl apply` keeps in it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What machines run at their start: people put secrets into it, and the server looks at none of it.
const USER_DATA: &str = "userData";

/// Reads a NodePool.
///
/// # Errors
/// When it is no JSON object.
pub fn read_pool(json: &str, _: &mut Shared) -> serde_json::Result<Row> {
    read(v1::ObjectKind::NodePool, json)
}

/// Reads an EC2NodeClass.
///
/// # Errors
/// As [`read_pool`].
pub fn read_class(json: &str, _: &mut Shared) -> serde_json::Result<Row> {
    read(v1::ObjectKind::Ec2NodeClass, json)
}

/// Reads a NodeOverlay.
///
/// # Errors
/// As [`read_pool`].
pub fn read_overlay(json: &str, _: &mut Shared) -> serde_json::Result<Row> {
    read(v1::ObjectKind::NodeOverlay, json)
}

fn read(kind: v1::ObjectKind, json: &str) -> serde_json::Result<Row> {
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
    if kind == v1::ObjectKind::Ec2NodeClass
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove(USER_DATA);
    }
    let record = v1::ManifestRecord {
        kind: kind.into(),
        name: name.clone(),
        json: serde_json::to_vec(&object)?,
        resource_version,
    };
    Ok(Row { namespace: String::new(), name, uid, seen: Seen::plain(v1::change::Change::Manifest(record)) })
}
