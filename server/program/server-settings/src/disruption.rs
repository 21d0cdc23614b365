//! The tables `disruption` and `interruption`.

use controller::guardrails::Mode;
use controller::{ConsolidationSettings, DisruptionSettings, RebalanceRecommendations, RepairMode};
use model::Millis;
use store::clock;

use super::guardrails::clusters;
use super::layers::Layers;
use settings::ConfigError;

/// Parses the settings of voluntary disruption.
///
/// # Errors
/// [`ConfigError::Value`] for the first invalid value.
pub(super) fn resolve(layers: &Layers) -> Result<DisruptionSettings, ConfigError> {
    Ok(DisruptionSettings {
        max_unavailable_nodes: layers.node_limit("disruption.max-unavailable-nodes")?,
        mode: if layers.choice("disruption.mode")? == "shadow" { Mode::Shadow } else { Mode::Act },
        shadow: clusters(&layers.text("disruption.shadow-clusters")),
        repair: match layers.choice("disruption.repair")? {
            "voluntary" => RepairMode::Voluntary,
            _ => RepairMode::Forceful,
        },
        rebalance: match layers.choice("interruption.rebalance-recommendations")? {
            "replace" => RebalanceRecommendations::Replace,
            _ => RebalanceRecommendations::Ignore,
        },
    })
}

/// Least time between two passes: a pass that budgets hold back is repeated after it.
const LEAST_PASS_INTERVAL: Millis = Millis::from_secs(1);

/// Parses the minimum time between two passes of the disruption methods.
///
/// # Errors
/// [`ConfigError::Value`] for an invalid duration.
pub(super) fn pass_interval(layers: &Layers) -> Result<Millis, ConfigError> {
    Ok(clock::millis(layers.duration("disruption.pass-interval")?).max(LEAST_PASS_INTERVAL))
}

/// Parses when nodes are consolidated.
///
/// # Errors
/// [`ConfigError::Value`] for the first invalid value.
pub(super) fn consolidation(layers: &Layers) -> Result<ConsolidationSettings, ConfigError> {
    Ok(ConsolidationSettings {
        is_enabled: layers.boolean("disruption.consolidation")?,
        interval: clock::millis(layers.duration("disruption.interval")?),
        min_savings: layers.dollars("disruption.min-savings-usd-per-hour")?,
        churn_price: layers.dollars("disruption.churn-price-usd-per-hour")?,
        move_interval: clock::millis(layers.duration("disruption.move-interval")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_keys_equal_those_of_the_controller() {
        let resolved = resolve(&Layers::default()).unwrap();
        assert_eq!(format!("{resolved:?}"), format!("{:?}", DisruptionSettings::default()));
        let interval = pass_interval(&Layers::default()).unwrap();
        assert_eq!(interval, controller::Settings::default().disruption_pass_interval);
    }
}
