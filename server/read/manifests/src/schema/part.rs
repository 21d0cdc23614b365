//! Builder of OpenAPI schemas: one method for each keyword.

use serde_json::{Map, Value, json};

/// A schema, or a part of one.
#[derive(Debug, Clone)]
pub(super) struct Part(Map<String, Value>);

/// A field of an object: its name and its schema.
pub(super) type Entry = (&'static str, Part);

/// `type: string`.
pub(super) fn text() -> Part {
    Part::of("string")
}

/// A string with the values `allowed`.
pub(super) fn one_of(allowed: &[&str]) -> Part {
    text().with("enum", json!(allowed))
}

/// A string with the format `date-time` (RFC 3339).
pub(super) fn moment() -> Part {
    text().with("format", json!("date-time"))
}

/// An integer; `format` is `int32` or `int64`.
pub(super) fn integer(format: &str) -> Part {
    Part::of("integer").with("format", json!(format))
}

/// An integer without a format.
pub(super) fn plain_integer() -> Part {
    Part::of("integer")
}

/// `type: boolean`.
pub(super) fn boolean() -> Part {
    Part::of("boolean")
}

/// A list of items of the schema `item`.
pub(super) fn list(item: Part) -> Part {
    Part::of("array").with("items", item.into_value())
}

/// A list with `x-kubernetes-list-type: atomic`: one field manager owns it as a whole.
pub(super) fn atomic(item: Part) -> Part {
    list(item).list_type("atomic")
}

/// A map with any keys and values of the schema `value`.
pub(super) fn map(value: Part) -> Part {
    Part::of("object").with("additionalProperties", value.into_value())
}

/// An object without a schema of its fields.
pub(super) fn any_object() -> Part {
    Part::of("object")
}

pub(super) fn object(entries: impl IntoIterator<Item = Entry>) -> Part {
    let properties: Map<String, Value> =
        entries.into_iter().map(|(name, part)| (name.to_owned(), part.into_value())).collect();
    Part::of("object").with("properties", Value::Object(properties))
}

impl Part {
    fn of(type_name: &str) -> Self {
        Self(Map::new()).with("type", json!(type_name))
    }

    /// A schema without a type.
    pub(super) fn untyped() -> Self {
        Self(Map::new())
    }

    pub(super) fn with(mut self, keyword: &str, value: Value) -> Self {
        self.0.insert(keyword.to_owned(), value);
        self
    }

    /// Adds `required`: the fields that an object must have.
    pub(super) fn required(self, names: &[&str]) -> Self {
        self.with("required", json!(names))
    }

    /// Adds `default`: the value that an API server stores for an absent field.
    pub(super) fn default(self, value: Value) -> Self {
        self.with("default", value)
    }

    /// Adds `pattern`: the regular expression that a string matches.
    pub(super) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", json!(pattern))
    }

    /// Adds `minimum` and `maximum`, both inclusive.
    pub(super) fn between(self, least: i64, most: i64) -> Self {
        self.at_least(least).with("maximum", json!(most))
    }

    /// Adds `minimum`, inclusive.
    pub(super) fn at_least(self, least: i64) -> Self {
        self.with("minimum", json!(least))
    }

    /// Adds `maxItems`.
    pub(super) fn max_items(self, most: u32) -> Self {
        self.with("maxItems", json!(most))
    }

    /// Adds `maxProperties`.
    pub(super) fn max_entries(self, most: u32) -> Self {
        self.with("maxProperties", json!(most))
    }

    /// Adds `maxLength`, in characters.
    pub(super) fn max_length(self, most: u32) -> Self {
        self.with("maxLength", json!(most))
    }

    /// Adds `minLength`, in characters.
    pub(super) fn min_length(self, least: u32) -> Self {
        self.with("minLength", json!(least))
    }

    /// Adds `x-kubernetes-list-type`: `atomic`, `set` or `map`.
    pub(super) fn list_type(self, kind: &str) -> Self {
        self.with("x-kubernetes-list-type", json!(kind))
    }

    /// Adds `x-kubernetes-map-type`: `atomic` or `granular`.
    pub(super) fn map_type(self, kind: &str) -> Self {
        self.with("x-kubernetes-map-type", json!(kind))
    }

    /// Adds a validation rule in CEL, with the message of a violation.
    pub(super) fn rule(mut self, rule: impl Into<String>, message: impl Into<String>) -> Self {
        let entry = json!({"message": message.into(), "rule": rule.into()});
        let rules = self.0.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(entry);
        }
        self
    }

    /// The schema as JSON.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}
