//! Texts with wildcards.

use crate::syntax::Literal;

/// A text that is equal, or that has parts in their order with anything between them.
pub(super) enum Pattern {
    Exact(Box<str>),
    Parts { first: Box<str>, middle: Vec<Box<str>>, last: Box<str> },
}

impl Pattern {
    pub(super) fn new(literal: &Literal) -> Self {
        match literal.0.as_slice() {
            [first, middle @ .., last] => Self::Parts {
                first: first.as_str().into(),
                middle: middle.iter().map(|part| part.as_str().into()).collect(),
                last: last.as_str().into(),
            },
            [only] => Self::Exact(only.as_str().into()),
            [] => Self::Exact("".into()),
        }
    }

    /// The leftmost place of each part is right: what follows can only need less of the text. The work is therefore that of
    /// one search for each part, whatever the text.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (first, middle, last) = match self {
            Self::Exact(expected) => return text == &**expected,
            Self::Parts { first, middle, last } => (first, middle, last),
        };
        let Some(mut rest) = text.strip_prefix(&**first).and_then(|text| text.strip_suffix(&**last)) else {
            return false;
        };
        for part in middle {
            let Some(at) = rest.find(&**part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// Whether `text` has `part`, where ASCII letters of either case are equal.
pub(super) fn contains_ignoring_case(text: &str, part: &str) -> bool {
    let part = part.as_bytes();
    part.is_empty() || text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
