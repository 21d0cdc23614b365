//! The tables of `fleetwright explain` against the schemas.

use std::collections::BTreeMap;

use manifests::fields::{Field, TABLES, Table};
use manifests::schema::{Definition, definitions};
use serde_json::Value;

/// Every field below the object itself, by dotted path, with its schema.
fn fields_of(definition: &Definition) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(&definition.schema(), "", &mut found);
    found
}

fn collect(schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    if let Some(item) = schema.get("items") {
        collect(item, path, found);
    }
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, property) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(property, &path, found);
        found.insert(path, property.clone());
    }
}

fn table_of(definition: &Definition) -> &'static Table {
    TABLES.iter().find(|table| table.kind == definition.kind()).unwrap()
}

/// Whether `path` is a field of every Kubernetes object, which the tables need not document.
fn of_every_object(path: &str) -> bool {
    matches!(path, "apiVersion" | "kind") || path == "metadata" || path.starts_with("metadata.")
}

#[test]
fn every_field_of_a_schema_is_explained_and_every_explained_field_is_in_it() {
    for definition in definitions() {
        let (schema, table) = (fields_of(&definition), table_of(&definition));
        let unexplained: Vec<&String> =
            schema.keys().filter(|path| !of_every_object(path) && table.field(path).is_none()).collect();
        let nowhere: Vec<&str> = table
            .iter()
            .map(|field| field.path.as_str())
            .filter(|path| !of_every_object(path) && !schema.contains_key(*path))
            .collect();
        assert!(unexplained.is_empty(), "{}: not explained: {unexplained:?}", definition.kind());
        assert!(nowhere.is_empty(), "{}: in no schema: {nowhere:?}", definition.kind());
    }
}

/// The type of `schema` in the notation of the tables.
fn type_name(schema: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match schema["type"].as_str() {
        _ if schema.get("x-kubernetes-int-or-string").is_some() => "Quantity".to_owned(),
        Some("array") => format!("[]{}", type_name(&schema["items"])),
        Some("object") => match schema.get("additionalProperties") {
            Some(value) => format!("map[string]{}", type_name(value)),
            None => "Object".to_owned(),
        },
        _ => text(&schema["type"]),
    }
}

#[test]
fn types_are_the_same() {
    for definition in definitions() {
        let (schema, table) = (fields_of(&definition), table_of(&definition));
        for field in table.iter().filter(|field| !of_every_object(&field.path)) {
            let found = type_name(&schema[&field.path]);
            // Quantities that Karpenter accepts only as strings are quantities in the tables.
            let same = found == field.type_name || found == field.type_name.replace("Quantity", "string");
            assert!(same, "{} {}: {found}, explained as {}", definition.kind(), field.path, field.type_name);
        }
    }
}

/// A default of the tables, parsed from YAML.
fn default_of(field: &Field) -> Value {
    let options = serde_saphyr::options! {};
    serde_saphyr::from_str_with_options(&field.default, options).unwrap()
}

#[test]
fn defaults_of_the_schemas_equal_those_of_the_tables() {
    for definition in definitions() {
        let (schema, table) = (fields_of(&definition), table_of(&definition));
        for (path, schema) in schema {
            let (Some(default), Some(field)) = (schema.get("default"), table.field(&path)) else { continue };
            // The tables have the default of an object at each of its fields.
            if let Value::Object(entries) = default {
                for (name, value) in entries {
                    let field = table.field(&format!("{path}.{name}")).unwrap();
                    assert_eq!(*value, default_of(field), "{} {path}.{name}", definition.kind());
                }
                continue;
            }
            assert_eq!(*default, default_of(field), "{} {path}", definition.kind());
        }
    }
}

#[test]
fn every_allowed_value_of_a_schema_is_documented() {
    for definition in definitions() {
        let (schema, table) = (fields_of(&definition), table_of(&definition));
        for (path, schema) in schema {
            let allowed = schema.get("enum").or_else(|| schema.get("items").and_then(|item| item.get("enum")));
            let (Some(Value::Array(allowed)), Some(field)) = (allowed, table.field(&path)) else { continue };
            for value in allowed.iter().filter_map(Value::as_str) {
                let documented = field.allowed.split([',', ';', ' ']).any(|word| word == value);
                assert!(documented, "{} {path}: {value} is allowed and not documented", definition.kind());
            }
        }
    }
}
