//! Layers of values: defaults, file, environment, flags. Later ones override earlier ones.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use controller::FeatureGates;
use model::{BudgetLimit, MicroUsd};

use super::config_key::{ConfigKey, PREFIX};
use super::error::{ConfigError, ConfigErrors};
use super::file;
use super::keys::{KEYS, find};
use super::origin::Origin;
use super::renamed;
use super::value_type::{ValueType, parse_dollars, parse_duration, parse_feature_gates, parse_node_limit, word_of};
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
    /// Errors of the file and the environment.
    errors: Vec<ConfigError>,
}

impl Default for Layers {
    fn default() -> Self {
        let values = KEYS.iter().map(|key| (key.path, (key.default.to_owned(), Origin::Default)));
        Self { values: values.collect(), errors: Vec::new() }
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
        let others = [
            ("store.memory", "true"),
            ("store.database-url", ""),
            ("cloud.provider", "simulated"),
            ("cloud.accounts-file", ""),
        ];
        for (path, value) in listeners.into_iter().chain(others) {
            self.values.insert(path, (value.to_owned(), Origin::Flag(TRIAL_FLAG)));
        }
    }

    /// Adds the values of the configuration file. [`super::Config::resolve`] returns all its errors.
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
        let Some(key) = find(&entry.name) else {
            return self.errors.push(unknown_key(origin, &entry.name));
        };
        let value = match entry.value {
            toml::Value::Integer(number) if matches!(key.kind, ValueType::Number | ValueType::Percent) => {
                number.to_string()
            }
            toml::Value::Integer(dollars) if key.kind == ValueType::Dollars => dollars.to_string(),
            toml::Value::Float(dollars) if key.kind == ValueType::Dollars => dollars.to_string(),
            toml::Value::Boolean(on) if key.kind == ValueType::Boolean => on.to_string(),
            toml::Value::String(text) if !key.kind.is_unquoted() => text,
            // The value may be a secret in the wrong place.
            other => return self.errors.push(ConfigError::wrong_type(origin, key, other.type_str())),
        };
        self.values.insert(key.path, (value, origin));
    }

    /// Adds environment variables; [`EXTERNAL_VARIABLES`] have lower precedence. The variables that
    /// Kubernetes defines for a Service whose name begins as ours are ignored. Another unknown variable
    /// with the prefix `FLEETWRIGHT_` is an error of [`super::Config::resolve`].
    pub fn add_environment(&mut self, ours: BTreeMap<String, String>) {
        for (variable, key) in EXTERNAL_VARIABLES {
            if let Some(value) = ours.get(variable).filter(|value| !value.is_empty()) {
                self.values.insert(key, (value.clone(), Origin::Environment(variable.to_owned())));
            }
        }
        let others = |name: &str| name == FILE_VARIABLE || CLIENT_VARIABLES.contains(&name);
        let is_ours = |name: &str| name.starts_with(PREFIX) && !name.starts_with(AGENT_PREFIX) && !others(name);
        for (variable, value) in ours.into_iter().filter(|(name, _)| is_ours(name)) {
            match KEYS.iter().find(|key| key.variable() == variable) {
                Some(key) => drop(self.values.insert(key.path, (value, Origin::Environment(variable)))),
                None if is_of_service(&variable, &value) => {}
                None => self.errors.push(unknown_variable(&variable)),
            }
        }
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

    /// Verifies that every key exists and every value is valid.
    ///
    /// # Errors
    /// All unknown keys and invalid values.
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = self.errors.clone();
        let invalid = |key: &&ConfigKey| !key.kind.accepts(self.get(key.path).0);
        errors.extend(KEYS.iter().filter(invalid).map(|key| self.refused(key)));
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::of(errors)) }
    }

    pub(super) fn text(&self, path: &str) -> String {
        self.get(path).0.to_owned()
    }

    pub(super) fn optional(&self, path: &str) -> Option<String> {
        Some(self.text(path)).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, path: &'static str) -> Result<u64, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub(super) fn boolean(&self, path: &'static str) -> Result<bool, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub(super) fn address(&self, path: &'static str) -> Result<SocketAddr, ConfigError> {
        self.parsed(path, |value| value.parse().ok())
    }

    pub(super) fn duration(&self, path: &'static str) -> Result<Duration, ConfigError> {
        self.parsed(path, parse_duration)
    }

    pub(super) fn choice(&self, path: &'static str) -> Result<&'static str, ConfigError> {
        self.parsed(path, |value| match find(path)?.kind {
            ValueType::Choice(words) => word_of(words, value),
            _ => None,
        })
    }

    /// `None` when it is unset.
    pub(super) fn node_limit(&self, path: &'static str) -> Result<Option<BudgetLimit>, ConfigError> {
        self.parsed(path, |value| if value.is_empty() { Some(None) } else { parse_node_limit(value).map(Some) })
    }

    pub(super) fn dollars(&self, path: &'static str) -> Result<MicroUsd, ConfigError> {
        self.parsed(path, parse_dollars)
    }

    pub(super) fn feature_gates(&self, path: &'static str) -> Result<FeatureGates, ConfigError> {
        self.parsed(path, parse_feature_gates)
    }

    fn parsed<T>(&self, path: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ConfigError> {
        let (value, origin) = self.get(path);
        parse(value).ok_or_else(|| match find(path) {
            Some(key) => self.refused(key),
            None => unknown_key(origin.clone(), path),
        })
    }

    fn refused(&self, key: &'static ConfigKey) -> ConfigError {
        let (value, origin) = self.get(key.path);
        let value = if key.secret { "(hidden)" } else { value };
        ConfigError::Value {
            origin: origin.clone(),
            key: key.path,
            value: value.to_owned(),
            expected: key.kind.expected(),
        }
    }
}

fn unknown_key(origin: Origin, name: &str) -> ConfigError {
    if let Some(new) = renamed::new_name(name) {
        return ConfigError::Renamed { origin, key: name.to_owned(), new };
    }
    let nearest = suggest::nearest(name, KEYS.iter().map(|key| key.path.to_owned()));
    ConfigError::Unknown { origin, key: name.to_owned(), nearest }
}

fn unknown_variable(name: &str) -> ConfigError {
    let origin = Origin::Environment(name.to_owned());
    if let Some(new) = renamed::new_name(name) {
        return ConfigError::Renamed { origin, key: name.to_owned(), new };
    }
    // The common prefix would make every name similar.
    let ends = KEYS.iter().map(|key| key.variable().trim_start_matches(PREFIX).to_owned());
    let nearest = suggest::nearest(name.trim_start_matches(PREFIX), ends).map(|end| format!("{PREFIX}{end}"));
    ConfigError::Unknown { origin, key: name.to_owned(), nearest }
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
