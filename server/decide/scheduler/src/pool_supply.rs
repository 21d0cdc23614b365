//! What one NodePool can launch in one decision: its offerings, and the capacity that DaemonSets
//! leave on each type.

use std::ops::Deref;
use std::sync::Arc;

use super::fits::FitId;
use super::pool_offerings::PoolOfferings;
use super::resource_vector::{self, Amounts};
use model::{HostPort, MicroUsd, NodePool};

/// A [`PoolOfferings`] with the requests of DaemonSets subtracted.
#[derive(Debug)]
pub(super) struct PoolSupply {
    offerings: Arc<PoolOfferings>,
    /// Allocatable amounts of each of [`PoolOfferings::instance_types`], DaemonSets subtracted.
    pub(super) net_allocatable: Vec<Amounts>,
    /// The maximum of each resource over all types, DaemonSets subtracted.
    pub(super) max_allocatable: Amounts,
    /// What a node of the pool costs per hour beside its price and credits.
    pub(super) overhead: MicroUsd,
    /// Host ports that DaemonSets use on every type they match.
    pub(super) daemon_ports: Vec<HostPort>,
    /// DaemonSets (by index) with the launch options they match, one fit per alternative.
    pub(super) daemons: Vec<(u32, Vec<FitId>)>,
}

impl PoolSupply {
    /// Computes the maximum of each resource; call after DaemonSets are subtracted.
    pub(super) fn update_max_allocatable(&mut self) {
        let mut amounts = self.net_allocatable.iter();
        self.max_allocatable = amounts.next().cloned().unwrap_or_default();
        for allocatable in amounts {
            self.max_allocatable.iter_mut().zip(allocatable).for_each(|(most, have)| *most = (*most).max(*have));
        }
    }

    /// Whether, resource by resource, some type holds `request`.
    pub(super) fn may_hold(&self, request: &[i64]) -> bool {
        !self.net_allocatable.is_empty() && resource_vector::fits(request, &self.max_allocatable)
    }

    /// The supply of `pool` with its `offerings`, before DaemonSets are subtracted.
    pub(super) fn of(pool: &NodePool, offerings: Arc<PoolOfferings>) -> Self {
        let net_allocatable = offerings.allocatable();
        Self {
            offerings,
            net_allocatable,
            overhead: pool.rules.node_overhead.unwrap_or_default(),
            max_allocatable: Amounts::new(),
            daemon_ports: Vec::new(),
            daemons: Vec::new(),
        }
    }
}

impl Deref for PoolSupply {
    type Target = PoolOfferings;

    fn deref(&self) -> &PoolOfferings {
        &self.offerings
    }
}
