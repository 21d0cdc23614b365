//! Expiration: removes machines that are older than the `expireAfter` of their NodeClaim (Karpenter:
//! expiration, which is forceful).
//!
//! Neither budgets nor PodDisruptionBudgets nor do-not-disrupt hold it. Its drain respects the last two until
//! the NodeClaim's `terminationGracePeriod` ends, and its removals count against budgets. Unlike in
//! Karpenter guardrails hold it, so that machines of one age do not all leave at one time, and its pods are
//! planned before the drain begins. With `fleetwright.dev/expire-jitter` on their NodePool, machines expire
//! earlier, each by another part of it.

use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::selection::{ExpiringMachine, ExpiringMachines, MachineNames, SelectionFacts, SelectionInput};
use cluster::ClaimRecord;
use model::Timestamp;
use model::removal::RemovalReason;

#[derive(Debug)]
pub(crate) struct Expiration;

impl Method for Expiration {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Expired
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let candidates = view.state.claims().filter(|claim| is_candidate(claim, view));
        let machines = candidates.filter_map(|claim| expiring(claim, view));
        let (expired, rest): (Vec<_>, Vec<_>) = machines.partition(|one| one.expiry() <= view.now);
        let later = rest.iter().map(ExpiringMachine::expiry).min();
        SelectionInput { later, ..self.input(view, SelectionFacts::Expiring(ExpiringMachines { machines: expired })) }
    }
}

/// A launched NodeClaim of this server that stays so far.
fn is_candidate(claim: &ClaimRecord, view: &DisruptionView<'_>) -> bool {
    let state = view.state;
    let is_unmanaged = || state.pool(&claim.pool).is_some_and(|pool| state.unmanaged_reason(pool).is_some());
    claim.ours && claim.is_launched() && !view.is_leaving(claim) && !is_unmanaged()
}

/// When the machine expires; `None` is never.
pub(crate) fn expiry_of(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Option<Timestamp> {
    expiring(claim, view).map(|one| one.expiry())
}

/// What the machine expires by; `None` if it never does.
fn expiring(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Option<ExpiringMachine> {
    Some(ExpiringMachine {
        created: claim.created?,
        expire_after: claim.expire_after?,
        jitter: view.state.pool(&claim.pool).and_then(|pool| pool.disruption.expire_jitter),
        uid: claim.uid.clone(),
        machine: MachineNames { pool: claim.pool.clone(), ..view.machine(&claim.name) },
    })
}

#[cfg(test)]
mod tests;
