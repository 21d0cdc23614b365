//! Opt-in rules of NodePools: what a team asked for beyond Karpenter (the annotations `fleetwright.dev/…`).
//!
//! The price ceilings are judged in `launch` and `offer`, because an offering that is too dear is none.

use std::collections::{BTreeMap, BTreeSet};

use super::launch::{Launch, Launches};
use super::{Findings, Rule};
use crate::input::{MinValuesPolicy, PlanningInput};
use crate::model::labels::{ARCH, CAPACITY_TYPE, ZONE};
use crate::model::resources::CPU;
use crate::model::{CapacityType, InstanceType, Node, NodePool, NodeStage, Offering, Pod, PodShape, Requirement, Text};
use crate::plan::{Plan, PlannedNode};

/// The nodes of one pool with opt-in rules.
struct Fleet<'a, 'b> {
    pool: &'a NodePool,
    /// Nodes of the input that are not being deleted.
    standing: Vec<&'a Node>,
    /// Machines for pods, each with its launch.
    new: Vec<(&'a PlannedNode, &'b Launch<'a>)>,
    /// Machines of a static pool.
    fixed: Vec<&'b Launch<'a>>,
}

pub(super) fn check<'a>(input: &'a PlanningInput, plan: &'a Plan, launches: &Launches<'a>, found: &mut Findings<'_>) {
    for (index, pool) in input.pools.iter().enumerate().filter(|(_, pool)| pool.rules != Default::default()) {
        let launch =
            |number: &Option<u32>| number.map(|n| &launches.list[n as usize]).filter(|l| l.pool_index == index);
        let ours = |node: &&Node| node.stage != NodeStage::Deleting && node.pool.as_ref() == Some(&pool.name);
        let fleet = Fleet {
            pool,
            standing: input.nodes.iter().filter(ours).collect(),
            new: plan.nodes.iter().zip(&launches.of_node).filter_map(|(n, l)| Some((n, launch(l)?))).collect(),
            fixed: launches.of_static.iter().filter_map(launch).collect(),
        };
        zone_balance(input, plan, &fleet, found);
        safe_architectures(input, &fleet, found);
        spot_fallback(input, &fleet, found);
        spot_share(&fleet, found);
        on_demand_floor(&fleet, found);
        node_size(&fleet, found);
        node_count(input, &fleet, found);
    }
}

fn pods_of<'i>(input: &'i PlanningInput, node: &PlannedNode) -> impl Iterator<Item = (u32, &'i Pod, &'i PodShape)> {
    let known = node.pods.iter().filter_map(|pod| Some((*pod, input.pods.get(*pod as usize)?)));
    known.map(|(at, pod)| (at, pod, &input.shapes[pod.shape as usize]))
}

/// No machine stands in a zone where the pool has two or more nodes more than in another zone where the machine's options
/// are on sale and its pods could run. Machines whose pods look at each other's zones, or are counted by pods that do, are
/// left out: those rules decide.
fn zone_balance(input: &PlanningInput, plan: &Plan, fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    if !fleet.pool.rules.zone_balance {
        return;
    }
    let mut counts: BTreeMap<&Text, i64> = BTreeMap::new();
    let standing = fleet.standing.iter().filter_map(|node| node.labels.get(ZONE));
    let launched = fleet.new.iter().map(|(_, launch)| *launch).chain(fleet.fixed.iter().copied());
    for zone in standing.chain(launched.filter_map(|launch| launch.node.zones.first())) {
        *counts.entry(zone).or_insert(0) += 1;
    }
    let counted = super::topology::counted_beyond_nodes(input);
    for (node, launch) in &fleet.new {
        let [zone] = &*node.zones else {
            found.node(Rule::ZoneBalance, &node.name, "its pool balances zones, but its zone is open".to_owned());
            continue;
        };
        let here = counts.get(zone).copied().unwrap_or(0);
        if node.pods.iter().any(|pod| counted.get(*pod as usize).copied().unwrap_or(false)) {
            continue;
        }
        let emptier = zones_on_sale(launch, plan)
            .into_iter()
            .filter(|other| is_varied_in(input, launch, other))
            .find(|other| here >= counts.get(*other).copied().unwrap_or(0) + 2 && could_run_in(input, node, other));
        if let Some(other) = emptier {
            let there = counts.get(other).copied().unwrap_or(0);
            let message =
                format!("its pool has {here} nodes in {zone} and {there} in {other}, where its pods could run");
            found.node(Rule::ZoneBalance, &node.name, message);
        }
    }
}

