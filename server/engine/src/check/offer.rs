//! Can each machine be bought as the plan says: pool, options, zones, offerings, price, order.

use std::collections::BTreeSet;

use super::launch::{Launch, Launches, Outcome, within_ceilings};
use super::{Findings, Rule};
use crate::input::MinValuesPolicy;
use crate::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use crate::model::{InstanceType, MicroUsd, Requirement};

/// EC2 Fleet takes at most this many overrides of instance types.
const MOST_OPTIONS: usize = 60;

pub(super) fn check(launches: &Launches<'_>, found: &mut Findings<'_>) {
    let fixed: BTreeSet<u32> = launches.of_static.iter().flatten().copied().collect();
    for (number, launch) in launches.list.iter().enumerate() {
        pool_takes_part(launch, fixed.contains(&u32::try_from(number).unwrap_or(u32::MAX)), found);
        options_are_sound(launch, found);
        pool_admits(launch, found);
        everything_is_on_sale(launch, found);
        price_is_right(launch, found);
        cheapest_first(launch, found);
        min_values_hold(launch, found);
    }
}

fn pool_takes_part(launch: &Launch<'_>, fixed: bool, found: &mut Findings<'_>) {
    let pool = launch.pool;
    if let Some(why) = &pool.not_ready {
        found.node(Rule::Pool, launch.name(), format!("pool {} is not ready: {why:?}", pool.name));
    }
    if pool.replicas.is_some() && !fixed {
        found.node(Rule::Pool, launch.name(), format!("pool {} is static and takes no pending pods", pool.name));
    }
    if pool.replicas.is_none() && fixed {
        found.node(Rule::Pool, launch.name(), format!("pool {} is not static", pool.name));
    }
}

fn options_are_sound(launch: &Launch<'_>, found: &mut Findings<'_>) {
    let named = launch.node.types.len();
    if named == 0 || named > MOST_OPTIONS {
        found.node(Rule::Options, launch.name(), format!("{named} launch options; 1 to {MOST_OPTIONS} are allowed"));
    }
    if launch.options.len() != named {
        found.node(Rule::Options, launch.name(), "an option is not in the pool's catalogue".to_owned());
    }
    if launch.options.iter().collect::<BTreeSet<_>>().len() != launch.options.len() {
        found.node(Rule::Options, launch.name(), "an option is named twice".to_owned());
    }
}

fn pool_admits(launch: &Launch<'_>, found: &mut Findings<'_>) {
    let requirements = &launch.pool.requirements;
    for machine in launch.machines() {
        let named = requirements.get(INSTANCE_TYPE).is_none_or(|requirement| requirement.has(&machine.name));
        if let Some(conflict) = machine.labels.first_conflict(requirements) {
            let message = format!("{} does not satisfy the pool's {conflict}", machine.name);
            found.node(Rule::PoolRequirements, launch.name(), message);
        } else if !named {
            found.node(Rule::PoolRequirements, launch.name(), format!("the pool does not allow {}", machine.name));
        }
    }
}

/// Every option somewhere, every zone something, the first option in the first zone. What only a price ceiling keeps off
/// the shelf is told apart.
fn everything_is_on_sale(launch: &Launch<'_>, found: &mut Findings<'_>) {
    let node = launch.node;
    if node.zones.is_empty() {
        found.node(Rule::Offering, launch.name(), "no zone is named".to_owned());
    }
    if node.zones.iter().collect::<BTreeSet<_>>().len() != node.zones.len() {
        found.node(Rule::Offering, launch.name(), "a zone is named twice".to_owned());
    }
    let sold: BTreeSet<u32> = launch.outcomes.iter().map(|outcome| outcome.option).collect();
    for option in launch.options.iter().filter(|option| !sold.contains(option)) {
        let machine = &launch.pool.catalogue.types[*option as usize];
        let rule = if only_too_dear(launch, machine) { Rule::PriceCeiling } else { Rule::Offering };
        let message = format!("{} is not on sale as {} in its zones", machine.name, node.capacity_type.as_str());
        found.node(rule, launch.name(), message);
    }
    if sold.is_empty() {
        return;
    }
    for zone in node.zones.iter().filter(|zone| !launch.outcomes.iter().any(|o| o.offering.zone == **zone)) {
        found.node(Rule::Offering, launch.name(), format!("no option is on sale in {zone}"));
    }
}

fn only_too_dear(launch: &Launch<'_>, machine: &InstanceType) -> bool {
    machine.offerings.iter().any(|offering| {
        offering.available
            && offering.capacity_type == launch.node.capacity_type
            && launch.node.zones.contains(&offering.zone)
            && !within_ceilings(launch.pool, machine, offering)
    })
}

fn price_is_right(launch: &Launch<'_>, found: &mut Findings<'_>) {
    let (Some(first), Some(zone)) = (launch.options.first(), launch.node.zones.first()) else { return };
    let there = |outcome: &&Outcome<'_>| outcome.option == *first && outcome.offering.zone == *zone;
    if !launch.outcomes.iter().any(|outcome| outcome.option == *first) {
        return;
    }
    match launch.outcomes.iter().filter(there).map(|outcome| outcome.offering.price).min() {
        None => found.node(Rule::Offering, launch.name(), format!("the first option is not on sale in {zone}")),
        Some(price) if price != launch.node.price => {
            let message = format!("its price is {}, but the first option costs {price} in {zone}", launch.node.price);
            found.node(Rule::Price, launch.name(), message);
        }
        Some(_) => {}
    }
}

fn cheapest_first(launch: &Launch<'_>, found: &mut Findings<'_>) {
    let mut prices: Vec<(u32, MicroUsd)> = Vec::with_capacity(launch.options.len());
    for outcome in &launch.outcomes {
        match prices.last_mut() {
            Some((option, price)) if *option == outcome.option => *price = outcome.offering.price.min(*price),
            _ => prices.push((outcome.option, outcome.offering.price)),
        }
    }
    if let Some(pair) = prices.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        let name = |option: u32| &launch.pool.catalogue.types[option as usize].name;
        let message = format!("{} ({}) stands before {} ({})", name(pair[0].0), pair[0].1, name(pair[1].0), pair[1].1);
        found.node(Rule::Options, launch.name(), message);
    }
}

fn min_values_hold(launch: &Launch<'_>, found: &mut Findings<'_>) {
    if found.input.policy.min_values == MinValuesPolicy::BestEffort {
        return;
    }
    for requirement in launch.pool.requirements.iter() {
        let Some(wanted) = requirement.min_values() else { continue };
        let have = different_values(launch.machines(), requirement);
        if have < wanted as usize {
            let message = format!("its options have {have} values of {}, the pool wants {wanted}", requirement.key());
            found.node(Rule::MinValues, launch.name(), message);
        }
    }
}

/// What counts are values that the types could have, wherever they are bought (Karpenter: `minValues` looks at instance
/// types, not at the offering that launches).
pub(crate) fn different_values<'a>(
    machines: impl Iterator<Item = &'a InstanceType>,
    requirement: &Requirement,
) -> usize {
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
