//! The parts of a definition around its schema: names, columns of `kubectl get`, subresources.

use serde_json::{Value, json};

use super::describe::described;
use super::part::{Part, any_object, object, text};
use crate::fields::{TABLES, Table};
use crate::legacy::yaml;

#[derive(Debug, Clone)]
pub struct Definition {
    pub(super) kind: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) columns: Vec<Column>,
    /// Paths of the desired and the actual number of replicas, for the scale subresource.
    pub(super) scale: Option<(&'static str, &'static str)>,
    pub(super) spec: Part,
    pub(super) status: Part,
    pub(super) spec_required: bool,
}

/// A column that `kubectl get` prints.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    name: &'static str,
    path: &'static str,
    type_name: &'static str,
    /// Printed with `-o wide` only.
    wide: bool,
}

/// Whether the object is ready, according to its conditions.
pub(super) const READY: Column = Column::text("Ready", r#".status.conditions[?(@.type=="Ready")].status"#);

impl Column {
    pub(super) const AGE: Self =
        Self { name: "Age", path: ".metadata.creationTimestamp", type_name: "date", wide: false };

    pub(super) const fn text(name: &'static str, path: &'static str) -> Self {
        Self { name, path, type_name: "string", wide: false }
    }

    pub(super) const fn integer(name: &'static str, path: &'static str) -> Self {
        Self { name, path, type_name: "integer", wide: false }
    }

    pub(super) const fn wide(self) -> Self {
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

    /// The schema of the object, with descriptions.
    #[must_use]
    pub fn schema(&self) -> Value {
        let root = object([
            ("apiVersion", text()),
            ("kind", text()),
            ("metadata", any_object()),
            ("spec", self.spec.clone()),
            ("status", self.status.clone()),
        ]);
        let root = if self.spec_required { root.required(&["spec"]) } else { root };
        match self.table() {
            Some(table) => described(root.into_value(), table),
            None => root.into_value(),
        }
    }

    /// The documentation of the kind's fields.
    fn table(&self) -> Option<&'static Table> {
        TABLES.iter().find(|table| table.kind == self.kind)
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
