//! Machines per pool, existing and opened, as far as opt-in rules count them.

use std::collections::BTreeMap;

use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, ZONE};
use crate::model::resources::CPU;
use crate::model::{CapacityType, Node, NodePool, NodeStage, Text};

/// What the opt-in rules of one pool look at.
#[derive(Debug, Clone, Default)]
struct Account {
    /// Rules that depend on what else is opened, so that machines are opened one by one.
    stateful: bool,
    min_values: bool,
    shares: bool,
    on_demand: i64,
    spot_vcpu: i64,
    all_vcpu: i64,
    zones: BTreeMap<Text, i64>,
    /// Machines that `min-nodes` still asks for.
    lacking: i64,
    /// Whether `min-nodes` asks for any.
    many: bool,
}

/// Machines per pool, as far as rules look at them.
#[derive(Debug, Clone)]
pub(super) struct Ledger(Vec<Account>);

impl Ledger {
    pub(super) fn of(input: &PlanningInput) -> Self {
        Self(input.pools.iter().map(|pool| account_of(input, pool)).collect())
    }

    /// Whether machines of `pool` are opened one by one.
    pub(super) fn is_stateful(&self, pool: u32) -> bool {
        self.0[pool as usize].stateful
    }

    /// Whether the size of a machine of `pool` is settled when it is opened (its vCPUs are part of a share).
    pub(super) fn is_fixed(&self, pool: u32) -> bool {
        self.0[pool as usize].shares
    }

    pub(super) fn wants_min_values(&self, pool: u32) -> bool {
        self.0[pool as usize].min_values
    }

    /// Machines that `pool` is still to open before pods may share them.
    pub(super) fn lacking(&self, pool: u32) -> i64 {
        self.0[pool as usize].lacking
    }

    /// Whether some pool lacks machines.
    pub(super) fn lacks_machines(&self) -> bool {
        self.0.iter().any(|account| account.lacking > 0)
    }

    /// Whether `pool` asked for a number of machines.
    pub(super) fn wants_many(&self, pool: u32) -> bool {
        self.0[pool as usize].many
    }

    /// The most pods out of `count` that a machine of `pool` takes, so that there are enough for the others it lacks.
    pub(super) fn share_of(&self, pool: u32, count: u32) -> u32 {
        match u32::try_from(self.lacking(pool)) {
            Ok(lacking) if lacking > 0 => count.div_ceil(lacking),
            _ => count,
        }
    }

    /// Machines that `pool` has on demand.
    pub(super) fn on_demand(&self, pool: u32) -> i64 {
        self.0[pool as usize].on_demand
    }

    /// Whether at most `percent` of the vCPUs of `pool` are spot once a spot machine of this size is added.
    pub(super) fn spot_stays_within(&self, pool: u32, vcpu_milli: i64, percent: i64) -> bool {
        let account = &self.0[pool as usize];
        (account.spot_vcpu + vcpu_milli) * 100 <= (account.all_vcpu + vcpu_milli) * percent
    }

    /// Machines that `pool` has in `zone`.
    pub(super) fn in_zone(&self, pool: u32, zone: &str) -> i64 {
        self.0[pool as usize].zones.get(zone).copied().unwrap_or(0)
    }

    /// Counts machines that were opened.
    pub(super) fn opened(
        &mut self,
        pool: u32,
        capacity: CapacityType,
        vcpu_milli: i64,
        zone: Option<Text>,
        count: i64,
    ) {
        let account = &mut self.0[pool as usize];
        account.lacking -= count;
        account.add(capacity, vcpu_milli, count);
        if let Some(zone) = zone {
            *account.zones.entry(zone).or_insert(0) += count;
        }
    }

    /// Counts a machine that was opened in one zone and stands in another instead.
    pub(super) fn moved(&mut self, pool: u32, from: &Text, to: &Text) {
        let zones = &mut self.0[pool as usize].zones;
        *zones.entry(from.clone()).or_insert(0) -= 1;
        *zones.entry(to.clone()).or_insert(0) += 1;
    }

    /// Counts a machine whose zone is settled when the plan is finished.
    pub(super) fn settled(&mut self, pool: u32, zone: &Text) {
        *self.0[pool as usize].zones.entry(zone.clone()).or_insert(0) += 1;
    }
}

impl Account {
    fn add(&mut self, capacity: CapacityType, vcpu_milli: i64, count: i64) {
        self.all_vcpu += vcpu_milli * count;
        match capacity {
            CapacityType::Spot => self.spot_vcpu += vcpu_milli * count,
            CapacityType::OnDemand => self.on_demand += count,
            CapacityType::Reserved => {}
        }
    }
}

fn account_of(input: &PlanningInput, pool: &NodePool) -> Account {
    // All spot and none need no count of vCPUs.
    let shares = pool.rules.spot_max_percent.is_some_and(|percent| percent > 0 && percent < 100);
    let mut account = Account {
        stateful: shares || pool.rules.on_demand_min_nodes.is_some() || pool.rules.zone_balance,
        min_values: pool.requirements.iter().any(|requirement| requirement.min_values().is_some()),
        shares,
        lacking: pool.rules.min_nodes.unwrap_or(0),
        many: pool.rules.min_nodes.is_some(),
        ..Account::default()
    };
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    for node in input.nodes.iter().filter(own) {
        let capacity = match node.labels.get(CAPACITY_TYPE).map(AsRef::as_ref) {
            Some("spot") => CapacityType::Spot,
            Some("reserved") => CapacityType::Reserved,
            _ => CapacityType::OnDemand,
        };
        account.add(capacity, node.capacity.get(CPU), 1);
        if let Some(zone) = node.labels.get(ZONE) {
            *account.zones.entry(zone.clone()).or_insert(0) += 1;
        }
    }
    account
}
