//! Tolerations of pods, and those that the DaemonSet controller adds.

use model::{Effect, Taint, Toleration, TolerationOperator};

use crate::{Cursor, syntax};

const OPERATORS: [(&str, TolerationOperator); 5] = [
    ("Equal", TolerationOperator::Equal),
    ("Exists", TolerationOperator::Exists),
    ("Lt", TolerationOperator::Lt),
    ("Gt", TolerationOperator::Gt),
    ("", TolerationOperator::Equal),
];
const EFFECTS: [(&str, Effect); 3] = [
    ("NoSchedule", Effect::NoSchedule),
    ("PreferNoSchedule", Effect::PreferNoSchedule),
    ("NoExecute", Effect::NoExecute),
];

/// The tolerations in the list at `at`, without duplicates.
pub fn read(at: &Cursor<'_>) -> Vec<Toleration> {
    let mut tolerations: Vec<Toleration> = Vec::new();
    for toleration in at.list().iter().filter_map(read_one) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    tolerations
}

fn read_one(at: &Cursor<'_>) -> Option<Toleration> {
    let key = at.at("key").str().unwrap_or_default();
    if !key.is_empty() {
        syntax::label_key(&at.at("key"))?;
    }
    let operator = at.at("operator").one_of(&OPERATORS);
    let operator = if at.at("operator").exists() { operator? } else { TolerationOperator::Equal };
    let value = at.at("value").str().unwrap_or_default();
    if key.is_empty() && operator != TolerationOperator::Exists {
        at.at("operator").error("an empty key needs the operator Exists");
    }
    check_value(at, operator, value);
    let effect_at = at.at("effect");
    let effect = if effect_at.str().unwrap_or_default().is_empty() { None } else { Some(effect_at.one_of(&EFFECTS)?) };
    if at.at("tolerationSeconds").int().is_some() && effect != Some(Effect::NoExecute) {
        at.at("tolerationSeconds").error("only allowed with effect: NoExecute");
    }
    Some(Toleration { key: key.into(), operator, value: value.into(), effect })
}

fn check_value(at: &Cursor<'_>, operator: TolerationOperator, value: &str) {
    let at = at.at("value");
    match operator {
        TolerationOperator::Exists if !value.is_empty() => at.error("must be left out with the operator Exists"),
        TolerationOperator::Lt | TolerationOperator::Gt if value.parse::<i64>().is_err() => {
            at.error(format!("found {value:?}, allowed with Lt and Gt: a whole number in quotes"));
        }
        TolerationOperator::Equal if !syntax::is_label_value(value) => {
            at.unexpected::<()>(value, syntax::LABEL_VALUE);
        }
        _ => {}
    }
}

/// The taints in the list at `at`, of a Node.
pub fn taints(at: &Cursor<'_>) -> Vec<Taint> {
    let read = |item: &Cursor<'_>| {
        let key = syntax::label_key(&item.at("key"))?;
        let effect = item.at("effect").required().one_of(&EFFECTS)?;
        Some(Taint { key: key.into(), value: item.at("value").text().unwrap_or_default(), effect })
    };
    at.list().iter().filter_map(read).collect()
}

/// Tolerations that the DaemonSet controller adds to its pods (Kubernetes: taints and tolerations
/// of DaemonSet pods).
pub fn of_daemons(host_network: bool) -> Vec<Toleration> {
    let exists = |key: &str, effect| Toleration {
        key: format!("node.kubernetes.io/{key}").into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: Some(effect),
    };
    let mut tolerations = vec![
        exists("not-ready", Effect::NoExecute),
        exists("unreachable", Effect::NoExecute),
        exists("disk-pressure", Effect::NoSchedule),
        exists("memory-pressure", Effect::NoSchedule),
        exists("pid-pressure", Effect::NoSchedule),
        exists("unschedulable", Effect::NoSchedule),
    ];
    if host_network {
        tolerations.push(exists("network-unavailable", Effect::NoSchedule));
    }
    tolerations
}
