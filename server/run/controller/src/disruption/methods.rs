//! The registry of disruption methods: each selects machines to remove for one reason.
//!
//! A method is a file of this folder and a line of [`METHODS`]. It reads values of a
//! [`DisruptionView`](super::method::DisruptionView), which are all that its selection is made from
//! ([`selection`](super::selection)); everything after that is the same for all methods ([`execution`](super::execution)).

pub(crate) mod consolidation;
pub(crate) mod drift;
pub(crate) mod emptiness;
pub(crate) mod expiration;
pub(crate) mod hold_ended;
pub(crate) mod interruption;
pub(crate) mod rebalance;
pub(crate) mod repair;
pub(crate) mod static_scale_down;
pub(crate) mod voluntary_repair;

use super::method::Method;
use crate::DecisionReason;

/// The method of each reason. In a pass, those that are not urgent run in this order, which is that of the precedence of
/// their reasons.
static METHODS: &[&dyn Method] = &[
    &interruption::Interruption,
    &rebalance::Rebalance,
    &repair::Repair,
    &expiration::Expiration,
    &static_scale_down::StaticScaleDown,
    &hold_ended::HoldEnded,
    &voluntary_repair::VoluntaryRepair,
    &emptiness::Emptiness,
    &drift::Drifted,
    &consolidation::Underutilized,
];

/// The methods that run in passes, held by guardrails.
pub(super) fn in_passes() -> impl Iterator<Item = &'static dyn Method> {
    METHODS.iter().copied().filter(|method| !method.reason().is_urgent())
}

/// The methods that remove a machine as soon as their cause is known.
pub(super) fn urgent() -> impl Iterator<Item = &'static dyn Method> {
    METHODS.iter().copied().filter(|method| method.reason().is_urgent())
}

/// The method whose decisions have this reason; `None` for provisioning.
pub(super) fn method_of(reason: DecisionReason) -> Option<&'static dyn Method> {
    METHODS.iter().copied().find(|method| reason == DecisionReason::Disruption(method.reason()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::method::DisruptionView;
    use cluster::ClusterState;
    use model::Timestamp;
    use model::removal::RemovalReason;

    #[test]
    fn only_forceful_removals_have_a_deadline_of_their_own() {
        let state = ClusterState::default();
        let view = DisruptionView::of(&state, Timestamp::from_millis(1_000));
        let graceful = || in_passes().filter(|method| !method.reason().is_forceful());
        assert!(graceful().next().is_some() && urgent().next().is_some());
        assert!(graceful().all(|method| method.drain_terms(&view).deadline.is_none()));
    }

    #[test]
    fn each_reason_has_a_method_in_the_order_of_precedence() {
        let reasons: Vec<_> = METHODS.iter().map(|method| method.reason()).collect();
        assert_eq!(reasons, RemovalReason::ALL);
    }
}
