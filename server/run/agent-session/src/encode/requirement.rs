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
    // `Gte` and `Lte` exist from Karpenter 1.9 on, and a bound below 0 never has. Values of labels are integers of 0 or
    // more, so that a minimum of 0 or less and a maximum without a successor exclude none.
    let over = least.and_then(|least| least.checked_sub(1)).filter(|over| *over >= 0);
    let under = most.and_then(|most| most.checked_add(1)).map(|under| under.max(0));
    let mut entries = Vec::new();
    entries.extend(over.map(|over| entry(Operator::Gt, vec![over.to_string()])));
    entries.extend(under.map(|under| entry(Operator::Lt, vec![under.to_string()])));
    if entries.is_empty() && !requirement.allows_absence() {
        entries.push(entry(Operator::Exists, Vec::new()));
    }
    let refused: Vec<String> = requirement.excluded_values().map(Text::to_string).collect();
    if !refused.is_empty() || entries.is_empty() {
        entries.push(entry(Operator::NotIn, refused));
    }
    entries
}
