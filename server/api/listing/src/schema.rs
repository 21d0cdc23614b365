//! The fields of a row type that filters and orders can name.

use std::fmt;

/// How many rows a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSizes {
    /// When the request does not say.
    pub default: usize,
    /// A larger `page_size` is lowered to it.
    pub maximum: usize,
}

/// The value that a row has for a key.
pub type MapGetter<R> = for<'r> fn(&'r R, &str) -> Option<&'r str>;

/// A field as the syntax of filters and orders names it.
pub(crate) enum Getter<R> {
    Text(fn(&R) -> Option<&str>),
    Int(fn(&R) -> Option<i64>),
    Bool(fn(&R) -> Option<bool>),
    /// Milliseconds since 1970.
    Timestamp(fn(&R) -> Option<i64>),
    /// All values in their order, and the row's value.
    Enum(&'static [&'static str], fn(&R) -> Option<&str>),
    /// The element at an index.
    Texts(fn(&R, usize) -> Option<&str>),
    /// The value of a key.
    Map(MapGetter<R>),
}

// Derives would require the same of `R`.
impl<R> Clone for Getter<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Getter<R> {}

/// A field that a path names: the getter, and for a map the key.
pub(crate) struct NamedField<'p, R> {
    pub(crate) getter: Getter<R>,
    pub(crate) key: Option<&'p str>,
}

/// Fields of rows of type `R`. A getter answers `None` where the row has no value.
pub struct Schema<R> {
    collection: &'static str,
    page_sizes: PageSizes,
    name: fn(&R) -> &str,
    name_path: &'static str,
    fields: Vec<(&'static str, Getter<R>)>,
}

impl<R> fmt::Debug for Schema<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = self.fields.iter().map(|(path, _)| path).collect();
        formatter.debug_struct("Schema").field("collection", &self.collection).field("fields", &fields).finish()
    }
}

impl<R> Schema<R> {
    /// A schema of the rows of `collection`. The text of the field `name_path` is different for each row; it decides the
    /// order of rows that are otherwise equal.
    #[must_use]
    pub fn new(collection: &'static str, page_sizes: PageSizes, name_path: &'static str, name: fn(&R) -> &str) -> Self {
        Self { collection, page_sizes, name, name_path, fields: Vec::new() }
    }

    #[must_use]
    pub fn text(self, path: &'static str, get: fn(&R) -> Option<&str>) -> Self {
        self.with(path, Getter::Text(get))
    }

    #[must_use]
    pub fn int(self, path: &'static str, get: fn(&R) -> Option<i64>) -> Self {
        self.with(path, Getter::Int(get))
    }

    #[must_use]
    pub fn boolean(self, path: &'static str, get: fn(&R) -> Option<bool>) -> Self {
        self.with(path, Getter::Bool(get))
    }

    /// And a time, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp(self, path: &'static str, get: fn(&R) -> Option<i64>) -> Self {
        self.with(path, Getter::Timestamp(get))
    }

    /// And an enum with these names of values; rows are ordered as `values` is.
    #[must_use]
    pub fn enumeration(self, path: &'static str, values: &'static [&'static str], get: fn(&R) -> Option<&str>) -> Self {
        self.with(path, Getter::Enum(values, get))
    }

    /// And repeated texts: `get` answers the element at an index, and `None` after the last one.
    #[must_use]
    pub fn texts(self, path: &'static str, get: fn(&R, usize) -> Option<&str>) -> Self {
        self.with(path, Getter::Texts(get))
    }

    /// And a map of texts: `get` answers the value of a key.
    #[must_use]
    pub fn map(self, path: &'static str, get: MapGetter<R>) -> Self {
        self.with(path, Getter::Map(get))
    }

    fn with(mut self, path: &'static str, getter: Getter<R>) -> Self {
        debug_assert!(path != self.name_path && self.fields.iter().all(|(other, _)| *other != path), "{path} is there");
        self.fields.push((path, getter));
        self
    }

    pub(crate) fn collection(&self) -> &'static str {
        self.collection
    }

    pub(crate) fn page_sizes(&self) -> PageSizes {
        self.page_sizes
    }

    pub(crate) fn name(&self) -> fn(&R) -> &str {
        self.name
    }

    pub(crate) fn name_path(&self) -> &'static str {
        self.name_path
    }

    /// The field that `path` names, other than the name. A map's own path has no key.
    pub(crate) fn find<'p>(&self, path: &'p str) -> Option<NamedField<'p, R>> {
        if let Some((_, getter)) = self.fields.iter().find(|(name, _)| *name == path) {
            return Some(NamedField { getter: *getter, key: None });
        }
        self.fields.iter().find_map(|(name, getter)| {
            let key = path.strip_prefix(name)?.strip_prefix('.')?;
            matches!(getter, Getter::Map(_)).then_some(NamedField { getter: *getter, key: Some(key) })
        })
    }

    /// The path that is most similar to `path`, if one is similar at all.
    pub(crate) fn nearest(&self, path: &str) -> Option<String> {
        let paths = self.fields.iter().map(|(name, _)| *name);
        nearest(path, paths.chain([self.name_path]))
    }
}

/// The most similar of `names`; `None` when more than half of the characters differ.
pub(crate) fn nearest<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let distances = names.map(|name| (strsim::osa_distance(text, name), name));
    let (distance, name) = distances.min()?;
    (distance * 2 <= name.chars().count().max(2)).then(|| name.to_owned())
}
