//! Configuration of `serve`: one table of keys drives parsing, validation, `--print-config`,
//! `fleetwright explain config` and the flags.
//!
//! The environment overrides the file, and flags override both. An unknown key is an error that
//! names the nearest known one.

mod accounts;
mod config_key;
mod disruption;
mod error;
mod file;
mod guardrails;
mod keys;
mod layers;
mod listen;
mod origin;
mod owner;
mod print;
mod renamed;
mod session;
mod shared;
mod value_type;

pub use accounts::{AccountEntry, AccountRoles, Accounts, AccountsError, ClusterRules, UnassignedCluster};
pub use error::{ConfigError, ConfigErrors};
pub(crate) use keys::{ConfigKey, KEYS};
pub use layers::{FILE_VARIABLE, Layers, TRIAL_FLAG};
pub use listen::Listen;
pub use origin::Origin;
pub use print::{explain, print};
pub use renamed::key_of_flag;
pub use value_type::parse_duration_flag;
pub(crate) use value_type::{parse_dollars, parse_feature_gates};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use controller::guardrails::GuardrailSettings;
use controller::{ConsolidationSettings, DisruptionSettings, FeatureGates};
use model::Millis;
use model::input::{MinValuesPolicy, PreferencePolicy};
use model::schedulers::PlannedSchedulers;

use agent_session::SessionMemory;

/// Configuration of `serve`.
#[derive(Debug, Clone)]
pub struct Config {
    /// Listener addresses and their protection.
    pub listen: Listen,
    /// Durable state.
    pub store: StoreConfig,
    /// Cloud provider.
    pub cloud: CloudConfig,
    /// Batching, planning and garbage collection.
    pub control: ControlConfig,
    /// `disruption.*`: when nodes are consolidated.
    pub consolidation: ConsolidationSettings,
    /// `guardrails.*`: safety limits on decisions.
    pub guardrails: GuardrailSettings,
    /// `disruption.*`: what holds voluntary disruption.
    pub disruption: DisruptionSettings,
    /// `disruption.pass-interval`: minimum time between two passes of the disruption methods.
    pub disruption_pass_interval: Millis,
    /// `disruption.cpu`: percent of the processors for plans of disruption of all clusters.
    pub disruption_cpu: u64,
    /// Leases on clusters.
    pub lease: LeaseConfig,
    /// `session.memory` and `session.memory-total`: memory limits for objects of agents.
    pub session_memory: SessionMemory,
    /// `shutdown.grace`: grace period for open connections.
    pub(crate) shutdown_grace: Duration,
    /// `log.filter`: log filter in the syntax of `RUST_LOG`.
    pub log_filter: String,
    /// Whether `log.format` is `json`.
    pub log_json: bool,
    /// `trace.collector`: OTLP endpoint of traces.
    pub(crate) trace_collector: Option<String>,
    /// Digests, by key, of the settings that all replicas of one database should share.
    pub shared: BTreeMap<String, String>,
}

/// Durable state.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `store.database-url`: PostgreSQL.
    pub database_url: Option<String>,
    /// `store.data-dir`: data directory of a local PostgreSQL.
    pub data_dir: PathBuf,
    /// `store.memory`: without a database, keep all state in memory.
    pub memory: bool,
    /// `store.migrate`: whether to apply schema migrations at startup.
    pub migrate: bool,
    /// `store.connections`: maximum database connections.
    pub connections: u32,
    /// `store.keep-log`: retention of the decision log.
    pub(crate) keep_log: Duration,
    /// `store.keep-ended`: retention of completed operations.
    pub(crate) keep_ended: Duration,
    /// `store.keep-clusters`: retention of lease rows of absent clusters.
    pub(crate) keep_clusters: Duration,
    /// `store.keep-costs`: retention of what machines have cost.
    pub(crate) keep_costs: Duration,
}

/// `cloud.provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Simulated cloud.
    Simulated,
    /// Amazon EC2.
    Ec2,
}

