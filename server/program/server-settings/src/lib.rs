//! Configuration of `serve`: one table of keys drives parsing, validation, `--print-config`,
//! `fleetwright explain config` and the flags.
//!
//! The environment overrides the file, and flags override both. An unknown key is an error that
//! names the nearest known one.

mod accounts;
mod disruption;
mod explanation;
mod guardrails;
mod keys;
mod layers;
mod listen;
mod owner;
mod session;
mod shared;
mod value_type;

pub use accounts::{AccountEntry, AccountRoles, Accounts, AccountsError, ClusterRules, UnassignedCluster};
pub use explanation::explain;
pub use keys::KEYS;
pub use keys::{FILE_VARIABLE, key_of_flag};
pub use layers::{Layers, TRIAL_FLAG};
pub use listen::Listen;
pub use settings::{ConfigErrors, Origin, print};
pub use value_type::{parse_dollars, parse_feature_gates};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use controller::guardrails::GuardrailSettings;
use controller::{ConsolidationSettings, DisruptionSettings, FeatureGates};
use model::Millis;
use model::input::{MinValuesPolicy, PreferencePolicy};
use model::schedulers::PlannedSchedulers;

use agent_session::SessionMemory;

/// Configuration of `serve`. A field has the meaning of its key (`keys.rs`).
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
    pub consolidation: ConsolidationSettings,
    pub guardrails: GuardrailSettings,
    pub disruption: DisruptionSettings,
    pub disruption_pass_interval: Millis,
    pub disruption_cpu: u64,
    /// Leases on clusters.
    pub lease: LeaseConfig,
    pub session_memory: SessionMemory,
    pub shutdown_grace: Duration,
    pub log_filter: String,
    /// Whether `log.format` is `json`.
    pub log_json: bool,
    pub trace_collector: Option<String>,
    /// Digests, by key, of the settings that all replicas of one database should share.
    pub shared: BTreeMap<String, String>,
}

/// Durable state.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    pub database_url: Option<String>,
    pub data_dir: PathBuf,
    pub memory: bool,
    pub migrate: bool,
    pub connections: u32,
    pub keep_log: Duration,
    pub keep_ended: Duration,
    pub keep_clusters: Duration,
    pub keep_costs: Duration,
}

/// What launches instances. The program says it, and no setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Amazon EC2.
    Ec2,
    /// A simulated cloud.
    Simulated {
        /// Whether other replicas launch in it too.
        shared: bool,
    },
}

/// Cloud provider and its settings.
#[derive(Debug, Clone)]
pub struct CloudConfig {
    /// EC2, unless the program has another.
    pub provider: Provider,
    pub endpoint: Option<String>,
    pub account: String,
    pub region: String,
    pub accounts: Option<Accounts>,
    pub catalogue: Option<PathBuf>,
    pub refresh: RefreshConfig,
    pub api_limit_percent: u32,
    pub interruption_queue: Option<String>,
}

/// How often each part of the catalogue is read from the cloud; `None` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshConfig {
    pub instance_types: Option<Duration>,
    pub on_demand_prices: Option<Duration>,
    pub spot_prices: Option<Duration>,
}

impl RefreshConfig {
    /// The interval of what is read most often; `None` when nothing is read.
    pub fn shortest(&self) -> Option<Duration> {
        [self.instance_types, self.on_demand_prices, self.spot_prices].into_iter().flatten().min()
    }
}

/// Batching, planning and garbage collection.
#[derive(Debug, Clone)]
pub struct ControlConfig {
    pub batch_idle: Duration,
    pub batch_max: Duration,
    /// 0 is unlimited, as for `plan_steps`.
    pub plan_pods: u64,
    pub plan_steps: u64,
    /// Percent of the processors; 0 disables searches.
    pub search_cpu: u64,
    pub feature_gates: FeatureGates,
    pub preferred_terms: u32,
    /// Zero disables garbage collection.
    pub collect_after: Duration,
    pub open_together: Duration,
    pub hold_after_external_scale_up: Duration,
    pub schedulers: PlannedSchedulers,
    pub preferences: PreferencePolicy,
    pub min_values: MinValuesPolicy,
}

/// Leases on clusters.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    pub owner: String,
    pub duration: Duration,
}

impl CloudConfig {
    /// Whether the cloud is simulated, so that no instance is bought.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.provider, Provider::Simulated { .. })
    }
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
                provider: Provider::Ec2,
                endpoint: layers.optional("cloud.endpoint"),
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
