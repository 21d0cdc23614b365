//! Taints of pools and claims.

use std::collections::BTreeSet;

use model::{Effect, Taint};

use super::labels::{QUALIFIED_NAME, key_problem};
use crate::Cursor;
use crate::schema::part::{Part, atomic, fields, moment, object, one_of_table, text};

const EFFECTS: [(&str, Effect); 3] = [
    ("NoSchedule", Effect::NoSchedule),
    ("PreferNoSchedule", Effect::PreferNoSchedule),
    ("NoExecute", Effect::NoExecute),
];

pub(crate) fn schema() -> Part {
    let taint = object(fields! {
        /// The taint's key.
        /// Allowed: a qualified name; key and effect together occur once in taints and startupTaints
        /// Example: nvidia.com/gpu
        "key": text().min_length(1).pattern(QUALIFIED_NAME),
        /// The taint's value.
        /// Allowed: a qualified name or empty
        /// Example: "true"
        "value": text().pattern(QUALIFIED_NAME),
        /// What happens to pods that do not tolerate the taint.
        /// Example: NoSchedule
        "effect": one_of_table(&EFFECTS),
        /// Written by Kubernetes on nodes; means nothing in a pool.
        "timeAdded": moment(),
    });
    atomic(taint.required(&["effect", "key"]))
}

/// The taints of the list at `at`; key and effect are required, a value must have the syntax of a
/// key.
#[must_use]
pub fn read(at: &Cursor<'_>) -> Vec<Taint> {
    at.list().iter().filter_map(read_one).collect()
}

fn read_one(at: &Cursor<'_>) -> Option<Taint> {
    let key_at = at.at("key");
    let (key, effect) = (key_at.required_str(), at.at("effect").required().one_of(&EFFECTS));
    let value_at = at.at("value");
    let value = value_at.str().unwrap_or_default();
    if let Some(problem) = key_problem(key?) {
        return key_at.unexpected(key?, problem);
    }
    if let Some(problem) = key_problem(value).filter(|_| !value.is_empty()) {
        return value_at.unexpected(value, problem);
    }
    Some(Taint { key: key?.into(), value: value.into(), effect: effect? })
}

/// The first taint whose key and effect occur twice in the two lists, which Karpenter's own
/// validation rejects.
#[must_use]
pub fn first_double<'t>(taints: &'t [Taint], startup_taints: &'t [Taint]) -> Option<&'t Taint> {
    let mut seen = BTreeSet::new();
    taints.iter().chain(startup_taints).find(|taint| !seen.insert((&taint.key, taint.effect)))
}
