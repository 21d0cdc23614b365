//! The parts of expressions.

/// A part of an expression. `All` and `Any` have at least two parts, but for the empty filter, which is an empty `All`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Term(Term),
}

/// A literal, or a field with a comparator and a literal. The position is that of its first character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) position: usize,
    pub(crate) field: Option<(String, Comparator)>,
    pub(crate) literal: Literal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Has,
}

/// A text as it is split by its wildcards: one part when there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literal(pub(crate) Vec<String>);

impl Literal {
    /// The text, when it has no wildcard.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// Whether it is `*`.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.0.len() == 2 && self.0.iter().all(String::is_empty)
    }
}