/// Cloud provider and its settings.
#[derive(Debug, Clone)]
pub struct CloudConfig {
    /// `cloud.provider`.
    pub provider: Provider,
    /// `cloud.endpoint`: EC2 API endpoint.
    pub endpoint: Option<String>,
    /// `cloud.address`: address of an external simulated cloud.
    pub address: Option<String>,
    /// `cloud.seed`: seed of the simulated cloud.
    pub seed: u64,
    /// `cloud.boot`: time from launch to running in the simulated cloud.
    pub boot: Duration,
    /// `cloud.no-capacity`: the simulated cloud fails every launch.
    pub no_capacity: bool,
    /// `cloud.account`: account name, shared by replicas of one database.
    pub account: String,
    /// `cloud.region`.
    pub region: String,
    /// `cloud.accounts-file`: several accounts and regions, in place of `account`, `region` and what belongs to them.
    pub accounts: Option<Accounts>,
    /// `cloud.catalogue`: file that overrides the built-in catalogue.
    pub catalogue: Option<PathBuf>,
    /// `cloud.*-refresh-interval`: how often the catalogue is read from the cloud.
    pub refresh: RefreshConfig,
    /// `cloud.api-limit-percent`: percentage of EC2's default rate limits.
    pub api_limit_percent: u32,
    /// `interruption.queue`: name of the queue that receives notices about instances.
    pub interruption_queue: Option<String>,
}

/// How often each part of the catalogue is read from the cloud; `None` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshConfig {
    /// `cloud.instance-type-refresh-interval`.
    pub instance_types: Option<Duration>,
    /// `cloud.on-demand-price-refresh-interval`.
    pub on_demand_prices: Option<Duration>,
    /// `cloud.spot-price-refresh-interval`.
    pub spot_prices: Option<Duration>,
}

impl RefreshConfig {
    /// The interval of what is read most often; `None` when nothing is read.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        [self.instance_types, self.on_demand_prices, self.spot_prices].into_iter().flatten().min()
    }
}

/// Batching, planning and garbage collection.
#[derive(Debug, Clone)]
pub struct ControlConfig {
    /// `control.batch-idle`: idle time that closes a batch.
    pub batch_idle: Duration,
    /// `control.batch-max`: maximum duration of a batch.
    pub batch_max: Duration,
    /// `control.plan-pods`: maximum pods per plan; 0 is unlimited.
    pub plan_pods: u64,
    /// `control.plan-steps`: step budget per plan; 0 is unlimited.
    pub(crate) plan_steps: u64,
    /// `control.search-cpu`: percent of the processors that searches may use; 0 disables them.
    pub search_cpu: u64,
    /// `control.feature-gates`: features that are on.
    pub feature_gates: FeatureGates,
    /// `control.preferred-terms`: maximum preferences per pod.
    pub preferred_terms: u32,
    /// `control.gc-after`: garbage collection delay; zero disables it.
    pub(crate) collect_after: Duration,
    /// `control.register-together`: maximum wait of a ready Node for the others of its decision.
    pub open_together: Duration,
    /// `control.hold-after-external-scale-up`: how long a pod is excluded from planning after
    /// Cluster Autoscaler scaled up for it.
    pub hold_after_external_scale_up: Duration,
    /// `control.schedulers`: the schedulers whose pods are planned.
    pub schedulers: PlannedSchedulers,
    /// `control.preference-policy`.
    pub preferences: PreferencePolicy,
    /// `control.min-values-policy`.
    pub min_values: MinValuesPolicy,
}

/// Leases on clusters.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    /// `lease.owner`: lease holder identity of this replica; generated when unset.
    pub owner: String,
    /// `lease.duration`.
    pub duration: Duration,
}

