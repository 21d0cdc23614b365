//! Descriptions of fields, so that `kubectl explain` prints the same text as `fleetwright explain`.

use serde_json::{Map, Value, json};

use crate::fields::Table;

/// Adds a description to every field of `schema`, the schema of an object, that `table` documents.
pub(super) fn described(schema: Value, table: &Table) -> Value {
    descend(schema, table, "", table.meaning)
}

fn descend(schema: Value, table: &Table, path: &str, meaning: &str) -> Value {
    let Value::Object(keywords) = schema else { return schema };
    let mut whole = Map::new();
    if !meaning.is_empty() {
        whole.insert("description".to_owned(), json!(meaning));
    }
    for (keyword, value) in keywords {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => properties(fields, table, path),
            ("items", item) => descend(item, table, path, ""),
            (_, value) => value,
        };
        whole.insert(keyword, value);
    }
    Value::Object(whole)
}

fn properties(fields: Map<String, Value>, table: &Table, path: &str) -> Value {
    let described = fields.into_iter().map(|(name, schema)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        (name, descend(schema, table, &path, meaning(table, &path)))
    });
    Value::Object(described.collect())
}

/// The description of the field at `path`. The API server allows none for `metadata`.
fn meaning(table: &Table, path: &str) -> &'static str {
    match path {
        "apiVersion" => "Group and version of the kind.",
        "kind" => "The kind.",
        "metadata" => "",
        _ => table.field(path).map_or("", |field| field.meaning),
    }
}
