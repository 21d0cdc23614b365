//! How a schema is written down: one builder call for one keyword of OpenAPI.

use serde_json::{Map, Value, json};

/// A schema, or a part of one.
#[derive(Debug, Clone)]
pub(super) struct Part(Map<String, Value>);

/// A field of an object: its name and its schema.
pub(super) type Entry = (&'static str, Part);

/// A text.
pub(super) fn text() -> Part {
    Part::of("string")
}

/// A text that is one of `allowed`.
pub(super) fn one_of(allowed: &[&str]) -> Part {
    text().with("enum", json!(allowed))
}

/// A moment in RFC 3339.
pub(super) fn moment() -> Part {
    text().with("format", json!("date-time"))
}

/// An integer; `format` is `int32` or `int64`.
pub(super) fn integer(format: &str) -> Part {
    Part::of("integer").with("format", json!(format))
}

/// An integer of no particular width.
pub(super) fn plain_integer() -> Part {
    Part::of("integer")
}

/// Yes or no.
pub(super) fn boolean() -> Part {
    Part::of("boolean")
}

/// A list whose items are all like `item`.
pub(super) fn list(item: Part) -> Part {
    Part::of("array").with("items", item.into_value())
}

/// A list that belongs to one writer as a whole.
pub(super) fn atomic(item: Part) -> Part {
    list(item).list_type("atomic")
}

/// A map from any text to what `value` describes.
pub(super) fn map(value: Part) -> Part {
    Part::of("object").with("additionalProperties", value.into_value())
}

/// An object whose fields are described elsewhere.
pub(super) fn any_object() -> Part {
    Part::of("object")
}

/// An object with these fields.
pub(super) fn object(entries: impl IntoIterator<Item = Entry>) -> Part {
    let properties: Map<String, Value> =
        entries.into_iter().map(|(name, part)| (name.to_owned(), part.into_value())).collect();
    Part::of("object").with("properties", Value::Object(properties))
}

impl Part {
    fn of(type_name: &str) -> Self {
        Self(Map::new()).with("type", json!(type_name))
    }

    /// A part that says nothing about its type.
    pub(super) fn untyped() -> Self {
        Self(Map::new())
    }

    /// This part with one keyword more.
    pub(super) fn with(mut self, keyword: &str, value: Value) -> Self {
        self.0.insert(keyword.to_owned(), value);
        self
    }

    /// Fields that must be there.
    pub(super) fn required(self, names: &[&str]) -> Self {
        self.with("required", json!(names))
    }

    /// What is stored when nothing was sent.
    pub(super) fn default(self, value: Value) -> Self {
        self.with("default", value)
    }

    /// The regular expression that a text matches.
    pub(super) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", json!(pattern))
    }

    /// Bounds of a number, both included.
    pub(super) fn between(self, least: i64, most: i64) -> Self {
        self.at_least(least).with("maximum", json!(most))
    }

    /// The least that a number may be.
    pub(super) fn at_least(self, least: i64) -> Self {
        self.with("minimum", json!(least))
    }

    /// The most items that a list may have.
    pub(super) fn max_items(self, most: u32) -> Self {
        self.with("maxItems", json!(most))
    }

    /// The most entries that a map may have.
    pub(super) fn max_entries(self, most: u32) -> Self {
        self.with("maxProperties", json!(most))
    }

    /// The most characters that a text may have.
    pub(super) fn max_length(self, most: u32) -> Self {
        self.with("maxLength", json!(most))
    }

    /// The fewest characters that a text may have.
    pub(super) fn min_length(self, least: u32) -> Self {
        self.with("minLength", json!(least))
    }

    /// How several writers share a list: `atomic`, `set` or `map`.
    pub(super) fn list_type(self, kind: &str) -> Self {
        self.with("x-kubernetes-list-type", json!(kind))
    }

    /// How several writers share a map: `atomic` or `granular`.
    pub(super) fn map_type(self, kind: &str) -> Self {
        self.with("x-kubernetes-map-type", json!(kind))
    }

    /// A rule in CEL, and the message of its violation.
    pub(super) fn rule(mut self, rule: impl Into<String>, message: impl Into<String>) -> Self {
        let entry = json!({"message": message.into(), "rule": rule.into()});
        let rules = self.0.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(entry);
        }
        self
    }

    /// The schema as it is sent to an API server.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}
