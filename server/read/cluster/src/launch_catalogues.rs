//! Catalogues for new nodes: those of the NodePools, with the attach limits that CSINodes of the same instance type show.
//!
//! They are kept with the state, and not made for each plan: what is compiled from a catalogue is found by its address.

use model::attach_limits::{AttachLimits, LoweredCatalogues};

#[derive(Debug, Clone, Default)]
pub(super) struct LaunchCatalogues {
    /// Of the Nodes that have an instance type and are initialized.
    pub(super) limits: AttachLimits,
    pub(super) lowered: LoweredCatalogues,
    /// Whether a limit or the catalogue of a NodePool may have changed since `lowered` was made.
    pub(super) is_stale: bool,
}

impl LaunchCatalogues {
    pub(super) fn mark_stale(&mut self) {
        self.is_stale = true;
    }
}
