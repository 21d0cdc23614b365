//! Drops fields that v1 does not have, with a note. An API server drops them without a note.

use serde_json::Value;

use super::record::Reporter;
use super::shape::Fields;
use crate::fields::{TABLES, Table, nearest_step};

/// Objects below these paths are not pruned: users choose their keys, or newer releases have more
/// fields.
const OPEN: [&str; 2] = ["spec.kubelet", "spec.template.metadata"];

/// Drops unknown fields of the spec of `object`, a v1 object of `kind`.
pub(super) fn unknown_fields(reporter: &mut Reporter<'_, '_>, kind: &str, object: &mut Fields) {
    let Some(table) = TABLES.iter().find(|table| table.kind == kind) else { return };
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
        let hint = nearest_step(&key, &known).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        reporter.guess(&super::shape::join(path, &key), format!("ignored, there is no such field{hint}"));
    }
}
