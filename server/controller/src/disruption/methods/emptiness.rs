//! Emptiness: removes Nodes that have only DaemonSet pods (Karpenter: emptiness).
//!
//! A Node is removed when it is initialized, no pod is assigned to it, no pod blocks its
//! disruption, its NodePool's `consolidateAfter` has passed since the last pod event, and the
//! pool's budgets allow it, under each consolidation policy.

use crate::cluster::{ClusterState, PodRecord};
use crate::disruption::budgets::{Budgeted, apply_budgets};
use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::method::{DisruptionView, Method, Selection};
use crate::nodeclaim::DrainTerms;
use crate::{MethodReason, Removal};
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::{Text, Timestamp};

/// The reason of its decisions.
pub const EMPTY: MethodReason = MethodReason { kind: "empty", summary: "not needed", removal: RemovalReason::Empty };

/// The method.
#[derive(Debug)]
pub(crate) struct Emptiness;

impl Method for Emptiness {
    fn reason(&self) -> MethodReason {
        EMPTY
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let candidates = Candidates::collect(view);
        let (mut next_check, mut due): (Option<Timestamp>, Vec<Candidate<'_>>) = (None, Vec::new());
        for candidate in candidates.iter().filter(|candidate| is_empty(candidate, view.state)) {
            let removable_at = match candidate.is_protected(view.state, view.now) {
                true => candidate.next_protection_end(view.state, view.now),
                false => consolidatable_at(candidate, view.state),
            };
            match removable_at {
                Some(at) if at <= view.now => due.push(*candidate),
                Some(at) => next_check = Some(next_check.map_or(at, |next: Timestamp| next.min(at))),
                None => {}
            }
        }
        let Budgeted { allowed, held } = apply_budgets(&candidates, &due, DisruptionReason::Empty, view.now);
        Selection {
            removals: allowed.iter().map(removal).collect(),
            next_check,
            held_by_budget: held,
            ..Selection::default()
        }
    }

    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        // The agent's watch may lack pods: it has the API server list them before it drains.
        DrainTerms { only_if_empty: true, ..DrainTerms::default() }
    }
}

fn is_empty(candidate: &Candidate<'_>, state: &ClusterState) -> bool {
    !state.pods_on(&candidate.node.name).any(PodRecord::is_reschedulable)
}

fn consolidatable_at(candidate: &Candidate<'_>, state: &ClusterState) -> Option<Timestamp> {
    if candidate.pool.pool.replicas.is_some() {
        return None;
    }
    candidate.pool.disruption.consolidatable_from(state.last_pod_event(&candidate.node.name)?)
}

fn removal(candidate: &Candidate<'_>) -> Removal {
    let Candidate { node, claim, pool } = candidate;
    let waited = pool.disruption.consolidate_after.unwrap_or_default().as_secs();
    let reason = format!(
        "node {} holds only DaemonSet pods and had no pod event for {waited} s, the consolidateAfter of NodePool {}",
        node.name, pool.pool.name
    );
    Removal { claim: claim.name.clone(), node: node.name.clone(), reason: Text::from(reason) }
}

#[cfg(test)]
mod tests;
