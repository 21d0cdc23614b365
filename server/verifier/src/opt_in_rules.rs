//! Opt-in rules of NodePools: the annotations `fleetwright.dev/…`, beyond Karpenter.
//!
//! Price ceilings are checked in `launch` and `purchase`: an offering above a ceiling counts as
//! unavailable.

use std::collections::{BTreeMap, BTreeSet};

use super::launch::{Launch, Launches};
use super::violation::{Findings, Rule};
use model::input::{MinValuesPolicy, PlanningInput};
use model::labels::{ARCH, CAPACITY_TYPE, ZONE};
use model::plan::{Plan, PlannedNode};
use model::resources::CPU;
use model::{CapacityType, InstanceType, Node, NodePool, NodeStage, Offering, Pod, PodShape, Requirement, Zone};

/// The nodes of one pool that has opt-in rules.
struct PoolNodes<'a, 'b> {
    pool: &'a NodePool,
    /// Nodes of the input that are not being deleted.
    existing: Vec<&'a Node>,
    /// Planned nodes for pods, each with its launch.
    new: Vec<(&'a PlannedNode, &'b Launch<'a>)>,
    /// Planned nodes of a static pool.
    static_nodes: Vec<&'b Launch<'a>>,
}

pub(super) fn check<'a>(
    input: &'a PlanningInput,
    plan: &'a Plan,
    launches: &Launches<'a>,
    findings: &mut Findings<'_>,
) {
    for (index, pool) in input.pools.iter().enumerate().filter(|(_, pool)| pool.rules != Default::default()) {
        let launch =
            |number: &Option<u32>| number.map(|n| &launches.list[n as usize]).filter(|l| l.pool_index == index);
        let ours = |node: &&Node| node.stage != NodeStage::Deleting && node.pool.as_ref() == Some(&pool.name);
        let pool_nodes = PoolNodes {
            pool,
            existing: input.nodes.iter().filter(ours).collect(),
            new: plan.nodes.iter().zip(&launches.of_node).filter_map(|(n, l)| Some((n, launch(l)?))).collect(),
            static_nodes: launches.of_static.iter().filter_map(launch).collect(),
        };
        // The rules are independent of each other; every one sees existing and planned nodes
        // together.
        zone_balance(input, plan, &pool_nodes, findings);
        safe_architectures(input, &pool_nodes, findings);
        spot_fallback(input, &pool_nodes, findings);
        spot_share(&pool_nodes, findings);
        on_demand_floor(&pool_nodes, findings);
        node_size(&pool_nodes, findings);
        node_count(input, &pool_nodes, findings);
    }
}

fn pods_of<'i>(input: &'i PlanningInput, node: &PlannedNode) -> impl Iterator<Item = (u32, &'i Pod, &'i PodShape)> {
    let known = node.pods.iter().filter_map(|pod| Some((*pod, input.pods.get(*pod as usize)?)));
    known.map(|(at, pod)| (at, pod, &input.shapes[pod.shape as usize]))
}

/// A planned node must not be in a zone that has at least two more nodes of the pool than another
/// zone where its options are available and its pods could run. Excluded are nodes whose pods have
/// topology rules over zones or are counted by such rules: those rules decide.
fn zone_balance(input: &PlanningInput, plan: &Plan, pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    if !pool_nodes.pool.rules.zone_balance {
        return;
    }
    let mut counts: BTreeMap<Zone, i64> = BTreeMap::new();
    let existing = pool_nodes.existing.iter().filter_map(|node| node.labels.get(ZONE)).map(Zone::from);
    let launched = pool_nodes.new.iter().map(|(_, launch)| *launch).chain(pool_nodes.static_nodes.iter().copied());
    for zone in existing.chain(launched.filter_map(|launch| launch.node.zones.first().cloned())) {
        *counts.entry(zone).or_insert(0) += 1;
    }
    // All planned nodes are in `counts` before the first check, so the order of the plan does not
    // matter.
    let counted = super::topology::counted_beyond_nodes(input);
    for (node, launch) in &pool_nodes.new {
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
        let emptier = zones_available(launch, plan)
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
    input.policy.min_values == MinValuesPolicy::BestEffort
        || launch.pool.requirements.iter().all(|requirement| {
            let wanted = requirement.min_values().unwrap_or(0) as usize;
            wanted == 0 || super::purchase::different_values(launch.machines().filter(available), requirement) >= wanted
        })
}

/// Zones in which the options are available with the same capacity type; an exhausted reservation
/// is unavailable.
fn zones_available<'a>(launch: &Launch<'a>, plan: &Plan) -> BTreeSet<&'a Zone> {
    let allowed = |zone: &Zone| launch.pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(zone));
    let offerings =
        launch.machines().flat_map(|machine| machine.offerings.iter().map(move |offering| (machine, offering)));
    let same = offerings.filter(|(machine, o)| {
        let available = o.available && super::launch::within_ceilings(launch.pool, machine, o);
        available && o.capacity_type == launch.node.capacity_type && allowed(&o.zone) && has_left(plan, o)
    });
    same.map(|(_, offering)| &offering.zone).collect()
}

