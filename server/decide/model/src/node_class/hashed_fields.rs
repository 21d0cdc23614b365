//! What the hash of an EC2NodeClass is made from.

use std::fmt::Display;

/// Fields that are set, by name; a list has its name once for each entry. Neither their order nor a repeated entry
/// matters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HashedFields(Vec<(String, HashedValue)>);

/// The value of a field that is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashedValue {
    /// A single value, as it is written.
    Text(String),
    /// An object that is hashed as a whole.
    Fields(HashedFields),
}

impl HashedFields {
    pub(super) fn add(&mut self, name: &str, value: Option<impl Display>) {
        self.0.extend(value.map(|value| (name.to_owned(), HashedValue::Text(value.to_string()))));
    }

    pub(super) fn add_object(&mut self, name: &str, object: Option<Self>) {
        self.0.extend(object.map(|fields| (name.to_owned(), HashedValue::Fields(fields))));
    }
}

impl IntoIterator for HashedFields {
    type Item = (String, HashedValue);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
