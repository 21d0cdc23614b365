//! What one NodePool can buy in one decision: its stall, and what DaemonSets leave of the machines there.

use std::ops::Deref;
use std::sync::Arc;

use super::axis::Amounts;
use super::fits::FitId;
use super::stall::Stall;
use crate::model::HostPort;

/// What one NodePool can buy: a [`Stall`] with DaemonSets taken off.
#[derive(Debug)]
pub(super) struct Market {
    stall: Arc<Stall>,
    /// What pods can use of each of [`Stall::machines`], DaemonSets already taken off.
    pub(super) rooms: Vec<Amounts>,
    /// Host ports that DaemonSets take on every machine they suit.
    pub(super) daemon_ports: Vec<HostPort>,
    /// DaemonSets (by index) with the launch options that they suit, one fit per alternative.
    pub(super) daemons: Vec<(u32, Vec<FitId>)>,
}

impl Market {
    /// The market at `stall`; DaemonSets are taken off later.
    pub(super) fn of(stall: Arc<Stall>) -> Self {
        let rooms = stall.rooms();
        Self { stall, rooms, daemon_ports: Vec::new(), daemons: Vec::new() }
    }
}

impl Deref for Market {
    type Target = Stall;

    fn deref(&self) -> &Stall {
        &self.stall
    }
}
