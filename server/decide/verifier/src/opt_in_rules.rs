//! Opt-in rules of NodePools: the annotations `fleetwright.dev/…`, beyond Karpenter.
//!
//! Price ceilings are checked in `launch` and `purchase`: an offering above a ceiling counts as
//! unavailable.

use std::collections::{BTreeMap, BTreeSet};

use super::launch::{Launch, Launches, within_ceilings};
use super::limits::Drawn;
use super::node_count;
use super::node_fit::{allows_label, allows_zone};
use super::pool_nodes::{PoolNodes, SpotUsage, largest_amount};
use super::purchase::unmet_min_values;
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::labels::{ARCH, CAPACITY_TYPE, ZONE};
use model::plan::{Plan, PlannedNode};
use model::resources::CPU;
use model::{CapacityType, InstanceType, Millis, NodePool, OptInRules, Pod, PodShape, Timestamp, Zone};

/// One pool that has opt-in rules.
struct RuledPool<'a, 'b> {
    pool: &'a NodePool,
    nodes: PoolNodes<'a, 'b>,
    usage: SpotUsage,
    /// Planned nodes for pods, each with its launch.
    new: Vec<(&'a PlannedNode, &'b Launch<'a>)>,
}

pub(super) fn check<'a>(
    input: &'a PlanningInput,
    plan: &'a Plan,
    launches: &Launches<'a>,
    findings: &mut Findings<'_>,
) {
    for (index, pool) in input.pools.iter().enumerate().filter(|(_, pool)| has_rules_of_placement(pool)) {
        let launch =
            |number: &Option<u32>| number.map(|n| &launches.list[n as usize]).filter(|l| l.pool_index == index);
        let nodes = PoolNodes::of(input, launches, index);
        let new = plan.nodes.iter().zip(&launches.of_node).filter_map(|(n, l)| Some((n, launch(l)?))).collect();
        let ruled = RuledPool { pool, usage: SpotUsage::of(&nodes), nodes, new };
        // The rules are independent of each other; every one sees existing and planned nodes
        // together.
        zone_balance(input, launches, &ruled, findings);
        safe_architectures(input, &ruled, findings);
        spot_fallback(input, &ruled, findings);
        spot_share(&ruled, findings);
        on_demand_floor(&ruled, findings);
        node_size(&ruled, findings);
        let new: Vec<&PlannedNode> = ruled.new.iter().map(|(node, _)| *node).collect();
        node_count::check(input, pool, &new, findings);
    }
}

/// Whether a rule restricts the nodes of the pool; the others are about money alone.
fn has_rules_of_placement(pool: &NodePool) -> bool {
    let OptInRules { ignores_credits, node_overhead, .. } = pool.rules;
    pool.rules != OptInRules { ignores_credits, node_overhead, ..OptInRules::default() }
}

fn pods_of<'i>(input: &'i PlanningInput, node: &PlannedNode) -> impl Iterator<Item = (u32, &'i Pod, &'i PodShape)> {
    let known = node.pods.iter().filter_map(|pod| Some((*pod, input.pods.get(*pod as usize)?)));
    known.map(|(at, pod)| (at, pod, &input.shapes[pod.shape as usize]))
}

/// A planned node must not be in a zone that has at least two more nodes of the pool than another
/// zone where its options are available and its pods could run. Excluded are nodes whose pods have
/// topology rules over zones or are counted by such rules: those rules decide.
fn zone_balance(
    input: &PlanningInput,
    launches: &Launches<'_>,
    ruled: &RuledPool<'_, '_>,
    findings: &mut Findings<'_>,
) {
    if !ruled.pool.rules.zone_balance {
        return;
    }
    let drawn = Drawn::of(launches);
    let mut counts: BTreeMap<Zone, i64> = BTreeMap::new();
    let existing = ruled.nodes.existing.iter().filter_map(|node| node.labels.get(ZONE)).map(|zone| (zone.into(), 1));
    let first = |launch: &&Launch<'_>| Some((launch.node.zones.first()?.clone(), launch.count));
    for (zone, nodes) in existing.chain(ruled.nodes.launches.iter().filter_map(first)) {
        *counts.entry(zone).or_insert(0) += nodes;
    }
    // All planned nodes are in `counts` before the first check, so the order of the plan does not
    // matter.
    let counted = super::topology::counted_beyond_nodes(input);
    for (node, launch) in &ruled.new {
        let [zone] = &*node.zones else {
            findings.report_node(
                Rule::ZoneBalance,
                &node.name,
                "its pool balances zones, but its zone is undecided".to_owned(),
            );
            continue;
        };
        let here = counts.get(zone).copied().unwrap_or(0);
        if node.pods.iter().any(|pod| counted.get(*pod as usize).copied().unwrap_or(false)) {
            continue;
        }
        let emptier = zones_available(launch, &drawn)
            .into_iter()
            .filter(|other| keeps_min_values_in(input, launch, other))
            .find(|other| here >= counts.get(*other).copied().unwrap_or(0) + 2 && could_run_in(input, node, other));
        if let Some(other) = emptier {
            let there = counts.get(other).copied().unwrap_or(0);
            let message =
                format!("its pool has {here} nodes in {zone} and {there} in {other}, where its pods could run");
            findings.report_node(Rule::ZoneBalance, &node.name, message);
        }
    }
}

