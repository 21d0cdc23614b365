//! A place to which the trials of a group are restricted.

use model::{NodeName, Zone};

/// Where the pods of a group are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Zone(Zone),
    /// An existing node, by index.
    Node(usize),
    /// A machine of the plan.
    Machine(NodeName),
    NewMachine,
}

impl Place {
    pub(super) fn zone(&self) -> Option<&Zone> {
        match self {
            Self::Zone(zone) => Some(zone),
            _ => None,
        }
    }

    pub(super) fn allows_node(&self, at: usize) -> bool {
        match self {
            Self::Zone(_) => true,
            Self::Node(node) => *node == at,
            Self::Machine(_) | Self::NewMachine => false,
        }
    }

    pub(super) fn allows_machine(&self, name: &NodeName) -> bool {
        match self {
            Self::Zone(_) => true,
            Self::Machine(machine) => machine == name,
            Self::Node(_) | Self::NewMachine => false,
        }
    }

    pub(super) fn allows_launch(&self) -> bool {
        matches!(self, Self::Zone(_) | Self::NewMachine)
    }
}