/// Whether those options of a machine that are sold in `zone` are as varied as the pool wants.
fn is_varied_in(input: &PlanningInput, launch: &Launch<'_>, zone: &Text) -> bool {
    let kind = launch.node.capacity_type;
    let sold = |machine: &&InstanceType| {
        machine.offerings.iter().any(|o| o.available && o.capacity_type == kind && o.zone == *zone)
    };
    input.policy.min_values == MinValuesPolicy::BestEffort
        || launch.pool.requirements.iter().all(|requirement| {
            let wanted = requirement.min_values().unwrap_or(0) as usize;
            wanted == 0 || super::offer::different_values(launch.machines().filter(sold), requirement) >= wanted
        })
}

/// Zones in which the options are for sale as the machine is bought; a reservation that is used up sells nothing more.
fn zones_on_sale<'a>(launch: &Launch<'a>, plan: &Plan) -> BTreeSet<&'a Text> {
    let allowed = |zone: &Text| launch.pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(zone));
    let offerings =
        launch.machines().flat_map(|machine| machine.offerings.iter().map(move |offering| (machine, offering)));
    let same = offerings.filter(|(machine, o)| {
        let sold = o.available && super::launch::within_ceilings(launch.pool, machine, o);
        sold && o.capacity_type == launch.node.capacity_type && allowed(&o.zone) && has_left(plan, o)
    });
    same.map(|(_, offering)| &offering.zone).collect()
}

fn has_left(plan: &Plan, offering: &Offering) -> bool {
    let Some(reservation) = &offering.reservation else { return true };
    let drawn =
        plan.nodes.iter().chain(&plan.static_nodes).filter(|node| node.reservation.as_ref() == Some(&reservation.id));
    i64::try_from(drawn.count()).is_ok_and(|drawn| drawn < reservation.remaining)
}

fn could_run_in(input: &PlanningInput, node: &PlannedNode, zone: &str) -> bool {
    pods_of(input, node).all(|(_, pod, shape)| {
        let on_zone = |requirement: &Requirement| requirement.key().as_ref() != ZONE || requirement.has(zone);
        let term = |expressions: &[Requirement]| expressions.iter().all(on_zone);
        let volumes = pod.volumes.map(|set| &input.volume_sets[set as usize].any_of);
        shape.node_selector.get(ZONE).is_none_or(|wanted| wanted.as_ref() == zone)
            && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(|t| term(&t.expressions)))
            && volumes.is_none_or(|any| any.is_empty() || any.iter().any(|all| all.iter().all(on_zone)))
            && !looks_beyond_its_node(shape)
    })
}

fn looks_beyond_its_node(shape: &PodShape) -> bool {
    let terms = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity).map(|term| &term.topology_key);
    let hard = shape.spread.iter().filter(|constraint| constraint.hard).map(|constraint| &constraint.topology_key);
    terms.chain(hard).any(|key| key.as_ref() != crate::model::labels::HOSTNAME)
}

