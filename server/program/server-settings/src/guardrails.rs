//! The table `guardrails`: its keys, and the settings that they are read into.

use std::collections::BTreeSet;

use controller::guardrails::{
    Bound, CircuitBreakerRule, GuardrailSettings, LaunchBackoffRule, Mode, QuarantineRule, RateLimitRule,
};
use model::{ClusterName, MicroUsd, Millis};

use super::value_type::PREFIX;
use settings::ValueType::{Choice, Duration, Number, Percent, Text};
use settings::{ConfigError, Key, Layers, keys};
use store::clock;

/// The keys: type, default, example, help.
pub(super) const KEYS: &[Key] = keys! {
    PREFIX;
    ["guardrails"]
    "mode": Choice("act|shadow"), "act", "shadow",
        "Execution mode. `act` executes decisions; `shadow` only records them (dry run).";
    "shadow-clusters": Text, "", "staging,payments-eu",
        "Comma-separated clusters that run in shadow mode regardless of guardrails.mode.";
    "quarantine-percent": Percent, "50", "90",
        "Quarantine threshold in percent. A cluster is quarantined when more than this share of its pods, Nodes, launched NodeClaims, NodePools or running instances disappears between two snapshots or by unannounced removals. The quarantine ends when a second snapshot and an independent source confirm the loss, or when an operator releases it. 0 disables quarantine.";
    "quarantine-confirm": Duration, "60s", "5m",
        "Delay before a confirming snapshot is requested from a quarantined cluster's agent.";
    "quarantine-window": Duration, "60s", "2m",
        "Sliding window in which unannounced removals are summed for guardrails.quarantine-percent. 0s accepts every removal.";
    "quarantine-hold-percent": Percent, "90", "70",
        "Hold threshold in percent. A loss above this share is not released by confirming snapshots and sources; the quarantine lasts until guardrails.quarantine-hold has passed or an operator releases it.";
    "quarantine-hold": Duration, "0s", "6h",
        "Duration of a quarantine above guardrails.quarantine-hold-percent. 0s: until an operator releases it.";
    "launch-window": Duration, "10m", "5m",
        "Sliding window of the launch rate limits.";
    "launches-per-cluster": Number, "500", "50",
        "Launch rate limit per cluster: maximum instances per guardrails.launch-window. 0: unlimited.";
    "launches-per-fleet": Number, "2000", "200",
        "Launch rate limit of the fleet: maximum instances per guardrails.launch-window, over all clusters and replicas. 0: unlimited.";
    "launch-dollars-per-cluster": Number, "1000", "100",
        "Launch cost limit per cluster: maximum total price of the instances launched per guardrails.launch-window, in US dollars per hour. 0: unlimited.";
    "launch-dollars-per-fleet": Number, "5000", "500",
        "Launch cost limit of the fleet: maximum total price of the instances launched per guardrails.launch-window over all clusters, in US dollars per hour. 0: unlimited.";
    "removal-window": Duration, "10m", "30m",
        "Sliding window of the removal rate limits. Instances that the cloud reclaims or operators delete are not counted.";
    "removals-per-cluster": Number, "200", "20",
        "Removal rate limit per cluster: maximum instances per guardrails.removal-window. 0: unlimited.";
    "removals-per-fleet": Number, "1000", "100",
        "Removal rate limit of the fleet: maximum instances per guardrails.removal-window, over all clusters and replicas. 0: unlimited.";
    "removal-percent-per-cluster": Percent, "50", "20",
        "Removal rate limit per cluster in percent of its instances per guardrails.removal-window; 10 removals are always allowed. 0: unlimited.";
    "removal-percent-per-fleet": Percent, "25", "10",
        "Removal rate limit of the fleet in percent of all instances per guardrails.removal-window; 50 removals are always allowed. 0: unlimited.";
    "launches-per-pod": Number, "3", "5",
        "Launch backoff: number of launches for a pod that never becomes bound before further launches for it are delayed. 0 disables the backoff.";
    "pod-wait": Duration, "2m", "5m",
        "Initial delay of the launch backoff. It doubles with every further launch for the pod, up to one hour.";
    "circuit-breaker-percent": Percent, "50", "30",
        "Circuit breaker: voluntary removals stop fleet-wide while at least this percentage of launches fails, counted over all replicas. 0 disables it.";
    "circuit-breaker-release-percent": Percent, "20", "10",
        "Circuit breaker: voluntary removals resume when at most this percentage of launches fails.";
    "circuit-breaker-window": Duration, "10m", "5m",
        "Sliding window of launches that the circuit breaker evaluates.";
    "replacement-wait": Duration, "15s", "30s",
        "Maximum delay of the drain of an instance that must be replaced, until replacement capacity for its pods is planned. 0s drains immediately.";
};

