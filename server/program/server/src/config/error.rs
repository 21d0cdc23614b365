//! Errors of the configuration.

use std::path::PathBuf;

use super::keys::ConfigKey;
use super::origin::Origin;

/// Configuration error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConfigError {
    /// The file is unreadable or not TOML.
    #[error("configuration file {}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        why: String,
    },
    /// Unknown key.
    #[error("{origin}: there is no key {key:?}; {}", suggestion(nearest.as_deref()))]
    Unknown {
        /// Source of the key.
        origin: Origin,
        /// The key, as written.
        key: String,
        /// Known key with the most similar spelling.
        nearest: Option<String>,
    },
    /// Key that has a new name.
    #[error("{origin}: there is no key {key:?} any more; its name is {new:?} now")]
    Renamed {
        /// Source of the key.
        origin: Origin,
        /// The key, as written.
        key: String,
        /// Its name now.
        new: String,
    },
    /// All errors of the file of accounts.
    #[error("{0}")]
    Accounts(String),
    /// Values that exclude each other.
    #[error("configuration: {0}")]
    Conflict(String),
    /// A value in the file that has another TOML type than the key.
    #[error("{origin}: {key} has a value of type {found}; write {expected}, as in `{example}`")]
    WrongType {
        /// Source of the value.
        origin: Origin,
        /// Path of the key.
        key: &'static str,
        /// TOML type of the value.
        found: &'static str,
        /// Description of the valid values.
        expected: String,
        /// A valid line of the file.
        example: String,
    },
    /// Invalid value.
    #[error("{origin}: {key} is {value:?}; write {expected}")]
    Value {
        /// Source of the value.
        origin: Origin,
        /// Path of the key.
        key: &'static str,
        /// What was found.
        value: String,
        /// Description of the valid values.
        expected: String,
    },
}

impl ConfigError {
    /// The error of a value whose TOML type is `found`.
    pub(super) fn wrong_type(origin: Origin, key: &'static ConfigKey, found: &'static str) -> Self {
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

/// The end of an error about an unknown key.
fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => "`fleetwright explain config` lists every key".to_owned(),
    }
}

/// All errors of a configuration, at least one.
#[derive(Debug, thiserror::Error)]
#[error("{}", messages(.0).join("\n"))]
pub struct ConfigErrors(Vec<ConfigError>);

fn messages(errors: &[ConfigError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

impl ConfigErrors {
    /// These errors.
    pub(super) fn of(errors: Vec<ConfigError>) -> Self {
        Self(errors)
    }

    /// The text of each error.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        messages(&self.0)
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}
