//! The nodes of one pool, existing and planned, as the rules about the whole pool count them.

use super::launch::{Launch, Launches};
use model::input::PlanningInput;
use model::labels::CAPACITY_TYPE;
use model::resources::{CPU, NODES};
use model::{CapacityType, InstanceType, Node, NodePool, NodeStage, OptInRules, Resources};

/// The nodes of `pool` in the input that are not being deleted.
pub fn active_nodes<'i>(input: &'i PlanningInput, pool: &'i NodePool) -> impl Iterator<Item = &'i Node> {
    input.nodes.iter().filter(|node| node.stage != NodeStage::Deleting && node.pool.as_ref() == Some(&pool.name))
}

#[derive(Debug)]
pub struct PoolNodes<'a, 'b> {
    /// Nodes of the input that are not being deleted.
    pub(super) existing: Vec<&'a Node>,
    /// Launches of the plan, for pods and for static pools.
    pub(super) launches: Vec<&'b Launch<'a>>,
}

impl<'a, 'b> PoolNodes<'a, 'b> {
    /// The nodes of the pool with this index.
    #[must_use]
    pub fn of(input: &'a PlanningInput, launches: &'b Launches<'a>, pool: usize) -> Self {
        Self { launches: launches.of_pool(pool).collect(), ..Self::existing(input, &input.pools[pool]) }
    }

    /// The nodes of `pool` before any launch.
    #[must_use]
    pub fn existing(input: &'a PlanningInput, pool: &'a NodePool) -> Self {
        Self { existing: active_nodes(input, pool).collect(), launches: Vec::new() }
    }

    /// What the nodes use of each of `limits`.
    #[must_use]
    pub fn used(&self, limits: &Resources) -> Resources {
        let used = |name: &str| {
            let amount = |node: &&Node| i128::from(if name == NODES { 1 } else { node.capacity.get(name) });
            let existing: i128 = self.existing.iter().map(amount).sum();
            let largest = |launch: &&Launch<'_>| i128::from(largest_amount(launch.machines(), name));
            let planned: i128 = self.launches.iter().map(|launch| largest(launch) * i128::from(launch.count)).sum();
            i64::try_from(existing + planned).unwrap_or(i64::MAX)
        };
        limits.iter().map(|(name, _)| (name.clone(), used(name))).collect()
    }
}

/// What a planned node with these options counts against a limit: its largest option, because any
/// of them may launch.
pub fn largest_amount<'m>(options: impl Iterator<Item = &'m InstanceType>, resource: &str) -> i64 {
    if resource == NODES {
        return 1;
    }
    options.map(|machine| machine.capacity.get(resource)).max().unwrap_or(0)
}

/// The nodes of a pool by capacity type, as `spot-max-percent` and `on-demand-min-nodes` count them.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpotUsage {
    /// Maximum of the spot millicores, whichever options launch.
    pub(super) spot: i128,
    /// Minimum of the other millicores, whichever options launch.
    pub(super) other: i128,
    pub(super) on_demand_nodes: i64,
}

impl SpotUsage {
    /// The usage by `nodes`.
    #[must_use]
    pub fn of(nodes: &PoolNodes<'_, '_>) -> Self {
        let mut usage = Self::default();
        for node in &nodes.existing {
            let kind = node.labels.get(CAPACITY_TYPE).map_or("", AsRef::as_ref);
            let millicores = i128::from(node.capacity.get(CPU));
            *(if kind == CapacityType::Spot.as_str() { &mut usage.spot } else { &mut usage.other }) += millicores;
            usage.on_demand_nodes += i64::from(kind == CapacityType::OnDemand.as_str());
        }
        for launch in &nodes.launches {
            let amounts = launch.machines().map(|machine| i128::from(machine.capacity.get(CPU)));
            let count = i128::from(launch.count);
            match launch.node.capacity_type {
                CapacityType::Spot => usage.spot += count * amounts.max().unwrap_or(0),
                _ => usage.other += count * amounts.min().unwrap_or(0),
            }
            if launch.node.capacity_type == CapacityType::OnDemand {
                usage.on_demand_nodes += launch.count;
            }
        }
        usage
    }

    /// The usage with one more spot node of this size.
    #[must_use]
    pub fn with_spot_node(self, millicores: i64) -> Self {
        Self { spot: self.spot + i128::from(millicores), ..self }
    }

    /// Whether the on-demand floor or the maximum spot share forbids a pool with this usage to
    /// launch spot.
    #[must_use]
    pub fn forbids_spot(&self, rules: &OptInRules) -> bool {
        rules.on_demand_min_nodes.is_some_and(|floor| self.is_below(floor))
            || rules.spot_max_percent.is_some_and(|percent| self.exceeds(percent))
    }

    /// Whether the pool has fewer on-demand nodes than `floor`.
    pub(super) fn is_below(&self, floor: i64) -> bool {
        self.on_demand_nodes < floor
    }

    /// Whether more than `percent` of the millicores are spot.
    pub(super) fn exceeds(&self, percent: i64) -> bool {
        self.spot * 100 > i128::from(percent) * (self.spot + self.other)
    }
}
