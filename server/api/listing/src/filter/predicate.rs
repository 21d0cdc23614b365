//! Conditions on rows.

use std::cmp::Ordering;

use super::pattern::{Pattern, contains_ignoring_case};
use crate::schema::MapGetter;
use crate::syntax::Comparator;

pub(super) enum Predicate<R> {
    All(Vec<Predicate<R>>),
    Any(Vec<Predicate<R>>),
    Not(Box<Predicate<R>>),
    /// A text that a getter answers.
    Text(fn(&R) -> Option<&str>, TextCheck),
    Name(fn(&R) -> &str, TextCheck),
    /// The value of a map's key.
    Entry(MapGetter<R>, Box<str>, TextCheck),
    /// One of repeated texts; any of them, when there is no pattern.
    Element(fn(&R, usize) -> Option<&str>, Option<Pattern>),
    Int(fn(&R) -> Option<i64>, NumberCheck),
    /// Milliseconds since 1970, which the check has in nanoseconds.
    Timestamp(fn(&R) -> Option<i64>, NumberCheck),
    /// Whether there is a value, or whether it is this one.
    Bool(fn(&R) -> Option<bool>, Option<bool>),
}

const NANOS_PER_MILLI: i128 = 1_000_000;

impl<R> Predicate<R> {
    /// Nests as deep as parentheses do, which are bounded.
    pub(super) fn matches(&self, row: &R) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(row)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(row)),
            Self::Not(part) => !part.matches(row),
            Self::Text(get, check) => get(row).is_some_and(|text| check.accepts(text)),
            Self::Name(get, check) => check.accepts(get(row)),
            Self::Entry(get, key, check) => get(row, key).is_some_and(|text| check.accepts(text)),
            Self::Element(get, pattern) => {
                let mut elements = (0..).map_while(|index| get(row, index));
                elements.any(|text| pattern.as_ref().is_none_or(|pattern| pattern.matches(text)))
            }
            Self::Int(get, check) => get(row).is_some_and(|value| check.accepts(value.into())),
            Self::Timestamp(get, check) => {
                get(row).is_some_and(|millis| check.accepts(i128::from(millis) * NANOS_PER_MILLI))
            }
            Self::Bool(get, expected) => {
                get(row).is_some_and(|value| expected.is_none_or(|expected| expected == value))
            }
        }
    }
}

pub(super) enum TextCheck {
    /// Any text.
    Present,
    Matches(Pattern),
    /// Without regard to ASCII case.
    Contains(Box<str>),
    Compares(Inequality, Box<str>),
}

impl TextCheck {
    fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Present => true,
            Self::Matches(pattern) => pattern.matches(text),
            Self::Contains(part) => contains_ignoring_case(text, part),
            Self::Compares(inequality, bound) => inequality.holds(text.cmp(bound)),
        }
    }
}

pub(super) enum NumberCheck {
    /// Any number.
    Present,
    Equals(i128),
    Compares(Inequality, i128),
}

impl NumberCheck {
    fn accepts(&self, value: i128) -> bool {
        match self {
            Self::Present => true,
            Self::Equals(expected) => value == *expected,
            Self::Compares(inequality, bound) => inequality.holds(value.cmp(bound)),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Inequality {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Inequality {
    pub(super) fn of(comparator: Comparator) -> Option<Self> {
        match comparator {
            Comparator::Less => Some(Self::Less),
            Comparator::LessOrEqual => Some(Self::LessOrEqual),
            Comparator::Greater => Some(Self::Greater),
            Comparator::GreaterOrEqual => Some(Self::GreaterOrEqual),
            Comparator::Equal | Comparator::NotEqual | Comparator::Has => None,
        }
    }

    /// Whether it holds for a value that compares like this with the bound.
    fn holds(self, value: Ordering) -> bool {
        match self {
            Self::Less => value.is_lt(),
            Self::LessOrEqual => value.is_le(),
            Self::Greater => value.is_gt(),
            Self::GreaterOrEqual => value.is_ge(),
        }
    }
}