fn has_left(plan: &Plan, offering: &Offering) -> bool {
    let Some(reservation) = &offering.reservation else { return true };
    let drawn =
        plan.nodes.iter().chain(&plan.static_nodes).filter(|node| node.reservation.as_ref() == Some(&reservation.id));
    i64::try_from(drawn.count()).is_ok_and(|drawn| drawn < reservation.remaining)
}

fn could_run_in(input: &PlanningInput, node: &PlannedNode, zone: &Zone) -> bool {
    pods_of(input, node).all(|(_, pod, shape)| {
        let on_zone = |requirement: &Requirement| requirement.key().as_ref() != ZONE || requirement.has(zone);
        let term = |expressions: &[Requirement]| expressions.iter().all(on_zone);
        let volumes = pod.volumes.map(|set| &input.volume_sets[set as usize].any_of);
        shape.node_selector.get(ZONE).is_none_or(|wanted| wanted == zone.as_text())
            && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(|t| term(&t.expressions)))
            && volumes.is_none_or(|any| any.is_empty() || any.iter().any(|all| all.iter().all(on_zone)))
            && !has_wide_topology_rules(shape)
    })
}

fn has_wide_topology_rules(shape: &PodShape) -> bool {
    let terms = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity).map(|term| &term.topology_key);
    let hard = shape.spread.iter().filter(|constraint| constraint.hard).map(|constraint| &constraint.topology_key);
    terms.chain(hard).any(|key| key.as_ref() != model::labels::HOSTNAME)
}

