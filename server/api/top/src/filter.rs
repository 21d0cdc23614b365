//! Filters: words, or the API's filter language.

use listing::Schema;

/// Characters of operators, which no word has.
const OPERATORS: [char; 7] = ['=', '<', '>', ':', '(', ')', '"'];

const OPERATOR_WORDS: [&str; 3] = ["AND", "OR", "NOT"];

#[derive(Debug)]
pub(crate) enum Filter<R> {
    /// Rows with every word, and without the words of the second list.
    Words(Vec<String>, Vec<String>),
    /// Rows that a filter of the API selects.
    Expression(listing::Filter<R>),
}

impl<R> Default for Filter<R> {
    fn default() -> Self {
        Self::Words(Vec::new(), Vec::new())
    }
}

impl<R> Filter<R> {
    /// Reads `text`: words that a row must have in any of its texts, without regard to case, or with `-` before them must not
    /// have. A text with an operator is a filter of the API.
    ///
    /// # Errors
    /// Why a text with an operator is no filter, in one line.
    pub(crate) fn parse(text: &str, schema: &Schema<R>) -> Result<Self, String> {
        let is_expression =
            text.contains(OPERATORS) || text.split_whitespace().any(|word| OPERATOR_WORDS.contains(&word));
        if is_expression {
            return listing::Filter::parse(text, schema).map(Self::Expression).map_err(|error| error.to_string());
        }
        let lower = text.to_lowercase();
        let (excluded, wanted): (Vec<&str>, Vec<&str>) =
            lower.split_whitespace().partition(|word| word.len() > 1 && word.starts_with('-'));
        let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        Ok(Self::Words(owned(wanted), excluded.into_iter().map(|word| word[1..].to_owned()).collect()))
    }

    /// Whether a row with this text in lower case is shown.
    pub(crate) fn matches(&self, row: &R, searched: &str) -> bool {
        match self {
            Self::Words(wanted, excluded) => {
                wanted.iter().all(|word| searched.contains(&**word))
                    && !excluded.iter().any(|word| searched.contains(&**word))
            }
            Self::Expression(filter) => filter.matches(row),
        }
    }
}
