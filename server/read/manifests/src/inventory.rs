//! The objects of a run, each once, in an order that does not depend on sources and documents.

use std::collections::BTreeMap;

use model::Text;
use serde_json::Value;

use crate::cursor::{Cursor, ObjectLocation, Problems};
use crate::document::Document;
use crate::kinds::{Kind, KindRow, ResolvedKind, meaning};
use crate::kubernetes_fields::unknown_fields;
use crate::notes::Notes;
use crate::quantities::surprises;
use crate::{InputError, syntax};

/// An object of a supported kind.
#[derive(Debug)]
pub struct Object {
    /// Name of the source: a path, or `-` for standard input.
    pub source: Text,
    /// Number of the document in the source, from 1.
    pub document: usize,
    /// Kind, group and versions.
    pub row: &'static KindRow,
    /// `metadata.namespace`, `default` when it is absent; empty for cluster-scoped kinds.
    pub namespace: Text,
    pub name: Text,
    /// The object, not validated.
    pub value: Value,
}

impl Object {
    /// `Kind/namespace/name` or `Kind/name`.
    #[must_use]
    pub fn title(&self) -> String {
        title(self.row, &self.namespace, &self.name)
    }

    /// The location of the object, for errors.
    #[must_use]
    pub fn site<'p>(&self, problems: &'p Problems) -> ObjectLocation<'p> {
        ObjectLocation { source: self.source.clone(), document: self.document, object: Some(self.title()), problems }
    }
}

fn title(row: &KindRow, namespace: &str, name: &str) -> String {
    if row.namespaced { format!("{}/{namespace}/{name}", row.name) } else { format!("{}/{name}", row.name) }
}

/// All objects, sorted by kind, namespace and name.
#[derive(Debug, Default)]
pub struct Inventory {
    objects: BTreeMap<(Kind, Text, Text), Object>,
}

impl Inventory {
    /// Classifies `documents`. Unknown kinds, unknown fields and duplicates become notes;
    /// contradictory objects, objects without a name and, when `strict`, unknown fields become
    /// errors.
    #[must_use]
    pub fn new(documents: Vec<Document>, strict: bool, problems: &Problems, notes: &mut Notes) -> Self {
        let mut inventory = Self::default();
        for document in documents {
            if let Some(object) = identify(document, problems, notes) {
                check_fields(&object, strict, problems, notes);
                for (path, surprise) in surprises(&object.value) {
                    notes.add(&format!("{path}: {surprise}"), &object.title());
                }
                inventory.insert(object, problems, notes);
            }
        }
        inventory
    }

    fn insert(&mut self, object: Object, problems: &Problems, notes: &mut Notes) {
        let key = (object.row.kind, object.namespace.clone(), object.name.clone());
        let Some(present) = self.objects.get_mut(&key) else {
            self.objects.insert(key, object);
            return;
        };
        if same_content(&present.value, &object.value) {
            notes.add("read once although written twice or more", &object.title());
            if rank(&object.value) > rank(&present.value) {
                present.value = object.value;
            }
            return;
        }
        let (first, second) =
            if place(present) <= place(&object) { (&*present, &object) } else { (&object, &*present) };
        problems.add(InputError {
            source: second.source.to_string(),
            document: second.document,
            object: Some(second.title()),
            path: String::new(),
            message: format!(
                "is written with other content in {}, document {}; one cluster has one object of that name",
                first.source, first.document
            ),
        });
    }

    /// Removes and returns the objects of `kind`, by namespace and name.
    pub fn take(&mut self, kind: Kind) -> impl Iterator<Item = Object> {
        self.objects.extract_if(.., move |_, object| object.row.kind == kind).map(|(_, object)| object)
    }

    /// Objects of `kind`, by namespace and name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.values().filter(move |object| object.row.kind == kind)
    }
}

fn place(object: &Object) -> (&str, usize) {
    (&object.source, object.document)
}

/// Rank of a duplicate; the highest is kept. An object with a status has precedence, then the later
/// resource version.
fn rank(value: &Value) -> (bool, u64, String) {
    let version = value["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0);
    (value.get("status").is_some(), version, value["status"].to_string())
}

/// Whether two objects are equal apart from status and the API server's bookkeeping.
fn same_content(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return false };
    let plain = |key: &str| key != "status" && key != "metadata";
    let covers = |a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>| {
        a.iter().all(|(key, value)| !plain(key) || b.get(key).unwrap_or(&Value::Null) == value)
    };
    covers(one, other) && covers(other, one) && metadata(one) == metadata(other)
}

fn metadata(object: &serde_json::Map<String, Value>) -> BTreeMap<&str, &Value> {
    const IGNORED: [&str; 3] = ["resourceVersion", "managedFields", "namespace"];
    let entries = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
    entries
        .filter(|(key, value)| !IGNORED.contains(&key.as_str()) && !value.is_null())
        .map(|(k, v)| (k.as_str(), v))
        .collect()
}

/// Reports the unknown fields of `object`: as errors when `strict`, else as notes.
fn check_fields(object: &Object, strict: bool, problems: &Problems, notes: &mut Notes) {
    for field in unknown_fields(object.row.name, &object.value) {
        let message = field.message();
        if !strict {
            notes.add(&format!("{}: ignored, {message}", field.path), &object.title());
        }
        let (source, document, title) = (object.source.to_string(), object.document, Some(object.title()));
        let error = InputError { source, document, object: title, path: field.path, message };
        problems.add_unknown_field(error.clone());
        if strict {
            problems.add(InputError { message: format!("{} (refused by --strict)", error.message), ..error });
        }
    }
}

/// The object in `document`, if its kind is supported.
fn identify(document: Document, problems: &Problems, notes: &mut Notes) -> Option<Object> {
    let guess = document.value.get("kind").and_then(Value::as_str).map(|kind| {
        let name = document.value["metadata"]["name"].as_str().unwrap_or("?");
        format!("{kind}/{name}")
    });
    let site = ObjectLocation { source: document.source.clone(), document: document.number, object: guess, problems };
    let root = Cursor::root(&document.value, &site);
    let (version, kind) = (root.at("apiVersion").required_str(), root.at("kind").required_str());
    let row = match meaning(version?, kind?) {
        ResolvedKind::Known(row) => row,
        ResolvedKind::WrongVersion(row) => {
            return root.at("apiVersion").unexpected(version?, &format!("{} for kind {}", row.allowed(), row.name));
        }
        ResolvedKind::Misspelt(row) => {
            return root.at("kind").unexpected(kind?, &format!("a kind of {}; did you mean {}?", version?, row.name));
        }
        ResolvedKind::Unknown => {
            notes.add(&format!("not read: kind {} ({})", kind?, version?), &describe(&root));
            return None;
        }
    };
    let metadata = root.at("metadata").required();
    let name = syntax::dns_subdomain(&metadata.at("name"))?;
    let namespace = if row.namespaced { namespace(&metadata)? } else { "" };
    let (name, namespace) = (Text::from(name), Text::from(namespace));
    Some(Object { source: document.source, document: document.number, row, namespace, name, value: document.value })
}

fn namespace<'v>(metadata: &Cursor<'v>) -> Option<&'v str> {
    let at = metadata.at("namespace");
    match at.str() {
        None | Some("") => Some("default"),
        Some(_) => syntax::dns_label(&at),
    }
}

/// `namespace/name` or `name` of an object of any kind, not validated.
fn describe(root: &Cursor<'_>) -> String {
    let metadata = root.raw().and_then(|value| value.get("metadata"));
    let part = |key: &str| metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
    let name = part("name").unwrap_or("?");
    part("namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}