/// Whether the options available in `zone` satisfy the `minValues` of the pool.
fn keeps_min_values_in(input: &PlanningInput, launch: &Launch<'_>, zone: &Zone) -> bool {
    let kind = launch.node.capacity_type;
    let available = |machine: &&InstanceType| {
        machine.offerings.iter().any(|o| o.available && o.capacity_type == kind && o.zone == *zone)
    };
    let machines = launch.machines().filter(available);
    unmet_min_values(input.policy.min_values, &launch.pool.requirements, machines).next().is_none()
}

/// Zones in which the options are available with the same capacity type; an exhausted reservation
/// is unavailable.
fn zones_available<'a>(launch: &Launch<'a>, drawn: &Drawn<'_>) -> BTreeSet<&'a Zone> {
    let allowed = |zone: &Zone| launch.pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(zone));
    let offerings =
        launch.machines().flat_map(|machine| machine.offerings.iter().map(move |offering| (machine, offering)));
    let same = offerings.filter(|(machine, o)| {
        let available = o.available && within_ceilings(launch.pool, machine, o);
        let has_left = o.reservation.as_ref().is_none_or(|reservation| drawn.left_in(reservation) > 0);
        available && o.capacity_type == launch.node.capacity_type && allowed(&o.zone) && has_left
    });
    same.map(|(_, offering)| &offering.zone).collect()
}

fn could_run_in(input: &PlanningInput, node: &PlannedNode, zone: &Zone) -> bool {
    pods_of(input, node).all(|(_, pod, shape)| {
        let volumes = pod.volumes.map(|set| &input.volume_sets[set as usize]);
        allows_zone(shape, volumes, zone) && !has_wide_topology_rules(shape)
    })
}

fn has_wide_topology_rules(shape: &PodShape) -> bool {
    let terms = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity).map(|term| &term.topology_key);
    let hard = shape.spread.iter().filter(|constraint| constraint.hard).map(|constraint| &constraint.topology_key);
    terms.chain(hard).any(|key| key.as_ref() != model::labels::HOSTNAME)
}

/// Pods without an architecture constraint get only nodes of the listed architectures.
fn safe_architectures(input: &PlanningInput, ruled: &RuledPool<'_, '_>, findings: &mut Findings<'_>) {
    let safe = &ruled.pool.rules.safe_architectures;
    if safe.is_empty() {
        return;
    }
    for (node, launch) in &ruled.new {
        let all_safe = launch.values(ARCH).iter().all(|value| safe.iter().any(|one| Some(one.as_ref()) == *value));
        if all_safe {
            continue;
        }
        for (at, _, _) in pods_of(input, node).filter(|(_, _, shape)| !names_architecture(shape)) {
            let what = "has no architecture constraint and may run on one outside the safe-architectures of its pool";
            findings.report_pod(Rule::SafeArchitectures, at, Some(&node.name), what);
        }
    }
}

/// Whether node selector or required node affinity constrain the architecture.
#[must_use]
pub fn names_architecture(shape: &PodShape) -> bool {
    let expressions = shape.node_affinity.iter().flat_map(|term| &term.expressions);
    shape.node_selector.keys().any(|key| model::labels::canonical_key(key) == ARCH)
        || expressions.into_iter().any(|requirement| requirement.key().as_ref() == ARCH)
}

