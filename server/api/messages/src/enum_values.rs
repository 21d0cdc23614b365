//! Values of enums of the API by the words that Kubernetes, Karpenter and the decision log have for them, and back.

use fleetwright_proto::v1;

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

/// The reason by the word that conditions and budgets of Karpenter have for it, as `Underutilized`.
pub fn disruption_reason(word: &str) -> v1::DisruptionReason {
    let capital = |(at, letter): (usize, char)| (at > 0 && letter.is_ascii_uppercase()).then_some('-');
    let words: String = word.char_indices().flat_map(|one| capital(one).into_iter().chain([one.1])).collect();
    of_word("DISRUPTION_REASON_", &words, v1::DisruptionReason::from_str_name)
}

/// The word for the reason.
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
    use model::removal::RemovalReason;

    use super::*;

    #[test]
    fn every_word_of_the_label_has_a_value_and_comes_back() {
        let known = [model::CapacityType::OnDemand, model::CapacityType::Spot, model::CapacityType::Reserved];
        for label in known.map(model::CapacityType::as_str) {
            assert_ne!(capacity_type(label), v1::CapacityType::Unspecified, "{label}");
            assert_eq!(capacity_type_label(capacity_type(label)), label);
        }
    }

    #[test]
    fn every_kind_of_decision_has_a_value_and_every_value_a_kind() {
        let methods = RemovalReason::ALL.iter().map(|reason| reason.kind());
        let kinds: Vec<&str> = methods.chain(["provision", "hold"]).collect();
        let known = (1..).map_while(|number| v1::DecisionKind::try_from(number).ok());
        assert_eq!(kinds.len(), known.clone().count());
        assert!(known.map(decision_kind_word).all(|word| kinds.contains(&&*word)));
        assert!(kinds.iter().all(|kind| decision_kind_word(decision_kind(kind)) == *kind));
    }

    #[test]
    fn what_is_not_known_has_no_word() {
        assert_eq!(capacity_type("preemptible"), v1::CapacityType::Unspecified);
        assert_eq!(capacity_type(""), v1::CapacityType::Unspecified);
        assert_eq!(capacity_type_label(v1::CapacityType::Unspecified), "");
        assert_eq!(decision_kind_word(v1::DecisionKind::Unspecified), "");
    }

    #[test]
    fn every_reason_has_a_value_and_every_value_a_reason() {
        let known = (1..).map_while(|number| v1::DisruptionReason::try_from(number).ok());
        assert_eq!(RemovalReason::ALL.len(), known.clone().count());
        for reason in RemovalReason::ALL {
            let value = disruption_reason(reason.as_str());
            assert!(known.clone().any(|known| known == value), "{reason}");
            assert_eq!(disruption_reason_word(value), reason.as_str());
            let of_budgets = reason.disruption_reason().map(|reason| disruption_reason(reason.as_str()));
            assert_ne!(of_budgets, Some(v1::DisruptionReason::Unspecified), "{reason}");
        }
    }
}
