//! What a machine costs when machines are compared: its price, the surplus credits of its CPU use,
//! and the overhead of a node of its pool (plan contract §1 and §2).

use super::pool_supply::PoolSupply;
use super::resource_vector::CPU_AT;
use model::{Burstable, MicroUsd};

/// Surplus credits per hour of a machine on which `cpu` millicores are requested, DaemonSets
/// included.
pub(super) fn credits(burstable: Option<Burstable>, cpu: i64) -> MicroUsd {
    burstable.map_or(MicroUsd(0), |burstable| burstable.surplus_credits(cpu))
}

impl PoolSupply {
    /// Cost per hour of a machine of type `at` with this price, whose pods request `cpu`
    /// millicores.
    pub(super) fn cost(&self, at: usize, price: MicroUsd, cpu: i64) -> MicroUsd {
        MicroUsd(price.0.saturating_add(self.overhead.0).saturating_add(self.credits(at, cpu).0))
    }

    /// Surplus credits per hour of a machine of type `at` whose pods request `cpu` millicores.
    pub(super) fn credits(&self, at: usize, cpu: i64) -> MicroUsd {
        let instance_type = &self.instance_types[at];
        if instance_type.burstable.is_none() {
            return MicroUsd(0);
        }
        let daemons = instance_type.allocatable[CPU_AT] - self.net_allocatable[at][CPU_AT];
        credits(instance_type.burstable, cpu.saturating_add(daemons))
    }

    /// Millicores that pods may request on a machine of type `at` before credits are paid.
    pub(super) fn cpu_without_credits(&self, at: usize) -> i64 {
        let instance_type = &self.instance_types[at];
        let net = self.net_allocatable[at][CPU_AT];
        let daemons = instance_type.allocatable[CPU_AT] - net;
        instance_type.burstable.map_or(net, |burstable| net.min(burstable.baseline - daemons)).max(0)
    }

    /// `ranked` (price and type, by price) from the type with the least price and credits on. EC2
    /// launches the cheapest option by price, so options below the price of the first are left out;
    /// and so are options of lower cost. Where `is_sufficient` refuses what is left, the type with
    /// the next cost is the first; where it refuses all, the result is that of the least cost.
    pub(super) fn options_by_cost(
        &self,
        ranked: &[(MicroUsd, usize)],
        cpu: i64,
        is_sufficient: impl Fn(&[usize]) -> bool,
    ) -> Vec<usize> {
        let cost = |(price, at): &(MicroUsd, usize)| self.cost(*at, *price, cpu);
        let mut firsts: Vec<(MicroUsd, usize)> = ranked.iter().map(cost).zip(0..).collect();
        firsts.sort_unstable();
        let mut best = None;
        for (least, place) in firsts {
            let others = ranked[place + 1..].iter().filter(|other| cost(other) >= least);
            let options: Vec<usize> = std::iter::once(&ranked[place]).chain(others).map(|(_, at)| *at).collect();
            if is_sufficient(&options) {
                return options;
            }
            best.get_or_insert(options);
        }
        best.unwrap_or_default()
    }
}
