//! Parsing of Karpenter's objects, from YAML as users write it.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own input has failed")]

mod class_contents;
mod classes;
mod overlays_and_claims;
mod pools;

use manifests::document::{Detail, ValueBudget, parse};
use manifests::{Cursor, Document, InputError, ObjectLocation, Problems, Source};

/// The objects of `yaml`.
fn documents(yaml: &str) -> Vec<Document> {
    let source = Source { name: "in.yaml".to_owned(), bytes: yaml.as_bytes().to_vec() };
    parse(&source, &ValueBudget::default(), Detail::Whole).unwrap()
}

/// The result of `read` for the one object in `yaml`, and its errors.
fn read_with<T>(yaml: &str, read: impl FnOnce(&Cursor<'_>) -> T) -> (T, Vec<InputError>) {
    let documents = documents(yaml);
    let problems = Problems::default();
    let read = {
        let site = ObjectLocation { source: "in.yaml".into(), document: 1, object: None, problems: &problems };
        read(&Cursor::root(&documents[0].value, &site))
    };
    (read, problems.into_errors())
}

/// `path: message` of each error.
fn messages(errors: &[InputError]) -> Vec<String> {
    errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
}
