//! Conversion of old Karpenter objects to v1. Every expected object is written by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own input has failed")]

mod alpha;
mod beta;
mod plans;
mod refusals;
mod tolerance;

use manifests::document::{Detail, ValueBudget, parse};
use manifests::legacy::{Converted, Options, Purpose, convert, yaml};
use manifests::{Document, InputError, Source};
use serde_json::Value;

/// The objects of `text`.
fn documents(text: &str) -> Vec<Document> {
    let source = Source { name: "in.yaml".to_owned(), bytes: text.as_bytes().to_vec() };
    parse(&source, &ValueBudget::default(), Detail::Whole).unwrap()
}

fn run(text: &str, options: &Options) -> Result<Converted, Vec<InputError>> {
    convert(documents(text), options)
}

/// Converts `text`. Writing and parsing the result as YAML, and converting it again, must not
/// change it.
fn good(text: &str) -> Converted {
    let converted = run(text, &Options::default()).unwrap_or_else(|errors| panic!("{}", lines(&errors)));
    let written = yaml::write(converted.documents.iter().map(|document| &document.value));
    let again = run(&written, &Options { strict: true, ..Options::default() })
        .unwrap_or_else(|errors| panic!("{}", lines(&errors)));
    assert_eq!(again.notes, [""; 0]);
    assert_eq!(objects(&again), objects(&converted), "a second run changes nothing");
    converted
}

fn refused(text: &str) -> String {
    lines(&run(text, &Options::default()).unwrap_err())
}

fn strict(text: &str) -> String {
    lines(&run(text, &Options { strict: true, ..Options::default() }).unwrap_err())
}

fn planned(text: &str) -> Converted {
    run(text, &Options { purpose: Purpose::Plan, ..Options::default() })
        .unwrap_or_else(|errors| panic!("{}", lines(&errors)))
}

fn lines(errors: &[InputError]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

fn objects(converted: &Converted) -> Vec<&Value> {
    converted.documents.iter().map(|document| &document.value).collect()
}

/// Asserts that `converted` has exactly the objects of `expected`, in that order.
fn assert_becomes(converted: &Converted, expected: &str) {
    let expected = documents(expected);
    for (at, (found, wanted)) in objects(converted).into_iter().zip(&expected).enumerate() {
        assert_eq!(
            *found,
            wanted.value,
            "object {at}\nfound\n{}wanted\n{}",
            yaml::write([found]),
            yaml::write([&wanted.value])
        );
    }
    assert_eq!(converted.documents.len(), expected.len());
}

/// Asserts that one note contains all of `parts`.
fn assert_noted(converted: &Converted, parts: &[&str]) {
    let all = converted.notes.join("\n");
    assert!(
        converted.notes.iter().any(|note| parts.iter().all(|part| note.contains(part))),
        "{parts:?} is not among\n{all}"
    );
}

/// Notes about fields, without those about behaviour.
fn field_notes(converted: &Converted) -> Vec<&String> {
    converted.notes.iter().filter(|note| note.starts_with("in.yaml#")).collect()
}
