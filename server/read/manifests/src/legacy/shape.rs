//! Access to JSON maps that preserves the written order.

use serde_json::{Map, Value};

use super::record::Reporter;
use crate::document::type_name;

pub(super) type Fields = Map<String, Value>;

/// Takes `key` out of `fields`; null counts as absent.
pub(super) fn take(fields: &mut Fields, key: &str) -> Option<Value> {
    fields.shift_remove(key).filter(|value| !value.is_null())
}

/// Takes the map at `key`; a value of another type is an error.
pub(super) fn take_map(
    reporter: &mut Reporter<'_, '_>,
    fields: &mut Fields,
    prefix: &str,
    key: &str,
) -> Option<Fields> {
    match take(fields, key)? {
        Value::Object(map) => Some(map),
        other => {
            reporter.refuse(&join(prefix, key), format!("found {}, allowed: a map", type_name(&other)));
            None
        }
    }
}

/// Takes the map at `key`, an empty one when it is absent.
pub(super) fn take_map_or_empty(
    reporter: &mut Reporter<'_, '_>,
    fields: &mut Fields,
    prefix: &str,
    key: &str,
) -> Fields {
    take_map(reporter, fields, prefix, key).unwrap_or_default()
}

/// The string at `key`.
pub(super) fn text<'f>(fields: &'f Fields, key: &str) -> Option<&'f str> {
    fields.get(key)?.as_str()
}

/// The map at `key`.
pub(super) fn map<'f>(fields: &'f Fields, key: &str) -> Option<&'f Fields> {
    fields.get(key)?.as_object()
}

/// The map at `key`, mutable.
pub(super) fn map_mut<'f>(fields: &'f mut Fields, key: &str) -> Option<&'f mut Fields> {
    fields.get_mut(key)?.as_object_mut()
}

/// Whether `key` has a value other than null.
pub(super) fn has(fields: &Fields, key: &str) -> bool {
    fields.get(key).is_some_and(|value| !value.is_null())
}

/// Inserts `value` at `key` unless it is an empty map.
pub(super) fn put_unless_empty(fields: &mut Fields, key: &str, value: Fields) {
    if !value.is_empty() {
        fields.insert(key.to_owned(), Value::Object(value));
    }
}

/// Replaces `old` by `new` with `value` at the same position, or appends it when `old` is absent.
/// An existing `new` is removed.
pub(super) fn replace_key(fields: &mut Fields, old: &str, new: &str, value: Value) {
    if old != new {
        fields.shift_remove(new);
    }
    if !fields.contains_key(old) {
        fields.insert(new.to_owned(), value);
        return;
    }
    let mut value = Some(value);
    for (key, entry) in std::mem::take(fields) {
        if key == old {
            fields.insert(new.to_owned(), value.take().unwrap_or_default());
        } else {
            fields.insert(key, entry);
        }
    }
}

/// `prefix.key`.
pub(super) fn join(prefix: &str, key: &str) -> String {
    match (prefix.is_empty(), key.contains('.')) {
        (true, false) => key.to_owned(),
        (false, false) => format!("{prefix}.{key}"),
        (_, true) => format!("{prefix}[{key:?}]"),
    }
}

/// A scalar as text; `None` for lists, maps and null.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
