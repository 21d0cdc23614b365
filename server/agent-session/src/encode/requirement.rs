//! Encodes requirements on labels.

use fleetwright_proto::v1;
use model::{Operator, Requirement, Text};

/// The entries whose conjunction is this requirement.
pub(super) fn entries(requirement: &Requirement) -> Vec<v1::ClaimRequirement> {
    let entry = |operator: Operator, values: Vec<String>| v1::ClaimRequirement {
        key: requirement.key().to_string(),
        operator: operator.as_str().to_owned(),
        values,
        min_values: requirement.min_values(),
    };
    if let Some(values) = requirement.finite_values() {
        return vec![entry(requirement.operator(), values.iter().map(Text::to_string).collect())];
    }
    let (least, most) = requirement.bounds();
    let mut entries = Vec::new();
    entries.extend(least.map(|bound| entry(Operator::Gte, vec![bound.to_string()])));
    entries.extend(most.map(|bound| entry(Operator::Lte, vec![bound.to_string()])));
    let refused: Vec<String> = requirement.excluded_values().map(Text::to_string).collect();
    if !refused.is_empty() {
        entries.push(entry(Operator::NotIn, refused));
    }
    if entries.is_empty() {
        entries.push(entry(Operator::Exists, Vec::new()));
    }
    entries
}