/// On-demand is allowed only for pods that have waited long enough, cannot use spot, or are
/// excluded from spot by other opt-in rules.
fn spot_fallback(input: &PlanningInput, ruled: &RuledPool<'_, '_>, findings: &mut Findings<'_>) {
    let (pool, spot) = (ruled.pool, CapacityType::Spot.as_str());
    let pool_allows = pool.requirements.get(CAPACITY_TYPE).is_none_or(|requirement| requirement.has(spot));
    if pool.rules.spot_fallback_after.is_none() || !pool_allows {
        return;
    }
    let still_waiting = |(_, pod, shape): &(u32, &Pod, &PodShape)| {
        remaining_spot_wait(pool, pod.created, input.now).is_some() && allows_label(shape, CAPACITY_TYPE, spot)
    };
    let early = |node: &PlannedNode| {
        node.capacity_type == CapacityType::OnDemand && pods_of(input, node).any(|pod| still_waiting(&pod))
    };
    let later =
        ruled.new.iter().filter(|(node, _)| node.capacity_type == CapacityType::OnDemand && !early(node)).count();
    // The nodes that satisfy the floor are not determined, so those with waiting pods are assumed
    // to be the first.
    let first = ruled.usage.on_demand_nodes - i64::try_from(later).unwrap_or(i64::MAX);
    for (node, launch) in &ruled.new {
        if !early(node) || excluded_from_spot(ruled, launch, first) {
            continue;
        }
        for (at, _, _) in pods_of(input, node).filter(still_waiting) {
            findings.report_pod(
                Rule::SpotFallback,
                at,
                Some(&node.name),
                "falls back to on-demand before its wait for spot ends",
            );
        }
    }
}

/// Remaining time that a pod created at `created` waits for spot in `pool` (`spot-fallback-after`);
/// `None` if on-demand is open to it. A replica that does not exist yet does not wait.
#[must_use]
pub fn remaining_spot_wait(pool: &NodePool, created: Option<Timestamp>, now: Timestamp) -> Option<Millis> {
    let left = pool.rules.spot_fallback_after? - now.duration_since(created?);
    (left > Millis::ZERO).then_some(left)
}

/// Whether floor, share or price ceiling would forbid this node as spot, if the pool has
/// `on_demand_nodes` on-demand nodes including it.
fn excluded_from_spot(ruled: &RuledPool<'_, '_>, launch: &Launch<'_>, on_demand_nodes: i64) -> bool {
    let rules = &ruled.pool.rules;
    let own = largest_amount(launch.machines(), CPU);
    // As spot, the node is no on-demand node, and its millicores are not among the others.
    let without =
        SpotUsage { other: ruled.usage.other - i128::from(own), on_demand_nodes: on_demand_nodes - 1, ..ruled.usage };
    // If no spot is available at any price, the ceiling is not the reason that excludes spot.
    let spot = launch.machines().flat_map(|m| m.offerings.iter().map(move |o| (m, o)));
    let mut spot = spot.filter(|(_, offering)| offering.capacity_type == CapacityType::Spot && offering.available);
    let within = |(machine, offering): (_, _)| within_ceilings(ruled.pool, machine, offering);
    let over_price = (rules.max_node_price.is_some() || rules.max_price_per_vcpu.is_some())
        && spot.next().is_some_and(|first| !within(first) && !spot.any(within));
    without.with_spot_node(own).forbids_spot(rules) || over_price
}

fn spot_share(ruled: &RuledPool<'_, '_>, findings: &mut Findings<'_>) {
    let Some(percent) = ruled.pool.rules.spot_max_percent else { return };
    if ruled.launches_spot() && ruled.usage.exceeds(percent) {
        let SpotUsage { spot, other, .. } = ruled.usage;
        let message = format!(
            "{spot} of {} millicores of pool {} may be spot; allowed are {percent} %",
            spot + other,
            ruled.pool.name
        );
        findings.report_plan(Rule::SpotShare, message);
    }
}

fn on_demand_floor(ruled: &RuledPool<'_, '_>, findings: &mut Findings<'_>) {
    let Some(floor) = ruled.pool.rules.on_demand_min_nodes else { return };
    if ruled.launches_spot() && ruled.usage.is_below(floor) {
        let have = ruled.usage.on_demand_nodes;
        let message =
            format!("pool {} launches spot with {have} on-demand nodes; it requires {floor} first", ruled.pool.name);
        findings.report_plan(Rule::OnDemandFloor, message);
    }
}

impl RuledPool<'_, '_> {
    fn launches_spot(&self) -> bool {
        self.new.iter().any(|(node, _)| node.capacity_type == CapacityType::Spot)
    }
}

/// Whether the instance type exceeds `max-node-vcpu` of the pool.
#[must_use]
pub fn exceeds_node_size(pool: &NodePool, machine: &InstanceType) -> bool {
    let millicores = i128::from(machine.capacity.get(CPU));
    pool.rules.max_node_vcpu.is_some_and(|most| millicores > i128::from(most) * 1000)
}

fn node_size(ruled: &RuledPool<'_, '_>, findings: &mut Findings<'_>) {
    let Some(most) = ruled.pool.rules.max_node_vcpu else { return };
    for (node, launch) in &ruled.new {
        if let Some(machine) = launch.machines().find(|machine| exceeds_node_size(ruled.pool, machine)) {
            findings.report_node(Rule::NodeSize, &node.name, format!("{} has more than {most} vCPUs", machine.name));
        }
    }
}
