//! Accessors for untyped objects, and conversions from instruction fields.

use fleetwright_proto::v1;
use serde_json::{Value, json};

/// A text below `object`; empty without one.
pub(crate) fn text_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list of texts below `object`.
pub(crate) fn texts_at(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A list below `object`.
pub(crate) fn list_at(object: &Value, pointer: &str) -> Vec<Value> {
    object.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Pairs as a JSON object.
pub(crate) fn map_of(pairs: &[v1::StringPair]) -> Value {
    Value::Object(pairs.iter().map(|pair| (pair.key.clone(), json!(pair.value))).collect())
}

/// Quantities as a JSON object.
pub(crate) fn amounts_of(quantities: &[v1::Quantity]) -> Value {
    Value::Object(quantities.iter().map(|one| (one.resource.clone(), json!(one.amount))).collect())
}
