//! Nodes per pool, existing and planned, as the opt-in rules count them.

use std::collections::BTreeMap;

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, ZONE};
use model::resources::CPU;
use model::{CapacityType, Node, NodePool, NodeStage, Zone};

/// What the opt-in rules of one pool use.
#[derive(Debug, Clone, Default)]
struct Counts {
    /// Whether a rule depends on what else is opened, so that machines are opened one by one.
    stateful: bool,
    min_values: bool,
    spot_share: bool,
    on_demand: i64,
    spot_vcpu: i64,
    all_vcpu: i64,
    zones: BTreeMap<Zone, i64>,
    /// Nodes missing to `min-nodes`.
    missing_nodes: i64,
    /// Whether the pool has `min-nodes`.
    has_min_nodes: bool,
}

/// Counts by pool index.
#[derive(Debug, Clone)]
pub(super) struct PoolCounts(Vec<Counts>);

impl PoolCounts {
    pub(super) fn of(input: &PlanningInput) -> Self {
        Self(input.pools.iter().map(|pool| counts_of(input, pool)).collect())
    }

    /// Whether machines of `pool` are opened one by one.
    pub(super) fn is_stateful(&self, pool: u32) -> bool {
        self.0[pool as usize].stateful
    }

    /// Whether the vCPUs of a machine of `pool` are fixed when it is opened (they count in a spot
    /// share).
    pub(super) fn is_size_fixed(&self, pool: u32) -> bool {
        self.0[pool as usize].spot_share
    }

    pub(super) fn has_min_values(&self, pool: u32) -> bool {
        self.0[pool as usize].min_values
    }

    /// Nodes that `pool` must still open before pods may share one.
    pub(super) fn missing_nodes(&self, pool: u32) -> i64 {
        self.0[pool as usize].missing_nodes
    }

    /// Whether some pool misses nodes to its `min-nodes`.
    pub(super) fn any_pool_misses_nodes(&self) -> bool {
        self.0.iter().any(|counts| counts.missing_nodes > 0)
    }

    /// Whether `pool` has `min-nodes`.
    pub(super) fn has_min_nodes(&self, pool: u32) -> bool {
        self.0[pool as usize].has_min_nodes
    }

    /// Maximum number of pods out of `count` on one machine of `pool`, so that enough are left for
    /// the nodes it misses.
    pub(super) fn pods_per_node(&self, pool: u32, count: u32) -> u32 {
        match u32::try_from(self.missing_nodes(pool)) {
            Ok(lacking) if lacking > 0 => count.div_ceil(lacking),
            _ => count,
        }
    }

    /// On-demand nodes of `pool`.
    pub(super) fn on_demand_nodes(&self, pool: u32) -> i64 {
        self.0[pool as usize].on_demand
    }

    /// Whether at most `percent` of the vCPUs of `pool` are spot after a spot machine of this size
    /// is added.
    pub(super) fn spot_share_holds(&self, pool: u32, vcpu_milli: i64, percent: i64) -> bool {
        let counts = &self.0[pool as usize];
        (counts.spot_vcpu + vcpu_milli) * 100 <= (counts.all_vcpu + vcpu_milli) * percent
    }

    /// Nodes of `pool` in `zone`.
    pub(super) fn nodes_in_zone(&self, pool: u32, zone: &Zone) -> i64 {
        self.0[pool as usize].zones.get(zone).copied().unwrap_or(0)
    }

    pub(super) fn add_machines(
        &mut self,
        pool: u32,
        capacity: CapacityType,
        vcpu_milli: i64,
        zone: Option<Zone>,
        count: i64,
    ) {
        let counts = &mut self.0[pool as usize];
        counts.missing_nodes -= count;
        counts.add(capacity, vcpu_milli, count);
        if let Some(zone) = zone {
            *counts.zones.entry(zone).or_insert(0) += count;
        }
    }

    /// Moves a planned machine from one zone to another.
    pub(super) fn move_machine(&mut self, pool: u32, from: &Zone, to: &Zone) {
        let zones = &mut self.0[pool as usize].zones;
        *zones.entry(from.clone()).or_insert(0) -= 1;
        *zones.entry(to.clone()).or_insert(0) += 1;
    }

    /// Counts a machine whose zone is chosen when the plan is finished.
    pub(super) fn add_to_zone(&mut self, pool: u32, zone: &Zone) {
        *self.0[pool as usize].zones.entry(zone.clone()).or_insert(0) += 1;
    }
}

impl Counts {
    fn add(&mut self, capacity: CapacityType, vcpu_milli: i64, count: i64) {
        self.all_vcpu += vcpu_milli * count;
        match capacity {
            CapacityType::Spot => self.spot_vcpu += vcpu_milli * count,
            CapacityType::OnDemand => self.on_demand += count,
            CapacityType::Reserved => {}
        }
    }
}

fn counts_of(input: &PlanningInput, pool: &NodePool) -> Counts {
    // Shares of 0 and 100 percent need no count of vCPUs.
    let spot_share = pool.rules.spot_max_percent.is_some_and(|percent| percent > 0 && percent < 100);
    let mut counts = Counts {
        stateful: spot_share || pool.rules.on_demand_min_nodes.is_some() || pool.rules.zone_balance,
        min_values: pool.requirements.iter().any(|requirement| requirement.min_values().is_some()),
        spot_share,
        missing_nodes: pool.rules.min_nodes.unwrap_or(0),
        has_min_nodes: pool.rules.min_nodes.is_some(),
        ..Counts::default()
    };
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    for node in input.nodes.iter().filter(own) {
        let capacity = match node.labels.get(CAPACITY_TYPE).map(AsRef::as_ref) {
            Some("spot") => CapacityType::Spot,
            Some("reserved") => CapacityType::Reserved,
            _ => CapacityType::OnDemand,
        };
        counts.add(capacity, node.capacity.get(CPU), 1);
        if let Some(zone) = node.labels.get(ZONE) {
            *counts.zones.entry(Zone::from(zone)).or_insert(0) += 1;
        }
    }
    counts
}
