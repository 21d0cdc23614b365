//! Events of what consolidation decides, and does not carry out, and of replacements that fail.

use std::fmt;

use crate::cluster_controller::ClusterController;
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::{DecisionId, EventReason, Removal};
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

impl ClusterController {
    /// Notes the machines that `decision` removes because their pods fit elsewhere at a lower price.
    pub(crate) fn note_consolidation(&mut self, removals: &[Removal], decision: DecisionId) {
        for Removal { claim, reason, .. } in removals.iter().take(MAX_MACHINES) {
            let origin = Origin { decision: Some(decision), price: self.claims.price_of(claim) };
            self.note(claim, EventReason::ConsolidationCandidate, reason.to_string(), "", origin);
            if self.is_balanced(claim) {
                let message = format!("consolidationPolicy Balanced accepts the saving: {reason}");
                self.note(claim, EventReason::ConsolidationApproved, message, "", origin);
            }
        }
    }

    /// Notes and counts that a plan which removes these machines is not carried out.
    pub(crate) fn note_rejected_plan(&mut self, removals: &[Removal], rejection: Rejection, why: &str) {
        self.lifecycle_counter.count_failed_validation(removals.len());
        for Removal { claim, .. } in removals.iter().take(MAX_MACHINES) {
            self.note_rejection(claim, rejection, why);
        }
    }

    /// Notes that the replacement of a machine ends without its removal, and counts it if its capacity did not come.
    pub(crate) fn note_ended_replacement(&mut self, claim: &ClaimName, rejection: Rejection, why: &str) {
        let reason = self.state.replacement_of(claim).map(|begun| begun.reason);
        if let Some(reason) = reason.filter(|_| rejection == Rejection::Scheduling) {
            self.lifecycle_counter.count_failed_replacement(reason);
        }
        match reason {
            Some(DisruptionReason::Underutilized) => self.note_rejection(claim, rejection, why),
            Some(reason) => {
                let message = format!("its replacement as {} has ended: {why}", reason.as_str());
                let origin = Origin { decision: None, price: self.claims.price_of(claim) };
                self.note(claim, EventReason::DisruptionBlocked, message, "replacement", origin);
            }
            None => {}
        }
    }

    fn note_rejection(&mut self, claim: &ClaimName, rejection: Rejection, why: &str) {
        let message = format!("its removal by consolidation is not carried out ({rejection}): {why}");
        let decision = self.cost_records.removed_by(claim).map(|saving| DecisionId(saving.number));
        let origin = Origin { decision, price: self.claims.price_of(claim) };
        self.note(claim, EventReason::ConsolidationRejected, message, &rejection.to_string(), origin);
    }

    fn note(&mut self, claim: &ClaimName, reason: EventReason, message: String, series: &str, origin: Origin) {
        let event = EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin).in_series(series);
        let events = event.on_each(ObjectRef::of_machine(&self.state, claim));
        self.status_reporter.pending_events.add(events);
    }

    fn is_balanced(&self, claim: &ClaimName) -> bool {
        let pool = self.state.claim(claim).and_then(|record| self.state.pool(&record.pool));
        pool.is_some_and(|pool| pool.disruption.policy == ConsolidationPolicy::Balanced)
    }
}
