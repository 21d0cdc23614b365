//! Events of the pods of decisions.

use super::StatusReporter;
use crate::nodeclaim::ManagedClaim;
use crate::origin::Origin;
use crate::status::EventOrder;
use crate::step_view::StepView;
use crate::{Decision, EventReason, UnplacedPod};
use cluster::ClusterState;
use model::plan::Reason;
use model::{ClaimName, MicroUsd, NodeName};

impl StatusReporter {
    /// Events for pods of the decisions since the last pass.
    pub(super) fn decision_events(&mut self, view: &StepView<'_>) -> Vec<EventOrder> {
        let since = self.last_reported_decision;
        let fresh = view.decisions.recent().filter(|decision| since.is_none_or(|since| decision.id > since));
        let events = fresh.flat_map(|decision| pod_events(decision, view)).collect();
        self.last_reported_decision = view.decisions.last_id().or(since);
        events
    }
}

fn pod_events(decision: &Decision, view: &StepView<'_>) -> Vec<EventOrder> {
    let unplaced = decision.unplaced.iter().filter_map(|unplaced| unplaced_event(unplaced, decision, view.state));
    let launched = decision.launches.iter().flat_map(|machine| {
        let price = machine.launch.options.first().map_or(MicroUsd(0), |option| option.price);
        machine.pods.iter().map(move |pod| (pod, machine.claim.name.as_text(), price))
    });
    let assigned = decision.assignments.iter().map(|(pod, on)| (pod, on.as_text(), price_on(on, view)));
    let nominated = launched.chain(assigned).filter_map(|(pod, on, price)| {
        let origin = Origin { decision: Some(decision.id), price };
        let (pod, message) = (view.state.pod(pod)?, format!("is planned onto {on}"));
        Some(EventOrder::of_pod(pod, EventReason::Nominated, message, origin))
    });
    unplaced.chain(nominated).collect()
}

/// `None` when the pod is gone, or runs on a machine which was to be replaced: it stays there.
fn unplaced_event(unplaced: &UnplacedPod, decision: &Decision, state: &ClusterState) -> Option<EventOrder> {
    let pod = state.pod(&unplaced.pod)?;
    if pod.node.as_ref().is_some_and(|node| !state.are_pods_moved_from(node)) {
        return None;
    }
    let reasons: Vec<&str> = unplaced.reasons.iter().map(|reason| reason.message.as_str()).collect();
    let event = EventOrder::of_pod(pod, EventReason::FailedScheduling, reasons.join("; "), Origin::of(decision.id));
    Some(event.in_series(without_numbers(&unplaced.reasons)))
}

/// Price of the machine with the Node or NodeClaim of this name; zero if it is unknown.
fn price_on(name: &NodeName, view: &StepView<'_>) -> MicroUsd {
    let of_node = view.state.node(name).and_then(|node| view.state.claim_of_node(node)).map(|claim| &claim.name);
    let machine = match of_node {
        Some(claim) => view.claims.get(claim),
        None => view.claims.get(&ClaimName::from(name.as_text().clone())),
    };
    machine.map(ManagedClaim::launch_origin).unwrap_or_default().price
}

/// Why a pod has no place, without words that have digits: amounts change with every pod that comes or goes, and what else a
/// sentence says is news.
fn without_numbers(reasons: &[Reason]) -> String {
    let of_pool = |reason: &Reason| {
        let pool = reason.pool.as_ref().map_or("", AsRef::as_ref);
        let words = reason.message.split_whitespace().filter(|word| !word.contains(|one: char| one.is_ascii_digit()));
        format!("{pool}={} {}", reason.code.as_str(), words.collect::<Vec<&str>>().join(" "))
    };
    reasons.iter().map(of_pool).collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use model::plan::ReasonCode;

    use super::*;

    #[test]
    fn reasons_are_the_same_whatever_their_numbers_and_others_with_another_sentence_or_code() {
        let series = |code, message: &str| {
            without_numbers(&[Reason { code, pool: Some("general".into()), message: message.into() }])
        };
        let limits = series(ReasonCode::Limits, "its limits leave 3 of 40 cores, and the pod requests 3.5");
        assert_eq!(series(ReasonCode::Limits, "its limits leave 2.5 of 40 cores, and the pod requests 3.5"), limits);
        assert_ne!(series(ReasonCode::Limits, "its limits leave no memory"), limits);
        let closed = series(ReasonCode::NodePoolNotReady, "Karpenter is active (its Lease is renewed)");
        assert_ne!(series(ReasonCode::NodePoolNotReady, "Karpenter is active (a Deployment has 1 replicas)"), closed);
        assert_ne!(series(ReasonCode::Limits, "Karpenter is active (its Lease is renewed)"), closed);
    }
}
