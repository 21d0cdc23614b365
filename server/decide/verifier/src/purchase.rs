//! Whether each planned node can be launched as planned: pool, options, zones, offerings, price,
//! order.

use std::collections::BTreeSet;

use super::launch::{Launch, Launches, Outcome, within_ceilings};
use super::violation::{Findings, Rule};
use model::input::MinValuesPolicy;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::plan::Plan;
use model::{InstanceType, MicroUsd, Requirement, Requirements, Text};

/// Maximum number of instance type overrides in an EC2 Fleet request.
const MAX_OPTIONS: usize = 60;

pub(super) fn check(plan: &Plan, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    let numbers = launches.of_node.iter().chain(&launches.of_static);
    for (node, _) in plan.nodes.iter().chain(&plan.static_nodes).zip(numbers).filter(|(_, number)| number.is_none()) {
        findings.report_node(Rule::Pool, &node.name, format!("pool {} does not exist", node.pool));
    }
    let fixed: BTreeSet<u32> = launches.of_static.iter().flatten().copied().collect();
    for (number, launch) in launches.list.iter().enumerate() {
        pool_is_usable(launch, fixed.contains(&u32::try_from(number).unwrap_or(u32::MAX)), findings);
        options_are_sound(launch, findings);
        pool_admits(launch, findings);
        options_are_available(launch, findings);
        price_is_right(launch, findings);
        cheapest_first(launch, findings);
        min_values_hold(launch, findings);
    }
}

fn pool_is_usable(launch: &Launch<'_>, fixed: bool, findings: &mut Findings<'_>) {
    let pool = launch.pool;
    if let Some(why) = &pool.not_ready {
        findings.report_node(Rule::Pool, launch.name(), format!("pool {} is not ready: {why:?}", pool.name));
    }
    if pool.replicas.is_some() && !fixed {
        findings.report_node(
            Rule::Pool,
            launch.name(),
            format!("pool {} is static and cannot launch nodes for pending pods", pool.name),
        );
    }
    if pool.replicas.is_none() && fixed {
        findings.report_node(Rule::Pool, launch.name(), format!("pool {} is not static", pool.name));
    }
}

fn options_are_sound(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let named = launch.node.types.len();
    if named == 0 || named > MAX_OPTIONS {
        findings.report_node(
            Rule::Options,
            launch.name(),
            format!("{named} launch options; allowed are 1 to {MAX_OPTIONS}"),
        );
    }
    if launch.options.len() != named {
        findings.report_node(
            Rule::Options,
            launch.name(),
            "an option is missing from the catalogue of the pool".to_owned(),
        );
    }
    if launch.options.iter().collect::<BTreeSet<_>>().len() != launch.options.len() {
        findings.report_node(Rule::Options, launch.name(), "an option is listed twice".to_owned());
    }
}

fn pool_admits(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let requirements = &launch.pool.requirements;
    for machine in launch.machines() {
        let named = requirements.get(INSTANCE_TYPE).is_none_or(|requirement| requirement.has(&machine.name));
        if let Some(conflict) = machine.labels.first_conflict(requirements) {
            let message = format!("{} does not satisfy the pool's {conflict}", machine.name);
            findings.report_node(Rule::PoolRequirements, launch.name(), message);
        } else if !named {
            findings.report_node(
                Rule::PoolRequirements,
                launch.name(),
                format!("the pool does not allow {}", machine.name),
            );
        }
    }
}

/// Every option is available in some zone, every zone offers some option, and the first option is
/// available in the first zone. An option excluded only by a price ceiling is reported as such.
fn options_are_available(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let node = launch.node;
    if node.zones.is_empty() {
        findings.report_node(Rule::Offering, launch.name(), "the zone list is empty".to_owned());
    }
    if node.zones.iter().collect::<BTreeSet<_>>().len() != node.zones.len() {
        findings.report_node(Rule::Offering, launch.name(), "a zone is listed twice".to_owned());
    }
    let available: BTreeSet<u32> = launch.outcomes.iter().map(|outcome| outcome.option).collect();
    for option in launch.options.iter().filter(|option| !available.contains(option)) {
        let machine = &launch.pool.catalogue.types[*option as usize];
        let rule = if only_price_excludes(launch, machine) { Rule::PriceCeiling } else { Rule::Offering };
        let message =
            format!("{} has no available {} offering in its zones", machine.name, node.capacity_type.as_str());
        findings.report_node(rule, launch.name(), message);
    }
    if available.is_empty() {
        return;
    }
    for zone in node.zones.iter().filter(|zone| !launch.outcomes.iter().any(|o| o.offering.zone == **zone)) {
        findings.report_node(Rule::Offering, launch.name(), format!("no option is available in {zone}"));
    }
}

