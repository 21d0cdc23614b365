//! What a disruption method selects machines from, as values: the decision log keeps them, and a replay
//! selects from them again.
//!
//! A method [reads](super::method::Method::read) them from the observed state, and [`SelectionInput::select`]
//! is all that follows: the controller calls it for each selection, and a replay calls it with what was recorded.
//! Only machines with the cause of the method are among the values: empty, drifted, expired, unhealthy or
//! announced ones. Whether there is such a cause is a verdict on the observed state, which is recorded as it
//! was and not found again.
//!
//! Reading order: this file, [`facts`] (what machines are selected by), a file for each kind of cause, [`allowances`]
//! and [`evictions`] (what holds machines), [`result`], [`record`] (what is recorded of a decision).

mod allowances;
mod empty;
mod evictions;
mod expiring;
mod facts;
mod outgoing;
mod record;
mod result;
mod surplus;
mod unhealthy;

pub(super) use allowances::{Budgeted, PoolSelection, allowance_in_cluster, divide};
pub use empty::{EmptyMachine, EmptyMachines};
pub use evictions::{EvictionLimits, MachineEvictions, ReadyPods};
pub use expiring::{ExpiringMachine, ExpiringMachines};
pub use facts::{AnnouncedMachine, MachineNames, PoolFacts, PoolNodes, Protection, Protections};
pub use outgoing::{OutgoingMachine, OutgoingMachines, OutgoingPool, StaticCounts};
pub use record::{RemovalAnswer, RemovalCheck, RemovalRecord};
pub use result::{BlockedRepair, PlannedReplacement, Selection};
pub(super) use surplus::surplus;
pub use surplus::{RankedMachine, SurplusMachines, SurplusPool};
pub use unhealthy::{UnhealthyMachine, UnhealthyMachines, UnhealthyPool};

use model::Timestamp;
use model::removal::RemovalReason;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionInput {
    pub reason: RemovalReason,
    pub now: Timestamp,
    /// When the next machine that is not among the values may become removable.
    pub later: Option<Timestamp>,
    /// The machines, and what holds them.
    pub facts: SelectionFacts,
}

/// The machines that a method selects among, and what holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectionFacts {
    /// Machines that the cloud announced or recommends to leave: all of them are selected.
    Announced(Vec<AnnouncedMachine>),
    /// Machines that are older than they may be.
    Expiring(ExpiringMachines),
    /// Machines of static NodePools that have more than their replicas.
    Surplus(SurplusMachines),
    /// Unhealthy machines, which are removed at once.
    Unhealthy(UnhealthyMachines),
    /// Machines without pods.
    Empty(EmptyMachines),
    /// Machines that are replaced first: drifted ones, and unhealthy ones where repairs are voluntary.
    Outgoing(OutgoingMachines),
    /// Machines whose pods a plan of disruption has moved.
    Consolidated(OutgoingMachines),
}

impl SelectionInput {
    /// Machines to remove and to replace: a pure function, for the controller and for replays.
    #[must_use]
    pub fn select(&self) -> Selection {
        let mut selection = match &self.facts {
            SelectionFacts::Announced(machines) => Selection {
                removals: machines.iter().map(|one| one.machine.removal(one.why.clone())).collect(),
                ..Selection::default()
            },
            SelectionFacts::Expiring(facts) => facts.select(self.now),
            SelectionFacts::Surplus(facts) => facts.select(self.now),
            SelectionFacts::Unhealthy(facts) => facts.select(self.now),
            SelectionFacts::Empty(facts) => facts.select(self.now),
            SelectionFacts::Outgoing(facts) => facts.select(self.reason, self.now),
            SelectionFacts::Consolidated(facts) => facts.select_moved(self.now),
        };
        selection.check_at(self.later);
        selection
    }

    /// Number of empty machines, or of machines to replace first, that nothing on them holds: before budgets.
    pub(super) fn eligible(&self) -> usize {
        match &self.facts {
            SelectionFacts::Empty(facts) => facts.eligible(self.now),
            SelectionFacts::Outgoing(facts) => facts.eligible(self.now),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
