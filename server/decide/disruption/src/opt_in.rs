//! The annotations of NodePools that removals keep as launches do: on-demand nodes and the share of spot, the number of
//! nodes, their balance over zones (plan contract §4).
//!
//! What does not hold before a removal need not hold after it, and becomes no worse.

use std::collections::BTreeMap;

use model::labels::{CAPACITY_TYPE, ZONE};
use model::plan::PlannedNode;
use model::removal::OptInPool;
use model::resources::CPU;
use model::{CapacityType, NodePool, NodeStage, PodShape, Text, Zone};
use verifier::kernel::allows_zone;

use crate::working::WorkingCluster;
use crate::{Block, BlockCode};

/// The nodes of the NodePools with such annotations.
#[derive(Debug, Clone)]
pub(crate) struct OptInCounts {
    pools: Vec<Option<PoolCounts>>,
}

/// The nodes of a NodePool that stay or are launched.
#[derive(Debug, Clone, Default)]
struct PoolCounts {
    nodes: i64,
    spot_nodes: i64,
    on_demand_nodes: i64,
    /// Maximum of the spot millicores, whichever options launch.
    spot: i128,
    other: i128,
    by_zone: BTreeMap<Text, i64>,
    /// Movable pods that no other pod must be beside.
    pods_apart: i64,
    /// The nodes that are launched, and such pods on them.
    launched: i64,
    launched_apart: i64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'c> {
    pub(crate) removed: &'c [u32],
    /// The machines that are launched, with their pods.
    pub(crate) launches: &'c [PlannedNode],
    /// The pods that move to other nodes, and these nodes.
    pub(crate) moves: &'c [(u32, u32)],
}

#[derive(Debug, Clone, Default)]
struct Member {
    capacity_type: Text,
    zone: Text,
    /// The most and the least of its launch options.
    millicores: (i64, i64),
    /// For a launch, its pods that no other pod must be beside.
    launched_apart: Option<i64>,
}

impl PoolCounts {
    fn add(&mut self, member: &Member, sign: i64) {
        let (most, least) = member.millicores;
        self.nodes += sign;
        if member.capacity_type.as_ref() == CapacityType::Spot.as_str() {
            self.spot_nodes += sign;
            self.spot += i128::from(sign) * i128::from(most);
        } else {
            self.other += i128::from(sign) * i128::from(least);
        }
        self.on_demand_nodes += sign * i64::from(member.capacity_type.as_ref() == CapacityType::OnDemand.as_str());
        *self.by_zone.entry(member.zone.clone()).or_insert(0) += sign;
        if let Some(apart) = member.launched_apart {
            self.launched += sign;
            self.launched_apart += sign * apart;
        }
    }

    fn exceeds(&self, percent: i64) -> bool {
        self.spot * 100 > i128::from(percent) * (self.spot + self.other)
    }

    fn has_larger_share_than(&self, other: &Self) -> bool {
        self.spot * (other.spot + other.other) > other.spot * (self.spot + self.other)
    }

    fn in_zone(&self, zone: &str) -> i64 {
        self.by_zone.get(zone).copied().unwrap_or(0)
    }
}

impl OptInCounts {
    pub(crate) fn of(working: &WorkingCluster<'_>) -> Self {
        let input = &working.input;
        let of_pool = |pool: &NodePool| OptInPool::of(pool).map(|_| PoolCounts::default());
        let mut counts = Self { pools: input.pools.iter().map(of_pool).collect() };
        if counts.pools.iter().all(Option::is_none) {
            return counts;
        }
        let staying = (0_u32..).zip(&input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting);
        for (at, _) in staying {
            let Some(pool) = pool_of(working, at) else { continue };
            let Some(counts) = counts.pools[pool].as_mut() else { continue };
            counts.add(&member(working, at), 1);
            counts.pods_apart += apart(working, working.nodes[at as usize].movable());
        }
        counts
    }

    /// What blocks `change`: the first annotation that would not hold.
    pub(crate) fn block(&self, working: &WorkingCluster<'_>, change: Change<'_>) -> Option<Block> {
        self.blocks(working, change).into_iter().next()
    }

