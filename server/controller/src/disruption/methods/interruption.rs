//! Interruption: removes the machine whose instance the cloud reclaims.
//!
//! The cloud ends the instance at its own time, so the removal waits neither for its record nor for
//! budgets and guardrails.

use crate::MethodReason;
use crate::disruption::method::{DisruptionView, Method, Selection};
use crate::nodeclaim::DrainTerms;
use model::removal::RemovalReason;
use model::{Millis, Timestamp};

/// The reason of its decisions.
pub const INTERRUPTION: MethodReason =
    MethodReason { kind: "interruption", summary: "reclaimed by the cloud", removal: RemovalReason::Interrupted };

/// Time between the announcement and the end of a spot instance (EC2: two minutes).
const NOTICE_PERIOD: Millis = Millis::from_mins(2);

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

    fn drain_terms(&self, now: Timestamp) -> DrainTerms {
        DrainTerms { deadline: Some(now + NOTICE_PERIOD), interrupted: true, ..DrainTerms::default() }
    }
}

#[cfg(test)]
mod tests;
