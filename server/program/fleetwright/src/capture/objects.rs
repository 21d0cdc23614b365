//! The objects of one kind, without what no plan reads.

use agent_kubernetes::api::Api;
use agent_kubernetes::error::{ApiError, ErrorKind};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::discovery::Listable;

/// Objects in one page, as `kubectl` reads them.
const PAGE: usize = 500;

/// Annotation in which `kubectl apply` keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields of containers that no plan reads, and that may have secrets.
const PRIVATE: [&str; 4] = ["env", "envFrom", "command", "args"];

#[derive(Debug, Deserialize)]
struct Page {
    metadata: PageMetadata,
    /// Null when the API server has no object.
    items: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// All objects of a kind, of one resource version.
///
/// # Errors
/// A request fails.
pub(super) async fn list(api: &Api, kind: &Listable) -> Result<Vec<Value>, ApiError> {
    match list_in_pages(api, kind, PAGE).await {
        // The version of the first page is compacted: one request reads all objects of one version.
        Err(error) if error.kind == ErrorKind::Gone => list_in_pages(api, kind, 0).await,
        listed => listed,
    }
}

async fn list_in_pages(api: &Api, kind: &Listable, page: usize) -> Result<Vec<Value>, ApiError> {
    let mut objects = Vec::new();
    let mut next = String::new();
    loop {
        let token = if next.is_empty() { String::new() } else { format!("&continue={next}") };
        let answer: Page = api.get(&format!("{}?limit={page}{token}", kind.path)).await?;
        objects.extend(answer.items.into_iter().flatten().map(|object| captured(object, kind)));
        next = answer.metadata.next;
        if next.is_empty() {
            return Ok(objects);
        }
    }
}

/// The object with its version and kind, which items of a list do not have, and without what no
/// plan reads.
fn captured(object: Value, kind: &Listable) -> Value {
    let Value::Object(fields) = object else { return object };
    let mut whole = Map::new();
    whole.insert("apiVersion".to_owned(), kind.api_version.clone().into());
    whole.insert("kind".to_owned(), kind.kind.into());
    whole.extend(fields);
    let mut object = Value::Object(whole);
    remove(&mut object, "/metadata", "managedFields");
    remove(&mut object, "/metadata/annotations", LAST_APPLIED);
    match kind.kind {
        "Pod" => remove_private(object.pointer_mut("/spec")),
        "Node" => remove(&mut object, "/status", "images"),
        _ => remove_private(object.pointer_mut("/spec/template/spec")),
    }
    object
}

fn remove(object: &mut Value, path: &str, field: &str) {
    if let Some(Value::Object(fields)) = object.pointer_mut(path) {
        fields.shift_remove(field);
    }
}

/// Removes [`PRIVATE`] from the containers of a pod's `spec`.
fn remove_private(spec: Option<&mut Value>) {
    let Some(Value::Object(spec)) = spec else { return };
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            for field in PRIVATE {
                container.shift_remove(field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(kind: &'static str) -> Listable {
        Listable { api_version: "v1".to_owned(), kind, plural: String::new(), path: String::new() }
    }

    #[test]
    fn a_captured_object_has_its_kind_and_no_secret() {
        let container = json!({ "name": "a", "env": [{ "name": "PASSWORD", "value": "s3cret" }], "args": ["--token=s3cret"],
                                "envFrom": [{ "secretRef": { "name": "s3cret" } }], "command": ["sh", "-c", "s3cret"],
                                "resources": { "requests": { "cpu": "1" } } });
        let metadata = json!({ "name": "a", "managedFields": [{ "manager": "s3cret" }],
                               "annotations": { (LAST_APPLIED): "s3cret", "kept": "yes" } });
        let spec = json!({ "containers": [container], "initContainers": [container] });
        let pod = captured(json!({ "metadata": metadata, "spec": spec }), &kind("Pod"));
        let left = json!({ "name": "a", "resources": { "requests": { "cpu": "1" } } });
        let expected = json!({ "apiVersion": "v1", "kind": "Pod",
                               "metadata": { "name": "a", "annotations": { "kept": "yes" } },
                               "spec": { "containers": [left], "initContainers": [left] } });
        assert_eq!(pod, expected);
        let workload = json!({ "metadata": metadata, "spec": { "template": { "spec": spec } } });
        assert!(!captured(workload, &kind("Deployment")).to_string().contains("s3cret"));
    }
}