    /// What blocks `change`: of each NodePool, the first annotation that would not hold.
    pub(crate) fn blocks(&self, working: &WorkingCluster<'_>, change: Change<'_>) -> Vec<Block> {
        let Change { removed, launches, .. } = change;
        let mut after = self.clone();
        after.apply(working, change);
        let concerned = self.pools.iter().zip(&after.pools).zip(&working.input.pools);
        let block = |((before, after), pool): ((&Option<PoolCounts>, &Option<PoolCounts>), &NodePool)| {
            let (before, after) = (before.as_ref()?, after.as_ref()?);
            let message = broken_count(pool, before, after)
                .or_else(|| broken_balance(working, pool, (before, after), removed, launches))?;
            Some(Block::new(BlockCode::Policy, format!("NodePool/{}", pool.name), message))
        };
        concerned.filter_map(block).collect()
    }

    /// Counts that `change` is carried out.
    pub(crate) fn apply(&mut self, working: &WorkingCluster<'_>, change: Change<'_>) {
        if self.pools.iter().all(Option::is_none) {
            return;
        }
        let Change { removed, launches, moves } = change;
        for node in removed {
            let counts = pool_of(working, *node).and_then(|pool| self.pools[pool].as_mut());
            counts.into_iter().for_each(|counts| counts.add(&member(working, *node), -1));
        }
        for launch in launches {
            let counts = self.pools[launch.pool as usize].as_mut();
            counts.into_iter().for_each(|counts| counts.add(&launched(working, launch), 1));
        }
        // A machine that is launched anyway may get further pods.
        for (pod, to) in moves.iter().filter(|(_, to)| working.nodes[*to as usize].launch.is_some()) {
            let counts = pool_of(working, *to).and_then(|pool| self.pools[pool].as_mut());
            let alone = apart(working, std::iter::once(*pod));
            counts.into_iter().for_each(|counts| counts.launched_apart += alone);
        }
    }
}

fn pool_of(working: &WorkingCluster<'_>, node: u32) -> Option<usize> {
    let name = working.input.nodes[node as usize].pool.as_ref()?;
    working.input.pools.iter().position(|pool| &pool.name == name)
}

fn member(working: &WorkingCluster<'_>, node: u32) -> Member {
    let input = &working.input;
    if let Some(launch) = &working.nodes[node as usize].launch {
        let pods = working.nodes[node as usize].movable();
        return Member { launched_apart: Some(apart(working, pods)), ..launched(working, launch) };
    }
    let node = &input.nodes[node as usize];
    let label = |key| node.labels.get(key).cloned().unwrap_or_default();
    let millicores = node.capacity.get(CPU);
    Member {
        capacity_type: label(CAPACITY_TYPE),
        zone: label(ZONE),
        millicores: (millicores, millicores),
        launched_apart: None,
    }
}

fn launched(working: &WorkingCluster<'_>, launch: &PlannedNode) -> Member {
    let types = &working.input.pools[launch.pool as usize].catalogue.types;
    let millicores = || launch.types.iter().map(|kind| types[*kind as usize].capacity.get(CPU));
    Member {
        capacity_type: Text::from(launch.capacity_type.as_str()),
        zone: launch.zones.first().map(|zone| zone.as_text().clone()).unwrap_or_default(),
        millicores: (millicores().max().unwrap_or(0), millicores().min().unwrap_or(0)),
        launched_apart: Some(apart(working, launch.pods.iter().copied())),
    }
}

/// The rules of a movable pod as it states them: what it prefers and has is no requirement here.
fn stated_rules<'w>(working: &'w WorkingCluster<'_>, pod: u32) -> &'w PodShape {
    &working.input.shapes[working.pods[pod as usize].shape as usize]
}

/// Of these movable pods, the number of those that no other pod must be beside.
fn apart(working: &WorkingCluster<'_>, pods: impl Iterator<Item = u32>) -> i64 {
    let alone = pods.filter(|pod| !stated_rules(working, *pod).requires_shared_host());
    i64::try_from(alone.count()).unwrap_or(i64::MAX)
}

