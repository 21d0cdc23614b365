//! The documentation of one field, and the table of the fields of one kind.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Dotted path inside the object; lists are passed through without an index. Annotations keep
    /// their whole key as the last step.
    pub path: &'static str,
    /// Type, as `kubectl explain` writes types: `string`, `[]Object`, `map[string]string`.
    pub type_name: &'static str,
    /// What an absent field means; empty when absence means nothing is set.
    pub default: &'static str,
    /// The allowed values; empty when the type determines them.
    pub allowed: &'static str,
    pub meaning: &'static str,
    /// A value in YAML, empty for objects whose fields have examples of their own.
    pub example: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The kind as written in manifests.
    pub kind: &'static str,
    /// Aliases, in lower case.
    pub short_names: &'static [&'static str],
    /// `apiVersion`, empty for what is no Kubernetes object.
    pub api_version: &'static str,
    pub meaning: &'static str,
    /// The fields, every parent before its children. Several slices, so that long kinds can be
    /// split into files.
    pub fields: &'static [&'static [Field]],
}

impl Table {
    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|part| part.iter())
    }

    /// The direct children of `path`; of the object itself when `path` is empty.
    pub fn children<'p>(&self, path: &'p str) -> impl Iterator<Item = &'static Field> + use<'p> {
        let fields = self.fields;
        fields.iter().flat_map(|part| part.iter()).filter(move |field| parent(field.path) == path)
    }

    /// The field at `path`, without regard to case.
    #[must_use]
    pub fn field(&self, path: &str) -> Option<&'static Field> {
        self.iter().find(|field| field.path.eq_ignore_ascii_case(path))
    }
}

/// The path of the object that has the field at `path`. An annotation key, which may have dots, is
/// one step.
pub(super) fn parent(path: &str) -> &str {
    let key = path.find("annotations.fleetwright.dev/").map(|at| at + "annotations".len());
    key.or_else(|| path.rfind('.')).map_or("", |at| &path[..at])
}

/// A field with all parts of its documentation.
pub(super) const fn field(
    path: &'static str,
    type_name: &'static str,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
    example: &'static str,
) -> Field {
    Field { path, type_name, default, allowed, meaning, example }
}

/// An object or list of objects, whose fields are documented one by one.
pub(super) const fn object(path: &'static str, type_name: &'static str, meaning: &'static str) -> Field {
    field(path, type_name, "", "", meaning, "")
}
