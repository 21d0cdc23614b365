//! Label selectors, and their merging with `matchLabelKeys`.

use model::{LabelSelector, Labels, SelectorOperator, SelectorTerm, Text};

use crate::{Cursor, syntax};

const OPERATORS: [(&str, SelectorOperator); 4] = [
    ("In", SelectorOperator::In),
    ("NotIn", SelectorOperator::NotIn),
    ("Exists", SelectorOperator::Exists),
    ("DoesNotExist", SelectorOperator::DoesNotExist),
];

/// The label selector at `at`; `None` when it is absent, which selects nothing.
pub fn read(at: &Cursor<'_>) -> Option<LabelSelector> {
    if !at.exists() {
        return None;
    }
    let mut terms: Vec<SelectorTerm> = Vec::new();
    for (key, value) in syntax::labels(&at.at("matchLabels")) {
        terms.push(SelectorTerm { key, operator: SelectorOperator::In, values: vec![value] });
    }
    terms.extend(at.at("matchExpressions").list().iter().filter_map(expression));
    Some(LabelSelector::new(terms))
}

fn expression(at: &Cursor<'_>) -> Option<SelectorTerm> {
    let key = syntax::label_key(&at.at("key"));
    let operator = at.at("operator").required().one_of(&OPERATORS)?;
    let values = syntax::label_values(&at.at("values"));
    let wants_values = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
    check_values(at, wants_values, at.at("values").list().len())?;
    Some(SelectorTerm { key: key?.into(), operator, values: values.into_iter().map(Text::from).collect() })
}

/// Reports an operator `In` or `NotIn` without values, and `Exists` or `DoesNotExist` with values.
pub fn check_values(at: &Cursor<'_>, wanted: bool, found: usize) -> Option<()> {
    let operator = at.at("operator").str().unwrap_or_default();
    match (wanted, found) {
        (true, 0) => at.at("values").error(format!("missing, operator {operator} needs at least one value")),
        (false, 1..) => at.at("values").error(format!("found {found} values, operator {operator} allows none")),
        _ => return Some(()),
    }
    None
}

/// `matchLabelKeys` or `mismatchLabelKeys` at `at`. An error is reported when there is no selector
/// to extend.
pub fn label_keys(at: &Cursor<'_>, selector: Option<&LabelSelector>) -> Vec<Text> {
    let keys: Vec<Text> = at.list().iter().filter_map(|item| syntax::label_key(item).map(Text::from)).collect();
    if !keys.is_empty() && selector.is_none() {
        at.error("only allowed beside a labelSelector");
    }
    keys
}

/// `selector` with the pod's own values of `keys`: required with `In`, excluded with `NotIn`. Keys
/// that the pod does not have are ignored (Kubernetes: matchLabelKeys).
pub fn merge(selector: &mut Option<LabelSelector>, keys: &[Text], operator: SelectorOperator, labels: &Labels) {
    let Some(present) = selector.as_mut().filter(|_| !keys.is_empty()) else { return };
    let mut terms = std::mem::take(&mut present.terms);
    for key in keys {
        if let Some(value) = labels.get(key) {
            terms.push(SelectorTerm { key: key.clone(), operator, values: vec![value.clone()] });
        }
    }
    *present = LabelSelector::new(terms);
}