/// The rule about numbers of nodes that holds less after a removal than before, as a sentence about the NodePool.
fn broken_count(pool: &NodePool, before: &PoolCounts, after: &PoolCounts) -> Option<String> {
    let rules = &pool.rules;
    let launches_spot = after.spot_nodes > before.spot_nodes;
    // Nobody needs the on-demand nodes of a pool that runs nothing.
    let is_used = after.spot_nodes > 0 || before.pods_apart > 0;
    if let Some(floor) = rules.on_demand_min_nodes
        && after.on_demand_nodes < floor
        && (launches_spot || (after.on_demand_nodes < before.on_demand_nodes && is_used))
    {
        let left = after.on_demand_nodes;
        return Some(format!(
            "has fleetwright.dev/on-demand-min-nodes: {floor}, and {left} on-demand nodes would be left"
        ));
    }
    if let Some(percent) = rules.spot_max_percent
        && after.exceeds(percent)
        && (launches_spot || after.has_larger_share_than(before))
    {
        let share = after.spot * 100 / (after.spot + after.other).max(1);
        return Some(format!("has fleetwright.dev/spot-max-percent: {percent}, and {share} % would be spot"));
    }
    let least = rules.min_nodes.filter(|_| pool.limits.is_empty())?;
    // Fewer pods than that need no further nodes.
    let is_below = after.nodes < least.min(before.pods_apart) && after.nodes < before.nodes;
    let runs_more = after.launched > before.launched || after.launched_apart > before.launched_apart;
    let launches_few = runs_more && after.nodes < least && after.launched < after.launched_apart;
    let left = after.nodes;
    (is_below || launches_few)
        .then(|| format!("has fleetwright.dev/min-nodes: {least}, and its pods would be on fewer ({left} nodes)"))
}

/// As [`broken_count`], for the balance over zones: no zone that a node leaves, and none that a launch is not in, has two
/// nodes less than another one whose pods could run there.
fn broken_balance(
    working: &WorkingCluster<'_>,
    pool: &NodePool,
    (before, after): (&PoolCounts, &PoolCounts),
    removed: &[u32],
    launches: &[PlannedNode],
) -> Option<String> {
    if !pool.rules.zone_balance {
        return None;
    }
    let of_pool = |node: &&u32| working.input.nodes[**node as usize].pool.as_ref() == Some(&pool.name);
    let launched = |launch: &&PlannedNode| working.input.pools[launch.pool as usize].name == pool.name;
    let emptied = removed.iter().filter(of_pool).map(|node| member(working, *node).zone);
    for zone in emptied.filter(|zone| after.in_zone(zone) < before.in_zone(zone)) {
        let fuller = after.by_zone.iter().find(|(other, nodes)| {
            **nodes >= after.in_zone(&zone) + 2
                && before.in_zone(other) < before.in_zone(&zone) + 2
                && could_move(working, pool, other, &zone, removed)
        });
        if let Some((other, nodes)) = fuller {
            let left = after.in_zone(&zone);
            return Some(format!(
                "has fleetwright.dev/zone-balance, and would have {nodes} nodes in {other}, {left} in {zone}"
            ));
        }
    }
    for launch in launches.iter().filter(launched) {
        let Some(zone) = launch.zones.first() else { continue };
        let here = after.in_zone(zone.as_text());
        let pods = || launch.pods.iter().copied();
        let emptier = pool
            .launch_zones()
            .into_iter()
            .find(|other| here >= after.in_zone(other.as_text()) + 2 && may_run(working, pods(), other));
        if let Some(other) = emptier {
            let there = after.in_zone(other.as_text());
            return Some(format!(
                "has fleetwright.dev/zone-balance, and would have {here} nodes in {zone}, {there} in {other}"
            ));
        }
    }
    None
}

/// Whether the pods of a node of the pool in the zone `from` could run in the zone `to`.
fn could_move(working: &WorkingCluster<'_>, pool: &NodePool, from: &Text, to: &Text, removed: &[u32]) -> bool {
    let to = Zone::from(to);
    let nodes = (0_u32..).zip(&working.input.nodes).filter(|(at, node)| {
        node.stage != NodeStage::Deleting
            && !removed.contains(at)
            && node.pool.as_ref() == Some(&pool.name)
            && node.labels.get(ZONE) == Some(from)
    });
    nodes.into_iter().any(|(at, _)| may_run(working, working.nodes[at as usize].movable(), &to))
}

/// Whether no rule keeps the pods from running in `zone`.
fn may_run(working: &WorkingCluster<'_>, mut pods: impl Iterator<Item = u32>, zone: &Zone) -> bool {
    pods.all(|pod| {
        let shape = stated_rules(working, pod);
        let volumes = working.pods[pod as usize].pod.volumes.map(|set| &working.input.volume_sets[set as usize]);
        allows_zone(shape, volumes, zone) && !shape.has_rules_over_zones()
    })
}
