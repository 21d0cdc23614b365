//! Parts of the state that are written by the modules beside it, each of which keeps its part consistent.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClaimName, NodeName};

use super::{Assignments, AuxiliaryRecords, Bookings, ClusterState, DriftEvidence, RecentMoves, Replacement};

impl ClusterState {
    pub(crate) fn assignments_mut(&mut self) -> &mut Assignments {
        &mut self.assignments
    }

    pub(crate) fn bookings(&self) -> &Bookings {
        &self.bookings
    }

    pub(crate) fn bookings_mut(&mut self) -> &mut Bookings {
        &mut self.bookings
    }

    pub(crate) fn replacements_mut(&mut self) -> &mut BTreeMap<ClaimName, Replacement> {
        &mut self.replacements
    }

    pub(crate) fn recent_moves(&self) -> &RecentMoves {
        &self.recent_moves
    }

    pub(crate) fn recent_moves_mut(&mut self) -> &mut RecentMoves {
        &mut self.recent_moves
    }

    pub(crate) fn auxiliary(&self) -> &AuxiliaryRecords {
        &self.auxiliary
    }

    /// Nodes with the taint of a removal, whoever set it.
    pub(crate) fn disrupted_nodes(&self) -> &BTreeSet<NodeName> {
        &self.disrupted_nodes
    }

    pub(crate) fn evidence(&self) -> &DriftEvidence {
        &self.evidence
    }

    pub(crate) fn evidence_mut(&mut self) -> &mut DriftEvidence {
        &mut self.evidence
    }

    pub(crate) fn auxiliary_mut(&mut self) -> &mut AuxiliaryRecords {
        &mut self.auxiliary
    }
}
