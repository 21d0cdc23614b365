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
}

impl<'o> Record<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        Self {
            options,
            notes: BTreeSet::new(),
            behaviours: BTreeMap::new(),
            versions: BTreeMap::new(),
            errors: BTreeSet::new(),
        }
    }

    /// A reporter for the object `title` in document `number` of `source`.
    pub(super) fn reporter<'r>(&'r mut self, source: &Text, number: usize, title: &str) -> Reporter<'r, 'o> {
        Reporter { record: self, source: source.clone(), number, title: title.to_owned() }
    }

    pub(super) fn add_errors(&mut self, errors: Vec<InputError>) {
        self.errors.extend(errors);
    }

    /// The notes, or the errors when there are any.
    pub(super) fn finish(self) -> Result<Vec<String>, Vec<InputError>> {
        if !self.errors.is_empty() {
            return Err(self.errors.into_iter().collect());
        }
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
        Ok(fields.chain(behaviours).collect())
    }
}

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

    /// Adds a note on the interpretation of an invalid value; an error if `strict`.
    pub(super) fn guess(&mut self, path: &str, text: impl Into<String>) {
        if self.record.options.strict {
            self.refuse(path, format!("{} (refused by --strict)", text.into()));
        } else {
            self.note(path, text);
        }
    }

    /// Adds a note, once per run, on a behaviour that differs in v1.
    pub(super) fn behaviour(&mut self, text: &'static str) {
        self.record.behaviours.entry(text).or_default().insert(self.title.clone());
    }

    /// Adds an error.
    pub(super) fn refuse(&mut self, path: &str, message: impl Into<String>) {
        self.record.errors.insert(InputError {
            source: self.source.to_string(),
            document: self.number,
            object: Some(self.title.clone()),
            path: path.to_owned(),
            message: message.into(),
        });
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
