//! Builder of OpenAPI schemas: one method for each keyword, and the documentation of the fields.
//!
//! A [`Part`] is the only definition of a field: the schema of the CustomResourceDefinition and the table of `fleetwright
//! explain` are two printed forms of it.

use serde_json::{Map, Value, json};

use crate::fields::Field;

/// A schema, or a part of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Keywords, except `properties`, `items` and `description`.
    keywords: Map<String, Value>,
    /// The fields of an object, in the order of the documentation.
    fields: Vec<Entry>,
    /// The schema of the items of a list.
    item: Option<Box<Self>>,
    /// The documented type, where it is not that of the schema.
    type_name: &'static str,
    documentation: Documentation,
}

/// A field of an object: its name and its schema.
pub(crate) type Entry = (&'static str, Part);

/// The fields of an object, each with its documentation in a doc comment: the meaning, and then [`SECTIONS`].
macro_rules! fields {
    ($($(#[doc = $line:literal])* $name:literal: $part:expr),* $(,)?) => {
        vec![$(($name, $part.documented(&[$($line),*]))),*]
    };
}
pub(crate) use fields;

/// The meaning of a field; and its default, the allowed values and an example, where they are documented.
#[derive(Debug, Clone, Default)]
struct Documentation([Option<String>; 4]);

/// What begins each section of a documentation. A line with another beginning continues the section above it.
const SECTIONS: [&str; 4] = ["", "Default:", "Allowed:", "Example:"];
const MEANING: usize = 0;
const DEFAULT: usize = 1;
const ALLOWED: usize = 2;
const EXAMPLE: usize = 3;

impl Documentation {
    /// Adds `lines`. A section that exists already is replaced.
    fn amend(&mut self, lines: &[&str]) {
        let mut previous = None;
        for line in lines {
            let line = line.strip_prefix(' ').unwrap_or(line);
            let begun = (DEFAULT..=EXAMPLE).find_map(|section| Some((section, line.strip_prefix(SECTIONS[section])?)));
            let (section, text) = match begun {
                Some((section, rest)) => (section, rest.trim_start()),
                None => (previous.unwrap_or(MEANING), line),
            };
            match &mut self.0[section] {
                Some(before) if previous == Some(section) => {
                    before.push(if section == EXAMPLE { '\n' } else { ' ' });
                    before.push_str(text);
                }
                written => *written = Some(text.to_owned()),
            }
            previous = Some(section);
        }
    }

    fn get(&self, section: usize) -> Option<String> {
        self.0[section].clone()
    }
}

/// `type: string`.
pub(crate) fn text() -> Part {
    Part::of("string")
}

/// A string with the values `allowed`.
pub(crate) fn one_of(allowed: &[&str]) -> Part {
    text().with("enum", json!(allowed))
}

/// A string with the values of the table `allowed`, by which it is read.
pub(crate) fn one_of_table<T>(allowed: &[(&str, T)]) -> Part {
    one_of(&allowed.iter().map(|(name, _)| *name).collect::<Vec<_>>())
}

/// A string with the format `date-time` (RFC 3339).
pub(crate) fn moment() -> Part {
    text().with("format", json!("date-time"))
}

/// An integer; `format` is `int32` or `int64`.
pub(crate) fn integer(format: &str) -> Part {
    plain_integer().with("format", json!(format))
}

/// An integer without a format.
pub(crate) fn plain_integer() -> Part {
    Part::of("integer")
}

pub(crate) fn boolean() -> Part {
    Part::of("boolean")
}

/// A list of items of the schema `item`.
pub(crate) fn list(item: Part) -> Part {
    Part { item: Some(Box::new(item)), ..Part::of("array") }
}

/// A list with `x-kubernetes-list-type: atomic`: one field manager owns it as a whole.
pub(crate) fn atomic(item: Part) -> Part {
    list(item).list_type("atomic")
}

/// A map with any keys and values of the schema `value`.
pub(crate) fn map(value: Part) -> Part {
    Part::of("object").with("additionalProperties", value.to_value())
}

/// Pattern of a quantity of Kubernetes.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A map of quantities by resource name.
pub(crate) fn resources() -> Part {
    let amount = Part::default()
        .with("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
        .pattern(QUANTITY)
        .with("x-kubernetes-int-or-string", json!(true));
    map(amount)
}

pub(crate) fn object(fields: Vec<Entry>) -> Part {
    Part::of("object").with_fields(fields)
}

impl Part {
    pub(crate) fn of(type_name: &str) -> Self {
        Self::default().with("type", json!(type_name))
    }

    pub(crate) fn with(mut self, keyword: &str, value: Value) -> Self {
        self.keywords.insert(keyword.to_owned(), value);
        self
    }

    pub(crate) fn with_fields(mut self, fields: Vec<Entry>) -> Self {
        self.fields = fields;
        self
    }

    /// Adds `required`: the fields that an object must have.
    pub(crate) fn required(self, names: &[&str]) -> Self {
        self.with("required", json!(names))
    }

    /// Adds `default`: the value that an API server stores for an absent field.
    pub(crate) fn default_value(self, value: Value) -> Self {
        self.with("default", value)
    }

    /// Adds `pattern`: the regular expression that a string matches.
    pub(crate) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", json!(pattern))
    }

    /// Adds `minimum` and `maximum`, both inclusive.
    pub(crate) fn between(self, least: i64, most: i64) -> Self {
        self.at_least(least).with("maximum", json!(most))
    }

    /// Adds `minimum`, inclusive.
    pub(crate) fn at_least(self, least: i64) -> Self {
        self.with("minimum", json!(least))
    }

    pub(crate) fn max_items(self, most: usize) -> Self {
        self.with("maxItems", json!(most))
    }

    /// Adds `maxProperties`.
    pub(crate) fn max_entries(self, most: usize) -> Self {
        self.with("maxProperties", json!(most))
    }

    /// Adds `maxLength`, in characters.
    pub(crate) fn max_length(self, most: usize) -> Self {
        self.with("maxLength", json!(most))
    }

    /// Adds `minLength`, in characters.
    pub(crate) fn min_length(self, least: usize) -> Self {
        self.with("minLength", json!(least))
    }

    /// Adds `x-kubernetes-list-type`: `atomic`, `set` or `map`.
    pub(crate) fn list_type(self, kind: &str) -> Self {
        self.with("x-kubernetes-list-type", json!(kind))
    }

    /// Adds `x-kubernetes-list-type: map`: one entry for each value of `key`.
    pub(crate) fn keyed(self, key: &str) -> Self {
        self.with("x-kubernetes-list-map-keys", json!([key])).list_type("map")
    }

    /// Adds `x-kubernetes-map-type`: `atomic` or `granular`.
    pub(crate) fn map_type(self, kind: &str) -> Self {
        self.with("x-kubernetes-map-type", json!(kind))
    }

    /// Adds a validation rule in CEL, with the message of a violation.
    pub(crate) fn rule(mut self, rule: impl Into<String>, message: impl Into<String>) -> Self {
        let entry = json!({"message": message.into(), "rule": rule.into()});
        let rules = self.keywords.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(entry);
        }
        self
    }

    /// Documents another type than that of the schema.
    pub(crate) fn type_name(self, type_name: &'static str) -> Self {
        Self { type_name, ..self }
    }

    /// Adds the lines of a documentation.
    pub(crate) fn documented(mut self, lines: &[&str]) -> Self {
        self.documentation.amend(lines);
        self
    }

    /// Replaces sections in the documentation of `field`, which a shared schema has, of this object or of the items of
    /// this list.
    pub(crate) fn field_documented(mut self, field: &str, lines: &[&str]) -> Self {
        let object = self.item.as_deref_mut().map_or(&mut self.fields, |item| &mut item.fields);
        for (_, part) in object.iter_mut().filter(|(name, _)| *name == field) {
            part.documentation.amend(lines);
        }
        self
    }

    /// The schema as JSON, with the meaning of each field as its description.
    pub(super) fn to_value(&self) -> Value {
        let mut schema = Map::new();
        if let Some(meaning) = self.documentation.get(MEANING) {
            schema.insert("description".to_owned(), json!(meaning));
        }
        for (keyword, value) in &self.keywords {
            schema.insert(keyword.clone(), value.clone());
            if keyword == "type" && !self.fields.is_empty() {
                let mut fields: Vec<&Entry> = self.fields.iter().collect();
                // The order of the published definitions.
                fields.sort_by_key(|(name, _)| (*name == "minValues", *name));
                let properties = fields.into_iter().map(|(name, part)| ((*name).to_owned(), part.to_value()));
                schema.insert("properties".to_owned(), Value::Object(properties.collect()));
            } else if let Some(item) = self.item.as_ref().filter(|_| keyword == "type") {
                schema.insert("items".to_owned(), item.to_value());
            }
        }
        Value::Object(schema)
    }

    /// The documentation of all fields, every parent before its children.
    pub(crate) fn documentation(&self) -> Vec<Field> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect(&self, path: &str, found: &mut Vec<Field>) {
        for (name, part) in &self.item.as_deref().unwrap_or(self).fields {
            let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            found.push(part.field(path.clone()));
            part.collect(&path, found);
        }
    }

    /// The documentation of this part as the field at `path`. What is not documented follows from the schema.
    fn field(&self, path: String) -> Field {
        let documented = |section| self.documentation.get(section);
        Field {
            path,
            type_name: self.documented_type(),
            default: documented(DEFAULT).or_else(|| self.scalar_default()).unwrap_or_default(),
            allowed: documented(ALLOWED).or_else(|| self.bounds()).unwrap_or_default(),
            meaning: documented(MEANING).unwrap_or_default(),
            example: documented(EXAMPLE).unwrap_or_default(),
        }
    }

    fn documented_type(&self) -> String {
        let keyword = |name| self.keywords.get(name);
        match (&self.item, keyword("additionalProperties"), keyword("type").and_then(Value::as_str)) {
            _ if !self.type_name.is_empty() => self.type_name.to_owned(),
            (Some(item), ..) => format!("[]{}", item.documented_type()),
            (_, Some(value), _) => format!("map[string]{}", value["type"].as_str().unwrap_or("Quantity")),
            (.., Some("object")) => "Object".to_owned(),
            (.., name) => name.unwrap_or_default().to_owned(),
        }
    }

    fn scalar_default(&self) -> Option<String> {
        match self.keywords.get("default")? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The values that `enum`, `minimum`, `maximum` and `format` allow.
    fn bounds(&self) -> Option<String> {
        let keyword = |name| self.keywords.get(name);
        let allowed = keyword("enum").or_else(|| self.item.as_ref()?.keywords.get("enum"));
        if let Some(allowed) = allowed.and_then(Value::as_array) {
            return Some(allowed.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
        }
        if keyword("format").is_some_and(|format| format == "date-time") {
            return Some("a date and time".to_owned());
        }
        let least = keyword("minimum")?;
        Some(keyword("maximum").map_or_else(|| format!("{least} or more"), |most| format!("{least} to {most}")))
    }
}
