//! Parameters of a call, with the names of the wire: `Filter.1.Value.2`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api_error::ApiError;

/// Parameters of a call by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(crate) fn new(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }

    pub(crate) fn read(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// The fields of a JSON body, as JSON unless they are strings.
    pub(crate) fn of_json(body: &Value) -> Self {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self(body.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect())
    }

    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The parameter `name`.
    ///
    /// # Errors
    /// `MissingParameter`.
    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::missing(name))
    }

    /// A number, if given.
    ///
    /// # Errors
    /// `InvalidParameterValue`.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| ApiError::invalid(name, text))
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The values of `prefix.1`, `prefix.2`, … .
    pub(crate) fn list(&self, prefix: &str) -> Vec<&str> {
        (1..).map_while(|number| self.get(&format!("{prefix}.{number}"))).collect()
    }

    /// The structures `prefix.1`, `prefix.2`, …, each with the rest of its names.
    pub(crate) fn structures(&self, prefix: &str) -> Vec<Parameters> {
        let at = |number: usize| {
            let structure = self.below(&format!("{prefix}.{number}"));
            (!structure.0.is_empty()).then_some(structure)
        };
        (1..).map_while(at).collect()
    }

    /// The structure `prefix`, with the rest of its names.
    pub(crate) fn below(&self, prefix: &str) -> Parameters {
        let prefix = format!("{prefix}.");
        let of_prefix = self.0.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        Self(of_prefix.map(|(name, value)| (name[prefix.len()..].to_owned(), value.clone())).collect())
    }

    /// Tags as `prefix.1.Key` and `prefix.1.Value`.
    pub(crate) fn tags(&self, prefix: &str) -> BTreeMap<String, String> {
        let pair = |tag: Parameters| {
            let value = tag.get("Value").unwrap_or_default().to_owned();
            Some((tag.get("Key")?.to_owned(), value))
        };
        self.structures(prefix).into_iter().filter_map(pair).collect()
    }

    /// Tags of a resource type in `TagSpecification.N`.
    pub(crate) fn tags_of(&self, resource: &str) -> BTreeMap<String, String> {
        let specifications = self.structures("TagSpecification");
        let of_resource = specifications.iter().filter(|tags| tags.get("ResourceType") == Some(resource));
        of_resource.flat_map(|tags| tags.tags("Tag")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_wire_are_lists_and_structures() {
        let read = Parameters::read(b"A.1=x&A.2=y&A.10=z&B.1.Key=k%3A1&B.1.Value=v+w&B.2.Key=only&C=7&D=seven");
        // The tenth has no predecessor.
        assert_eq!(read.list("A"), ["x", "y"]);
        let tags = read.tags("B").into_iter().collect::<Vec<_>>();
        assert_eq!(tags, [("k:1".to_owned(), "v w".to_owned()), ("only".to_owned(), String::new())]);
        assert_eq!(read.number("C"), Ok(Some(7_u32)));
        assert_eq!(read.number::<u32>("E"), Ok(None));
        assert_eq!(read.number::<u32>("D").map_err(|error| error.code), Err("InvalidParameterValue".to_owned()));
        assert_eq!(read.required("E").map_err(|error| error.code), Err("MissingParameter".to_owned()));
    }
}
