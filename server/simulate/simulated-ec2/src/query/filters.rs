//! Filters of Describe calls: a resource passes when every filter has a value that matches.

use std::collections::BTreeSet;

use super::parameters::Parameters;
use crate::api_error::ApiError;
use crate::settings::Tags;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filters(Vec<(String, Values)>);

/// Values of a filter: those without wildcards, which are looked up, and patterns, which are tried one after another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Values {
    exact: BTreeSet<String>,
    patterns: Vec<Vec<char>>,
}

impl Values {
    fn read(values: &[&str]) -> Self {
        let (patterns, exact): (Vec<&str>, Vec<&str>) =
            values.iter().partition(|value| value.contains(['*', '?', '\\']));
        Self {
            exact: exact.into_iter().map(str::to_owned).collect(),
            patterns: patterns.into_iter().map(|pattern| pattern.chars().collect()).collect(),
        }
    }

    fn matches(&self, value: &str) -> bool {
        if self.exact.contains(value) {
            return true;
        }
        let matches = |value: Vec<char>| self.patterns.iter().any(|pattern| matches_from(pattern, &value));
        !self.patterns.is_empty() && matches(value.chars().collect())
    }
}

impl Filters {
    /// Filters of `parameters`, with names in `known`; `tag:` stands for the tags of every key.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a filter that the call does not have, or that has no value.
    pub(crate) fn read(parameters: &Parameters, known: &[&str]) -> Result<Self, ApiError> {
        let mut filters = Vec::new();
        for filter in parameters.structures("Filter") {
            let name = filter.required("Name")?;
            if !known.iter().any(|known| name == *known || known.ends_with(':') && name.starts_with(known)) {
                let message = format!("The filter '{name}' is invalid");
                return Err(ApiError::new("InvalidParameterValue", message));
            }
            let values = filter.list("Value");
            if values.is_empty() {
                return Err(ApiError::new("InvalidParameterValue", format!("The filter '{name}' has no value")));
            }
            filters.push((name.to_owned(), Values::read(&values)));
        }
        Ok(Self(filters))
    }

    /// The values of the filter `name`, if it has no patterns: nothing else can pass.
    pub(crate) fn exact(&self, name: &str) -> Option<&BTreeSet<String>> {
        let (_, values) = self.0.iter().find(|(known, values)| known == name && values.patterns.is_empty())?;
        Some(&values.exact)
    }

    /// Whether a resource passes, with `field` giving the value that it has for a filter's name; empty if it has none.
    pub(crate) fn pass<'v>(&self, tags: &Tags, field: impl Fn(&str) -> &'v str) -> bool {
        self.0.iter().all(|(name, values)| match name.strip_prefix("tag:") {
            Some(key) => tags.get(key).is_some_and(|value| values.matches(value)),
            None if name == "tag-key" => tags.keys().any(|key| values.matches(key)),
            None => Some(field(name)).is_some_and(|value| !value.is_empty() && values.matches(value)),
        })
    }
}

/// Whether `value` matches `pattern`: `*` is any text, `?` any character, and a backslash makes the next one
/// literal (EC2: filtering).
fn matches_from(pattern: &[char], value: &[char]) -> bool {
    match pattern {
        [] => value.is_empty(),
        ['*', rest @ ..] => (0..=value.len()).any(|skipped| matches_from(rest, &value[skipped..])),
        ['?', rest @ ..] => value.split_first().is_some_and(|(_, value)| matches_from(rest, value)),
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
            value.split_first().is_some_and(|(first, value)| first == literal && matches_from(rest, value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_wildcards_and_literals() {
        for (pattern, value, matches) in [
            ("web", "web", true),
            ("web", "web-1", false),
            ("web*", "web-1", true),
            ("*", "", true),
            ("w?b", "web", true),
            ("w?b", "wb", false),
            ("*-1", "web-1", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
        ] {
            assert_eq!(Values::read(&[pattern]).matches(value), matches, "{pattern} {value}");
        }
    }

    #[test]
    fn every_filter_must_match_and_an_unknown_one_is_refused() {
        let form =
            b"Filter.1.Name=tag%3Aa&Filter.1.Value.1=1&Filter.1.Value.2=2&Filter.2.Name=tag-key&Filter.2.Value.1=b";
        let filters = Filters::read(&Parameters::read(form), &["tag:", "tag-key"]).unwrap();
        let tags = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let none = |_: &str| "";
        assert!(filters.pass(&tags(&[("a", "2"), ("b", "")]), none));
        assert!(!filters.pass(&tags(&[("a", "3"), ("b", "")]), none));
        assert!(!filters.pass(&tags(&[("a", "2")]), none));
        let unknown = Filters::read(&Parameters::read(b"Filter.1.Name=x&Filter.1.Value.1=1"), &["y"]);
        assert_eq!(unknown.map_err(|error| error.message), Err("The filter 'x' is invalid".to_owned()));
    }

    #[test]
    fn values_without_wildcards_are_all_that_can_pass() {
        let form = b"Filter.1.Name=id&Filter.1.Value.1=b&Filter.1.Value.2=a&Filter.2.Name=n&Filter.2.Value.1=x*";
        let filters = Filters::read(&Parameters::read(form), &["id", "n"]).unwrap();
        assert_eq!(filters.exact("id"), Some(&["a".to_owned(), "b".to_owned()].into()));
        assert_eq!((filters.exact("n"), filters.exact("other")), (None, None));
    }
}
