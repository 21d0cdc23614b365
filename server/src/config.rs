//! What an operator may set: one table of keys, from which everything else follows (reading, checking, `--print-config`,
//! `fleetwright explain config`, flags).
//!
//! A value comes from the file, is overridden by the environment, and that by a flag. A key that does not exist is
//! refused wherever it is written, with the nearest one that does.

mod keys;
mod layers;
mod listen;
mod owner;
mod print;
mod rails;
mod session;
mod shared;

pub use keys::{KEYS, Key, Kind};
pub(crate) use layers::{FILE_VARIABLE, parse_duration_flag};
pub use layers::{Layers, Origin};
pub use print::{explain, print};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use engine::control::guardrails::GuardrailSettings;
use engine::input::{MinValuesPolicy, PreferencePolicy};

use crate::session::Ledger;
use crate::trust::tls::TlsFiles;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read or is no TOML.
    #[error("configuration file {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no key {key:?}{}", nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean {n:?}?")))]
    Unknown {
        /// Where it was written.
        origin: Origin,
        /// The key.
        key: String,
        /// The key that is spelt most like it.
        nearest: Option<String>,
    },
    /// Values that do not go together.
    #[error("configuration: {0}")]
    Together(String),
    /// A value that its key does not take.
    #[error("{origin}: {key} = {value:?} is not {expected}")]
    Value {
        /// Where it was written.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// What was found.
        value: String,
        /// What is allowed.
        expected: String,
    },
}

/// Everything that `serve` runs by.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses.
    pub listen: Listen,
    /// What survives a crash.
    pub store: StoreConfig,
    /// The cloud.
    pub cloud: CloudConfig,
    /// When and how to decide.
    pub control: ControlConfig,
    /// `rails.*`: what no decision may do.
    pub rails: GuardrailSettings,
    /// Ownership of clusters.
    pub lease: LeaseConfig,
    /// `session.memory` and `session.memory-total`: what agents may make this server remember.
    pub ledger: Ledger,
    /// `shutdown.grace`: how long connections may take to end.
    pub shutdown_grace: Duration,
    /// `log.filter`: what is logged, in the syntax of `RUST_LOG`.
    pub log_filter: String,
    /// `log.format` is `json`.
    pub log_json: bool,
    /// `trace.collector`: where traces go.
    pub trace_collector: Option<String>,
    /// Digests of the settings that all replicas of one database should share, by key.
    pub shared: BTreeMap<String, String>,
}

/// Addresses to listen on.
#[derive(Debug, Clone)]
pub struct Listen {
    /// `listen.grpc`: agents and programs.
    pub grpc: SocketAddr,
    /// `listen.http`: the page, metrics, health.
    pub http: SocketAddr,
    /// `listen.tls-*` and `listen.client-ca`: certificates; `None` encrypts nothing.
    pub(crate) tls: Option<TlsFiles>,
    /// `trust.file`: who may say what; `None` asks nobody.
    pub(crate) trust: Option<PathBuf>,
}

/// What survives a crash.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `store.database-url`: PostgreSQL.
    pub database_url: Option<String>,
    /// `store.data-dir`: the folder of a PostgreSQL of our own.
    pub data_dir: PathBuf,
    /// `store.memory`: without a database, keep everything in memory.
    pub memory: bool,
    /// `store.migrate`: whether the schema may be brought up to date.
    pub migrate: bool,
    /// `store.connections`, at most.
    pub connections: u32,
    /// `store.keep-log`.
    pub keep_log: Duration,
    /// `store.keep-ended`.
    pub keep_ended: Duration,
    /// `store.keep-clusters`.
    pub keep_clusters: Duration,
}

/// `cloud.provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// The simulated cloud.
    Simulated,
    /// Amazon EC2.
    Ec2,
}

/// The cloud.
#[derive(Debug, Clone)]
pub struct CloudConfig {
    /// `cloud.provider`.
    pub provider: Provider,
    /// `cloud.endpoint`: the EC2 API.
    pub endpoint: Option<String>,
    /// `cloud.launch-template`: name.
    pub launch_template: Option<String>,
    /// `cloud.launch-template-version`.
    pub launch_template_version: String,
    /// `cloud.subnets`: zone to subnet.
    pub subnets: BTreeMap<String, String>,
    /// `cloud.address`: a simulated cloud in a process of its own.
    pub address: Option<String>,
    /// `cloud.seed`.
    pub seed: u64,
    /// `cloud.boot`: how long a machine takes to start.
    pub boot: Duration,
    /// `cloud.no-capacity`: every launch is refused.
    pub no_capacity: bool,
    /// `cloud.account`: the account that replicas of one database buy in together.
    pub account: String,
    /// `cloud.region`.
    pub region: String,
    /// `cloud.catalogue`: a file in place of the built-in one.
    pub catalogue: Option<PathBuf>,
}

