//! The documentation of one field, and the table of the fields of one kind.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Dotted path inside the object; lists are passed through without an index. Annotations keep
    /// their whole key as the last step.
    pub path: String,
    /// Type, as `kubectl explain` writes types: `string`, `[]Object`, `map[string]string`.
    pub type_name: String,
    /// What an absent field means; empty when absence means nothing is set.
    pub default: String,
    /// The allowed values; empty when the type determines them.
    pub allowed: String,
    pub meaning: String,
    /// A value in YAML, empty for objects whose fields have examples of their own.
    pub example: String,
}

#[derive(Debug, Clone)]
pub struct Table {
    /// The kind as written in manifests.
    pub kind: &'static str,
    /// Aliases, in lower case.
    pub short_names: &'static [&'static str],
    /// `apiVersion`, also of what is no Kubernetes object.
    pub api_version: String,
    pub meaning: &'static str,
    /// The fields, every parent before its children.
    pub fields: Vec<Field>,
}

impl Table {
    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter()
    }

    /// The direct children of `path`; of the object itself when `path` is empty.
    pub fn children<'t>(&'t self, path: &'t str) -> impl Iterator<Item = &'t Field> {
        self.fields.iter().filter(move |field| parent(&field.path) == path)
    }

    /// The field at `path`, without regard to case.
    #[must_use]
    pub fn field(&self, path: &str) -> Option<&Field> {
        self.iter().find(|field| field.path.eq_ignore_ascii_case(path))
    }
}

/// The path of the object that has the field at `path`. An annotation key, which may have dots, is
/// one step.
pub(super) fn parent(path: &str) -> &str {
    let key = path.find("annotations.fleetwright.dev/").map(|at| at + "annotations".len());
    key.or_else(|| path.rfind('.')).map_or("", |at| &path[..at])
}
