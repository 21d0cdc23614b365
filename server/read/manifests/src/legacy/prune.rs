//! Drops fields that v1 does not have, with a note. An API server drops them without a note.

use serde_json::Value;

use super::record::Reporter;
use super::shape::Fields;
use crate::edit_distance::{nearest_step, nearest_within};
use crate::fields::{TABLES, Table};

const TOP_KEYS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Objects below these paths are not pruned: users choose their keys, or newer releases have more
/// fields.
const OPEN: [&str; 2] = ["spec.kubelet", "spec.template.metadata"];

/// Maximum number of letters by which a typing error differs from the name of a field.
const TYPING_ERROR: usize = 2;

/// Drops unknown fields of `object`, a v1 object of `kind`.
pub(super) fn unknown_fields(reporter: &mut Reporter<'_, '_>, kind: &str, object: &mut Fields) {
    let Some(table) = TABLES.iter().find(|table| table.kind == kind) else { return };
    let stray: Vec<String> = object.keys().filter(|key| !TOP_KEYS.contains(&key.as_str())).cloned().collect();
    for key in stray {
        object.shift_remove(&key);
        let near = nearest_within(TYPING_ERROR, &key, &TOP_KEYS);
        reporter.unknown_field(&key, &near.map_or_else(String::new, |near| format!("; did you mean {near}?")));
    }
    if let Some(spec) = object.get_mut("spec") {
        descend(reporter, table, "spec", "spec", spec);
    }
}

fn descend(reporter: &mut Reporter<'_, '_>, table: &Table, documented: &str, path: &str, value: &mut Value) {
    if OPEN.contains(&documented) || table.children(documented).next().is_none() {
        return;
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                descend(reporter, table, documented, &format!("{path}[{index}]"), item);
            }
        }
        Value::Object(fields) => {
            drop_unknown(reporter, table, documented, path, fields);
            for (key, value) in fields.iter_mut() {
                descend(reporter, table, &format!("{documented}.{key}"), &format!("{path}.{key}"), value);
            }
        }
        _ => {}
    }
}

fn drop_unknown(reporter: &mut Reporter<'_, '_>, table: &Table, documented: &str, path: &str, fields: &mut Fields) {
    let known: Vec<&str> = table.children(documented).filter_map(|field| field.path.rsplit('.').next()).collect();
    let unknown: Vec<String> = fields.keys().filter(|key| !known.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        fields.shift_remove(&key);
        reporter.unknown_field(&super::shape::join(path, &key), &hint(table, documented, &key));
    }
}

/// What `key`, a field of `documented` that does not exist, may be: a field of the same object that
/// differs by a letter or two, else a field of this name elsewhere, else the most similar field of the same
/// object.
fn hint(table: &Table, documented: &str, key: &str) -> String {
    let known: Vec<&str> = table.children(documented).filter_map(|field| field.path.rsplit('.').next()).collect();
    let meant = |near: &str| format!("; did you mean {near}?");
    if let Some(near) = nearest_within((key.len() / 3).min(TYPING_ERROR), key, &known) {
        return meant(near);
    }
    let mut elsewhere = table.iter().filter(|field| {
        field.path.starts_with("spec.")
            && field.path.rsplit('.').next().is_some_and(|step| step.eq_ignore_ascii_case(key))
    });
    match (elsewhere.next(), elsewhere.next()) {
        (Some(only), None) => format!("; it belongs at {}", only.path),
        _ => nearest_step(key, &known).map_or_else(String::new, meant),
    }
}
