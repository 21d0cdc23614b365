//! Layers of values: defaults, file, environment, flags. Later ones override earlier ones.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{ConfigError, ConfigErrors, Origin};
use crate::file;
use crate::key::{Key, Schema};
use crate::suggest::nearest;
use crate::value_type::{ValueType, parse_duration, word_of};

/// Value and source of every key.
#[derive(Debug, Clone)]
pub struct Layers {
    schema: &'static Schema,
    values: BTreeMap<&'static str, (String, Origin)>,
    /// Errors of the file and the environment.
    errors: Vec<ConfigError>,
}

impl Layers {
    /// The defaults of all keys.
    #[must_use]
    pub fn new(schema: &'static Schema) -> Self {
        let values = schema.keys.iter().map(|key| (key.path, (key.default.to_owned(), Origin::Default)));
        Self { schema, values: values.collect(), errors: Vec::new() }
    }

    /// Adds the values of the configuration file. [`Layers::check`] returns all its errors.
    pub fn add_file(&mut self, path: &Path) {
        let unusable = |why: String| ConfigError::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()));
        match text.and_then(|text| file::entries(&text).map_err(unusable)) {
            Ok(entries) => entries.into_iter().for_each(|entry| self.add_entry(path, entry)),
            Err(error) => self.errors.push(error),
        }
    }

    fn add_entry(&mut self, path: &Path, entry: file::Entry) {
        let origin = Origin::File { path: path.to_owned(), line: entry.line };
        let Some(key) = self.schema.find(&entry.name) else {
            let paths = self.schema.keys.iter().map(|key| key.path.to_owned());
            return self.add_unknown(origin, &entry.name, nearest(&entry.name, paths));
        };
        let (dollars, integer) = (matches!(key.kind, ValueType::Dollars), key.kind.is_integer());
        let value = match entry.value {
            toml::Value::Integer(number) if integer || dollars => number.to_string(),
            toml::Value::Float(number) if dollars => number.to_string(),
            toml::Value::Boolean(on) if matches!(key.kind, ValueType::Boolean) => on.to_string(),
            toml::Value::String(text) if self.schema.permits_quotes || !key.kind.is_unquoted() => text,
            other => return self.errors.push(ConfigError::wrong_type(origin, key, other.type_str())),
        };
        self.set(key.path, value, origin);
    }

    /// Adds environment variables. The variables that Kubernetes defines for a Service whose name
    /// begins as the program's are ignored. Another unknown variable with the program's prefix is an
    /// error of [`Layers::check`].
    pub fn add_environment(&mut self, variables: BTreeMap<String, String>) {
        for (variable, path) in self.schema.external_variables {
            if let Some(value) = variables.get(*variable).filter(|value| !value.is_empty()) {
                self.set(path, value.clone(), Origin::Environment((*variable).to_owned()));
            }
        }
        let mut known = Vec::new();
        for key in self.schema.keys {
            for flag in self.schema.former_flags_of(key.path).chain([key.flag]) {
                let variable = key.variable_of(flag);
                if let Some(value) = variables.get(&variable) {
                    self.set(key.path, value.clone(), Origin::Environment(variable.clone()));
                }
                known.push(variable);
            }
        }
        let is_of_others = |name: &str| {
            self.schema
                .other_variables
                .iter()
                .any(|other| name == *other || (other.ends_with('_') && name.starts_with(other)))
        };
        let is_unknown = |(name, value): &(&String, &String)| {
            name.starts_with(self.schema.prefix)
                && !known.contains(name)
                && !is_of_others(name)
                && !is_of_service(name, value)
        };
        let unknown: Vec<&String> = variables.iter().filter(is_unknown).map(|(name, _)| name).collect();
        for name in unknown {
            // The common prefix would make every name similar.
            let prefix = self.schema.prefix;
            let ends = self.schema.keys.iter().map(|key| key.variable().trim_start_matches(prefix).to_owned());
            let nearest = nearest(name.trim_start_matches(prefix), ends).map(|end| format!("{prefix}{end}"));
            self.add_unknown(Origin::Environment(name.clone()), name, nearest);
        }
    }

    fn add_unknown(&mut self, origin: Origin, name: &str, nearest: Option<String>) {
        let key = name.to_owned();
        let error = match (self.schema.new_name(name), nearest) {
            (Some(new), _) => ConfigError::Renamed { origin, key, new },
            (None, Some(nearest)) => {
                ConfigError::Unknown { origin, key, suggestion: format!("did you mean {nearest:?}?") }
            }
            (None, None) => {
                let suggestion = format!("{} lists every key", self.schema.all_keys);
                ConfigError::Unknown { origin, key, suggestion }
            }
        };
        self.errors.push(error);
    }

    /// Adds a flag.
    pub fn add_flag(&mut self, key: &'static Key, value: String) {
        self.set(key.path, value, Origin::Flag(key.flag));
    }

    /// Sets the key with this path.
    pub fn set(&mut self, path: &'static str, value: String, origin: Origin) {
        self.values.insert(path, (value, origin));
    }

    /// Value of a key and its source.
    #[must_use]
    pub fn get(&self, path: &str) -> (&str, &Origin) {
        self.values.get(path).map_or(("", &Origin::Default), |(value, origin)| (value.as_str(), origin))
    }

    /// Verifies that the file could be read, and that every key of it and every variable exists.
    ///
    /// # Errors
    /// All errors of the file, and all unknown keys.
    pub fn check_names(&self) -> Result<(), ConfigErrors> {
        ConfigErrors::of(self.errors.clone())
    }

    /// Verifies that every key exists and every value is valid.
    ///
    /// # Errors
    /// All unknown keys and invalid values.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let invalid = self.schema.keys.iter().filter(|key| !key.accepts(self.get(key.path).0));
        ConfigErrors::of(self.errors.iter().cloned().chain(invalid.map(|key| self.refused(key))).collect())
    }

    #[must_use]
    pub fn text(&self, path: &str) -> String {
        self.get(path).0.to_owned()
    }

    /// `None` when it is unset, as for the functions below.
    #[must_use]
    pub fn optional(&self, path: &str) -> Option<String> {
        Some(self.text(path)).filter(|value| !value.is_empty())
    }

    #[must_use]
    pub fn path(&self, path: &str) -> Option<PathBuf> {
        self.optional(path).map(PathBuf::from)
    }

    pub fn optional_address(&self, path: &'static str) -> Result<Option<SocketAddr>, ConfigError> {
        self.optional(path).map(|_| self.address(path)).transpose()
    }

    /// # Errors
    /// The key is unset.
    pub fn required(&self, path: &'static str) -> Result<String, ConfigError> {
        self.optional(path)
            .ok_or_else(|| self.schema.find(path).map_or_else(|| no_such_key(path), ConfigError::Missing))
    }

    pub fn number(&self, path: &'static str) -> Result<u64, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub fn boolean(&self, path: &'static str) -> Result<bool, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub fn address(&self, path: &'static str) -> Result<SocketAddr, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub fn duration(&self, path: &'static str) -> Result<Duration, ConfigError> {
        self.parsed(path, parse_duration)
    }

    pub fn choice(&self, path: &'static str) -> Result<&'static str, ConfigError> {
        self.parsed(path, |value| match self.schema.find(path)?.kind {
            ValueType::Choice(words) => word_of(words, value),
            _ => None,
        })
    }

    /// # Errors
    /// The value, where `parse` returns nothing; as for the functions above.
    pub fn parsed<T>(&self, path: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ConfigError> {
        let refused = || self.schema.find(path).map_or_else(|| no_such_key(path), |key| self.refused(key));
        parse(self.get(path).0).ok_or_else(refused)
    }

    fn refused(&self, key: &'static Key) -> ConfigError {
        let rule = format!("write {}", key.kind.expected());
        if key.secret { self.invalid_secret(key.path, &rule) } else { self.invalid(key.path, &rule) }
    }

    /// The error of a value that breaks `rule`.
    #[must_use]
    pub fn invalid(&self, path: &'static str, rule: &str) -> ConfigError {
        self.broken_rule(path, self.get(path).0, rule)
    }

    /// The same without the value.
    #[must_use]
    pub fn invalid_secret(&self, path: &'static str, rule: &str) -> ConfigError {
        self.broken_rule(path, "(hidden)", rule)
    }

    fn broken_rule(&self, key: &'static str, value: &str, rule: &str) -> ConfigError {
        let origin = self.get(key).1.clone();
        ConfigError::Value { origin, key, value: value.to_owned(), rule: rule.to_owned() }
    }
}

/// A program that asks for a key that it has not.
fn no_such_key(path: &str) -> ConfigError {
    ConfigError::Other(format!("there is no key {path:?}"))
}

/// Whether Kubernetes defines this variable for a Service (Kubernetes: "Service", environment
/// variables).
fn is_of_service(name: &str, value: &str) -> bool {
    let is_port = ["_ADDR", "_PORT", "_PROTO"]
        .iter()
        .filter_map(|end| name.strip_suffix(end))
        .any(|port| ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| port.ends_with(protocol)));
    let is_url = value.contains("://") && (name.ends_with("_PORT") || name.contains("_PORT_"));
    let is_address = name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT");
    is_port || is_url || is_address || name.contains("_SERVICE_PORT_")
}

/// The effective configuration as a configuration file, with the source of each value. Secrets are
/// hidden.
#[must_use]
pub fn print(layers: &Layers) -> String {
    let mut text = String::new();
    let mut open = "";
    for key in layers.schema.keys {
        let (table, name) = key.path.split_once('.').unwrap_or(("", key.path));
        if table != open {
            let separator = if text.is_empty() { "" } else { "\n" };
            let _infallible = writeln!(text, "{separator}[{table}]");
            open = table;
        }
        let (value, origin) = layers.get(key.path);
        let _infallible = match value {
            "" => writeln!(text, "# {name} is not set"),
            _ if key.secret => writeln!(text, "{name} = \"(hidden)\" # {origin}"),
            value if key.kind.is_unquoted() => writeln!(text, "{name} = {value} # {origin}"),
            value => writeln!(text, "{name} = {} # {origin}", toml::Value::from(value)),
        };
    }
    text
}
