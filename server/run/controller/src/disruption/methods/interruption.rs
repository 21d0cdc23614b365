//! Interruption: removes the machine whose instance ends or fails, as the cloud announces or reports.
//!
//! The cloud ends the instance at its own time, so the removal waits neither for its record nor for
//! budgets and guardrails.

use crate::disruption::method::{DisruptionView, InterruptionNotice, Method};
use crate::disruption::selection::{AnnouncedMachine, SelectionFacts, SelectionInput};
use crate::nodeclaim::DrainTerms;
use model::removal::RemovalReason;

#[derive(Debug)]
pub(crate) struct Interruption;

impl Method for Interruption {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Interrupted
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let announced = |notice: &InterruptionNotice| AnnouncedMachine {
            machine: view.machine(&notice.claim),
            why: notice.reason.clone(),
        };
        self.input(view, SelectionFacts::Announced(view.notice.iter().map(announced).collect()))
    }

    fn drain_terms(&self, view: &DisruptionView<'_>) -> DrainTerms {
        let deadline = view.notice.as_ref().and_then(|notice| notice.deadline);
        DrainTerms { deadline, interrupted: true, ..DrainTerms::default() }
    }
}

#[cfg(test)]
mod tests;
