//! Events of what consolidation decides, and does not carry out, and of replacements that fail.

use std::fmt;

use super::StatusReporter;
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::step_view::StepView;
use crate::{DecisionId, EventReason, Removal};
use cluster::ClusterState;
use model::ClaimName;
use model::disruption_policy::{ConsolidationPolicy, DisruptionReason};

/// Machines of one decision that get Events: the recorder drops more.
const MAX_MACHINES: usize = 5;

/// Why a removal by consolidation is not carried out (Karpenter: reasons of rejected consolidations).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// A budget admits less than before.
    Budget,
    /// The pods, or a machine for them, have no place.
    Scheduling,
    /// The cluster has changed since the plan was made.
    Churn,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
            Self::Churn => "churn",
        })
    }
}

impl StatusReporter {
    /// Notes the machines that `decision` removes because their pods fit elsewhere at a lower price.
    pub(crate) fn note_consolidation(&mut self, removals: &[Removal], decision: DecisionId, view: &StepView<'_>) {
        for Removal { claim, reason, .. } in removals.iter().take(MAX_MACHINES) {
            let origin = Origin { decision: Some(decision), price: view.claims.price_of(claim) };
            self.note(claim, EventReason::ConsolidationCandidate, reason.to_string(), "", origin, view);
            if is_balanced(claim, view.state) {
                let message = format!("consolidationPolicy Balanced accepts the saving: {reason}");
                self.note(claim, EventReason::ConsolidationApproved, message, "", origin, view);
            }
        }
    }

    /// Notes that a plan which removes these machines is not carried out.
    pub(crate) fn note_rejected_plan(
        &mut self,
        removals: &[Removal],
        rejection: Rejection,
        why: &str,
        view: &StepView<'_>,
    ) {
        for Removal { claim, .. } in removals.iter().take(MAX_MACHINES) {
            self.note_rejection(claim, rejection, why, view);
        }
    }

    /// Notes that the replacement of a machine ends without its removal.
    pub(crate) fn note_ended_replacement(
        &mut self,
        claim: &ClaimName,
        rejection: Rejection,
        why: &str,
        view: &StepView<'_>,
    ) {
        let reason = view.state.replacement_of(claim).map(|begun| begun.reason);
        match reason {
            Some(DisruptionReason::Underutilized) => self.note_rejection(claim, rejection, why, view),
            Some(reason) => {
                let message = format!("its replacement as {} has ended: {why}", reason.as_str());
                let origin = Origin { decision: None, price: view.claims.price_of(claim) };
                self.note(claim, EventReason::DisruptionBlocked, message, "replacement", origin, view);
            }
            None => {}
        }
    }

    fn note_rejection(&mut self, claim: &ClaimName, rejection: Rejection, why: &str, view: &StepView<'_>) {
        let message = format!("its removal by consolidation is not carried out ({rejection}): {why}");
        let decision = view.history.costs.removed_by(claim).map(|saving| DecisionId(saving.number));
        let origin = Origin { decision, price: view.claims.price_of(claim) };
        self.note(claim, EventReason::ConsolidationRejected, message, &rejection.to_string(), origin, view);
    }

    fn note(
        &mut self,
        claim: &ClaimName,
        reason: EventReason,
        message: String,
        series: &str,
        origin: Origin,
        view: &StepView<'_>,
    ) {
        let event = EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin).in_series(series);
        let events = event.on_each(ObjectRef::of_machine(view.state, claim));
        self.pending_events.add(events);
    }
}

fn is_balanced(claim: &ClaimName, state: &ClusterState) -> bool {
    let pool = state.claim(claim).and_then(|record| state.pool(&record.pool));
    pool.is_some_and(|pool| pool.disruption.policy == ConsolidationPolicy::Balanced)
}
