//! Errors of the configuration, and the origins of values that they name.

use std::fmt;
use std::path::PathBuf;

/// Errors of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be used.
    #[error("configuration file {}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be used.
        why: String,
    },
    /// A key of the file or an environment variable does not exist.
    #[error("{origin}: there is no key {key:?}; {}", suggestion(nearest.as_deref()))]
    Unknown {
        /// Source of the key or value.
        origin: Origin,
        /// The unknown key or variable.
        key: String,
        /// The known one that was probably meant.
        nearest: Option<String>,
    },
    /// A setting has no default and no value.
    #[error("{key} is not set; use --{flag}, {variable} or `{key} = \"…\"` in the configuration file")]
    Missing {
        /// Key in the file.
        key: &'static str,
        /// Flag of the key.
        flag: &'static str,
        /// Environment variable of the key.
        variable: String,
    },
    /// A value is not allowed.
    #[error("{origin}: {key} is {value:?}; {allowed}")]
    Invalid {
        /// Source of the key or value.
        origin: Origin,
        /// Key in the file.
        key: &'static str,
        /// The value as written.
        value: String,
        /// The allowed values.
        allowed: String,
    },
}

/// The end of an error about an unknown key.
fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => "`fleetwright-agent --help` lists every key".to_owned(),
    }
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default of the key.
    Default,
    /// The configuration file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line of the key, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
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
