//! `metadata` of a converted object.

use serde_json::Value;

use super::kind::ApiGeneration;
use super::names;
use super::record::Reporter;
use super::shape::{Fields, map, map_mut};

/// Metadata that the API server maintains.
const BOOKKEEPING: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "selfLink",
];

/// Removes bookkeeping and status from `object`, except its name, labels and annotations. For a
/// plan both are kept, because it uses deletion and readiness.
pub(super) fn tidy(reporter: &mut Reporter<'_, '_>, object: &mut Fields, age: ApiGeneration) {
    let (old, keeps) = (age != ApiGeneration::V1, reporter.plans());
    if old && !keeps {
        object.shift_remove("status");
    }
    let Some(metadata) = map_mut(object, "metadata") else { return };
    if metadata.shift_remove("namespace").is_some_and(|namespace| !namespace.is_null()) {
        reporter.guess(
            "metadata.namespace",
            "dropped, objects of this kind belong to the whole cluster",
            "objects of this kind belong to the whole cluster; remove the namespace",
        );
    }
    if old && !keeps {
        for key in BOOKKEEPING {
            metadata.shift_remove(key);
        }
    }
    if let Some(annotations) = map_mut(metadata, "annotations") {
        names::tidy_annotations(reporter, "metadata.annotations", annotations, old);
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
}

/// The annotation `key` of `object`.
pub(super) fn annotation<'o>(object: &'o Fields, key: &str) -> Option<&'o str> {
    map(map(object, "metadata")?, "annotations")?.get(key).and_then(Value::as_str)
}

/// The name of `object`, `?` when it has none.
pub(super) fn name(object: &Fields) -> &str {
    map(object, "metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str).unwrap_or("?")
}
