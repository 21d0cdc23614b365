//! Sources of values: defaults, the file, the environment, flags. Later sources take precedence.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ConfigError, Origin};
use super::keys::{FILE_VARIABLE, KEYS, Key, Kind, PREFIX, find, variable_of};
use super::{file, former, suggest};

/// The value and the origin of every key.
#[derive(Debug, Clone)]
pub struct Layers {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Default for Layers {
    fn default() -> Self {
        let values = KEYS.iter().map(|key| (key.path, (key.default.to_owned(), Origin::Default)));
        Self { values: values.collect() }
    }
}

impl Layers {
    /// Applies the file.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, is no TOML, names a key that does not exist, or
    /// has a value of another type.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let unusable = |why: String| ConfigError::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        for entry in file::entries(&text).map_err(unusable)? {
            let origin = Origin::File { path: path.to_owned(), line: entry.line };
            let Some(key) = find(&entry.name) else {
                let known: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
                let nearest = suggest::nearest(&entry.name, &known).map(str::to_owned);
                return Err(ConfigError::Unknown { origin, key: entry.name, nearest });
            };
            let value = match (key.kind, entry.value) {
                (Kind::Switch, toml::Value::Boolean(on)) => on.to_string(),
                (Kind::Count, toml::Value::Integer(count)) => count.to_string(),
                (_, toml::Value::String(text)) => text,
                // The value may be a secret in the wrong place.
                (_, other) => {
                    let (path, found, example) = (key.path, other.type_str(), key.example);
                    let why =
                        format!("line {}: {path} has a value of type {found}; write it as in {example:?}", entry.line);
                    return Err(unusable(why));
                }
            };
            self.add(key, value, origin);
        }
        Ok(())
    }

    /// Applies environment variables. The variables that Kubernetes defines for a Service whose name
    /// begins as the agent's are ignored.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`] for another variable with the agent's prefix that sets no key.
    pub fn add_environment(&mut self, variables: &[(String, String)]) -> Result<(), ConfigError> {
        let value_of = |name: &str| Some(variables.iter().find(|(variable, _)| variable == name)?.1.clone());
        let mut known = vec![FILE_VARIABLE.to_owned()];
        for key in KEYS {
            for variable in former::flags(key.path).map(variable_of).chain([key.variable()]) {
                if let Some(value) = value_of(&variable) {
                    self.add(key, value, Origin::Environment(variable.clone()));
                }
                known.push(variable);
            }
        }
        let unknown = variables
            .iter()
            .find(|(name, value)| name.starts_with(PREFIX) && !known.contains(name) && !is_of_service(name, value));
        unknown.map_or(Ok(()), |(name, _)| Err(unknown_variable(name)))
    }

    /// Applies one value.
    pub fn add(&mut self, key: &'static Key, value: String, origin: Origin) {
        self.values.insert(key.path, (value, origin));
    }

    /// The value of a key and its origin.
    #[must_use]
    pub fn get(&self, path: &str) -> (&str, &Origin) {
        self.values.get(path).map_or(("", &Origin::Default), |(value, origin)| (value.as_str(), origin))
    }

    pub(super) fn text(&self, path: &str) -> String {
        self.get(path).0.to_owned()
    }

    pub(super) fn optional(&self, path: &str) -> Option<String> {
        Some(self.text(path)).filter(|value| !value.is_empty())
    }

    pub(super) fn path(&self, path: &str) -> Option<PathBuf> {
        self.optional(path).map(PathBuf::from)
    }

    pub(super) fn required(&self, path: &'static str) -> Result<String, ConfigError> {
        let key = find(path);
        self.optional(path).ok_or_else(|| ConfigError::Missing {
            key: path,
            flag: key.map_or("", |key| key.flag),
            variable: key.map(Key::variable).unwrap_or_default(),
        })
    }

    pub(super) fn duration(&self, path: &'static str) -> Result<Duration, ConfigError> {
        let parsed = parse_duration(self.get(path).0);
        parsed.ok_or_else(|| self.invalid(path, "write a duration such as 500ms, 10s, 2m, 1h or 1d"))
    }

    pub(super) fn count(&self, path: &'static str) -> Result<usize, ConfigError> {
        self.get(path).0.parse().map_err(|_| self.invalid(path, "write a whole number, such as 200"))
    }

    pub(super) fn address(&self, path: &'static str) -> Result<Option<SocketAddr>, ConfigError> {
        let parse = |text: String| {
            text.parse().map_err(|_| self.invalid(path, "write an address and a port, such as 0.0.0.0:7460"))
        };
        self.optional(path).map(parse).transpose()
    }

    pub(super) fn switch(&self, path: &'static str) -> Result<bool, ConfigError> {
        self.get(path).0.parse().map_err(|_| self.invalid(path, "write true or false"))
    }

    pub(super) fn invalid(&self, path: &'static str, allowed: &str) -> ConfigError {
        let (value, origin) = self.get(path);
        ConfigError::Invalid { origin: origin.clone(), key: path, value: value.to_owned(), allowed: allowed.to_owned() }
    }

    /// The same without the value.
    pub(super) fn invalid_secret(&self, path: &'static str, allowed: &str) -> ConfigError {
        let origin = self.get(path).1.clone();
        ConfigError::Invalid { origin, key: path, value: "(hidden)".to_owned(), allowed: allowed.to_owned() }
    }
}

fn unknown_variable(name: &str) -> ConfigError {
    let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
    // The common prefix would make every name similar.
    let ends: Vec<&str> = known.iter().filter_map(|variable| variable.strip_prefix(PREFIX)).collect();
    let nearest = suggest::nearest(name.trim_start_matches(PREFIX), &ends).map(|end| format!("{PREFIX}{end}"));
    ConfigError::Unknown { origin: Origin::Environment(name.to_owned()), key: name.to_owned(), nearest }
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

/// Reads `500ms`, `10s`, `2m`, `1h`, `1d`.
fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}
