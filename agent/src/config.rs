//! What an agent can be told before it starts: flags, then environment, then file, then defaults.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde::{Deserialize, Serialize};

/// The command line. Every setting can also be an environment variable or a key of the configuration file; a flag
/// outweighs a variable, a variable the file.
#[derive(Debug, Clone, Parser, Default)]
#[command(
    name = "fleetwright-agent",
    version,
    about = "Speaks for one cluster and carries out what the server decides."
)]
pub struct Arguments {
    /// Configuration file (TOML); its keys are the long flags with underscores.
    #[arg(long, env = "FLEETWRIGHT_AGENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The server, as http://host:port or https://host:port.
    #[arg(long, env = "FLEETWRIGHT_AGENT_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Name of this cluster, unique in the fleet: 1 to 100 letters, digits, '-', '_' and '.'.
    #[arg(long, env = "FLEETWRIGHT_AGENT_CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Cloud region that this cluster's nodes are launched in.
    #[arg(long, env = "FLEETWRIGHT_AGENT_REGION", value_name = "REGION")]
    pub region: Option<String>,
    /// Certificates (PEM file) of the authorities that may vouch for an https server.
    #[arg(long, env = "FLEETWRIGHT_AGENT_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// What to log, such as info or fleetwright_agent=debug [default: info].
    #[arg(long, env = "FLEETWRIGHT_AGENT_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// How to log: text or json [default: text].
    #[arg(long, env = "FLEETWRIGHT_AGENT_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Print the settings that result, as TOML, and end.
    #[arg(long)]
    pub print_config: bool,
}

/// The keys of the configuration file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    server: Option<String>,
    cluster_name: Option<String>,
    region: Option<String>,
    ca_file: Option<PathBuf>,
    log: Option<String>,
    log_format: Option<String>,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings that are complete and valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// The server.
    pub server: String,
    /// Name of this cluster.
    pub cluster_name: String,
    /// Region; empty when not given.
    pub region: String,
    /// Certificates of authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// What to log.
    pub log: String,
    /// How to log.
    pub log_format: LogFormat,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be opened.
    #[error("cannot read the configuration file {path}: {reason}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        reason: std::io::Error,
    },
    /// The file is no TOML, or has a key that does not exist.
    #[error("cannot use the configuration file {path}: {reason}")]
    Malformed {
        /// Which.
        path: String,
        /// Why, with line and column.
        reason: Box<toml::de::Error>,
    },
    /// A setting has no default and no value.
    #[error("{setting} is not set; use --{flag}, {variable} or `{setting} = \"…\"` in the configuration file")]
    Missing {
        /// Key in the file.
        setting: &'static str,
        /// Flag.
        flag: &'static str,
        /// Environment variable.
        variable: &'static str,
    },
    /// A value is not allowed.
    #[error("{setting} is {value:?}; {allowed}")]
    Invalid {
        /// Key in the file.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl Config {
    /// The settings that `arguments` and the file they name amount to.
    ///
    /// # Errors
    /// [`ConfigError`] when a setting is missing or not allowed, or the file cannot be used.
    pub fn resolve(arguments: &Arguments) -> Result<Self, ConfigError> {
        let file = arguments.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let given = arguments.clone();
        let config = Self {
            server: given.server.or(file.server).ok_or(missing("server", "server", "FLEETWRIGHT_AGENT_SERVER"))?,
            cluster_name: given.cluster_name.or(file.cluster_name).ok_or(missing(
                "cluster_name",
                "cluster-name",
                "FLEETWRIGHT_AGENT_CLUSTER_NAME",
            ))?,
            region: given.region.or(file.region).unwrap_or_default(),
            ca_file: given.ca_file.or(file.ca_file),
            log: given.log.or(file.log).unwrap_or_else(|| "info".to_owned()),
            log_format: log_format(given.log_format.or(file.log_format))?,
        };
        config.check()?;
        Ok(config)
    }

    /// Starts the log as the settings say, once for the process. A log that another part of the process has started stays.
    pub fn start_log(&self) {
        let filter = tracing_subscriber::EnvFilter::new(&self.log);
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        let started = match self.log_format {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        drop(started);
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !self.server.starts_with("http://") && !self.server.starts_with("https://") {
            return Err(invalid("server", &self.server, "write http://host:port or https://host:port"));
        }
        if self.server.starts_with("https://") && self.ca_file.is_none() {
            return Err(invalid("server", &self.server, "an https server needs ca_file, to know whom to believe"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.cluster_name.is_empty() || self.cluster_name.len() > 100 || !self.cluster_name.chars().all(allowed) {
            let rule = "a cluster's name has 1 to 100 letters, digits, '-', '_' and '.'";
            return Err(invalid("cluster_name", &self.cluster_name, rule));
        }
        if tracing_subscriber::EnvFilter::try_new(&self.log).is_err() {
            return Err(invalid("log", &self.log, "write a level (error, warn, info, debug, trace) or module=level"));
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<File, ConfigError> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable { path: shown.clone(), reason })?;
    toml::from_str(&text).map_err(|reason| ConfigError::Malformed { path: shown, reason: Box::new(reason) })
}

fn log_format(name: Option<String>) -> Result<LogFormat, ConfigError> {
    match name.as_deref() {
        None | Some("text") => Ok(LogFormat::Text),
        Some("json") => Ok(LogFormat::Json),
        Some(other) => Err(invalid("log_format", other, "write text or json")),
    }
}

fn missing(setting: &'static str, flag: &'static str, variable: &'static str) -> ConfigError {
    ConfigError::Missing { setting, flag, variable }
}

fn invalid(setting: &'static str, value: &str, allowed: &'static str) -> ConfigError {
    ConfigError::Invalid { setting, value: value.to_owned(), allowed }
}

#[cfg(test)]
mod tests;