/// Parses the guardrail settings; those without a key keep their default.
///
/// # Errors
/// [`ConfigError::Value`] for the first invalid value.
pub(super) fn resolve(layers: &Layers) -> Result<GuardrailSettings, ConfigError> {
    // Settings without a key come from the defaults of the controller.
    let base = GuardrailSettings::default();
    Ok(GuardrailSettings {
        mode: if layers.choice("guardrails.mode")? == "shadow" { Mode::Shadow } else { Mode::Act },
        shadow: clusters(&layers.text("guardrails.shadow-clusters")),
        quarantine: QuarantineRule {
            percent: count(layers, "guardrails.quarantine-percent")?,
            confirm_after: millis(layers, "guardrails.quarantine-confirm")?,
            window: millis(layers, "guardrails.quarantine-window")?,
            block_percent: count(layers, "guardrails.quarantine-hold-percent")?,
            block_for: millis(layers, "guardrails.quarantine-hold")?,
            ..base.quarantine
        },
        launches: RateLimitRule {
            window: millis(layers, "guardrails.launch-window")?,
            cluster: Bound {
                machines: count(layers, "guardrails.launches-per-cluster")?,
                usd_per_hour: dollars(layers, "guardrails.launch-dollars-per-cluster")?,
                ..base.launches.cluster
            },
            fleet: Bound {
                machines: count(layers, "guardrails.launches-per-fleet")?,
                usd_per_hour: dollars(layers, "guardrails.launch-dollars-per-fleet")?,
                ..base.launches.fleet
            },
        },
        removals: RateLimitRule {
            window: millis(layers, "guardrails.removal-window")?,
            cluster: Bound {
                machines: count(layers, "guardrails.removals-per-cluster")?,
                percent: count(layers, "guardrails.removal-percent-per-cluster")?,
                ..base.removals.cluster
            },
            fleet: Bound {
                machines: count(layers, "guardrails.removals-per-fleet")?,
                percent: count(layers, "guardrails.removal-percent-per-fleet")?,
                ..base.removals.fleet
            },
        },
        launch_backoff: LaunchBackoffRule {
            launches: u32::try_from(layers.number("guardrails.launches-per-pod")?).unwrap_or(u32::MAX),
            first_wait: millis(layers, "guardrails.pod-wait")?,
            ..base.launch_backoff
        },
        circuit_breaker: CircuitBreakerRule {
            window: millis(layers, "guardrails.circuit-breaker-window")?,
            engage_percent: count(layers, "guardrails.circuit-breaker-percent")?,
            release_percent: count(layers, "guardrails.circuit-breaker-release-percent")?,
            ..base.circuit_breaker
        },
        removal: base.removal,
        replacement_wait: millis(layers, "guardrails.replacement-wait")?,
    })
}

/// The cluster names of a comma-separated list.
pub(super) fn clusters(names: &str) -> BTreeSet<ClusterName> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(ClusterName::from).collect()
}

/// Saturates at a limit that bounds nothing and cannot overflow.
fn count(layers: &Layers, path: &'static str) -> Result<usize, ConfigError> {
    const LARGEST: u64 = 1_000_000_000;
    Ok(usize::try_from(layers.number(path)?.min(LARGEST)).unwrap_or(usize::MAX))
}

fn millis(layers: &Layers, path: &'static str) -> Result<Millis, ConfigError> {
    layers.duration(path).map(clock::millis)
}

fn dollars(layers: &Layers, path: &'static str) -> Result<MicroUsd, ConfigError> {
    let amount = i64::try_from(layers.number(path)?).unwrap_or(i64::MAX);
    Ok(MicroUsd(amount.saturating_mul(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layers;

    #[test]
    fn the_defaults_of_the_keys_equal_those_of_the_controller() {
        let resolved = resolve(&Layers::default()).unwrap();
        assert_eq!(format!("{resolved:?}"), format!("{:?}", GuardrailSettings::default()));
    }

    #[test]
    fn shadow_clusters_are_comma_separated() {
        assert_eq!(clusters(" a, b,,"), BTreeSet::from([ClusterName::from("a"), ClusterName::from("b")]));
    }
}