/// When and how to decide.
#[derive(Debug, Clone, Copy)]
pub struct ControlConfig {
    /// `control.batch-idle`: a batch closes when nothing has arrived for so long.
    pub batch_idle: Duration,
    /// `control.batch-max`: a batch closes at the latest after so long.
    pub batch_max: Duration,
    /// `control.plan-pods`: pods that one plan takes at most; 0 for all.
    pub plan_pods: u64,
    /// `control.plan-steps`: steps that one plan may take; 0 for any number.
    pub plan_steps: u64,
    /// `control.preferred-terms`: preferences of one pod that are looked at.
    pub preferred_terms: u32,
    /// `control.collect-after`: how long something must be odd before it is garbage; zero collects nothing.
    pub collect_after: Duration,
    /// `control.open-together`: how long a Node that is ready waits for the others of its decision; zero waits for none.
    pub open_together: Duration,
    /// `control.hold-after-foreign-scale-up`: how long a pod is left to Cluster Autoscaler once that buys for it.
    pub hold_after_foreign_scale_up: Duration,
    /// `control.preference-policy`.
    pub preferences: PreferencePolicy,
    /// `control.min-values-policy`.
    pub min_values: MinValuesPolicy,
}

/// Ownership of clusters.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    /// `lease.owner`: the name of this replica; one of its own when none is given.
    pub owner: String,
    /// `lease.duration`.
    pub duration: Duration,
}

impl Config {
    /// The typed configuration that `layers` amount to.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for the first value that its key does not take.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let listen = listen::resolve(layers)?;
        Ok(Self {
            store: StoreConfig {
                database_url: layers.optional("store.database-url"),
                data_dir: PathBuf::from(layers.text("store.data-dir")),
                memory: layers.switch("store.memory")?,
                migrate: layers.switch("store.migrate")?,
                connections: u32::try_from(layers.number("store.connections")?).unwrap_or(u32::MAX),
                keep_log: layers.duration("store.keep-log")?,
                keep_ended: layers.duration("store.keep-ended")?,
                keep_clusters: layers.duration("store.keep-clusters")?,
            },
            cloud: CloudConfig {
                provider: match layers.choice("cloud.provider")? {
                    "ec2" => Provider::Ec2,
                    _ => Provider::Simulated,
                },
                endpoint: layers.optional("cloud.endpoint"),
                launch_template: layers.optional("cloud.launch-template"),
                launch_template_version: layers.text("cloud.launch-template-version"),
                subnets: layers.pairs("cloud.subnets")?,
                address: layers.optional("cloud.address"),
                seed: layers.number("cloud.seed")?,
                boot: layers.duration("cloud.boot")?,
                no_capacity: layers.switch("cloud.no-capacity")?,
                account: layers.text("cloud.account"),
                region: layers.text("cloud.region"),
                catalogue: layers.optional("cloud.catalogue").map(PathBuf::from),
            },
            control: ControlConfig {
                batch_idle: layers.duration("control.batch-idle")?,
                batch_max: layers.duration("control.batch-max")?,
                plan_pods: layers.number("control.plan-pods")?,
                plan_steps: layers.number("control.plan-steps")?,
                preferred_terms: u32::try_from(layers.number("control.preferred-terms")?).unwrap_or(u32::MAX),
                collect_after: layers.duration("control.collect-after")?,
                open_together: layers.duration("control.open-together")?,
                hold_after_foreign_scale_up: layers.duration("control.hold-after-foreign-scale-up")?,
                preferences: match layers.choice("control.preference-policy")? {
                    "Ignore" => PreferencePolicy::Ignore,
                    _ => PreferencePolicy::Respect,
                },
                min_values: match layers.choice("control.min-values-policy")? {
                    "BestEffort" => MinValuesPolicy::BestEffort,
                    _ => MinValuesPolicy::Strict,
                },
            },
            rails: rails::resolve(layers)?,
            lease: LeaseConfig {
                owner: layers.optional("lease.owner").unwrap_or_else(|| owner::of(listen.grpc)),
                duration: layers.duration("lease.duration")?,
            },
            ledger: session::ledger(layers)?,
            listen,
            shutdown_grace: layers.duration("shutdown.grace")?,
            log_filter: layers.text("log.filter"),
            log_json: layers.choice("log.format")? == "json",
            trace_collector: layers.optional("trace.collector"),
            shared: shared::digests(layers),
        })
    }
}

#[cfg(test)]
mod tests;
