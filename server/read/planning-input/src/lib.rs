//! The planning input of manifests: objects read from YAML or JSON, joined with a catalogue of
//! instance types.
//!
//! Pure: no files, no network, no clock. The caller of [`read`] opens the files; the result depends
//! on the bytes and the [`Options`] alone, never on the order of sources or documents.
//!
//! Reading order: [`read`] and `assemble`; then `region` and `pools` (the region and its
//! offerings), `records` with `owners` and `spread` (the objects as a state of the crate `cluster`, which
//! gives the planning input), `pods` (what the user is told of them), `expand` (replicas that workloads
//! lack); `drains`, which examines disruption budgets; `running` and `prices` (what runs, for
//! repacking and disruption), `drift_facts`. The crate `manifests` parses and validates the objects.

mod assemble;
mod autoscalers;
mod drains;
mod drift_facts;
mod expand;
mod options;
mod overhead;
mod owners;
mod pods;
mod pools;
mod prices;
mod records;
mod region;
mod running;
mod spread;
mod unknown_labels;

pub use assemble::Captured;
pub use drift_facts::template_hash;
pub use options::{AutoscaledReplicas, Options};

use std::borrow::Borrow;

use manifests::document::{self, Detail, ValueBudget};
use manifests::inventory::Inventory;
use manifests::notes::Notes;
use manifests::{Document, InputError, Problems, Source, legacy};

/// Name of standard input as a source.
const STDIN: &str = "-";

/// Parses `sources` into one planning input. Sources passed by value are dropped as they are
/// parsed. The order of sources and documents does not matter.
///
/// # Errors
/// Every object that an API server would reject, and every contradiction, in order of source and
/// document, at most [`manifests::MAX_ERRORS`].
pub fn read<S: Borrow<Source>>(
    sources: impl IntoIterator<Item = S>,
    options: &Options,
) -> Result<Captured, Vec<InputError>> {
    let (problems, mut notes) = (Problems::default(), Notes::default());
    // Every step goes on after errors of the one before, with the objects that have none, so that one
    // run reports all errors.
    let documents = parse_all(sources, options, &problems);
    let documents = convert_legacy(documents, options, &problems, &mut notes);
    let inventory = Inventory::new(documents, options.strict, &problems, &mut notes);
    let mut captured = assemble::assemble(inventory, options, &problems, &mut notes);
    if !problems.is_empty() {
        return Err(problems.into_errors());
    }
    captured.notes = notes.into_lines();
    Ok(captured)
}

/// Converts Karpenter's older objects to v1.
fn convert_legacy(
    documents: Vec<Document>,
    options: &Options,
    problems: &Problems,
    notes: &mut Notes,
) -> Vec<Document> {
    let how = legacy::Options { purpose: legacy::Purpose::Plan, strict: options.strict, ..legacy::Options::default() };
    let (converted, errors) = legacy::convert_valid(documents, &how);
    errors.into_iter().for_each(|error| problems.add_cause(error));
    converted.unknown.into_iter().for_each(|field| problems.add_unknown_field(field));
    converted.notes.into_iter().for_each(|note| notes.line(note));
    converted.documents
}

fn parse_all<S: Borrow<Source>>(
    sources: impl IntoIterator<Item = S>,
    options: &Options,
    problems: &Problems,
) -> Vec<Document> {
    let allowance = ValueBudget::default();
    let (mut documents, mut without_objects) = (Vec::new(), Vec::new());
    for source in sources {
        let source = source.borrow();
        match document::parse(source, &allowance, Detail::Planning) {
            Ok(parsed) if parsed.is_empty() => without_objects.push(no_objects(source)),
            Ok(parsed) => documents.extend(parsed),
            Err(errors) => errors.into_iter().for_each(|error| problems.add(error)),
        }
    }
    // A file of a folder may be empty. Standard input is written by a command that may have failed.
    let nothing = documents.is_empty();
    let refused = without_objects.into_iter().filter(|error| nothing || error.source == STDIN);
    if !options.allow_no_objects {
        refused.for_each(|error| problems.add(error));
    }
    documents
}

fn no_objects(source: &Source) -> InputError {
    let blank = source.bytes.trim_ascii().is_empty();
    let message = match (source.name.as_str(), blank) {
        (STDIN, true) => "standard input is empty; did the command before the pipe fail?",
        (STDIN, false) => "standard input has no object; did the command before the pipe find any?",
        (_, true) => "the file is empty; write the objects to plan into it",
        (_, false) => "the file has no object; write the objects to plan into it",
    };
    InputError::of_source(&source.name, message)
}
