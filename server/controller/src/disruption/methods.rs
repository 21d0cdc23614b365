//! Disruption methods: each selects machines to remove for one reason.
//!
//! A method is a file of this folder and a line of [`METHODS`]. It decides from a [`DisruptionView`] alone;
//! everything after that is the same for all methods ([`execution`](super::execution)).

pub(crate) mod emptiness;
pub(crate) mod interruption;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::cluster::ClusterState;
use crate::nodeclaim::DrainTerms;
use crate::{DecisionReason, MethodReason, Removal};
use model::{ClaimName, PoolName, Text, Timestamp};

/// All methods. In a pass, the graceful ones run in this order.
static METHODS: &[&dyn Method] = &[&interruption::Interruption, &emptiness::Emptiness];

/// A disruption method (Karpenter: disruption methods).
pub(crate) trait Method: Debug + Sync {
    /// Why it removes nodes. This names its decisions, and says whether it is graceful or forceful.
    fn reason(&self) -> MethodReason;

    /// The machines that it removes as of `view`. It is called again before a graceful removal
    /// begins, which has to be selected then as well.
    fn select(&self, view: &DisruptionView<'_>) -> Selection;

    /// How the Nodes are drained whose removal begins at `now`.
    fn drain_terms(&self, now: Timestamp) -> DrainTerms;
}

/// What a method decides from.
#[derive(Debug, Clone)]
pub(crate) struct DisruptionView<'v> {
    /// The observed state.
    pub state: &'v ClusterState,
    /// NodeClaims whose removal is decided and not durable. They are not selected again, and count
    /// against budgets.
    pub being_removed: BTreeSet<ClaimName>,
    /// The interruption notice that the cloud just sent.
    pub notice: Option<InterruptionNotice>,
    pub now: Timestamp,
}

/// The cloud's notice that it reclaims the instance of a NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterruptionNotice {
    pub claim: ClaimName,
    pub reason: Text,
}

impl<'v> DisruptionView<'v> {
    /// A view without removals in progress and without a notice.
    pub fn of(state: &'v ClusterState, now: Timestamp) -> Self {
        Self { state, being_removed: BTreeSet::new(), notice: None, now }
    }
}

/// What a method selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selection {
    /// Machines that may be removed now.
    pub removals: Vec<Removal>,
    /// When the next machine may become removable.
    pub next_check: Option<Timestamp>,
    /// Number of machines that budgets hold back, by NodePool.
    pub held_by_budget: BTreeMap<PoolName, usize>,
}

/// The methods that run in passes, held by budgets and guardrails.
pub(super) fn graceful() -> impl Iterator<Item = &'static dyn Method> {
    METHODS.iter().copied().filter(|method| !method.reason().is_forceful())
}

/// The methods that remove a machine as soon as their cause is known.
pub(super) fn forceful() -> impl Iterator<Item = &'static dyn Method> {
    METHODS.iter().copied().filter(|method| method.reason().is_forceful())
}

/// The method whose decisions have this reason; `None` for provisioning.
pub(super) fn method_of(reason: DecisionReason) -> Option<&'static dyn Method> {
    METHODS.iter().copied().find(|method| reason == DecisionReason::Disruption(method.reason()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_decisions_of_its_own_kind() {
        let kinds: BTreeSet<&str> = METHODS.iter().map(|method| method.reason().kind).collect();
        assert_eq!(kinds.len(), METHODS.len());
        assert!(!kinds.contains(DecisionReason::Provision.as_str()));
        for method in METHODS {
            let found = method_of(DecisionReason::Disruption(method.reason()));
            assert_eq!(found.map(|method| method.reason()), Some(method.reason()));
        }
        assert!(method_of(DecisionReason::Provision).is_none());
    }

    #[test]
    fn only_forceful_removals_have_a_deadline_of_their_own() {
        let now = Timestamp::from_millis(1_000);
        assert!(graceful().next().is_some() && forceful().next().is_some());
        assert!(graceful().all(|method| method.drain_terms(now).deadline.is_none()));
    }
}
