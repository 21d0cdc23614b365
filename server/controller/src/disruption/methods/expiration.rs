//! Expiration: removes machines that are older than the `expireAfter` of their NodeClaim (Karpenter:
//! expiration, which is forceful).
//!
//! Neither budgets nor PodDisruptionBudgets nor do-not-disrupt hold it. Its drain respects the last two until
//! the NodeClaim's `terminationGracePeriod` ends, and its removals count against budgets. Unlike in
//! Karpenter guardrails hold it, so that machines of one age do not all leave at one time, and its pods are
//! planned before the drain begins. With `fleetwright.dev/expire-jitter` on their NodePool, machines expire
//! earlier, each by another part of it.

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
        let with_expiry = candidates.filter_map(|claim| Some((expiry_of(claim, view)?, claim)));
        let (mut expired, later): (Vec<_>, Vec<_>) = with_expiry.partition(|(at, _)| *at <= view.now);
        // The oldest first: guardrails may hold the others.
        expired.sort_by_key(|(at, claim)| (*at, &claim.name));
        Selection {
            removals: expired.into_iter().map(|(_, claim)| removal(claim, view)).collect(),
            next_check: later.into_iter().map(|(at, _)| at).min(),
            ..Selection::default()
        }
    }

    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        DrainTerms::default()
    }
}

/// A launched NodeClaim of this server that stays so far.
fn is_candidate(claim: &ClaimRecord, view: &DisruptionView<'_>) -> bool {
    let state = view.state;
    let is_unmanaged = || state.pool(&claim.pool).is_some_and(|pool| state.unmanaged_reason(pool).is_some());
    claim.ours && !claim.provider_id.is_empty() && !view.is_leaving(claim) && !is_unmanaged()
}

/// When the machine expires; `None` is never.
pub(crate) fn expiry_of(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Option<Timestamp> {
    Some(claim.created? + (claim.expire_after? - advance(claim, view)))
}

/// How much earlier than by its `expireAfter` the machine expires: a part of the jitter of its NodePool,
/// and less than half of its lifetime, so that no machine expires soon after its launch.
fn advance(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Millis {
    let jitter = view.state.pool(&claim.pool).and_then(|pool| pool.disruption.expire_jitter);
    let (Some(jitter), Some(lifetime)) = (jitter, claim.expire_after) else { return Millis::ZERO };
    let range = jitter.get().min(lifetime.get() / 2).max(0).unsigned_abs();
    let part = hash(&claim.uid).checked_rem(range).unwrap_or(0);
    Millis::new(i64::try_from(part).unwrap_or(0))
}

/// FNV-1a, 64 bits. It must be equal in every version of the program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn removal(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Removal {
    let (lifetime, earlier) = (claim.expire_after.map_or(0, Millis::as_secs), advance(claim, view).as_secs());
    let jitter = match earlier {
        0 => String::new(),
        earlier => format!(" less {earlier} s of the expire-jitter of NodePool {}", claim.pool),
    };
    view.removal(&claim.name, format!("NodeClaim {} is older than {lifetime} s, its expireAfter{jitter}", claim.name))
}

#[cfg(test)]
mod tests;
