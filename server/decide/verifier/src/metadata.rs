//! Metadata of planned nodes: labels, taints, and the requests of static nodes.

use std::collections::BTreeMap;

use super::capacity::Daemons;
use super::launch::{Launch, Launches};
use super::violation::{Findings, Rule};
use model::labels::{CAPACITY_TYPE, HOSTNAME, NODEPOOL, ZONE};
use model::plan::Plan;
use model::{Requirement, Resources, Taint};

pub(super) fn check(plan: &Plan, launches: &Launches<'_>, daemons: &Daemons<'_>, findings: &mut Findings<'_>) {
    for launch in &launches.list {
        labels_are_true(launch, findings);
        labels_are_complete(launch, findings);
        taints_are_the_pools(launch, findings);
    }
    for (node, launch) in plan.static_nodes.iter().zip(&launches.of_static) {
        let Some(number) = launch.map(|number| number as usize) else { continue };
        let expected = daemons.requests_of_first(number, &launches.list[number]);
        if !same_amounts(&node.requests, &expected) {
            findings.report_node(
                Rule::Requests,
                &node.name,
                "its requests differ from the requests of its DaemonSet pods".to_owned(),
            );
        }
    }
}

fn same_amounts(left: &Resources, right: &Resources) -> bool {
    left.iter().all(|(name, amount)| right.get(name) == amount)
        && right.iter().all(|(name, amount)| left.get(name) == amount)
}

/// Every planned label holds for every outcome, or the pool leaves its value to the plan.
fn labels_are_true(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    for (key, value) in launch.node.labels.iter() {
        let known = launch.values(key);
        let chosen = launch.pool.requirements.get(key).is_none_or(|requirement| requirement.has(value));
        let defined = launch.pool.labels.contains_key(key)
            || launch.pool.requirements.get(key).is_some()
            || launch.machines().any(|machine| machine.labels.get(key).is_some())
            || launch.outcomes.iter().any(|outcome| outcome.offering.labels.contains_key(key))
            || launch.is_unknown(key)
            || BUILT_IN.contains(&key.as_ref());
        let wrong = key.as_ref() == HOSTNAME || known.iter().any(|known| *known != Some(value.as_ref()));
        if !launch.outcomes.is_empty() && (wrong || !chosen || !defined) {
            findings.report_node(Rule::Labels, launch.name(), format!("the label {key}={value} is not guaranteed"));
        }
    }
}

/// Label keys that every node has although neither pool nor catalogue defines them.
const BUILT_IN: [&str; 5] = [ZONE, CAPACITY_TYPE, NODEPOOL, model::labels::NODECLASS, model::labels::INSTANCE_TYPE];

/// The plan states the labels given by pool, capacity type and single zone, and those common to all
/// instance types.
fn labels_are_complete(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let node = launch.node;
    let mut expected: BTreeMap<&str, &str> = BTreeMap::new();
    expected.insert(NODEPOOL, &launch.pool.name);
    expected.insert(CAPACITY_TYPE, node.capacity_type.as_str());
    if let [zone] = &*node.zones {
        expected.insert(ZONE, zone);
    }
    expected.extend(launch.pool.labels.iter().map(|(key, value)| (key.as_ref(), value.as_ref())));
    if let Some(first) = launch.machines().next() {
        let unstated = first.labels.iter().filter(|requirement| !node.labels.contains_key(requirement.key()));
        for requirement in unstated.filter(|requirement| common_to_all(launch, requirement)) {
            let value = requirement.finite_values().and_then(|values| values.first());
            expected.extend(value.map(|value| (requirement.key().as_ref(), value.as_ref())));
        }
    }
    for (key, value) in expected {
        if !node.labels.contains_key(key) {
            findings.report_node(Rule::Labels, launch.name(), format!("the guaranteed label {key}={value} is missing"));
        }
    }
}

fn common_to_all(launch: &Launch<'_>, requirement: &Requirement) -> bool {
    let single = requirement.finite_values().is_some_and(|values| values.len() == 1);
    single
        && launch.machines().all(|machine| {
            machine.labels.get(requirement.key()).and_then(Requirement::finite_values) == requirement.finite_values()
        })
}

fn taints_are_the_pools(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let sorted = |taints: &[Taint]| {
        let mut taints = taints.to_vec();
        taints.sort();
        taints.dedup();
        taints
    };
    if sorted(&launch.node.taints) != sorted(&launch.pool.taints) {
        findings.report_node(
            Rule::NodeTaints,
            launch.name(),
            "its taints differ from the taints of its pool".to_owned(),
        );
    }
}
