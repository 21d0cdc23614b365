//! Errors of the configuration, and the origins of values that they name.

use std::fmt;
use std::path::PathBuf;

use crate::Key;

/// Where the value of a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default of the key.
    Default,
    /// The configuration file.
    File {
        path: PathBuf,
        /// Line of the key, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A command-line flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// Configuration error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConfigError {
    /// The file is unreadable or not TOML.
    #[error("configuration file {}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("{origin}: there is no key {key:?}; {suggestion}")]
    Unknown {
        origin: Origin,
        /// The key or variable, as written.
        key: String,
        /// The known one with the most similar spelling, or where all are listed.
        suggestion: String,
    },
    #[error("{origin}: there is no key {key:?} any more; its name is {new:?} now")]
    Renamed { origin: Origin, key: String, new: String },
    /// A key without a default and without a value.
    #[error("{} is not set; use --{}, {} or `{} = \"…\"` in the configuration file", .0.path, .0.flag, .0.variable(), .0.path)]
    Missing(&'static Key),
    /// Values that exclude each other.
    #[error("configuration: {0}")]
    Conflict(String),
    /// An error with a text of its own.
    #[error("{0}")]
    Other(String),
    /// A value in the file that has another TOML type than the key.
    #[error("{origin}: {key} has a value of type {found}; write {expected}, as in `{example}`")]
    WrongType {
        origin: Origin,
        key: &'static str,
        /// TOML type of the value. The value itself may be a secret in the wrong place.
        found: &'static str,
        /// Description of the valid values.
        expected: String,
        /// A valid line of the file.
        example: String,
    },
    #[error("{origin}: {key} is {value:?}; {rule}")]
    Value {
        origin: Origin,
        key: &'static str,
        value: String,
        /// What to write instead.
        rule: String,
    },
}

impl ConfigError {
    /// The error of a value whose TOML type is `found`.
    pub(crate) fn wrong_type(origin: Origin, key: &'static Key, found: &'static str) -> Self {
        let name = key.path.rsplit('.').next().unwrap_or(key.path);
        let value = match key.kind.is_unquoted() {
            true => key.example.to_owned(),
            false => toml::Value::from(key.example).to_string(),
        };
        Self::WrongType {
            origin,
            key: key.path,
            found,
            expected: key.kind.expected(),
            example: format!("{name} = {value}"),
        }
    }
}

/// All errors of a configuration, at least one.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.messages().join("\n"))]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(crate) fn of(errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// The text of each error.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}
