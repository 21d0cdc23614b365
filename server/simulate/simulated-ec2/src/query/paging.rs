//! Pages of results. A token says after which key the next page begins, so that entries that appear or
//! disappear between two calls move no other entry to another page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::parameters::Parameters;
use crate::api_error::ApiError;

/// The page that a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest {
    size: usize,
    after: Option<String>,
}

impl PageRequest {
    /// The page of a call of the query protocol, with at most `limit` entries.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a size that is no number, `InvalidNextToken` for an unknown token.
    pub(crate) fn read(parameters: &Parameters, limit: Option<usize>) -> Result<Self, ApiError> {
        Self::new(parameters.number("MaxResults")?, parameters.get("NextToken"), limit)
    }

    /// The page by size and token, with at most `limit` entries.
    ///
    /// # Errors
    /// `InvalidNextToken`.
    pub(crate) fn new(size: Option<usize>, token: Option<&str>, limit: Option<usize>) -> Result<Self, ApiError> {
        let size = size.unwrap_or(usize::MAX).min(limit.unwrap_or(usize::MAX)).max(1);
        let decode = |token: &str| {
            let key = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            key.ok_or_else(|| ApiError::new("InvalidNextToken", format!("The token '{token}' is invalid")))
        };
        Ok(Self { size, after: token.map(decode).transpose()? })
    }

    /// The entries of the page among those of `sorted` that pass, and the token of the next page.
    pub(crate) fn take<T>(
        &self,
        sorted: impl IntoIterator<Item = T>,
        key: impl Fn(&T) -> &str,
        passes: impl Fn(&T) -> bool,
    ) -> (Vec<T>, Option<String>) {
        let is_later = |entry: &T| self.after.as_ref().is_none_or(|after| key(entry) > after.as_str());
        let mut rest = sorted.into_iter().filter(|entry| is_later(entry) && passes(entry));
        let page: Vec<T> = rest.by_ref().take(self.size).collect();
        let token = rest.next().and(page.last()).map(|last| URL_SAFE_NO_PAD.encode(key(last)));
        (page, token)
    }

    /// As [`PageRequest::take`], for entries that never change: their keys are their positions.
    pub(crate) fn take_by_position<T>(&self, entries: impl IntoIterator<Item = T>) -> (Vec<T>, Option<String>) {
        let after = self.after.as_ref().and_then(|after| after.parse::<usize>().ok());
        let first = after.map_or(0, |last| last.saturating_add(1));
        let mut rest = entries.into_iter().skip(first);
        let page: Vec<T> = rest.by_ref().take(self.size).collect();
        let last = (first + page.len()).saturating_sub(1);
        let token = rest.next().map(|_| URL_SAFE_NO_PAD.encode(last.to_string()));
        (page, token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_disappears_between_pages_moves_no_other() {
        let first = PageRequest::new(Some(2), None, None).unwrap();
        let (page, token) = first.take(["a", "b", "c", "d"], |entry| entry, |_| true);
        assert_eq!(page, ["a", "b"]);
        let second = PageRequest::new(Some(2), token.as_deref(), None).unwrap();
        assert_eq!(second.take(["a", "c", "d"], |entry| entry, |_| true), (vec!["c", "d"], None));
    }

    #[test]
    fn the_smaller_of_size_and_limit_counts() {
        let page = PageRequest::new(Some(5), None, Some(1)).unwrap();
        let (first, token) = page.take_by_position([7, 8]);
        let rest = PageRequest::new(None, token.as_deref(), None).unwrap().take_by_position([7, 8]);
        assert_eq!((first, rest), (vec![7], (vec![8], None)));
        assert_eq!(PageRequest::new(None, Some("?"), None).map_err(|error| error.code), Err("InvalidNextToken".into()));
    }
}
