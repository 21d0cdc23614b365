//! Spans as values, with OpenTelemetry's names.

use std::borrow::Cow;

use model::Timestamp;

use crate::context::{SpanContext, SpanId};

#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub context: SpanContext,
    /// The span that it is part of; `None` for the first one of a trace.
    pub parent: Option<SpanId>,
    pub name: Cow<'static, str>,
    pub kind: Kind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; not before it began.
    pub end: Timestamp,
    /// Attributes, no key twice.
    pub attributes: Vec<Attribute>,
    pub events: Vec<SpanEvent>,
    pub error: Option<String>,
}

/// Role of a span (OpenTelemetry: SpanKind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An operation within one process.
    Internal,
    /// A call to the store, the cloud or an agent, as its caller sees it.
    Client,
    /// An instruction, as the agent sees it.
    Server,
}

/// Something that happened during a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    pub name: Cow<'static, str>,
    /// When.
    pub at: Timestamp,
    /// Attributes, no key twice.
    pub attributes: Vec<Attribute>,
}

/// An attribute of a span or an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its key, by OpenTelemetry's semantic conventions; our own begin with `fleetwright.`.
    pub key: Cow<'static, str>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
}

#[must_use]
pub fn attribute(key: &'static str, value: &str) -> Attribute {
    Attribute { key: key.into(), value: Value::Text(value.to_owned()) }
}

/// An attribute with a whole number as its value.
pub(crate) fn int(key: &'static str, value: u64) -> Attribute {
    Attribute { key: key.into(), value: Value::Int(i64::try_from(value).unwrap_or(i64::MAX)) }
}

/// An attribute with a number of items as its value.
pub(crate) fn count(key: &'static str, items: usize) -> Attribute {
    int(key, u64::try_from(items).unwrap_or(u64::MAX))
}

impl Span {
    /// A part of `parent` from `start` to `end`; a clock that was set back makes it empty.
    pub(crate) fn part_of(
        parent: &SpanContext,
        context: SpanContext,
        name: &'static str,
        (start, end): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            context,
            parent: Some(parent.span()),
            name: name.into(),
            kind: Kind::Internal,
            start,
            end: end.max(start),
            attributes: Vec::new(),
            events: Vec::new(),
            error: None,
        }
    }

    pub(crate) fn with_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn with_attributes(mut self, attributes: impl IntoIterator<Item = Attribute>) -> Self {
        self.attributes.extend(attributes);
        self
    }

    pub(crate) fn with_error(self, error: Option<String>) -> Self {
        Self { error, ..self }
    }

    /// The string attribute with this key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find_map(|attribute| attribute.as_text(key))
    }
}

impl Attribute {
    pub(crate) fn as_text(&self, key: &str) -> Option<&str> {
        match &self.value {
            Value::Text(text) if self.key == key => Some(text),
            Value::Text(_) | Value::Int(_) | Value::Float(_) => None,
        }
    }
}