fn only_price_excludes(launch: &Launch<'_>, machine: &InstanceType) -> bool {
    machine.offerings.iter().any(|offering| {
        offering.available
            && offering.capacity_type == launch.node.capacity_type
            && launch.node.zones.contains(&offering.zone)
            && !within_ceilings(launch.pool, machine, offering)
    })
}

fn price_is_right(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let (Some(first), Some(zone)) = (launch.options.first(), launch.node.zones.first()) else { return };
    let there = |outcome: &&Outcome<'_>| outcome.option == *first && outcome.offering.zone == *zone;
    if !launch.outcomes.iter().any(|outcome| outcome.option == *first) {
        return;
    }
    match launch.outcomes.iter().filter(there).map(|outcome| outcome.offering.price).min() {
        None => {
            findings.report_node(Rule::Offering, launch.name(), format!("the first option is not available in {zone}"))
        }
        Some(price) if price != launch.node.price => {
            let message = format!("its price is {}, but the first option costs {price} in {zone}", launch.node.price);
            findings.report_node(Rule::Price, launch.name(), message);
        }
        Some(_) => {}
    }
}

fn cheapest_first(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let mut prices: Vec<(u32, MicroUsd)> = Vec::with_capacity(launch.options.len());
    for outcome in &launch.outcomes {
        match prices.last_mut() {
            Some((option, price)) if *option == outcome.option => *price = outcome.offering.price.min(*price),
            _ => prices.push((outcome.option, outcome.offering.price)),
        }
    }
    if let Some(pair) = prices.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        let name = |option: u32| &launch.pool.catalogue.types[option as usize].name;
        let message = format!("{} ({}) precedes {} ({})", name(pair[0].0), pair[0].1, name(pair[1].0), pair[1].1);
        findings.report_node(Rule::Options, launch.name(), message);
    }
}

fn min_values_hold(launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let policy = findings.input.policy.min_values;
    for UnmetMinValues { key, wanted, found } in unmet_min_values(policy, &launch.pool.requirements, launch.machines())
    {
        let message = format!("its options have {found} values of {key}, the pool wants {wanted}");
        findings.report_node(Rule::MinValues, launch.name(), message);
    }
}

/// A label with too few distinct values.
#[derive(Debug)]
pub struct UnmetMinValues<'r> {
    pub key: &'r Text,
    pub wanted: u32,
    pub found: u32,
}

/// The `minValues` of `requirements` that a launch with these options does not reach; none if the
/// policy is best effort.
pub fn unmet_min_values<'r, 'm>(
    policy: MinValuesPolicy,
    requirements: &'r Requirements,
    machines: impl Iterator<Item = &'m InstanceType> + Clone,
) -> impl Iterator<Item = UnmetMinValues<'r>> {
    let stated = requirements.iter().filter(move |_| policy == MinValuesPolicy::Strict);
    stated.filter_map(move |requirement| {
        let wanted = requirement.min_values()?;
        let found = u32::try_from(different_values(machines.clone(), requirement)).unwrap_or(u32::MAX);
        (found < wanted).then(|| UnmetMinValues { key: requirement.key(), wanted, found })
    })
}

/// Number of distinct values allowed by `requirement` that the instance types could have, in any
/// available offering (Karpenter: `minValues` counts instance types, not the offering that
/// launches).
fn different_values<'a>(machines: impl Iterator<Item = &'a InstanceType>, requirement: &Requirement) -> usize {
    let mut values: BTreeSet<&str> = BTreeSet::new();
    for machine in machines {
        let offerings = || machine.offerings.iter().filter(|offering| offering.available);
        match requirement.key().as_ref() {
            INSTANCE_TYPE => drop(values.insert(&machine.name)),
            ZONE => values.extend(offerings().map(|offering| offering.zone.as_ref())),
            CAPACITY_TYPE => values.extend(offerings().map(|offering| offering.capacity_type.as_str())),
            key => {
                values.extend(offerings().filter_map(|offering| offering.labels.get(key)).map(AsRef::as_ref));
                let defined = machine.labels.get(key).and_then(Requirement::finite_values);
                values.extend(defined.into_iter().flatten().map(AsRef::as_ref));
            }
        }
    }
    values.retain(|value| requirement.has(value));
    values.len()
}
