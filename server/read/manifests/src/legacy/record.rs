//! Notes and errors of a conversion.

use std::collections::{BTreeMap, BTreeSet};

use model::Text;

use super::options::{Options, Purpose};
use crate::InputError;

/// Collects notes and errors.
#[derive(Debug)]
pub(super) struct Record<'o> {
    pub(super) options: &'o Options,
    notes: BTreeSet<(Text, usize, String, String)>,
    behaviours: BTreeMap<&'static str, BTreeSet<String>>,
    /// The original apiVersion of older objects, by source, document and title.
    versions: BTreeMap<(Text, usize, String), String>,
    errors: BTreeSet<InputError>,
    /// Objects with an error that leaves their meaning open, by source, document and title.
    refused: BTreeSet<(Text, usize, String)>,
    /// Fields that do not exist.
    unknown: BTreeSet<InputError>,
}

impl<'o> Record<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        Self {
            options,
            notes: BTreeSet::new(),
            behaviours: BTreeMap::new(),
            versions: BTreeMap::new(),
            errors: BTreeSet::new(),
            refused: BTreeSet::new(),
            unknown: BTreeSet::new(),
        }
    }

    /// A reporter for the object `title` in document `number` of `source`.
    pub(super) fn reporter<'r>(&'r mut self, source: &Text, number: usize, title: &str) -> Reporter<'r, 'o> {
        Reporter { record: self, source: source.clone(), number, title: title.to_owned() }
    }

    pub(super) fn add_errors(&mut self, errors: Vec<InputError>) {
        self.errors.extend(errors);
    }

    /// Whether an error leaves the meaning of the object `title` in document `number` of `source` open.
    pub(super) fn is_refused(&self, source: &Text, number: usize, title: &str) -> bool {
        self.refused.contains(&(source.clone(), number, title.to_owned()))
    }

    /// The fields that do not exist.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &InputError> {
        self.unknown.iter()
    }

    /// Notes and errors.
    pub(super) fn finish(self) -> (Vec<String>, Vec<InputError>) {
        let fields = self.notes.into_iter().map(|(source, number, path, text)| {
            let (title, path) = path_parts(&path);
            let space = if path.is_empty() { "" } else { " " };
            let version = self.versions.get(&(source.clone(), number, title.to_owned()));
            let version = version.map_or_else(String::new, |version| format!("{version} "));
            format!("{source}#{number} {version}{title}{space}{path}: {text}")
        });
        let behaviours = self.behaviours.into_iter().map(|(text, objects)| {
            let objects: Vec<String> = objects.into_iter().collect();
            format!("{}: {text}", objects.join(", "))
        });
        (fields.chain(behaviours).collect(), self.errors.into_iter().collect())
    }
}

/// What to do about a field of v1 in an object of v1alpha1.
pub(super) const FIELD_OF_V1: &str = "is a field of v1, not of v1alpha1; convert the whole object to v1";

/// Separates title and path inside a sorted note.
const SEPARATOR: char = '\u{0}';

fn path_parts(sorted: &str) -> (&str, &str) {
    sorted.split_once(SEPARATOR).unwrap_or((sorted, ""))
}

/// Adds notes and errors about one object to the record.
#[derive(Debug)]
pub(super) struct Reporter<'r, 'o> {
    record: &'r mut Record<'o>,
    source: Text,
    number: usize,
    title: String,
}

impl<'o> Reporter<'_, 'o> {
    pub(super) fn options(&self) -> &'o Options {
        self.record.options
    }

    pub(super) fn plans(&self) -> bool {
        self.record.options.purpose == Purpose::Plan
    }

    /// Sets the version that notes about this object name.
    pub(super) fn written_in(&mut self, version: &str) {
        let key = (self.source.clone(), self.number, self.title.clone());
        self.record.versions.insert(key, version.to_owned());
    }

    /// Adds a note: the field at `path` was changed, defaulted or dropped, and why.
    pub(super) fn note(&mut self, path: &str, text: impl Into<String>) {
        let key = format!("{}{SEPARATOR}{path}", self.title);
        self.record.notes.insert((self.source.clone(), self.number, key, text.into()));
    }

    /// Adds the note `reading` on the interpretation of an invalid value. If `strict`, adds the
    /// error `refusal` instead: what is wrong, and what to write.
    pub(super) fn guess(&mut self, path: &str, reading: impl Into<String>, refusal: impl Into<String>) {
        if self.record.options.strict {
            let error = self.error(path, format!("{} (refused by --strict)", refusal.into()));
            self.record.errors.insert(error);
        } else {
            self.note(path, reading);
        }
    }

    /// Records a field that does not exist, with `hint` on what may have been meant, for errors
    /// about fields that are missing.
    pub(super) fn unknown_field(&mut self, path: &str, hint: &str) {
        let message = format!("there is no such field{hint}");
        self.record.unknown.insert(self.error(path, message.as_str()));
        self.guess(path, format!("ignored, {message}"), message);
    }

    /// Adds a note, once per run, on a behaviour that differs in v1.
    pub(super) fn behaviour(&mut self, text: &'static str) {
        self.record.behaviours.entry(text).or_default().insert(self.title.clone());
    }

    /// Adds an error that leaves the meaning of the object open.
    pub(super) fn refuse(&mut self, path: &str, message: impl Into<String>) {
        self.record.refused.insert((self.source.clone(), self.number, self.title.clone()));
        let error = self.error(path, message);
        self.record.errors.insert(error);
    }

    fn error(&self, path: &str, message: impl Into<String>) -> InputError {
        InputError {
            source: self.source.to_string(),
            document: self.number,
            object: Some(self.title.clone()),
            path: path.to_owned(),
            message: message.into(),
        }
    }

    /// Adds an error about a field that only launches need; for a plan, a note.
    pub(super) fn refuse_launch(&mut self, path: &str, message: impl Into<String>) {
        if self.plans() {
            self.note(path, format!("{}; planning goes on without it", message.into()));
        } else {
            self.refuse(path, message);
        }
    }
}
