//! Layers of values: defaults, file, environment, flags. Later ones override earlier ones.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::error::ConfigError;
use super::keys::{ConfigKey, KEYS, PREFIX, ValueType, find};
use super::origin::Origin;
use super::renamed;
use crate::{suggest, telemetry};

/// Prefix of the agent's environment variables, which the server ignores.
const AGENT_PREFIX: &str = "FLEETWRIGHT_AGENT_";

/// Variables of client commands; not keys.
const CLIENT_VARIABLES: [&str; 3] = ["FLEETWRIGHT_SERVER", "FLEETWRIGHT_CA_FILE", "FLEETWRIGHT_TOKEN_FILE"];

/// Conventional variables of other projects and the keys that they set, with lower precedence than
/// `FLEETWRIGHT_*`.
const EXTERNAL_VARIABLES: [(&str, &str); 2] =
    [("DATABASE_URL", "store.database-url"), (telemetry::COLLECTOR_VARIABLE, "trace.collector")];

/// The flag of `serve` that sets what a trial needs.
pub const TRIAL_FLAG: &str = "dev";

/// `FLEETWRIGHT_CONFIG` names the configuration file; not a key.
pub const FILE_VARIABLE: &str = "FLEETWRIGHT_CONFIG";

/// Value and source of every key.
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
    /// Has a local PostgreSQL store its data where a user without the rights of root can write: in
    /// the state folder of the XDG base directories. `variables` are those of the environment.
    pub fn use_state_folder_of_user(&mut self, variables: &BTreeMap<String, String>) {
        let folder = |name: &str| variables.get(name).filter(|path| path.starts_with('/'));
        let state = folder("XDG_STATE_HOME").cloned().or_else(|| Some(format!("{}/.local/state", folder("HOME")?)));
        if let Some(state) = state {
            self.values.insert("store.data-dir", (format!("{state}/fleetwright"), Origin::Default));
        }
    }

    /// Sets what a trial needs, whatever the file and the environment say: state in memory, the
    /// simulated cloud, and listeners that only this host can reach.
    pub fn add_trial(&mut self) {
        let default = |path: &'static str| (path, find(path).map_or("", |key| key.default));
        let listeners = [default("listen.grpc"), default("listen.http")];
        let others = [("store.memory", "true"), ("store.database-url", ""), ("cloud.provider", "simulated")];
        for (path, value) in listeners.into_iter().chain(others) {
            self.values.insert(path, (value.to_owned(), Origin::Flag(TRIAL_FLAG)));
        }
    }

    /// Adds the values of the configuration file.
    ///
    /// # Errors
    /// [`ConfigError`] when the file is unreadable, not TOML, or has an unknown key.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let file_error = |why: String| ConfigError::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| file_error(error.to_string()))?;
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| file_error(format!("not valid TOML: {}", error.message())))?;
        let origin = Origin::File(path.to_owned());
        let mut flat = Vec::new();
        flatten("", &table, &mut flat);
        for (name, value) in flat {
            let key = find(&name).ok_or_else(|| unknown(&origin, &name, KEYS.iter().map(|key| key.path.to_owned())))?;
            let text = as_text(key, &value).ok_or_else(|| refused(key, value.to_string(), &origin))?;
            self.values.insert(key.path, (text, origin.clone()));
        }
        Ok(())
    }

    /// Adds environment variables; [`EXTERNAL_VARIABLES`] have lower precedence.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`] for an unknown variable with the prefix `FLEETWRIGHT_`.
    pub fn add_environment(&mut self, ours: BTreeMap<String, String>) -> Result<(), ConfigError> {
        for (variable, key) in EXTERNAL_VARIABLES {
            if let Some(value) = ours.get(variable).filter(|value| !value.is_empty()) {
                self.values.insert(key, (value.clone(), Origin::Environment(variable.to_owned())));
            }
        }
        let others = |name: &str| name == FILE_VARIABLE || CLIENT_VARIABLES.contains(&name);
        let is_key = |name: &str| name.starts_with(PREFIX) && !name.starts_with(AGENT_PREFIX) && !others(name);
        for (variable, value) in ours.into_iter().filter(|(name, _)| is_key(name)) {
            let origin = Origin::Environment(variable.clone());
            let names = || KEYS.iter().map(ConfigKey::variable);
            let key = KEYS.iter().find(|key| key.variable() == variable);
            let key = key.ok_or_else(|| unknown(&origin, &variable, names()))?;
            self.values.insert(key.path, (value, origin));
        }
        Ok(())
    }

    /// Adds a flag.
    pub fn add_flag(&mut self, key: &'static ConfigKey, value: String) {
        self.values.insert(key.path, (value, Origin::Flag(key.flag)));
    }

    /// Value of a key and its source.
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

    pub(super) fn number(&self, path: &str) -> Result<u64, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub(super) fn boolean(&self, path: &str) -> Result<bool, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub(super) fn address(&self, path: &str) -> Result<SocketAddr, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub(super) fn duration(&self, path: &str) -> Result<Duration, ConfigError> {
        self.parsed(path, parse_duration)
    }

    pub(super) fn choice(&self, path: &str) -> Result<&'static str, ConfigError> {
        self.parsed(path, |value| match find(path)?.kind {
            ValueType::Choice(words) => words.iter().copied().find(|word| *word == value),
            _ => None,
        })
    }

    pub(super) fn pairs(&self, path: &str) -> Result<BTreeMap<String, String>, ConfigError> {
        self.parsed(path, parse_pairs)
    }

    fn parsed<T>(&self, path: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ConfigError> {
        let (value, origin) = self.get(path);
        parse(value).ok_or_else(|| match find(path) {
            Some(key) => refused(key, value.to_owned(), origin),
            None => unknown(origin, path, std::iter::empty()),
        })
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

/// A TOML value as text, when its type matches the key.
fn as_text(key: &ConfigKey, value: &toml::Value) -> Option<String> {
    match (key.kind, value) {
        (ValueType::Number, toml::Value::Integer(number)) => Some(number.to_string()),
        (ValueType::Boolean, toml::Value::Boolean(on)) => Some(on.to_string()),
        (ValueType::Number | ValueType::Boolean, _) => None,
        (_, toml::Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Parses a duration of the command line.
///
/// # Errors
/// The valid format.
pub fn parse_duration_flag(text: &str) -> Result<Duration, InvalidDuration> {
    parse_duration(text).ok_or_else(|| InvalidDuration(text.to_owned()))
}

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not {expected}", expected = ValueType::Duration.expected())]
pub struct InvalidDuration(String);

/// Parses `500ms`, `10s`, `2m`, `1h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// Parses `a=b,c=d`; an empty text has no pairs.
fn parse_pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        let (name, value) = pair.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())?;
        if pairs.insert(name.to_owned(), value.to_owned()).is_some() {
            return None;
        }
    }
    Some(pairs)
}

fn refused(key: &'static ConfigKey, value: String, origin: &Origin) -> ConfigError {
    let value = if key.secret { "(hidden)".to_owned() } else { value };
    ConfigError::Value { origin: origin.clone(), key: key.path, value, expected: key.kind.expected() }
}

fn unknown(origin: &Origin, name: &str, known: impl Iterator<Item = String>) -> ConfigError {
    if let Some(new) = renamed::new_name(name) {
        return ConfigError::Renamed { origin: origin.clone(), key: name.to_owned(), new };
    }
    let nearest = suggest::nearest(name, known);
    ConfigError::Unknown { origin: origin.clone(), key: name.to_owned(), nearest }
}
