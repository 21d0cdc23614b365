//! Agent configuration. The table [`KEYS`] defines every key; flags, environment variables, file
//! keys and the output of `--print-config` derive from it. Precedence: flag, environment, file,
//! default.

mod keys;
mod log;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use settings::{ConfigError, ConfigErrors, Layers, suggest};

pub use keys::{KEYS, SCHEMA};

/// Settings that are complete and valid. A field has the meaning of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Server address and the credentials of both sides.
    pub server: ServerConfig,
    pub cluster_name: String,
    pub region: String,
    /// What the user data of new nodes needs to know.
    pub facts: FactsConfig,
    /// Connection to the API server and leader election.
    pub kubernetes: KubernetesConfig,
    pub karpenter_absent: bool,
    pub probe_address: Option<SocketAddr>,
    /// Limits that the agent enforces regardless of the server's instructions.
    pub guard: GuardConfig,
    pub log_filter: String,
    pub log_json: bool,
}

/// Connection to the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerConfig {
    pub address: String,
    /// Files; read again for every connection.
    pub credentials: Credentials,
}

/// Credential files. The agent reads them again for every connection, so a rotation needs no
/// restart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    pub ca_file: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

/// What the user data of new nodes needs to know, where it is not read from the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactsConfig {
    pub api_endpoint: Option<String>,
    pub api_ca_file: Option<PathBuf>,
    pub service_cidr: Option<String>,
}

/// Connection to the API server and leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesConfig {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub namespace: Option<String>,
    pub lease: String,
    pub lease_duration: Duration,
    pub identity: Option<String>,
    pub streaming_lists: bool,
}

/// The agent's bound on removals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardConfig {
    /// 0 sets no bound.
    pub removals: usize,
    pub window: Duration,
}

/// A parsed command line.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Every value with its origin.
    pub layers: Layers,
    /// Whether `--print-config` was given.
    pub print_config: bool,
}

impl Invocation {
    /// Parses the command line `arguments`, the first of which is the program's name, and the
    /// environment.
    ///
    /// # Errors
    /// Help, version or invalid arguments, each with its text and exit code.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, InvocationError> {
        let matches = keys::command().try_get_matches_from(arguments).map_err(with_suggestion)?;
        let environment: BTreeMap<String, String> = environment.collect();
        let mut layers = Layers::new(&SCHEMA);
        let named = matches.get_one::<PathBuf>(keys::FILE).cloned();
        let named = named.or_else(|| environment.get(keys::FILE_VARIABLE).map(PathBuf::from));
        if let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) {
            layers.add_file(&path);
        }
        layers.add_environment(environment);
        layers.check_names()?;
        for key in KEYS {
            if let Some(value) = matches.get_one::<String>(key.path) {
                layers.add_flag(key, value.clone());
            }
        }
        Ok(Self { layers, print_config: matches.get_flag(keys::PRINT) })
    }
}

/// The error with the flag that an unknown one was probably meant to be.
fn with_suggestion(error: clap::Error) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag.strip_prefix("--"),
        _ => None,
    };
    let nearest = |flag: &str| {
        let known = KEYS.iter().map(|key| key.flag).chain([keys::FILE, keys::PRINT]);
        suggest::nearest(flag, known.map(str::to_owned))
    };
    let Some((unknown, nearest)) = unknown.and_then(|flag| Some((flag, nearest(flag)?))) else {
        return error;
    };
    let text = format!("there is no flag --{unknown}; did you mean --{nearest}?");
    keys::command().error(ErrorKind::UnknownArgument, text)
}

/// Errors of the command line.
#[derive(Debug, thiserror::Error)]
pub enum InvocationError {
    /// Help or version was requested, or a flag is invalid.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
}

