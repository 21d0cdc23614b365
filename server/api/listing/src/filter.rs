//! Filters of rows: an expression whose fields are those of a schema.

mod compile;
mod pattern;
mod predicate;

use std::fmt;

use crate::{Expression, ListError, Schema};
use predicate::Predicate;

/// A condition on rows of type `R`.
pub struct Filter<R>(Predicate<R>);

impl<R> Filter<R> {
    /// The filter that `text` is in the fields of `schema`. An empty text accepts all rows.
    ///
    /// # Errors
    ///
    /// `text` is not an [`Expression`], names a field that `schema` does not have, or compares a field in a way or with a
    /// value that its type does not have.
    pub fn parse(text: &str, schema: &Schema<R>) -> Result<Self, ListError> {
        Self::new(&Expression::parse(text)?, schema)
    }

    /// The filter that `expression` is in the fields of `schema`.
    ///
    /// # Errors
    ///
    /// Those of [`Filter::parse`] about fields.
    pub fn new(expression: &Expression, schema: &Schema<R>) -> Result<Self, ListError> {
        compile::predicate(expression.root(), schema).map(Self)
    }

    /// Whether `row` fulfils the condition. Allocates nothing.
    #[must_use]
    pub fn matches(&self, row: &R) -> bool {
        self.0.matches(row)
    }
}

impl<R> fmt::Debug for Filter<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Filter")
    }
}