/// Pods that say nothing about the architecture get machines of the named ones only.
fn safe_architectures(input: &PlanningInput, fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    let safe = &fleet.pool.rules.safe_architectures;
    if safe.is_empty() {
        return;
    }
    for (node, launch) in &fleet.new {
        let settled = launch.values(ARCH).iter().all(|value| safe.iter().any(|one| Some(one.as_ref()) == *value));
        if settled {
            continue;
        }
        for (at, _, _) in pods_of(input, node).filter(|(_, _, shape)| !names_architecture(shape)) {
            let what =
                "has no architecture constraint and may land on an architecture that its pool does not call safe";
            found.pod(Rule::SafeArchitectures, at, Some(&node.name), what);
        }
    }
}

fn names_architecture(shape: &PodShape) -> bool {
    let expressions = shape.node_affinity.iter().flat_map(|term| &term.expressions);
    shape.node_selector.keys().any(|key| crate::model::labels::canonical_key(key) == ARCH)
        || expressions.into_iter().any(|requirement| requirement.key().as_ref() == ARCH)
}

/// On-demand only for pods that have waited long enough, cannot use spot, or are kept off spot by other opt-in rules.
fn spot_fallback(input: &PlanningInput, fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    let Some(wait) = fleet.pool.rules.spot_fallback_after_ms else { return };
    let pool_allows = fleet.pool.requirements.get(CAPACITY_TYPE).is_none_or(|r| r.has(CapacityType::Spot.as_str()));
    if !pool_allows {
        return;
    }
    let impatient = |(_, pod, shape): &(u32, &Pod, &PodShape)| {
        let waited = pod.created.is_none_or(|created| input.now.millis_since(created) >= wait);
        !waited && allows_spot(shape)
    };
    let early = |node: &PlannedNode| {
        node.capacity_type == CapacityType::OnDemand && pods_of(input, node).any(|pod| impatient(&pod))
    };
    let later =
        fleet.new.iter().filter(|(node, _)| node.capacity_type == CapacityType::OnDemand && !early(node)).count();
    // Which nodes make up the floor is open, so those with impatient pods are taken for the first.
    let first = fleet.on_demand_nodes() - i64::try_from(later).unwrap_or(i64::MAX);
    for (node, launch) in &fleet.new {
        if !early(node) || kept_off_spot(fleet, launch, first) {
            continue;
        }
        for (at, _, _) in pods_of(input, node).filter(impatient) {
            found.pod(
                Rule::SpotFallback,
                at,
                Some(&node.name),
                "falls back to on-demand before it has waited for spot",
            );
        }
    }
}

fn allows_spot(shape: &PodShape) -> bool {
    let spot = CapacityType::Spot.as_str();
    let on_type = |requirement: &Requirement| requirement.key().as_ref() != CAPACITY_TYPE || requirement.has(spot);
    shape.node_selector.get(CAPACITY_TYPE).is_none_or(|wanted| wanted.as_ref() == spot)
        && (shape.node_affinity.is_empty()
            || shape.node_affinity.iter().any(|term| term.expressions.iter().all(on_type)))
}

/// Whether floor, share or price ceiling would forbid that this machine were a spot machine, when the pool has so many
/// on-demand nodes with it.
fn kept_off_spot(fleet: &Fleet<'_, '_>, launch: &Launch<'_>, on_demand_nodes: i64) -> bool {
    let rules = &fleet.pool.rules;
    let floor = rules.on_demand_min_nodes.is_some_and(|floor| on_demand_nodes <= floor);
    let share = rules.spot_max_percent.is_some_and(|percent| {
        let (spot, other) = fleet.vcpu();
        let own = launch.machines().map(|machine| i128::from(machine.capacity.get(CPU))).max().unwrap_or(0);
        (spot + own) * 100 > i128::from(percent) * (spot + other)
    });
    // Where no spot is for sale at any price, it is not the ceiling that keeps the machine off spot.
    let spot = launch.machines().flat_map(|m| m.offerings.iter().map(move |o| (m, o)));
    let mut spot = spot.filter(|(_, offering)| offering.capacity_type == CapacityType::Spot && offering.available);
    let within = |(machine, offering): (_, _)| super::launch::within_ceilings(fleet.pool, machine, offering);
    let dear = (rules.max_node_price.is_some() || rules.max_price_per_vcpu.is_some())
        && spot.next().is_some_and(|first| !within(first) && !spot.any(within));
    floor || share || dear
}

