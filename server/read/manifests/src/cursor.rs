//! Typed access to an object. A [`Cursor`] points to a field, knows its path, and reports errors
//! there without stopping: one run reports every mistake.
//!
//! A field that is absent or null reads as `None` or empty; a field of the wrong type is reported
//! and reads as absent.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

use model::{Resources, Text, Timestamp, quantity};
use serde_json::{Map, Value};

use crate::document::type_name;
use crate::edit_distance::nearest_step;
use crate::error::MISSING;
use crate::misplaced::name_misplaced;
use crate::quantities::likely;
use crate::{InputError, MAX_ERRORS};

/// Collects the errors of a run, each once.
#[derive(Debug, Default)]
pub struct Problems {
    errors: RefCell<Vec<InputError>>,
    /// Fields that do not exist, for errors about fields that are missing.
    unknown_fields: RefCell<Vec<InputError>>,
    /// Positions whose error says all: source, document, object and path.
    settled: RefCell<BTreeSet<Position>>,
}

/// The position of an error: source, document, object and path.
type Position = (String, usize, Option<String>, String);

fn position(error: &InputError) -> Position {
    (error.source.clone(), error.document, error.object.clone(), error.path.clone())
}

impl Problems {
    /// Adds an error unless an equal one was added.
    pub fn add(&self, error: InputError) {
        if self.settled.borrow().contains(&position(&error)) {
            return;
        }
        self.push(error);
    }

    /// Adds an error; later errors about the same field of the object are consequences and are left
    /// out.
    pub fn add_cause(&self, error: InputError) {
        self.settled.borrow_mut().insert(position(&error));
        self.push(error);
    }

    fn push(&self, error: InputError) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < 100 * MAX_ERRORS && !errors.iter().rev().take(MAX_ERRORS).any(|known| *known == error) {
            errors.push(error);
        }
    }

    /// Records a field that does not exist. It is not an error, but may be the cause of one.
    pub fn add_unknown_field(&self, field: InputError) {
        self.unknown_fields.borrow_mut().push(field);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// The errors in order of source, document and field, at most [`MAX_ERRORS`]. If there are
    /// more, the last one has the number of those that are left out.
    #[must_use]
    pub fn into_errors(self) -> Vec<InputError> {
        let mut errors = self.errors.into_inner();
        name_misplaced(&mut errors, &self.unknown_fields.into_inner());
        errors.sort();
        errors.dedup();
        let left_out = errors.len().saturating_sub(MAX_ERRORS);
        errors.truncate(MAX_ERRORS);
        if left_out > 0
            && let Some(last) = errors.last_mut()
        {
            let _ = write!(last.message, " (and {left_out} more errors)");
        }
        errors
    }
}

/// The location of an object, and the destination of its errors.
#[derive(Debug, Clone)]
pub struct ObjectLocation<'p> {
    /// Name of the source: a path, or `-` for standard input.
    pub source: Text,
    /// Number of the document in the source, from 1.
    pub document: usize,
    /// `Kind/namespace/name` or `Kind/name`, when known.
    pub object: Option<String>,
    pub problems: &'p Problems,
}

#[derive(Debug)]
struct Step<'v> {
    parent: Option<Rc<Step<'v>>>,
    key: Key<'v>,
}

#[derive(Debug)]
enum Key<'v> {
    Field(&'v str),
    Index(usize),
}

/// A position in an object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cursor<'v> {
    value: Option<&'v Value>,
    path: Option<Rc<Step<'v>>>,
    site: &'v ObjectLocation<'v>,
}

impl<'v> Cursor<'v> {
    /// A cursor at the object itself.
    #[must_use]
    pub fn root(value: &'v Value, site: &'v ObjectLocation<'v>) -> Self {
        Self { value: Some(value), path: None, site }
    }

    /// The field `key`; absent when this position is absent.
    #[must_use]
    pub fn at(&self, key: &'v str) -> Self {
        let value = self.fields().and_then(|fields| fields.get(key));
        self.step(Key::Field(key), value)
    }

    fn step(&self, key: Key<'v>, value: Option<&'v Value>) -> Self {
        let path = Some(Rc::new(Step { parent: self.path.clone(), key }));
        Self { value: value.filter(|value| !value.is_null()), path, site: self.site }
    }

