//! Errors of the input.

use std::fmt;

pub const MAX_ERRORS: usize = 50;

/// Message of an error about an absent field.
pub(crate) const MISSING: &str = "missing, but required";

/// One error of the input, printed as one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputError {
    /// Name of the source: a path, or `-` for standard input.
    pub source: String,
    /// The document in the source, from 1; 0 for the source as a whole.
    pub document: usize,
    /// The object as `Kind/namespace/name` or `Kind/name`, when it is known.
    pub object: Option<String>,
    /// The field, such as `spec.containers[0].resources.requests.cpu`; empty for the object as a
    /// whole.
    pub path: String,
    /// What was found and what is allowed.
    pub message: String,
}

impl InputError {
    /// An error about a source as a whole.
    #[must_use]
    pub fn of_source(source: &str, message: impl Into<String>) -> Self {
        Self::of_document(source, 0, message)
    }

    /// An error about a document that is not an object.
    #[must_use]
    pub fn of_document(source: &str, document: usize, message: impl Into<String>) -> Self {
        Self { source: source.to_owned(), document, object: None, path: String::new(), message: message.into() }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.document > 0 {
            write!(f, ", document {}", self.document)?;
        }
        if let Some(object) = &self.object {
            write!(f, ", {object}")?;
        }
        if !self.path.is_empty() {
            write!(f, ", {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for InputError {}
