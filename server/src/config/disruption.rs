//! The table `disruption`: settings of voluntary disruption.

use controller::DisruptionSettings;
use controller::guardrails::Mode;

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
