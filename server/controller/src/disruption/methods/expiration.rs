//! Expiration: removes machines that are older than the `expireAfter` of their NodeClaim (Karpenter:
//! expiration, which is forceful).
//!
//! Neither budgets nor PodDisruptionBudgets nor do-not-disrupt hold it. Its drain respects the last two until
//! the NodeClaim's `terminationGracePeriod` ends, and its removals count against budgets. Unlike in
//! Karpenter guardrails hold it, so that machines of one age do not all leave at one time, and its pods are
//! planned before the drain begins.

use crate::cluster::ClaimRecord;
use crate::disruption::method::{DisruptionView, Method, Selection};
use crate::nodeclaim::DrainTerms;
use crate::{MethodReason, Removal};
use model::removal::RemovalReason;
use model::{Millis, Timestamp};

/// The reason of its decisions.
pub const EXPIRATION: MethodReason =
    MethodReason { kind: "expiration", summary: "older than expireAfter", removal: RemovalReason::Expired };

/// The method.
#[derive(Debug)]
pub(crate) struct Expiration;

impl Method for Expiration {
    fn reason(&self) -> MethodReason {
        EXPIRATION
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let candidates = view.state.claims().filter(|claim| is_candidate(claim, view));
        let with_expiry = candidates.filter_map(|claim| Some((expiry_of(claim)?, claim)));
        let (mut expired, later): (Vec<_>, Vec<_>) = with_expiry.partition(|(at, _)| *at <= view.now);
        // The oldest first: guardrails may hold the others.
        expired.sort_by_key(|(at, claim)| (*at, &claim.name));
        Selection {
            removals: expired.into_iter().map(|(_, claim)| removal(claim, view)).collect(),
            next_check: later.into_iter().map(|(at, _)| at).min(),
            ..Selection::default()
        }
    }

    fn drain_terms(&self, _now: Timestamp) -> DrainTerms {
        DrainTerms::default()
    }
}

/// A launched NodeClaim of this server that stays so far.
fn is_candidate(claim: &ClaimRecord, view: &DisruptionView<'_>) -> bool {
    let state = view.state;
    let is_unmanaged = || state.pool(&claim.pool).is_some_and(|pool| state.unmanaged_reason(pool).is_some());
    claim.ours && !claim.provider_id.is_empty() && !view.is_leaving(claim) && !is_unmanaged()
}

fn expiry_of(claim: &ClaimRecord) -> Option<Timestamp> {
    Some(claim.created? + claim.expire_after?)
}

fn removal(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Removal {
    let lifetime = claim.expire_after.map_or(0, Millis::as_secs);
    view.removal(&claim.name, format!("NodeClaim {} is older than {lifetime} s, its expireAfter", claim.name))
}

#[cfg(test)]
mod tests;
