//! Filters of Describe calls: a resource passes when every filter has a value that matches.

use std::collections::BTreeMap;

use super::parameters::Parameters;
use crate::api_error::ApiError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filters(Vec<(String, Vec<String>)>);

impl Filters {
    /// Filters of `parameters`. Names in `known` are allowed, and with tags `tag-key` and `tag:…`.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a filter that the call does not have, or that has no value.
    pub(crate) fn read(parameters: &Parameters, known: &[&str], with_tags: bool) -> Result<Self, ApiError> {
        let mut filters = Vec::new();
        for filter in parameters.structures("Filter") {
            let name = filter.required("Name")?;
            let is_tag = with_tags && (name == "tag-key" || name.starts_with("tag:"));
            if !is_tag && !known.contains(&name) {
                let message = format!("The filter '{name}' is invalid");
                return Err(ApiError::new("InvalidParameterValue", message));
            }
            let values: Vec<String> = filter.list("Value").into_iter().map(str::to_owned).collect();
            if values.is_empty() {
                return Err(ApiError::new("InvalidParameterValue", format!("The filter '{name}' has no value")));
            }
            filters.push((name.to_owned(), values));
        }
        Ok(Self(filters))
    }

    /// Whether a resource passes, with `field` giving the values that it has for a filter's name.
    pub(crate) fn pass(&self, tags: &BTreeMap<String, String>, field: impl Fn(&str) -> Vec<String>) -> bool {
        self.0.iter().all(|(name, patterns)| {
            let matches = |value: &str| patterns.iter().any(|pattern| matches_pattern(pattern, value));
            match name.strip_prefix("tag:") {
                Some(key) => tags.get(key).is_some_and(|value| matches(value)),
                None if name == "tag-key" => tags.keys().any(|key| matches(key)),
                None => field(name).iter().any(|value| matches(value)),
            }
        })
    }
}

/// Whether `value` matches `pattern`: `*` is any text, `?` any character, and a backslash makes the next one
/// literal (EC2: filtering).
pub(crate) fn matches_pattern(pattern: &str, value: &str) -> bool {
    if !pattern.contains(['*', '?', '\\']) {
        return pattern == value;
    }
    let (pattern, value): (Vec<char>, Vec<char>) = (pattern.chars().collect(), value.chars().collect());
    matches_from(&pattern, &value)
}

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
            assert_eq!(matches_pattern(pattern, value), matches, "{pattern} {value}");
        }
    }

    #[test]
    fn every_filter_must_match_and_an_unknown_one_is_refused() {
        let form =
            b"Filter.1.Name=tag%3Aa&Filter.1.Value.1=1&Filter.1.Value.2=2&Filter.2.Name=tag-key&Filter.2.Value.1=b";
        let filters = Filters::read(&Parameters::read(form), &[], true).unwrap();
        let tags = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let none = |_: &str| Vec::new();
        assert!(filters.pass(&tags(&[("a", "2"), ("b", "")]), none));
        assert!(!filters.pass(&tags(&[("a", "3"), ("b", "")]), none));
        assert!(!filters.pass(&tags(&[("a", "2")]), none));
        let unknown = Filters::read(&Parameters::read(b"Filter.1.Name=x&Filter.1.Value.1=1"), &["y"], true);
        assert_eq!(unknown.map_err(|error| error.message), Err("The filter 'x' is invalid".to_owned()));
    }
}
