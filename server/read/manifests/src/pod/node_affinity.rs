//! Node affinity and node selector terms.

use model::{NodeSelectorTerm, Operator, Requirement, Text, Weighted};

use crate::selector::check_values;
use crate::{Cursor, syntax};

const OPERATORS: [(&str, Operator); 6] = [
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
    ("Gt", Operator::Gt),
    ("Lt", Operator::Lt),
];
const FIELD_OPERATORS: [(&str, Operator); 2] = [("In", Operator::In), ("NotIn", Operator::NotIn)];

/// The terms of `requiredDuringSchedulingIgnoredDuringExecution` of the node affinity at `at`.
pub fn required(at: &Cursor<'_>) -> Vec<NodeSelectorTerm> {
    selector(&at.at("requiredDuringSchedulingIgnoredDuringExecution"))
}

/// The terms of the node selector at `at`. A selector without terms is an error.
pub fn selector(at: &Cursor<'_>) -> Vec<NodeSelectorTerm> {
    if !at.exists() {
        return Vec::new();
    }
    let terms = at.at("nodeSelectorTerms").required();
    let items = terms.list();
    if terms.exists() && items.is_empty() {
        terms.error("empty, allowed: at least one term");
    }
    items.iter().map(term).collect()
}

/// The preferred terms of the node affinity at `at`. Terms without conditions are dropped.
pub fn preferred(at: &Cursor<'_>) -> Vec<Weighted<NodeSelectorTerm>> {
    let items = at.at("preferredDuringSchedulingIgnoredDuringExecution").list();
    let read = |item: &Cursor<'_>| {
        let weight = item.at("weight").required().int_within(1, 100)?;
        let term = term(&item.at("preference").required());
        Some(Weighted { weight: i32::try_from(weight).ok()?, term })
    };
    let terms = items.iter().filter_map(read);
    terms.filter(|weighted| weighted.term != NodeSelectorTerm::default()).collect()
}

fn term(at: &Cursor<'_>) -> NodeSelectorTerm {
    let expressions = at.at("matchExpressions").list().iter().filter_map(expression).collect();
    NodeSelectorTerm { expressions, names: at.at("matchFields").list().iter().filter_map(field).collect() }
}

fn expression(at: &Cursor<'_>) -> Option<Requirement> {
    let key = syntax::label_key(&at.at("key"));
    let operator = at.at("operator").required().one_of(&OPERATORS)?;
    let values_at = at.at("values");
    let values = match operator {
        Operator::Gt | Operator::Lt => vec![integer(&values_at)?],
        _ => syntax::label_values(&values_at),
    };
    if !matches!(operator, Operator::Gt | Operator::Lt) {
        check_values(at, matches!(operator, Operator::In | Operator::NotIn), values_at.list().len())?;
    }
    Some(Requirement::new(key?, operator, values.into_iter().map(Text::from)))
}

/// The single integer operand of `Gt` and `Lt`.
fn integer<'v>(at: &Cursor<'v>) -> Option<&'v str> {
    let values = at.strings();
    match values.as_slice() {
        [one] if one.parse::<i64>().is_ok() => Some(one),
        [one] => at.unexpected(one, "one whole number in quotes"),
        _ => {
            at.error(format!("found {} values, allowed for Gt and Lt: one whole number in quotes", values.len()));
            None
        }
    }
}

fn field(at: &Cursor<'_>) -> Option<Requirement> {
    const KEYS: [(&str, ()); 1] = [("metadata.name", ())];
    at.at("key").required().one_of(&KEYS)?;
    let operator = at.at("operator").required().one_of(&FIELD_OPERATORS)?;
    let values = at.at("values").strings();
    let [name] = values.as_slice() else {
        at.at("values").error(format!("found {} values, allowed in matchFields: exactly one", values.len()));
        return None;
    };
    Some(Requirement::new("metadata.name", operator, [Text::from(*name)]))
}
