//! Types of values that only the server has, and the prefix of its variables.

use std::collections::BTreeMap;

use controller::FeatureGates;
use model::{BudgetLimit, MicroUsd};
use settings::{OtherType, ValueType};

/// Prefix of the server's environment variables.
pub(super) const PREFIX: &str = "FLEETWRIGHT_";

/// URL of a PostgreSQL database.
pub(super) const DATABASE_URL: ValueType = ValueType::Other(&OtherType {
    name: "url",
    placeholder: "URL",
    expected: || "a PostgreSQL URL such as postgres://user@host:5432/database".to_owned(),
    accepts: |text| text.is_empty() || ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)),
});

/// Feature gates by Karpenter's names, `NodeRepair=true`.
pub(super) const FEATURE_GATES: ValueType = ValueType::Other(&OtherType {
    name: "map",
    placeholder: "GATE=BOOLEAN,…",
    expected: || {
        let gates: Vec<String> = FeatureGates::NAMES.iter().map(|name| format!("{name}=true")).collect();
        format!("feature gates such as {}", gates.join(","))
    },
    accepts: |text| parse_feature_gates(text).is_some(),
});

/// Number of nodes, or a percentage of them such as `10%`; empty for no limit.
pub(super) const NODE_LIMIT: ValueType = ValueType::Other(&OtherType {
    name: "integer or percentage",
    placeholder: "NUMBER|PERCENT%",
    expected: || "a number of nodes such as 5, or 0% to 100%".to_owned(),
    accepts: |text| text.is_empty() || parse_node_limit(text).is_some(),
});

/// Parses `NodeRepair=true`; gates that are not named are off.
pub fn parse_feature_gates(text: &str) -> Option<FeatureGates> {
    let mut gates = FeatureGates::default();
    for (name, value) in parse_pairs(text)? {
        gates.set(&name, value.parse().ok()?).then_some(())?;
    }
    Some(gates)
}

/// Parses `5` or `10%`.
pub(super) fn parse_node_limit(text: &str) -> Option<BudgetLimit> {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    match text.strip_suffix('%') {
        Some(percent) => number(percent).filter(|percent| *percent <= 100).map(BudgetLimit::Percent),
        None => number(text).map(BudgetLimit::Nodes),
    }
}

/// Parses an amount of dollars that is not negative, exactly.
pub fn parse_dollars(text: &str) -> Option<MicroUsd> {
    settings::parse_micro_dollars(text).map(MicroUsd)
}

/// Parses `a=b,c=d`; an empty text has no pairs.
fn parse_pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        let (name, value) = pair.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())?;
        if pairs.insert(name.to_owned(), value.to_owned()).is_some() {
            return None;
        }
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_gates_have_karpenters_names_and_are_on_or_off() {
        let repairs = |text| parse_feature_gates(text).map(|gates| gates.node_repair);
        assert_eq!(
            [repairs(""), repairs("NodeRepair=false"), repairs("NodeRepair=true")],
            [false, false, true].map(Some)
        );
        for text in ["NodeRepair", "NodeRepair=yes", "noderepair=true", "Other=true", "NodeRepair=true,NodeRepair=true"]
        {
            assert!(!FEATURE_GATES.accepts(text), "{text}");
        }
        // Gates that change nothing here are gates of Karpenter's.
        assert!(FEATURE_GATES.accepts("StaticCapacity=true,ReservedCapacity=false"));
        assert_eq!(FEATURE_GATES.expected(), "feature gates such as NodeRepair=true,SpotToSpotConsolidation=true");
    }

    #[test]
    fn a_limit_of_nodes_is_a_number_or_a_percentage() {
        assert_eq!(["5", "10%"].map(parse_node_limit), [BudgetLimit::Nodes(5), BudgetLimit::Percent(10)].map(Some));
        for text in ["-1", "+1", "101%", "%", "5 %", "ten"] {
            assert!(!NODE_LIMIT.accepts(text), "{text}");
        }
        assert!(NODE_LIMIT.accepts(""), "no limit");
    }

    #[test]
    fn only_urls_of_postgresql_are_database_urls() {
        for url in ["", "postgres://a@b/c", "postgresql://b/c"] {
            assert!(DATABASE_URL.accepts(url), "{url}");
        }
        for url in ["mysql://a@b/c", "b/c", "postgres:b"] {
            assert!(!DATABASE_URL.accepts(url), "{url}");
        }
    }
}
