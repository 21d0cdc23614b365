//! The parts of a definition around its schema: names, columns of `kubectl get`, subresources.

use serde_json::{Value, json};

use super::part::{Entry, Part, fields, object, text};
use crate::fields::Table;
use crate::legacy::yaml;

#[derive(Debug, Clone)]
pub struct Definition {
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) short_names: &'static [&'static str],
    /// Names of the kind for `fleetwright explain`, in lower case.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) columns: Vec<Column>,
    /// Paths of the desired and the actual number of replicas, for the scale subresource.
    pub(crate) scale: Option<(&'static str, &'static str)>,
    /// `metadata`, `spec` and `status`.
    pub(crate) fields: Vec<Entry>,
    pub(crate) spec_required: bool,
}

/// A column that `kubectl get` prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    path: &'static str,
    type_name: &'static str,
    /// Printed with `-o wide` only.
    wide: bool,
}

/// Whether the object is ready, according to its conditions.
pub(crate) const READY: Column = Column::text("Ready", r#".status.conditions[?(@.type=="Ready")].status"#);

impl Column {
    pub(crate) const AGE: Self =
        Self { name: "Age", path: ".metadata.creationTimestamp", type_name: "date", wide: false };

    pub(crate) const fn text(name: &'static str, path: &'static str) -> Self {
        Self { name, path, type_name: "string", wide: false }
    }

    pub(crate) const fn integer(name: &'static str, path: &'static str) -> Self {
        Self { name, path, type_name: "integer", wide: false }
    }

    pub(crate) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    fn to_value(self) -> Value {
        let mut column = json!({"jsonPath": self.path, "name": self.name});
        if self.wide {
            column["priority"] = json!(1);
        }
        column["type"] = json!(self.type_name);
        column
    }
}

impl Definition {
    /// The kind that the definition defines.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The plural name of the kind in API paths.
    #[must_use]
    pub fn plural(&self) -> String {
        let lower = self.kind.to_ascii_lowercase();
        lower.strip_suffix("class").map_or_else(|| format!("{lower}s"), |stem| format!("{stem}classes"))
    }

    /// Name of the file in `deploy/crds`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}_{}.yaml", self.group, self.plural())
    }

    /// The definition as YAML, for `kubectl apply`.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        yaml::write([&self.to_value()])
    }

    /// The schema of the object, with descriptions. The API server defines `metadata`, and allows no description of it.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut whole = fields! {
            /// Group and version of the kind.
            "apiVersion": text(),
            /// The kind.
            "kind": text(),
            "metadata": Part::of("object"),
        };
        whole.extend(self.fields.iter().filter(|(name, _)| *name != "metadata").cloned());
        let root = object(whole).documented(&[self.meaning]);
        if self.spec_required { root.required(&["spec"]) } else { root }.to_value()
    }

    /// The documentation of the kind's fields.
    #[must_use]
    pub fn table(&self) -> Table {
        Table {
            kind: self.kind,
            short_names: self.aliases,
            api_version: format!("{}/{}", self.group, self.version),
            meaning: self.meaning,
            fields: object(self.fields.clone()).documentation(),
        }
    }

    /// The definition as an object of `apiextensions.k8s.io/v1`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut names = json!({
            "categories": ["karpenter"], "kind": self.kind, "listKind": format!("{}List", self.kind), "plural": self.plural(),
        });
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        names["singular"] = json!(self.kind.to_ascii_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural(), self.group)},
            "spec": {"group": self.group, "names": names, "scope": "Cluster", "versions": [self.version()]},
        })
    }

    fn version(&self) -> Value {
        let columns: Vec<Value> = self.columns.iter().map(|column| column.to_value()).collect();
        let mut subresources = json!({});
        if let Some((wanted, actual)) = self.scale {
            subresources["scale"] = json!({"specReplicasPath": wanted, "statusReplicasPath": actual});
        }
        subresources["status"] = json!({});
        json!({
            "additionalPrinterColumns": columns,
            "name": self.version,
            "schema": {"openAPIV3Schema": self.schema()},
            "served": true,
            "storage": true,
            "subresources": subresources,
        })
    }
}