fn spot_share(fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    let Some(percent) = fleet.pool.rules.spot_max_percent else { return };
    let (spot, other) = fleet.vcpu();
    if fleet.buys_spot() && spot * 100 > i128::from(percent) * (spot + other) {
        let message = format!(
            "{spot} of {} millicores of pool {} may be spot, allowed are {percent} %",
            spot + other,
            fleet.pool.name
        );
        found.plan(Rule::SpotShare, message);
    }
}

fn on_demand_floor(fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    let Some(floor) = fleet.pool.rules.on_demand_min_nodes else { return };
    let have = fleet.on_demand_nodes();
    if fleet.buys_spot() && have < floor {
        let message = format!("pool {} buys spot with {have} on-demand nodes; it wants {floor} first", fleet.pool.name);
        found.plan(Rule::OnDemandFloor, message);
    }
}

impl Fleet<'_, '_> {
    fn buys_spot(&self) -> bool {
        self.new.iter().any(|(node, _)| node.capacity_type == CapacityType::Spot)
    }

    fn on_demand_nodes(&self) -> i64 {
        let on_demand = CapacityType::OnDemand;
        let named = |node: &&&Node| node.labels.get(CAPACITY_TYPE).is_some_and(|v| v.as_ref() == on_demand.as_str());
        let new = self.new.iter().map(|(_, launch)| *launch).chain(self.fixed.iter().copied());
        let count = self.standing.iter().filter(named).count()
            + new.filter(|launch| launch.node.capacity_type == on_demand).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Millicores on spot at most, and others at least, whichever options launch.
    fn vcpu(&self) -> (i128, i128) {
        let (mut spot, mut other) = (0, 0);
        for node in &self.standing {
            let amount = i128::from(node.capacity.get(CPU));
            let is_spot = node.labels.get(CAPACITY_TYPE).is_some_and(|v| v.as_ref() == CapacityType::Spot.as_str());
            *(if is_spot { &mut spot } else { &mut other }) += amount;
        }
        for launch in self.new.iter().map(|(_, launch)| *launch).chain(self.fixed.iter().copied()) {
            let amounts = launch.machines().map(|machine| i128::from(machine.capacity.get(CPU)));
            if launch.node.capacity_type == CapacityType::Spot {
                spot += amounts.max().unwrap_or(0);
            } else {
                other += amounts.min().unwrap_or(0);
            }
        }
        (spot, other)
    }
}

fn node_size(fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    let Some(most) = fleet.pool.rules.max_node_vcpu else { return };
    for (node, launch) in &fleet.new {
        let large = |millicores: i64| i128::from(millicores) > i128::from(most) * 1000;
        if let Some(machine) = launch.machines().find(|machine| large(machine.capacity.get(CPU))) {
            found.node(Rule::NodeSize, &node.name, format!("{} has more than {most} vCPUs", machine.name));
        }
    }
}

/// Fewer machines than asked for, although there are pods enough that may stand apart and no limit is set.
fn node_count(input: &PlanningInput, fleet: &Fleet<'_, '_>, found: &mut Findings<'_>) {
    let Some(least) = fleet.pool.rules.min_nodes else { return };
    let new = i64::try_from(fleet.new.len()).unwrap_or(i64::MAX);
    let pods = || fleet.new.iter().flat_map(|(node, _)| pods_of(input, node));
    let apart = i64::try_from(pods().filter(|(_, _, shape)| shape.pod_affinity.is_empty()).count()).unwrap_or(0);
    if new > 0 && new < least && apart >= least && fleet.pool.limits.is_empty() {
        found
            .plan(Rule::NodeCount, format!("pool {} launches {new} nodes; it wants at least {least}", fleet.pool.name));
    }
}
