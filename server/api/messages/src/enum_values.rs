//! Values of enums of the API by the words that Kubernetes, Karpenter and the decision log have for them, and back.

use fleetwright_proto::v1;
use model::removal::RemovalReason;

/// The value of the enum with this prefix whose name without it is `word`, in upper case and with underscores.
fn of_word<E: Default>(prefix: &str, word: &str, parse: impl Fn(&str) -> Option<E>) -> E {
    parse(&format!("{prefix}{}", word.to_ascii_uppercase().replace('-', "_"))).unwrap_or_default()
}

/// `on-demand` for `CAPACITY_TYPE_ON_DEMAND`; empty for what is not known.
fn word(name: &str, prefix: &str) -> String {
    let word = name.strip_prefix(prefix).unwrap_or(name);
    if word == "UNSPECIFIED" { String::new() } else { word.to_ascii_lowercase().replace('_', "-") }
}

/// The value of the label `karpenter.sh/capacity-type`.
pub fn capacity_type(label: &str) -> v1::CapacityType {
    of_word("CAPACITY_TYPE_", label, v1::CapacityType::from_str_name)
}

/// The label's value; empty for what is not known.
pub fn capacity_type_label(value: v1::CapacityType) -> String {
    word(value.as_str_name(), "CAPACITY_TYPE_")
}

/// The kind of a decision by its word in the decision log.
pub fn decision_kind(kind: &str) -> v1::DecisionKind {
    of_word("DECISION_KIND_", kind, v1::DecisionKind::from_str_name)
}

/// The word of the decision log; empty for what is not known.
pub fn decision_kind_word(value: v1::DecisionKind) -> String {
    word(value.as_str_name(), "DECISION_KIND_")
}

pub fn disruption_reason(reason: RemovalReason) -> v1::DisruptionReason {
    match reason {
        RemovalReason::Unhealthy => v1::DisruptionReason::Unhealthy,
        RemovalReason::Repaired => v1::DisruptionReason::Repaired,
        RemovalReason::Expired => v1::DisruptionReason::Expired,
        RemovalReason::Empty => v1::DisruptionReason::Empty,
        RemovalReason::Drifted => v1::DisruptionReason::Drifted,
        RemovalReason::Underutilized => v1::DisruptionReason::Underutilized,
        RemovalReason::Interrupted => v1::DisruptionReason::Interrupted,
        RemovalReason::Rebalanced => v1::DisruptionReason::Rebalanced,
        RemovalReason::Surplus => v1::DisruptionReason::Surplus,
        RemovalReason::HoldEnded => v1::DisruptionReason::HoldEnded,
    }
}

/// The reason as conditions and budgets of Karpenter write it: `Underutilized`.
pub fn disruption_reason_word(value: v1::DisruptionReason) -> String {
    let words = value.as_str_name().strip_prefix("DISRUPTION_REASON_").unwrap_or_default().split('_');
    let title = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{first}{}", rest.to_ascii_lowercase())
    };
    words.map(title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_label_and_of_the_log_has_a_value_and_comes_back() {
        let known = [model::CapacityType::OnDemand, model::CapacityType::Spot, model::CapacityType::Reserved];
        for label in known.map(model::CapacityType::as_str) {
            assert_ne!(capacity_type(label), v1::CapacityType::Unspecified, "{label}");
            assert_eq!(capacity_type_label(capacity_type(label)), label);
        }
        let methods = controller::method_reasons().map(|reason| reason.kind);
        for kind in methods.chain(["provision", "hold"]) {
            assert_ne!(decision_kind(kind), v1::DecisionKind::Unspecified, "{kind}");
            assert_eq!(decision_kind_word(decision_kind(kind)), kind);
        }
    }

    #[test]
    fn what_is_not_known_has_no_word() {
        assert_eq!(capacity_type("preemptible"), v1::CapacityType::Unspecified);
        assert_eq!(capacity_type(""), v1::CapacityType::Unspecified);
        assert_eq!(capacity_type_label(v1::CapacityType::Unspecified), "");
        assert_eq!(decision_kind_word(v1::DecisionKind::Unspecified), "");
    }

    #[test]
    fn reasons_are_written_as_karpenter_does() {
        let reasons = controller::method_reasons().map(|reason| reason.removal);
        for reason in reasons {
            assert_eq!(disruption_reason_word(disruption_reason(reason)), reason.to_string());
        }
    }
}
