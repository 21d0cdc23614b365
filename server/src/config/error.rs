//! Errors of the configuration.

use std::path::PathBuf;

use super::origin::Origin;

/// Configuration error.
#[derive(Debug, thiserror::Error)]
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
    #[error("{origin}: there is no key {key:?}{}", nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean {n:?}?")))]
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
    /// Values that exclude each other.
    #[error("configuration: {0}")]
    Conflict(String),
    /// Invalid value.
    #[error("{origin}: {key} = {value:?} is not {expected}")]
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
