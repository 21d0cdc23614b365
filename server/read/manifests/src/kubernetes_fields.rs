//! Fields of Kubernetes objects that do not exist: an API server refuses or drops them, and a
//! misspelt one would be planned as if it were absent.
//!
//! `kubernetes_fields.txt` has the fields of every type that the supported kinds are made of, from
//! the OpenAPI document of Kubernetes [`VERSION`]. Each line is a type and its fields; `field=Type`
//! is an object, or a list of objects, of that type. The content of other fields, such as labels,
//! is free. A scenario with a real API server compares the file with what the server publishes.

use std::collections::VecDeque;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::edit_distance::{nearest_step, nearest_within};

/// The release that the fields are from.
const VERSION: &str = "1.37";

/// Maximum number of letters by which a typing error differs from the name of a field.
const TYPING_ERROR: usize = 2;

/// Maximum number of levels below a misplaced field at which its place is looked for.
const MAX_SEARCH_DEPTH: usize = 4;

/// The type of the metadata of every object.
const METADATA: &str = "ObjectMeta";

/// The fields of a type, and the type of those that are objects.
type Fields = FxHashMap<&'static str, Option<&'static str>>;

static TYPES: LazyLock<FxHashMap<&'static str, Fields>> = LazyLock::new(|| {
    let lines = include_str!("kubernetes_fields.txt").lines().filter_map(|line| line.split_once(": "));
    let field = |text: &'static str| text.split_once('=').map_or((text, None), |(name, kind)| (name, Some(kind)));
    lines.map(|(name, fields)| (name, fields.split_whitespace().map(field).collect())).collect()
});

/// The unknown fields of `object`, which is of the kind `kind`, in their order. Of Karpenter's kinds
/// only the metadata is searched.
pub fn unknown_fields(kind: &str, object: &Value) -> Vec<UnknownField> {
    let mut search = Search { parents: Vec::new(), path: String::new(), found: Vec::new() };
    match object {
        Value::Object(fields) if TYPES.contains_key(kind) => search.object(kind, fields),
        Value::Object(fields) => {
            fields.get("metadata").into_iter().for_each(|metadata| search.value(METADATA, "metadata", metadata));
        }
        _ => {}
    }
    search.found
}

#[derive(Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Its path from the root of the object.
    pub path: String,
    /// What may have been meant, with its punctuation; empty when nothing is similar.
    hint: String,
}

impl UnknownField {
    /// What is wrong, and what may have been meant.
    pub fn message(&self) -> String {
        format!("Kubernetes {VERSION} has no such field{}", self.hint)
    }
}

struct Search {
    /// The types from the root to the current object, each with its path.
    parents: Vec<(&'static Fields, String)>,
    /// The path of the current object.
    path: String,
    found: Vec<UnknownField>,
}

impl Search {
    fn object(&mut self, kind: &str, fields: &Map<String, Value>) {
        // Types without a line, such as those of Karpenter's objects, are checked elsewhere.
        let Some(known) = TYPES.get(kind) else { return };
        self.parents.push((known, self.path.clone()));
        for (key, value) in fields {
            match known.get(key.as_str()) {
                Some(None) => {}
                Some(Some(kind)) => self.value(kind, key, value),
                None => {
                    let hint = self.hint(key, known);
                    self.found.push(UnknownField { path: join(&self.path, key), hint });
                }
            }
        }
        self.parents.pop();
    }

    fn value(&mut self, kind: &str, key: &str, value: &Value) {
        let length = self.path.len();
        self.path = join(&self.path, key);
        match value {
            Value::Object(fields) => self.object(kind, fields),
            Value::Array(items) => {
                let own = self.path.len();
                for (index, item) in items.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_object()?))) {
                    self.path.push_str(&format!("[{index}]"));
                    self.object(kind, item);
                    self.path.truncate(own);
                }
            }
            _ => {}
        }
        self.path.truncate(length);
    }

    /// A field of the same object that differs by a letter or two, else the place of a field of this
    /// name below or above, else the most similar field of the same object.
    fn hint(&self, key: &str, known: &'static Fields) -> String {
        let mut names: Vec<&str> = known.keys().copied().collect();
        names.sort_unstable();
        let meant = |near: &str| format!("; did you mean {near}?");
        if let Some(near) = nearest_within((key.len() / 3).min(TYPING_ERROR), key, &names) {
            return meant(near);
        }
        let below = below(key, known, &self.path);
        let above = || {
            let parents = self.parents.iter().rev().skip(1);
            parents.filter_map(|(fields, path)| Some(join(path, named(key, fields)?))).next()
        };
        match below.or_else(above) {
            Some(place) => format!("; it belongs at {place}"),
            None => nearest_step(key, &names).map_or_else(String::new, meant),
        }
    }
}

