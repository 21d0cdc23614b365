//! What a read leaves out, and why.

use std::fmt;

use model::Text;

/// Something that EC2 described incompletely, so that the snapshot lacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What is left out: an instance type's name, or a spot price or zone in words.
    pub item: Text,
    pub reason: Reason,
}

/// Why something is left out; each names a field of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Missing(&'static str),
    /// The field has a value out of range or not known here.
    Invalid(&'static str),
    Contradicts(&'static str, &'static str),
    /// The field lists devices of several models; a catalogue has one per type.
    SeveralModels(&'static str),
    /// The item is described more than once.
    Duplicate,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(f, "{field} is missing"),
            Self::Invalid(field) => write!(f, "{field} has an unusable value"),
            Self::Contradicts(field, other) => write!(f, "{field} contradicts {other}"),
            Self::SeveralModels(field) => write!(f, "{field} lists several models"),
            Self::Duplicate => f.write_str("it is described more than once"),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is left out: {}", self.item, self.reason)
    }
}

pub(super) fn positive(value: Option<impl Into<i64>>, field: &'static str) -> Result<i64, Reason> {
    at_least(1, value, field)
}

/// A number of at least `least`.
pub(super) fn at_least(least: i64, value: Option<impl Into<i64>>, field: &'static str) -> Result<i64, Reason> {
    let value = value.ok_or(Reason::Missing(field))?.into();
    if value >= least { Ok(value) } else { Err(Reason::Invalid(field)) }
}

/// A text that is not empty.
pub(super) fn text(value: Option<&str>, field: &'static str) -> Result<Text, Reason> {
    value.filter(|text| !text.is_empty()).map(Text::from).ok_or(Reason::Missing(field))
}
