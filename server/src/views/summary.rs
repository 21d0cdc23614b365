//! One-line summary of a decision.

use std::collections::BTreeMap;

use controller::{Decision, DecisionReason, UnplacedPod};
use model::plan::Reason;

/// Summary of what was decided.
pub(crate) fn summary(decision: &Decision) -> String {
    if decision.shadow {
        return in_shadow(decision);
    }
    let mut parts = Vec::new();
    if !decision.launches.is_empty() {
        parts.push(launched(decision));
    }
    if !decision.assignments.is_empty() {
        parts.push(format!("assign {} to existing or launched capacity", count(decision.assignments.len(), "pod")));
    }
    for (hold, _) in &decision.holds {
        parts.push(format!("book room for hold {hold}"));
    }
    if !decision.removals.is_empty() {
        parts.push(removed(decision));
    }
    if !decision.unplaced.is_empty() {
        parts.push(format!("leave {} unschedulable", count(decision.unplaced.len(), "pod")));
    }
    if parts.is_empty() { "change nothing".to_owned() } else { parts.join("; ") }
}

/// Summary of what shadow mode prevented.
fn in_shadow(decision: &Decision) -> String {
    let unschedulable = decision.unplaced.len();
    let rest =
        if unschedulable == 0 { String::new() } else { format!("; {} unschedulable", count(unschedulable, "pod")) };
    match decision.would.as_slice() {
        [] => format!("shadow: would change nothing{rest}"),
        [only] => format!("shadow: {only}{rest}"),
        [first, others @ ..] => format!("shadow: {first} and {} similar{rest}", others.len()),
    }
}

fn launched(decision: &Decision) -> String {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for machine in &decision.launches {
        let first = machine.launch.options.first().map_or("?", |option| option.instance_type.as_ref());
        *types.entry(first).or_default() += 1;
    }
    let types: Vec<String> =
        types.iter().map(|(name, n)| if *n == 1 { (*name).to_owned() } else { format!("{n} × {name}") }).collect();
    let pods: usize = decision.launches.iter().map(|machine| machine.pods.len()).sum();
    format!("launch {} for {} at ${} an hour", types.join(", "), count(pods, "pod"), decision.new_cost)
}

fn removed(decision: &Decision) -> String {
    let why = match decision.reason {
        DecisionReason::Disruption(reason) => reason.summary,
        DecisionReason::Provision | DecisionReason::Hold => "not needed",
    };
    let first = decision.removals.first().map_or("", |removal| removal.node.as_ref());
    let what = match decision.removals.len() {
        1 => first.to_owned(),
        more => count(more, "node"),
    };
    format!("remove {what}, {why}, at ${} an hour", decision.removed_cost)
}

/// `1 pod`, `2 pods`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Reasons of the decision, a line for each launch, removal and unschedulable pod, and one with the date of the prices.
pub(crate) fn reasons(decision: &Decision) -> impl Iterator<Item = String> {
    let machines = decision.launches.iter().map(|machine| format!("{}: {}", machine.claim.name, machine.reason));
    let removals = decision.removals.iter().map(|removal| format!("{}: {}", removal.node, removal.reason));
    let would = decision.would.iter().chain(decision.notes.iter().filter(|_| decision.shadow)).cloned();
    let prices = decision.price_date.iter().map(|date| format!("prices of {date}"));
    machines.chain(prices).chain(removals).chain(would).chain(decision.unplaced.iter().map(unplaced))
}

fn unplaced(pod: &UnplacedPod) -> String {
    let reason = |reason: &Reason| format!("{}: {}", reason.code.as_str(), reason.message);
    let reasons: Vec<String> = pod.reasons.iter().map(reason).collect();
    format!("{} is unschedulable: {}", pod.pod, reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use controller::{DecisionId, Removal};
    use model::{MicroUsd, Timestamp};

    use super::*;

    #[test]
    fn what_is_removed_has_its_price() {
        let removal = |name: &str| Removal { claim: name.into(), node: name.into(), reason: "empty".into() };
        let decided = |removals: Vec<Removal>| {
            let new = Decision::new(DecisionId(1), "shop".into(), DecisionReason::Provision, 1, Timestamp::default());
            Decision { removed_cost: MicroUsd(32_100 * removals.len() as i64), removals, ..new }
        };
        assert_eq!(summary(&decided(vec![removal("a")])), "remove a, not needed, at $0.0321 an hour");
        let both = decided(vec![removal("a"), removal("b")]);
        assert_eq!(summary(&both), "remove 2 nodes, not needed, at $0.0642 an hour");
        assert_eq!(summary(&decided(Vec::new())), "change nothing");
    }
}
