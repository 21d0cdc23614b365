//! What is wrong with the arguments of a list request.

/// The argument that is wrong, as the field of the request is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// `filter`.
    Filter,
    /// `order_by`.
    OrderBy,
    /// `page_size`.
    PageSize,
    /// `page_token`.
    PageToken,
}

impl Argument {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::OrderBy => "order_by",
            Self::PageSize => "page_size",
            Self::PageToken => "page_token",
        }
    }
}

/// An argument that a list cannot be made from: INVALID_ARGUMENT. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// More bytes than an argument may have.
    #[error("{} has {length} bytes and may have at most {limit}: shorten it", argument.name())]
    TooLong {
        argument: Argument,
        /// Its length in bytes.
        length: usize,
        /// The most bytes.
        limit: usize,
    },
    /// More nested parentheses than a filter may have.
    #[error("filter has more than {limit} nested parentheses at position {position}: remove some")]
    TooDeep {
        /// Of the first parenthesis that is one too many.
        position: usize,
        /// The most nested parentheses.
        limit: usize,
    },
    /// More terms than a filter, or fields than an order, may have.
    #[error("{} has more than {limit} terms: use fewer", argument.name())]
    TooManyTerms {
        argument: Argument,
        /// The most terms.
        limit: usize,
    },
    /// The text is none of the language.
    #[error("{} cannot be parsed at position {position}: {problem}", argument.name())]
    Syntax {
        argument: Argument,
        /// Where.
        position: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A field that the rows do not have.
    #[error("{} names an unknown field at position {position}: {field:?}{}", argument.name(), suggestion(nearest.as_deref()))]
    UnknownField {
        argument: Argument,
        field: String,
        /// Where.
        position: usize,
        /// The field with the most similar name.
        nearest: Option<String>,
    },
    /// A value that a field of this type never has.
    #[error("filter compares {field} at position {position} with {literal:?}, which is not {expected}{}", suggestion(nearest.as_deref()))]
    LiteralType {
        field: String,
        /// Where.
        position: usize,
        literal: String,
        expected: &'static str,
        /// For an enum, the most similar value.
        nearest: Option<String>,
    },
    /// An operator, or an order, that a field of this type does not have.
    #[error("{} uses {field} at position {position} in a way that its type does not have: {problem}", argument.name())]
    Unsupported {
        argument: Argument,
        field: String,
        /// Where.
        position: usize,
        /// What is not there, and what to use.
        problem: &'static str,
    },
    /// A page of fewer than no rows.
    #[error("page_size is {0} and may not be negative: use 0 for the default")]
    NegativePageSize(i32),
    /// No token that this server has made.
    #[error("page_token is none of a next_page_token: list from the first page, with an empty page_token")]
    MalformedToken,
    /// A token of a list with other arguments.
    #[error(
        "page_token is of a list with another parent, filter or order_by: repeat the first page's, or list from the first page"
    )]
    TokenOfOtherList,
}

impl ListError {
    #[must_use]
    pub const fn argument(&self) -> Argument {
        match self {
            Self::TooLong { argument, .. }
            | Self::TooManyTerms { argument, .. }
            | Self::Syntax { argument, .. }
            | Self::UnknownField { argument, .. }
            | Self::Unsupported { argument, .. } => *argument,
            Self::TooDeep { .. } | Self::LiteralType { .. } => Argument::Filter,
            Self::NegativePageSize(_) => Argument::PageSize,
            Self::MalformedToken | Self::TokenOfOtherList => Argument::PageToken,
        }
    }
}

/// The most characters of an argument that an error repeats. A gRPC status is sent in a header, and clients bound headers.
const MAX_QUOTED: usize = 80;

/// `text` as an error repeats it.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}
