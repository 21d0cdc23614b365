//! Interruption: removes the machine whose instance ends or fails, as the cloud announces or reports.
//!
//! The cloud ends the instance at its own time, so the removal waits neither for its record nor for
//! budgets and guardrails.

use crate::MethodReason;
use crate::disruption::method::{DisruptionView, Method, Selection};
use crate::nodeclaim::DrainTerms;
use model::removal::RemovalReason;

/// The reason of its decisions.
pub const INTERRUPTION: MethodReason =
    MethodReason { kind: "interruption", summary: "interrupted by the cloud", removal: RemovalReason::Interrupted };

/// The method.
#[derive(Debug)]
pub(crate) struct Interruption;

impl Method for Interruption {
    fn reason(&self) -> MethodReason {
        INTERRUPTION
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let removals = view.notice.iter().map(|notice| view.removal(&notice.claim, notice.reason.clone()));
        Selection { removals: removals.collect(), ..Selection::default() }
    }

    fn drain_terms(&self, view: &DisruptionView<'_>) -> DrainTerms {
        let deadline = view.notice.as_ref().and_then(|notice| notice.deadline);
        DrainTerms { deadline, interrupted: true, ..DrainTerms::default() }
    }
}

#[cfg(test)]
mod tests;
