//! What one NodePool can buy in one decision: its stall, and what DaemonSets leave of the machines there.

use std::ops::Deref;
use std::sync::Arc;

use super::axis::{self, Amounts};
use super::fits::FitId;
use super::stall::PoolOfferings;
use crate::model::HostPort;

/// What one NodePool can buy: a [`PoolOfferings`] with DaemonSets taken off.
#[derive(Debug)]
pub(super) struct PoolSupply {
    stall: Arc<PoolOfferings>,
    /// What pods can use of each of [`PoolOfferings::machines`], DaemonSets already taken off.
    pub(super) rooms: Vec<Amounts>,
    /// The most of each resource that any machine leaves, DaemonSets taken off.
    pub(super) most: Amounts,
    /// Host ports that DaemonSets take on every machine they suit.
    pub(super) daemon_ports: Vec<HostPort>,
    /// DaemonSets (by index) with the launch options that they suit, one fit per alternative.
    pub(super) daemons: Vec<(u32, Vec<FitId>)>,
}

impl PoolSupply {
    /// Notes the most of each resource; when DaemonSets are taken off.
    pub(super) fn measure(&mut self) {
        let mut rooms = self.rooms.iter();
        self.most = rooms.next().cloned().unwrap_or_default();
        for room in rooms {
            self.most.iter_mut().zip(room).for_each(|(most, have)| *most = (*most).max(*have));
        }
    }

    /// Whether, resource by resource, some machine holds `request`.
    pub(super) fn could_hold(&self, request: &[i64]) -> bool {
        !self.rooms.is_empty() && axis::fits(request, &self.most)
    }

    /// The market at `stall`; DaemonSets are taken off later.
    pub(super) fn of(stall: Arc<PoolOfferings>) -> Self {
        let rooms = stall.rooms();
        Self { stall, rooms, most: Amounts::new(), daemon_ports: Vec::new(), daemons: Vec::new() }
    }
}

impl Deref for PoolSupply {
    type Target = PoolOfferings;

    fn deref(&self) -> &PoolOfferings {
        &self.stall
    }
}
