//! Where values come from: defaults, the file, the environment, flags. Later ones win.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ConfigError;
use super::keys::{KEYS, Key, Kind, find};
use crate::{spelling, telemetry};

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the default.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// The prefix of our environment variables.
const PREFIX: &str = "FLEETWRIGHT_";

/// The prefix of the agent's, which this program leaves alone.
const AGENT_PREFIX: &str = "FLEETWRIGHT_AGENT_";

/// Variables of commands that ask a running server; they are no keys.
const CLIENT_VARIABLES: [&str; 3] = ["FLEETWRIGHT_SERVER", "FLEETWRIGHT_CA_FILE", "FLEETWRIGHT_TOKEN_FILE"];

/// Variables that others have defined, and the keys that they set, below our own.
const FOREIGN: [(&str, &str); 2] =
    [("DATABASE_URL", "store.database-url"), (telemetry::COLLECTOR_VARIABLE, "trace.collector")];

/// `FLEETWRIGHT_CONFIG` names the configuration file; it is no key.
pub(crate) const FILE_VARIABLE: &str = "FLEETWRIGHT_CONFIG";

/// The value of every key, and where it comes from.
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
    /// Lays the file on top.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, is no TOML, or names a key that does not exist.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let file_error = |why: String| ConfigError::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| file_error(error.to_string()))?;
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| file_error(format!("it is no valid TOML: {}", error.message())))?;
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

    /// Lays environment variables on top; [`FOREIGN`] ones below our own.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`] for a variable with our prefix that sets nothing.
    pub fn add_environment(&mut self, variables: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
        let ours: BTreeMap<String, String> = variables.collect();
        for (variable, key) in FOREIGN {
            if let Some(value) = ours.get(variable).filter(|value| !value.is_empty()) {
                self.values.insert(key, (value.clone(), Origin::Environment(variable.to_owned())));
            }
        }
        let others = |name: &str| name == FILE_VARIABLE || CLIENT_VARIABLES.contains(&name);
        let is_key = |name: &str| name.starts_with(PREFIX) && !name.starts_with(AGENT_PREFIX) && !others(name);
        for (variable, value) in ours.into_iter().filter(|(name, _)| is_key(name)) {
            let origin = Origin::Environment(variable.clone());
            let names = || KEYS.iter().map(Key::variable);
            let key = KEYS.iter().find(|key| key.variable() == variable);
            let key = key.ok_or_else(|| unknown(&origin, &variable, names()))?;
            self.values.insert(key.path, (value, origin));
        }
        Ok(())
    }

    /// Lays a flag on top.
    pub fn add_flag(&mut self, key: &'static Key, value: String) {
        self.values.insert(key.path, (value, Origin::Flag(key.flag)));
    }

    /// The value of a key and where it comes from.
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

    pub(super) fn switch(&self, path: &str) -> Result<bool, ConfigError> {
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
            Kind::Choice(words) => words.iter().copied().find(|word| *word == value),
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

/// A TOML value as text, when its type suits the key.
fn as_text(key: &Key, value: &toml::Value) -> Option<String> {
    match (key.kind, value) {
        (Kind::Number, toml::Value::Integer(number)) => Some(number.to_string()),
        (Kind::Switch, toml::Value::Boolean(on)) => Some(on.to_string()),
        (Kind::Number | Kind::Switch, _) => None,
        (_, toml::Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// A duration of the command line.
///
/// # Errors
/// What is allowed.
pub(crate) fn parse_duration_flag(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("{text:?} is not {}", Kind::Duration.expected()))
}

/// Reads `500ms`, `10s`, `2m`, `1h`.
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

/// Reads `a=b,c=d`; nothing at all is no pairs.
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

fn refused(key: &'static Key, value: String, origin: &Origin) -> ConfigError {
    let value = if key.secret { "(hidden)".to_owned() } else { value };
    ConfigError::Value { origin: origin.clone(), key: key.path, value, expected: key.kind.expected() }
}

fn unknown(origin: &Origin, name: &str, known: impl Iterator<Item = String>) -> ConfigError {
    let nearest = spelling::nearest(name, known);
    ConfigError::Unknown { origin: origin.clone(), key: name.to_owned(), nearest }
}
