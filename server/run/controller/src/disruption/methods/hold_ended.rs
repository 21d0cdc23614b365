//! Ended holds: removes the machines of dedicated holds that have ended, once no pod is left on them that would run
//! elsewhere again. Only pods of the hold tolerate their taint, so nobody else can use them.
//!
//! No budget holds it, as no pod is disrupted; guardrails and freezes do.

use super::super::selection::AnnouncedMachine;
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::selection::{SelectionFacts, SelectionInput};
use cluster::{HOLD, PodRecord};
use model::removal::RemovalReason;
use model::{ClaimName, Text};

#[derive(Debug)]
pub(crate) struct HoldEnded;

impl Method for HoldEnded {
    fn reason(&self) -> RemovalReason {
        RemovalReason::HoldEnded
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let ended = view.state.claims_of_ended_holds().filter(|claim| is_unused(claim, view));
        let machine = |claim: &ClaimName| {
            let hold = view.state.claim(claim).and_then(|claim| claim.labels.get(HOLD)).cloned().unwrap_or_default();
            AnnouncedMachine { machine: view.machine(claim), why: Text::from(format!("hold {hold} has ended")) }
        };
        self.input(view, SelectionFacts::Announced(ended.map(machine).collect()))
    }
}

/// Whether the machine stays so far and has no pod that would run elsewhere again.
fn is_unused(claim: &ClaimName, view: &DisruptionView<'_>) -> bool {
    let Some(record) = view.state.claim(claim).filter(|claim| !view.is_leaving(claim)) else { return false };
    let node = view.state.node_of_claim(&record.name);
    !node.is_some_and(|node| view.state.pods_on(&node.name).any(PodRecord::is_reschedulable))
}