/// Pods without an architecture constraint get only nodes of the listed architectures.
fn safe_architectures(input: &PlanningInput, pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    let safe = &pool_nodes.pool.rules.safe_architectures;
    if safe.is_empty() {
        return;
    }
    for (node, launch) in &pool_nodes.new {
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
fn spot_fallback(input: &PlanningInput, pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    let Some(wait) = pool_nodes.pool.rules.spot_fallback_after else { return };
    let pool_allows =
        pool_nodes.pool.requirements.get(CAPACITY_TYPE).is_none_or(|r| r.has(CapacityType::Spot.as_str()));
    if !pool_allows {
        return;
    }
    let still_waiting = |(_, pod, shape): &(u32, &Pod, &PodShape)| {
        let waited = pod.created.is_none_or(|created| input.now.duration_since(created) >= wait);
        !waited && allows_spot(shape)
    };
    let early = |node: &PlannedNode| {
        node.capacity_type == CapacityType::OnDemand && pods_of(input, node).any(|pod| still_waiting(&pod))
    };
    let later =
        pool_nodes.new.iter().filter(|(node, _)| node.capacity_type == CapacityType::OnDemand && !early(node)).count();
    // The nodes that satisfy the floor are not determined, so those with waiting pods are assumed
    // to be the first.
    let first = pool_nodes.on_demand_nodes() - i64::try_from(later).unwrap_or(i64::MAX);
    for (node, launch) in &pool_nodes.new {
        if !early(node) || excluded_from_spot(pool_nodes, launch, first) {
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

fn allows_spot(shape: &PodShape) -> bool {
    let spot = CapacityType::Spot.as_str();
    let on_type = |requirement: &Requirement| requirement.key().as_ref() != CAPACITY_TYPE || requirement.has(spot);
    shape.node_selector.get(CAPACITY_TYPE).is_none_or(|wanted| wanted.as_ref() == spot)
        && (shape.node_affinity.is_empty()
            || shape.node_affinity.iter().any(|term| term.expressions.iter().all(on_type)))
}

/// Whether floor, share or price ceiling would forbid this node as spot, if the pool has
/// `on_demand_nodes` on-demand nodes including it.
fn excluded_from_spot(pool_nodes: &PoolNodes<'_, '_>, launch: &Launch<'_>, on_demand_nodes: i64) -> bool {
    let rules = &pool_nodes.pool.rules;
    let floor = rules.on_demand_min_nodes.is_some_and(|floor| on_demand_nodes <= floor);
    let share = rules.spot_max_percent.is_some_and(|percent| {
        let (spot, other) = pool_nodes.vcpu();
        let own = launch.machines().map(|machine| i128::from(machine.capacity.get(CPU))).max().unwrap_or(0);
        (spot + own) * 100 > i128::from(percent) * (spot + other)
    });
    // If no spot is available at any price, the ceiling is not the reason that excludes spot.
    let spot = launch.machines().flat_map(|m| m.offerings.iter().map(move |o| (m, o)));
    let mut spot = spot.filter(|(_, offering)| offering.capacity_type == CapacityType::Spot && offering.available);
    let within = |(machine, offering): (_, _)| super::launch::within_ceilings(pool_nodes.pool, machine, offering);
    let over_price = (rules.max_node_price.is_some() || rules.max_price_per_vcpu.is_some())
        && spot.next().is_some_and(|first| !within(first) && !spot.any(within));
    floor || share || over_price
}

fn spot_share(pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    let Some(percent) = pool_nodes.pool.rules.spot_max_percent else { return };
    let (spot, other) = pool_nodes.vcpu();
    if pool_nodes.launches_spot() && spot * 100 > i128::from(percent) * (spot + other) {
        let message = format!(
            "{spot} of {} millicores of pool {} may be spot; allowed are {percent} %",
            spot + other,
            pool_nodes.pool.name
        );
        findings.report_plan(Rule::SpotShare, message);
    }
}

fn on_demand_floor(pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    let Some(floor) = pool_nodes.pool.rules.on_demand_min_nodes else { return };
    let have = pool_nodes.on_demand_nodes();
    if pool_nodes.launches_spot() && have < floor {
        let message = format!(
            "pool {} launches spot with {have} on-demand nodes; it requires {floor} first",
            pool_nodes.pool.name
        );
        findings.report_plan(Rule::OnDemandFloor, message);
    }
}

impl PoolNodes<'_, '_> {
    fn launches_spot(&self) -> bool {
        self.new.iter().any(|(node, _)| node.capacity_type == CapacityType::Spot)
    }

    fn on_demand_nodes(&self) -> i64 {
        let on_demand = CapacityType::OnDemand;
        let named = |node: &&&Node| node.labels.get(CAPACITY_TYPE).is_some_and(|v| v.as_ref() == on_demand.as_str());
        let new = self.new.iter().map(|(_, launch)| *launch).chain(self.static_nodes.iter().copied());
        let count = self.existing.iter().filter(named).count()
            + new.filter(|launch| launch.node.capacity_type == on_demand).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Maximum of spot millicores and minimum of other millicores, whichever options launch.
    fn vcpu(&self) -> (i128, i128) {
        let (mut spot, mut other) = (0, 0);
        for node in &self.existing {
            let amount = i128::from(node.capacity.get(CPU));
            let is_spot = node.labels.get(CAPACITY_TYPE).is_some_and(|v| v.as_ref() == CapacityType::Spot.as_str());
            *(if is_spot { &mut spot } else { &mut other }) += amount;
        }
        for launch in self.new.iter().map(|(_, launch)| *launch).chain(self.static_nodes.iter().copied()) {
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

fn node_size(pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    let Some(most) = pool_nodes.pool.rules.max_node_vcpu else { return };
    for (node, launch) in &pool_nodes.new {
        let large = |millicores: i64| i128::from(millicores) > i128::from(most) * 1000;
        if let Some(machine) = launch.machines().find(|machine| large(machine.capacity.get(CPU))) {
            findings.report_node(Rule::NodeSize, &node.name, format!("{} has more than {most} vCPUs", machine.name));
        }
    }
}

/// Fewer nodes than `min-nodes`, although enough pods can run apart and no limit is set.
fn node_count(input: &PlanningInput, pool_nodes: &PoolNodes<'_, '_>, findings: &mut Findings<'_>) {
    let Some(least) = pool_nodes.pool.rules.min_nodes else { return };
    let new = i64::try_from(pool_nodes.new.len()).unwrap_or(i64::MAX);
    let pods = || pool_nodes.new.iter().flat_map(|(node, _)| pods_of(input, node));
    let apart = i64::try_from(pods().filter(|(_, _, shape)| shape.pod_affinity.is_empty()).count()).unwrap_or(0);
    if new > 0 && new < least && apart >= least && pool_nodes.pool.limits.is_empty() {
        findings.report_plan(
            Rule::NodeCount,
            format!("pool {} launches {new} nodes; it requires at least {least}", pool_nodes.pool.name),
        );
    }
}
