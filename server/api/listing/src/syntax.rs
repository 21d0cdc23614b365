//! Texts of filters: the grammar of AIP-160, without functions and without parentheses on the right of an operator.

mod expression;
mod lexer;
mod parser;
mod print;

use crate::ListError;

pub(crate) use expression::{Comparator, Literal, Node, Term};
pub use parser::{MAX_FILTER_BYTES, MAX_FILTER_DEPTH, MAX_FILTER_TERMS};

/// A parsed filter, before its fields are looked up. Its `Display` is a filter that parses to the same expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    root: Node,
}

impl Expression {
    /// Parses `text`. An empty text is the expression that is always true.
    ///
    /// # Errors
    ///
    /// `text` is longer, deeper or has more terms than the limits of this module, or is not a filter.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        Ok(Self { root: parser::parse(text)? })
    }

    #[cfg(test)]
    pub(crate) fn new(root: Node) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}