/// The shortest path below `path` to a field that is called `key`. Of several, the first by name.
fn below(key: &str, known: &'static Fields, path: &str) -> Option<String> {
    let mut next = VecDeque::from([(known, path.to_owned(), 0)]);
    while let Some((fields, path, depth)) = next.pop_front() {
        if let Some(name) = named(key, fields).filter(|_| depth > 0) {
            return Some(join(&path, name));
        }
        if depth == MAX_SEARCH_DEPTH {
            continue;
        }
        let mut children: Vec<(&str, &Fields)> =
            fields.iter().filter_map(|(name, kind)| Some((*name, TYPES.get((*kind)?)?))).collect();
        children.sort_unstable_by_key(|(name, _)| *name);
        next.extend(children.into_iter().map(|(name, fields)| (fields, join(&path, name), depth + 1)));
    }
    None
}

/// The field of `fields` that is called `key`, in any case of letters.
fn named(key: &str, fields: &Fields) -> Option<&'static str> {
    fields.keys().copied().find(|name| name.eq_ignore_ascii_case(key))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `path; hint` of each unknown field of `object`.
    fn unknown(kind: &str, object: &Value) -> Vec<String> {
        unknown_fields(kind, object).into_iter().map(|UnknownField { path, hint }| path + &hint).collect()
    }

    #[test]
    fn a_misspelt_field_is_told_with_the_nearest_name() {
        let containers = json!([{ "name": "a" }, { "name": "b", "resource": { "requests": { "cpu": 1 } } }]);
        let template = json!({ "metadata": { "labels": { "anything": "x" } }, "spec": { "containers": containers } });
        let object = json!({ "kind": "Deployment", "spec": { "replica": 3, "template": template } });
        assert_eq!(
            unknown("Deployment", &object),
            [
                "spec.replica; did you mean replicas?",
                "spec.template.spec.containers[1].resource; did you mean resources?"
            ]
        );
    }

    #[test]
    fn a_misplaced_field_is_told_where_it_belongs() {
        let below = json!({ "spec": { "nodeSelector": {} } });
        assert_eq!(unknown("Deployment", &below), ["spec.nodeSelector; it belongs at spec.template.spec.nodeSelector"]);
        let above = json!({ "spec": { "containers": [{ "tolerations": [] }] } });
        assert_eq!(unknown("Pod", &above), ["spec.containers[0].tolerations; it belongs at spec.tolerations"]);
        assert_eq!(unknown("Pod", &json!({ "spec": { "xyzzy": 1 } })), ["spec.xyzzy"]);
    }

    #[test]
    fn the_metadata_of_karpenters_kinds_is_searched_and_the_rest_is_not() {
        let object = json!({ "metadata": { "name": "a", "label": {} }, "spec": { "anything": 1 } });
        assert_eq!(unknown("NodePool", &object), ["metadata.label; did you mean labels?"]);
    }

    #[test]
    fn free_content_and_status_are_not_searched() {
        let object = json!({ "metadata": { "annotations": { "a/b": "c" } }, "status": { "anything": 1 } });
        assert!(unknown("Node", &object).is_empty());
    }

    #[test]
    fn every_type_that_a_field_names_has_a_line() {
        for (name, fields) in TYPES.iter() {
            for (field, kind) in fields {
                assert!(kind.is_none_or(|kind| TYPES.contains_key(kind)), "{name}.{field}");
            }
        }
        let kinds = crate::kinds::KINDS.iter().filter(|row| !row.group.starts_with("karpenter."));
        assert!(kinds.map(|row| row.name).all(|name| TYPES.contains_key(name)));
    }
}