impl Config {
    /// Resolves `layers` to settings.
    ///
    /// # Errors
    /// The settings that are missing or not allowed.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigErrors> {
        layers.check()?;
        let config = Self {
            server: ServerConfig {
                address: layers.required("server.address")?,
                credentials: Credentials {
                    ca_file: layers.path("server.ca-file"),
                    token_file: layers.path("server.token-file"),
                    client_certificate: layers.path("server.client-certificate"),
                    client_key: layers.path("server.client-key"),
                },
            },
            cluster_name: layers.required("cluster.name")?,
            region: layers.text("cluster.region"),
            facts: FactsConfig {
                api_endpoint: layers.optional("cluster.api-endpoint"),
                api_ca_file: layers.path("cluster.api-ca-file"),
                service_cidr: layers.optional("cluster.service-cidr"),
            },
            kubernetes: KubernetesConfig {
                kubeconfig: layers.path("kubernetes.kubeconfig"),
                context: layers.optional("kubernetes.context"),
                namespace: layers.optional("kubernetes.namespace"),
                lease: layers.text("kubernetes.lease"),
                lease_duration: layers.duration("kubernetes.lease-duration")?,
                identity: layers.optional("kubernetes.identity"),
                streaming_lists: layers.boolean("kubernetes.streaming-lists")?,
            },
            karpenter_absent: layers.boolean("agent.karpenter-absent")?,
            probe_address: layers.optional_address("agent.probe-address")?,
            guard: GuardConfig {
                removals: usize::try_from(layers.number("guard.removals")?).unwrap_or(usize::MAX),
                window: layers.duration("guard.window")?,
            },
            log_filter: layers.text("log.filter"),
            log_json: layers.text("log.format") == "json",
        };
        // Rules between settings come last, when each setting is valid by itself.
        config.check(layers)?;
        Ok(config)
    }

    /// Starts logging to standard error, once per process. An existing subscriber is kept.
    pub fn start_log(&self) {
        log::start(&self.log_filter, self.log_json);
    }

    fn check(&self, layers: &Layers) -> Result<(), ConfigError> {
        self.check_server(layers)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.cluster_name.len() > 100 || !self.cluster_name.chars().all(allowed) {
            let rule = "a cluster's name has 1 to 100 letters, digits, '-', '_' and '.'";
            return Err(layers.invalid("cluster.name", rule));
        }
        if self.facts.api_endpoint.as_ref().is_some_and(|url| !is_https_url(url)) {
            return Err(layers.invalid("cluster.api-endpoint", "write https://host or https://host:port"));
        }
        if self.facts.service_cidr.as_ref().is_some_and(|cidr| !is_cidr(cidr)) {
            return Err(
                layers.invalid("cluster.service-cidr", "write an address and a prefix length, such as 10.100.0.0/16")
            );
        }
        if self.kubernetes.lease_duration < SHORTEST_LEASE {
            return Err(layers.invalid("kubernetes.lease-duration", "a lease must last at least 3s"));
        }
        if !settings::is_log_filter(&self.log_filter) {
            return Err(layers.invalid("log.filter", log::ACCEPTED));
        }
        Ok(())
    }

    fn check_server(&self, layers: &Layers) -> Result<(), ConfigError> {
        let ServerConfig { address, credentials } = &self.server;
        let encrypted = address.starts_with("https://");
        if !encrypted && !address.starts_with("http://") {
            return Err(layers.invalid("server.address", "write http://host:port or https://host:port"));
        }
        if encrypted && credentials.ca_file.is_none() {
            let rule = "an https server requires server.ca-file, the trusted authorities";
            return Err(layers.invalid("server.address", rule));
        }
        // `{"` in base64: the beginning of a JSON Web Token (RFC 7519). It is not printed.
        if credentials.token_file.as_ref().is_some_and(|path| path.to_string_lossy().starts_with("eyJ")) {
            let rule = "server.token-file is the path of a file with the token, and was set to a token";
            return Err(layers.invalid_secret("server.token-file", rule));
        }
        if credentials.client_certificate.is_some() != credentials.client_key.is_some() {
            let rule = "server.client-certificate and server.client-key belong together";
            return Err(layers.invalid("server.client-certificate", rule));
        }
        let shows_itself = credentials.token_file.is_some() || credentials.client_certificate.is_some();
        if shows_itself && !encrypted && !is_loopback(address) {
            let rule = "credentials are sent only over https, or to a server on this machine";
            return Err(layers.invalid("server.address", rule));
        }
        Ok(())
    }
}

/// Minimum lease duration: a shorter lease expires whenever an API server takes a second to
/// respond.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// Whether a text is a URL of a host over TLS.
fn is_https_url(text: &str) -> bool {
    text.parse::<tonic::transport::Uri>()
        .is_ok_and(|url| url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty()))
}

/// Whether a text is an address with a prefix length.
fn is_cidr(text: &str) -> bool {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let most = if address.parse::<IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
        Some((1..=most).contains(&length.parse::<u8>().ok()?))
    });
    parsed.unwrap_or(false)
}

fn is_loopback(address: &str) -> bool {
    let host = address.trim_start_matches("http://");
    ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|loopback| host.starts_with(loopback))
}

#[cfg(test)]
mod tests;
