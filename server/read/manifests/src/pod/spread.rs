//! Topology spread constraints.

use std::collections::BTreeSet;

use model::{LabelSelector, Labels, SelectorOperator, SpreadConstraint, Text};

use crate::{Cursor, selector, syntax};

/// A constraint, with the label keys whose values of the pod are added to its selector.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedSpread {
    constraint: SpreadConstraint,
    match_keys: Vec<Text>,
}

impl KeyedSpread {
    /// The constraint for a pod with `labels`.
    #[must_use]
    pub fn merged(&self, labels: &Labels) -> SpreadConstraint {
        let mut constraint = self.constraint.clone();
        selector::merge(&mut constraint.selector, &self.match_keys, SelectorOperator::In, labels);
        constraint
    }

    /// Whether [`merged`](Self::merged) differs between pods with different labels.
    #[must_use]
    pub fn depends_on_labels(&self) -> bool {
        !self.match_keys.is_empty()
    }

    /// The constraint with `selector` as its selector.
    #[must_use]
    pub fn selecting(&self, selector: &LabelSelector) -> Self {
        let constraint = SpreadConstraint { selector: Some(selector.clone()), ..self.constraint.clone() };
        Self { constraint, match_keys: Vec::new() }
    }
}

const POLICIES: [(&str, bool); 2] = [("Honor", true), ("Ignore", false)];
const WHEN: [(&str, bool); 2] = [("DoNotSchedule", true), ("ScheduleAnyway", false)];

/// The constraints in the list at `at`.
pub fn read(at: &Cursor<'_>) -> Vec<KeyedSpread> {
    read_items(&at.list())
}

/// The constraints at `items`.
pub fn read_items(items: &[Cursor<'_>]) -> Vec<KeyedSpread> {
    let mut seen = BTreeSet::new();
    let mut constraints = Vec::new();
    for item in items {
        let Some(keyed) = read_one(item) else { continue };
        if !seen.insert((keyed.constraint.topology_key.clone(), keyed.constraint.hard)) {
            item.error("occurs twice; topologyKey and whenUnsatisfiable together must differ");
        }
        constraints.push(keyed);
    }
    constraints
}

fn read_one(at: &Cursor<'_>) -> Option<KeyedSpread> {
    let max_skew = at.at("maxSkew").required().int_within(1, i64::from(i32::MAX));
    let topology_key = syntax::label_key(&at.at("topologyKey"));
    let hard = at.at("whenUnsatisfiable").required().one_of(&WHEN);
    let min_domains = at.at("minDomains").int_within(1, i64::from(i32::MAX));
    if at.at("minDomains").exists() && hard == Some(false) {
        at.at("minDomains").error("only allowed with whenUnsatisfiable: DoNotSchedule");
    }
    let selector = selector::read(&at.at("labelSelector"));
    let match_keys = selector::label_keys(&at.at("matchLabelKeys"), selector.as_ref());
    let constraint = SpreadConstraint {
        topology_key: topology_key?.into(),
        max_skew: i32::try_from(max_skew?).ok()?,
        min_domains: min_domains.and_then(|number| i32::try_from(number).ok()),
        hard: hard?,
        selector,
        honor_node_affinity: at.at("nodeAffinityPolicy").one_of(&POLICIES).unwrap_or(true),
        honor_node_taints: at.at("nodeTaintsPolicy").one_of(&POLICIES).unwrap_or(false),
    };
    Some(KeyedSpread { constraint, match_keys })
}
