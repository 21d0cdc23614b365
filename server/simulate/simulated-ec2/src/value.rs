//! Responses as values: a tree that the query protocol writes as XML.

use std::collections::BTreeMap;

/// Tags of a resource, by key.
pub type Tags = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Text(String),
    List(Vec<Node>),
    Fields(Fields),
}

impl Node {
    pub(crate) fn fields(&self) -> Option<&Fields> {
        if let Self::Fields(fields) = self { Some(fields) } else { None }
    }
}

/// Named values, in the order of the response. A name may occur more than once.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Fields(Vec<(&'static str, Node)>);

impl Fields {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Node>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Adds a value where there is one.
    pub(crate) fn maybe(self, name: &'static str, value: Option<impl Into<Node>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn list<T: Into<Node>>(self, name: &'static str, items: impl IntoIterator<Item = T>) -> Self {
        self.with(name, Node::List(items.into_iter().map(Into::into).collect()))
    }

    /// The items of the list `name`; none if there is no such list.
    pub(crate) fn items(&self, name: &str) -> &[Node] {
        let found = self.0.iter().find(|(known, _)| *known == name);
        if let Some((_, Node::List(items))) = found { items } else { &[] }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &(&'static str, Node)> {
        self.0.iter()
    }
}

impl From<Fields> for Node {
    fn from(fields: Fields) -> Self {
        Self::Fields(fields)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Node {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

macro_rules! from_display {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Node {
            fn from(value: $kind) -> Self {
                Self::Text(value.to_string())
            }
        }
    )*};
}

from_display!(String, bool, i64, u32, u64, usize, f64);

#[cfg(test)]
impl Fields {
    /// The text at a path of names and positions, such as `instancesSet/0/instanceId`; empty if there is none.
    pub(crate) fn text(&self, path: &str) -> String {
        let mut node = Some(Node::Fields(self.clone()));
        for step in path.split('/') {
            node = match node {
                Some(Node::Fields(fields)) => {
                    fields.0.into_iter().find(|(name, _)| *name == step).map(|(_, node)| node)
                }
                Some(Node::List(items)) => step.parse().ok().and_then(|at: usize| items.get(at).cloned()),
                _ => None,
            };
        }
        if let Some(Node::Text(text)) = node { text } else { String::new() }
    }

    /// The text at `path` below every item of the list `name`.
    pub(crate) fn texts(&self, name: &str, path: &str) -> Vec<String> {
        self.items(name).iter().filter_map(Node::fields).map(|item| item.text(path)).collect()
    }
}
