//! A parsed object, and the metadata that objects of every kind have.

use std::collections::BTreeMap;

use agent::Record;
use fleetwright_proto::v1;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::shape::ShapeInterner;
use super::values::{json_structs, pair};
use crate::actions::INSTRUCTION_ANNOTATION;
use crate::timestamps::parse_millis;

/// One object, read.
#[derive(Debug)]
pub struct ParsedObject {
    /// Namespace; empty without one.
    pub namespace: String,
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The record that the server receives.
    pub record: Record,
}

/// Reads one object from its JSON, in which no field that it reads is null.
pub type Parser = fn(&str, &mut ShapeInterner) -> serde_json::Result<ParsedObject>;

/// Reads one object from its JSON. The API server sends null for an empty list that is required (`topologyKeys` of a CSINode):
/// a field that is null counts as absent.
///
/// # Errors
/// A field has the wrong type.
pub fn parse(parser: Parser, json: &str, shapes: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    match parser(json, shapes) {
        // Few objects have a null where a parser wants a value, so that no other object is read twice.
        Err(_) if json.contains("null") => {
            let mut object: Value = serde_json::from_str(json)?;
            remove_nulls(&mut object);
            parser(&object.to_string(), shapes)
        }
        parsed => parsed,
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// An object of any kind that has the usual parts; those that no record uses are [`IgnoredAny`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectJson<Spec, Status = IgnoredAny> {
    pub(crate) metadata: Meta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

json_structs! {
    /// `metadata`, as far as it matters.
    pub(crate) struct Meta {
        pub(crate) name: String,
        pub(crate) namespace: String,
        pub(crate) uid: String,
        pub(crate) resource_version: String,
        pub(crate) generation: i64,
        pub(crate) creation_timestamp: Option<String>,
        pub(crate) deletion_timestamp: Option<String>,
        pub(crate) labels: BTreeMap<String, String>,
        pub(crate) annotations: BTreeMap<String, String>,
        pub(crate) finalizers: Vec<String>,
        pub(crate) owner_references: Vec<OwnerJson>,
        pub(crate) managed_fields: Vec<Manager>,
    }

    pub(crate) struct OwnerJson {
        pub(crate) api_version: String,
        pub(crate) kind: String,
        pub(crate) name: String,
        pub(crate) uid: String,
        pub(crate) controller: bool,
    }

    /// One entry of `metadata.managedFields`, without the fields: the agent's managers set one field
    /// each.
    pub(crate) struct Manager {
        pub(crate) manager: String,
    }
}

impl Meta {
    pub(super) fn into_parsed(self, record: Record) -> ParsedObject {
        ParsedObject { namespace: self.namespace, name: self.name, uid: self.uid, record }
    }

    pub(crate) fn created_ms(&self) -> i64 {
        parse_millis(self.creation_timestamp.as_deref())
    }

    pub(crate) fn deleted_ms(&self) -> i64 {
        parse_millis(self.deletion_timestamp.as_deref())
    }

    /// Annotations whose keys begin with one of `prefixes`.
    pub(crate) fn annotations_below(&self, prefixes: &[&str]) -> Vec<v1::StringPair> {
        let wanted = |key: &str| key != INSTRUCTION_ANNOTATION && prefixes.iter().any(|prefix| key.starts_with(prefix));
        self.annotations.iter().filter(|(key, _)| wanted(key)).map(pair).collect()
    }
}

impl From<&OwnerJson> for v1::Owner {
    fn from(owner: &OwnerJson) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }
}