    fn fields(&self) -> Option<&'v Map<String, Value>> {
        match self.value? {
            Value::Object(fields) => Some(fields),
            other => self.wrong_type(other, "a map"),
        }
    }

    /// Whether the value is present and not null.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.value.is_some()
    }

    /// The value as it was written.
    #[must_use]
    pub fn raw(&self) -> Option<&'v Value> {
        self.value
    }

    /// The location of the object, for errors about the object as a whole.
    #[must_use]
    pub fn site(&self) -> &'v ObjectLocation<'v> {
        self.site
    }

    /// The path of this position, such as `spec.containers[0].name`.
    #[must_use]
    pub fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut step = self.path.as_deref();
        while let Some(at) = step {
            steps.push(&at.key);
            step = at.parent.as_deref();
        }
        let mut path = String::new();
        for key in steps.into_iter().rev() {
            match key {
                Key::Index(index) => path.push_str(&format!("[{index}]")),
                Key::Field(name) if name.contains('.') => path.push_str(&format!("[{name:?}]")),
                Key::Field(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
            }
        }
        path
    }

    /// The name of the field at this position; `None` for items of lists and the object itself.
    #[must_use]
    pub fn key(&self) -> Option<&'v str> {
        match self.path.as_deref()?.key {
            Key::Field(name) => Some(name),
            Key::Index(_) => None,
        }
    }

    /// Reports an error at this position.
    pub fn error(&self, message: impl Into<String>) {
        self.site.problems.add(InputError {
            source: self.site.source.to_string(),
            document: self.site.document,
            object: self.site.object.clone(),
            path: self.path(),
            message: message.into(),
        });
    }

    /// Reports that `found` is not among the values `allowed`, and returns `None`.
    pub fn unexpected<T>(&self, found: &str, allowed: &str) -> Option<T> {
        let short: String = found.chars().take(80).collect();
        self.error(format!("found {short:?}, allowed: {allowed}"));
        None
    }

    /// Reports that `found` is not among the words `allowed`, with the one that was likely meant, and
    /// returns `None`.
    pub fn unexpected_word<T>(&self, found: &str, allowed: &[&str]) -> Option<T> {
        let meant = nearest_step(found, allowed).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        self.unexpected(found, &(allowed.join(", ") + &meant))
    }

    fn wrong_type<T>(&self, found: &Value, wanted: &str) -> Option<T> {
        let shown = match found {
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let text: String = found.to_string().chars().take(60).collect();
                format!("{} ({text})", type_name(found))
            }
            other => type_name(other).to_owned(),
        };
        self.error(format!("found {shown}, allowed: {wanted}"));
        None
    }

    /// This position; reports an error when the value is absent.
    #[must_use]
    pub fn required(self) -> Self {
        if self.value.is_none() {
            self.error(MISSING);
        }
        self
    }

    #[must_use]
    pub fn str(&self) -> Option<&'v str> {
        match self.value? {
            Value::String(text) => Some(text),
            other => self.wrong_type(other, "a text (put it in quotes)"),
        }
    }

    /// The text value, as shared text.
    #[must_use]
    pub fn text(&self) -> Option<Text> {
        self.str().map(Text::from)
    }

    /// The text value, required and not empty.
    #[must_use]
    pub fn required_str(&self) -> Option<&'v str> {
        match self.clone().required().str() {
            Some("") => {
                self.error("empty, but required");
                None
            }
            other => other,
        }
    }

    #[must_use]
    pub fn int(&self) -> Option<i64> {
        let value = self.value?;
        let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
        match value.as_i64().or_else(|| value.as_f64().and_then(whole)) {
            Some(number) => Some(number),
            None => self.wrong_type(value, "a whole number"),
        }
    }

    /// The integer value, between `least` and `most`.
    #[must_use]
    pub fn int_within(&self, least: i64, most: i64) -> Option<i64> {
        let number = self.int()?;
        if (least..=most).contains(&number) {
            return Some(number);
        }
        let allowed =
            if most >= i64::from(i32::MAX) { format!("{least} or more") } else { format!("{least} to {most}") };
        self.unexpected(&number.to_string(), &allowed)
    }

    #[must_use]
    pub fn bool(&self) -> Option<bool> {
        match self.value? {
            Value::Bool(value) => Some(*value),
            other => self.wrong_type(other, "true or false"),
        }
    }

    #[must_use]
    pub fn list(&self) -> Vec<Self> {
        let items: Option<&'v Vec<Value>> = match self.value {
            None => None,
            Some(Value::Array(items)) => Some(items),
            Some(other) => self.wrong_type(other, "a list"),
        };
        let items = items.map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(|(index, item)| self.step(Key::Index(index), Some(item))).collect()
    }

    /// The entries of the map, in their written order.
    #[must_use]
    pub fn map(&self) -> Vec<(&'v str, Self)> {
        let entries = self.fields().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), self.step(Key::Field(key), Some(value)))).collect()
    }

    #[must_use]
    pub fn strings(&self) -> Vec<&'v str> {
        self.list().iter().filter_map(|item| item.clone().required().str()).collect()
    }

    /// The map of texts. A null value reads as the empty text, as in the API server.
    #[must_use]
    pub fn string_map(&self) -> BTreeMap<Text, Text> {
        let entries = self.map().into_iter();
        entries
            .filter_map(|(key, at)| Some((Text::from(key), Text::from(if at.exists() { at.str()? } else { "" }))))
            .collect()
    }

    /// The amount of `resource`, in its unit; a negative amount is an error.
    #[must_use]
    pub fn quantity(&self, resource: &str) -> Option<i64> {
        let written: String = match self.value? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return self.wrong_type(other, "a quantity such as 500m, 2 or 1.5Gi"),
        };
        match quantity::parse(resource, &written) {
            Ok(amount) if amount < 0 => self.unexpected(&written, "a quantity of zero or more"),
            Ok(amount) => Some(amount),
            Err(error) => {
                let meant =
                    likely(resource, &written).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
                self.error(format!("{error}{meant}"));
                None
            }
        }
    }

    /// The map of quantities, by resource name.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.map().into_iter().filter_map(|(name, at)| Some((name, at.quantity(name)?))).collect()
    }

    /// The timestamp, in RFC 3339.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        let text = self.str()?;
        match text.parse::<jiff::Timestamp>() {
            Ok(moment) => Some(Timestamp::from_millis(moment.as_millisecond())),
            Err(_) => self.unexpected(text, "a moment in RFC 3339, such as 2026-01-31T12:00:00Z"),
        }
    }

    /// The value of the text in the table `allowed`; an error for another text.
    #[must_use]
    pub fn one_of<T: Copy>(&self, allowed: &[(&str, T)]) -> Option<T> {
        let text = self.str()?;
        let known = allowed.iter().find(|(name, _)| *name == text).map(|(_, meaning)| *meaning);
        known.or_else(|| {
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            self.unexpected_word(text, &names)
        })
    }
}
