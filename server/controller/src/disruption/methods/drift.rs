//! Drift: replaces machines that do not match their NodePool or NodeClass any more (Karpenter: drift,
//! static drift).
//!
//! `consolidateAfter` and the consolidation policy do not hold it. What does, and how a machine is replaced, is
//! in [`replace_first`](crate::disruption::replace_first).
//!
//! Replay needs nothing of its own: the places of the pods come from the plan of a decision to launch, whose
//! input shows the machine as one that leaves.

use crate::MethodReason;
use crate::disruption::candidates::Candidates;
use crate::disruption::method::{DisruptionView, Method, Selection};
use crate::disruption::replace_first::{self, Outgoing};
use crate::nodeclaim::DrainTerms;
use drift::Drift;
use model::Text;
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;

/// The reason of its decisions.
pub const DRIFT: MethodReason =
    MethodReason { kind: "drift", summary: "does not match its NodePool", removal: RemovalReason::Drifted };

/// The method.
#[derive(Debug)]
pub(crate) struct Drifted;

impl Method for Drifted {
    fn reason(&self) -> MethodReason {
        DRIFT
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let candidates = Candidates::collect(view);
        let mut selection = Selection::default();
        let drifted = drifted(&candidates, view, &mut selection);
        replace_first::select(drifted, DisruptionReason::Drifted, &candidates, view, &mut selection);
        selection
    }

    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        DrainTerms::default()
    }
}

/// The drifted machines. The next time at which another one drifts is added to `selection`.
fn drifted<'v>(candidates: &Candidates<'v>, view: &DisruptionView<'v>, selection: &mut Selection) -> Vec<Outgoing<'v>> {
    let replaced = candidates.replaced_for(DisruptionReason::Drifted, view);
    let mut drifted = Vec::new();
    for candidate in candidates.iter().chain(replaced) {
        let Some(Drift { reason, message }) = view.state.drift_of(candidate.claim, view.now) else {
            selection.check_at(view.state.next_drift_of(candidate.claim, view.now));
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
