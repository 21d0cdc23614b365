//! Rebalance recommendations: replaces the machine whose spot instance is at elevated risk, if the server is
//! set to (`interruption.rebalance-recommendations`; Karpenter only records an Event).
//!
//! Nothing ends yet, so that the drain waits for other capacity and respects PodDisruptionBudgets, and rate
//! limits and freezes hold the removal. The budgets of the NodePool do not: an interruption would not wait for
//! them either. A recommendation is not stored: after a takeover the machine stays until the cloud says more.

use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::selection::{AnnouncedMachine, SelectionFacts, SelectionInput};
use model::Text;
use model::removal::RemovalReason;

#[derive(Debug)]
pub(crate) struct Rebalance;

impl Method for Rebalance {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Rebalanced
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let stays = |claim: &&_| view.state.claim(claim).is_some_and(|record| record.ours && !view.is_leaving(record));
        let why = "the cloud recommends to leave the spot instance, which is at elevated risk of an interruption";
        let machine = |claim| AnnouncedMachine { machine: view.machine(claim), why: Text::from(why) };
        self.input(view, SelectionFacts::Announced(view.recommended.iter().filter(stays).map(machine).collect()))
    }
}

#[cfg(test)]
mod tests;