impl Config {
    /// Parses the values of all keys.
    ///
    /// # Errors
    /// All unknown keys and invalid values of `layers`, or the first values that exclude each other.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigErrors> {
        layers.check()?;
        // The listeners first: the lease holder identity derives from the gRPC address.
        let listen = listen::resolve(layers)?;
        let accounts = accounts::resolve(layers)?;
        Ok(Self {
            shared: shared::digests(layers, accounts.as_ref()),
            store: store(layers)?,
            cloud: CloudConfig {
                provider: match layers.choice("cloud.provider")? {
                    "ec2" => Provider::Ec2,
                    _ => Provider::Simulated,
                },
                endpoint: layers.optional("cloud.endpoint"),
                address: layers.optional("cloud.address"),
                seed: layers.number("cloud.seed")?,
                boot: layers.duration("cloud.boot")?,
                no_capacity: layers.boolean("cloud.no-capacity")?,
                account: layers.text("cloud.account"),
                region: layers.text("cloud.region"),
                accounts,
                catalogue: layers.optional("cloud.catalogue").map(PathBuf::from),
                refresh: refresh(layers)?,
                api_limit_percent: u32::try_from(layers.number("cloud.api-limit-percent")?).unwrap_or(u32::MAX),
                interruption_queue: layers.optional("interruption.queue"),
            },
            control: ControlConfig {
                batch_idle: layers.duration("control.batch-idle")?,
                batch_max: layers.duration("control.batch-max")?,
                plan_pods: layers.number("control.plan-pods")?,
                plan_steps: layers.number("control.plan-steps")?,
                search_cpu: layers.number("control.search-cpu")?,
                feature_gates: layers.feature_gates("control.feature-gates")?,
                preferred_terms: u32::try_from(layers.number("control.preferred-terms")?).unwrap_or(u32::MAX),
                collect_after: layers.duration("control.gc-after")?,
                open_together: layers.duration("control.register-together")?,
                hold_after_external_scale_up: layers.duration("control.hold-after-external-scale-up")?,
                schedulers: PlannedSchedulers::beside_default(&layers.text("control.schedulers")),
                preferences: match layers.choice("control.preference-policy")? {
                    "Ignore" => PreferencePolicy::Ignore,
                    _ => PreferencePolicy::Respect,
                },
                min_values: match layers.choice("control.min-values-policy")? {
                    "BestEffort" => MinValuesPolicy::BestEffort,
                    _ => MinValuesPolicy::Strict,
                },
            },
            disruption: disruption::resolve(layers)?,
            disruption_pass_interval: disruption::pass_interval(layers)?,
            disruption_cpu: layers.number("disruption.cpu")?,
            consolidation: disruption::consolidation(layers)?,
            guardrails: guardrails::resolve(layers)?,
            lease: LeaseConfig {
                owner: layers.optional("lease.owner").unwrap_or_else(|| owner::of(listen.grpc)),
                duration: layers.duration("lease.duration")?,
            },
            session_memory: session::memory(layers)?,
            listen,
            shutdown_grace: layers.duration("shutdown.grace")?,
            log_filter: layers.text("log.filter"),
            log_json: layers.choice("log.format")? == "json",
            trace_collector: layers.optional("trace.collector"),
        })
    }
}

fn refresh(layers: &Layers) -> Result<RefreshConfig, ConfigErrors> {
    let interval = |key: &'static str| -> Result<Option<Duration>, ConfigErrors> {
        Ok(Some(layers.duration(key)?).filter(|interval| !interval.is_zero()))
    };
    Ok(RefreshConfig {
        instance_types: interval("cloud.instance-type-refresh-interval")?,
        on_demand_prices: interval("cloud.on-demand-price-refresh-interval")?,
        spot_prices: interval("cloud.spot-price-refresh-interval")?,
    })
}

fn store(layers: &Layers) -> Result<StoreConfig, ConfigErrors> {
    Ok(StoreConfig {
        database_url: layers.optional("store.database-url"),
        data_dir: PathBuf::from(layers.text("store.data-dir")),
        memory: layers.boolean("store.memory")?,
        migrate: layers.boolean("store.migrate")?,
        connections: u32::try_from(layers.number("store.connections")?).unwrap_or(u32::MAX),
        keep_log: layers.duration("store.keep-log")?,
        keep_ended: layers.duration("store.keep-ended")?,
        keep_clusters: layers.duration("store.keep-clusters")?,
        keep_costs: layers.duration("store.keep-costs")?,
    })
}

#[cfg(test)]
mod tests;
