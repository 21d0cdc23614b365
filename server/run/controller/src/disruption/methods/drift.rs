//! Drift: replaces machines that do not match their NodePool or NodeClass any more (Karpenter: drift,
//! static drift).
//!
//! `consolidateAfter` and the consolidation policy do not hold it. What does, and how a machine is replaced, is
//! in [`replace_first`](crate::disruption::replace_first).
//!
//! The begin of a replacement is no decision. The places of the pods come from the plan of a decision to launch, whose
//! input shows the machine as one that leaves.

use crate::disruption::candidates::Candidates;
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::replace_first::{self, Outgoing};
use crate::disruption::selection::{SelectionFacts, SelectionInput};
use drift::Drift;
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::{Text, Timestamp};

#[derive(Debug)]
pub(crate) struct Drifted;

impl Method for Drifted {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Drifted
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let candidates = Candidates::collect(view);
        let mut later = None;
        let drifted = drifted(&candidates, view, &mut later);
        let facts = replace_first::read(drifted, DisruptionReason::Drifted, &candidates, view);
        SelectionInput { later, ..self.input(view, SelectionFacts::Outgoing(facts)) }
    }
}

/// The drifted machines. `later` is when the next one drifts.
fn drifted<'v>(
    candidates: &Candidates<'v>,
    view: &DisruptionView<'v>,
    later: &mut Option<Timestamp>,
) -> Vec<Outgoing<'v>> {
    let replaced = candidates.replaced_for(DisruptionReason::Drifted, view);
    let mut drifted = Vec::new();
    for candidate in candidates.iter().chain(replaced) {
        let Some(Drift { reason, message }) = view.state.drift_of(candidate.claim, view.now) else {
            *later = later.iter().copied().chain(view.state.next_drift_of(candidate.claim, view.now)).min();
            continue;
        };
        let why = Text::from(format!("node {} has drifted ({reason}): {message}", candidate.node.name));
        let since = candidate.claim.drift.drifted_since.unwrap_or(view.now);
        drifted.push(Outgoing { candidate: *candidate, since, why });
    }
    drifted
}

#[cfg(test)]
mod tests;
