//! Sources of values: defaults, the file, the environment, flags. Later sources take precedence.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ConfigError, Origin};
use super::keys::{KEYS, Key, Kind, find};

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
    /// [`ConfigError`] when the file cannot be read, is no TOML, or names a key that does not
    /// exist.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let unusable = |why: String| ConfigError::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| unusable(format!("it is no valid TOML: {error}")))?;
        let origin = Origin::File(path.to_owned());
        let mut flat = Vec::new();
        flatten("", &table, &mut flat);
        for (name, value) in flat {
            let key = find(&name).ok_or_else(|| ConfigError::Unknown { origin: origin.clone(), key: name.clone() })?;
            let value = match (key.kind, &value) {
                (Kind::Switch, toml::Value::Boolean(on)) => on.to_string(),
                (Kind::Count, toml::Value::Integer(count)) => count.to_string(),
                (_, toml::Value::String(text)) => text.clone(),
                _ => return Err(unusable(format!("{name} is {value}; write it as in {:?}", key.example))),
            };
            self.add(key, value, origin.clone());
        }
        Ok(())
    }

    /// Applies environment variables. Unknown variables are ignored, whatever their prefix:
    /// Kubernetes defines variables for every Service, and a Service may have the agent's name.
    pub fn add_environment(&mut self, variables: &[(String, String)]) {
        for key in KEYS {
            let variable = key.variable();
            if let Some((_, value)) = variables.iter().find(|(name, _)| *name == variable) {
                self.add(key, value.clone(), Origin::Environment(variable));
            }
        }
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
        parsed.ok_or_else(|| self.invalid(path, "write a duration such as 500ms, 10s or 2m"))
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
}

fn flatten(prefix: &str, table: &toml::Table, flat: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&path, inner, flat),
            other => flat.push((path, other.clone())),
        }
    }
}

/// Reads `500ms`, `10s`, `2m`.
fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}
