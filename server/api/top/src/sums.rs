//! Sums over nodes, kept with each change.

use std::collections::BTreeMap;

use crate::row::{Node, Stage, id};

/// Requested and allocatable of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) requested: i64,
    pub(crate) allocatable: i64,
}

impl Requests {
    /// Thousandths of the allocatable that are requested, rounded down; `None` without allocatable.
    pub(crate) fn permille(self) -> Option<i64> {
        (self.allocatable > 0).then(|| scaled(self.requested, 1_000, self.allocatable))
    }

    /// The share of `price` that is not requested; `None` without allocatable.
    fn free_price(self, price: i64) -> Option<i64> {
        let free = self.allocatable.saturating_sub(self.requested).max(0);
        (self.allocatable > 0).then(|| scaled(price, free, self.allocatable))
    }
}

/// `value * numerator / denominator`, rounded towards zero. Most products fit into 64 bits, whose division is much faster.
fn scaled(value: i64, numerator: i64, denominator: i64) -> i64 {
    if let Some(product) = value.checked_mul(numerator) {
        return product / denominator;
    }
    let exact = i128::from(value) * i128::from(numerator) / i128::from(denominator);
    i64::try_from(exact).unwrap_or(i64::MAX)
}

/// The greater share of CPU and memory, in thousandths.
pub(crate) fn greater_permille(cpu: Requests, memory: Requests) -> Option<i64> {
    cpu.permille().max(memory.permille())
}

impl Node {
    pub(crate) fn cpu(&self) -> Requests {
        Requests { requested: self.cpu_requested_millis, allocatable: self.cpu_allocatable_millis }
    }

    pub(crate) fn memory(&self) -> Requests {
        Requests { requested: self.memory_requested_bytes, allocatable: self.memory_allocatable_bytes }
    }

    /// What of its price an hour is requested neither in CPU nor in memory, in micro-dollars.
    pub(crate) fn waste_micro_usd(&self) -> i64 {
        if !self.stage.has_joined() {
            return 0;
        }
        let free = [self.cpu(), self.memory()].map(|requests| requests.free_price(self.price_micro_usd));
        match free {
            [Some(cpu), Some(memory)] => cpu.min(memory),
            _ => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) nodes: i64,
    pub(crate) ready: i64,
    pub(crate) starting: i64,
    pub(crate) draining: i64,
    pub(crate) not_ready: i64,
    /// Nodes without a price.
    pub(crate) unpriced: i64,
    pub(crate) price_micro_usd: i64,
    pub(crate) waste_micro_usd: i64,
    pub(crate) cpu: Requests,
    pub(crate) memory: Requests,
}

impl Sums {
    /// Adds a node `count` times: 1, or -1 to remove it.
    fn add(&mut self, node: &Node, count: i64) {
        self.nodes += count;
        match node.stage {
            Stage::Ready => self.ready += count,
            Stage::Launching | Stage::Booting | Stage::Registered => self.starting += count,
            Stage::Draining => self.draining += count,
            Stage::NotReady | Stage::Unknown => self.not_ready += count,
        }
        self.unpriced += if node.price_micro_usd == 0 { count } else { 0 };
        self.price_micro_usd += count * node.price_micro_usd;
        self.waste_micro_usd += count * node.waste_micro_usd();
        if node.stage.has_joined() {
            for (sum, of_node) in [(&mut self.cpu, node.cpu()), (&mut self.memory, node.memory())] {
                sum.requested += count * of_node.requested;
                sum.allocatable += count * of_node.allocatable;
            }
        }
    }
}

/// Sums over the nodes of each cluster and of all.
#[derive(Debug, Default)]
pub(crate) struct FleetSums {
    total: Sums,
    /// By the id of the cluster; a cluster without nodes has none.
    clusters: BTreeMap<String, Sums>,
}

impl FleetSums {
    pub(crate) fn of(&self, cluster: Option<&str>) -> Sums {
        cluster.map_or(self.total, |cluster| self.clusters.get(cluster).copied().unwrap_or_default())
    }

    pub(crate) fn add(&mut self, node: &Node) {
        self.count(node, 1);
    }

    pub(crate) fn remove(&mut self, node: &Node) {
        self.count(node, -1);
    }

    fn count(&mut self, node: &Node, count: i64) {
        self.total.add(node, count);
        let cluster = id(&node.name, 0);
        if let Some(sums) = self.clusters.get_mut(cluster) {
            sums.add(node, count);
            if sums.nodes == 0 {
                self.clusters.remove(cluster);
            }
        } else {
            let mut sums = Sums::default();
            sums.add(node, count);
            self.clusters.insert(cluster.to_owned(), sums);
        }
    }
}
