//! The tables `disruption` and `interruption`.

use controller::guardrails::Mode;
use controller::{ConsolidationSettings, DisruptionSettings, RebalanceRecommendations, RepairMode};
use store::clock;

use super::error::ConfigError;
use super::guardrails::clusters;
use super::layers::Layers;

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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_keys_equal_those_of_the_controller() {
        let resolved = resolve(&Layers::default()).unwrap();
        assert_eq!(format!("{resolved:?}"), format!("{:?}", DisruptionSettings::default()));
    }
}
