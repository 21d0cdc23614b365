//! What the plan says about each machine: labels, taints, and what static machines carry.

use std::collections::BTreeMap;

use super::launch::{Launch, Launches};
use super::room::Daemons;
use super::{Findings, Rule};
use crate::model::labels::{CAPACITY_TYPE, HOSTNAME, NODEPOOL, ZONE};
use crate::model::{Requirement, Resources, Taint};
use crate::plan::Plan;

pub(super) fn check(plan: &Plan, launches: &Launches<'_>, daemons: &Daemons<'_>, found: &mut Findings<'_>) {
    for launch in &launches.list {
        labels_are_true(launch, found);
        labels_are_complete(launch, found);
        taints_are_the_pools(launch, found);
    }
    for (node, launch) in plan.static_nodes.iter().zip(&launches.of_static) {
        let Some(number) = launch.map(|number| number as usize) else { continue };
        let expected = daemons.requests_of_first(number, &launches.list[number]);
        if !same_amounts(&node.requests, &expected) {
            found.node(Rule::Requests, &node.name, "its requests are not what its daemons ask for".to_owned());
        }
    }
}

fn same_amounts(left: &Resources, right: &Resources) -> bool {
    left.iter().all(|(name, amount)| right.get(name) == amount)
        && right.iter().all(|(name, amount)| left.get(name) == amount)
}

/// Every label holds on every outcome, or the pool lets the plan choose it.
fn labels_are_true(launch: &Launch<'_>, found: &mut Findings<'_>) {
    for (key, value) in launch.node.labels.iter() {
        let known = launch.values(key);
        let chosen = launch.pool.requirements.get(key).is_none_or(|requirement| requirement.has(value));
        let promised = launch.pool.labels.contains_key(key)
            || launch.pool.requirements.get(key).is_some()
            || launch.machines().any(|machine| machine.labels.get(key).is_some())
            || launch.outcomes.iter().any(|outcome| outcome.offering.labels.contains_key(key))
            || launch.is_untold(key)
            || BUILT_IN.contains(&key.as_ref());
        let wrong = key.as_ref() == HOSTNAME || known.iter().any(|known| *known != Some(value.as_ref()));
        if !launch.outcomes.is_empty() && (wrong || !chosen || !promised) {
            found.node(Rule::Labels, launch.name(), format!("it will not have the label {key}={value} for sure"));
        }
    }
}

/// Keys whose values every machine has without pool or catalogue naming them.
const BUILT_IN: [&str; 5] =
    [ZONE, CAPACITY_TYPE, NODEPOOL, crate::model::labels::NODECLASS, crate::model::labels::INSTANCE_TYPE];

/// What pool, capacity type, a single zone and all types agree on is stated.
fn labels_are_complete(launch: &Launch<'_>, found: &mut Findings<'_>) {
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
            found.node(
                Rule::Labels,
                launch.name(),
                format!("it will have {key}={value} for sure, but that is not stated"),
            );
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

fn taints_are_the_pools(launch: &Launch<'_>, found: &mut Findings<'_>) {
    let sorted = |taints: &[Taint]| {
        let mut taints = taints.to_vec();
        taints.sort();
        taints.dedup();
        taints
    };
    if sorted(&launch.node.taints) != sorted(&launch.pool.taints) {
        found.node(Rule::NodeTaints, launch.name(), "its taints are not the pool's".to_owned());
    }
}
