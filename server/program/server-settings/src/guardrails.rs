//! The table `guardrails`: guardrail settings.

use std::collections::BTreeSet;

use controller::guardrails::settings::{Bound, CircuitBreakerRule, LaunchBackoffRule, QuarantineRule, RateLimitRule};
use controller::guardrails::{GuardrailSettings, Mode};
use model::{ClusterName, MicroUsd, Millis};

use super::layers::Layers;
use settings::ConfigError;
use store::clock;

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
