//! One-line summary of a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use controller::{Decision, DecisionReason, PlannedMachine, UnplacedPod};
use model::plan::Reason;
use model::removal::RemovalReason;

/// Names in a line for equal reasons.
const NAMES_SHOWN: usize = 3;

pub fn summary(decision: &Decision) -> String {
    if decision.shadow {
        return in_shadow(decision);
    }
    let mut parts = decision.refused.clone();
    let is_replacement = is_consolidation(decision) && !decision.replaced.is_empty();
    if is_replacement {
        parts.push(replaced(decision));
    } else if !decision.launches.is_empty() {
        parts.push(launched(decision));
    }
    if !decision.assignments.is_empty() && !is_replacement {
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
    let types = counted(decision.launches.iter().map(first_type));
    let pods: usize = decision.launches.iter().map(|machine| machine.pods.len()).sum();
    format!("launch {types} for {} at ${} an hour", count(pods, "pod"), decision.new_cost)
}

/// `replace 25 × m5.4xlarge on-demand by 25 × c6a.4xlarge spot: 250 pods move, saves $13.85 an hour`.
fn replaced(decision: &Decision) -> String {
    let kind = |instance_type: &str, capacity_type: &str| format!("{instance_type} {capacity_type}").trim().to_owned();
    let outgoing = counted(decision.replaced.iter().map(|node| kind(&node.instance_type, &node.capacity_type)));
    let launches = decision.launches.iter();
    let incoming = counted(launches.map(|machine| kind(first_type(machine), machine.launch.capacity_type.as_str())));
    let what = if incoming.is_empty() {
        format!("remove {outgoing} once its pods have moved")
    } else {
        format!("replace {outgoing} by {incoming}")
    };
    let pods = decision.moved_pods();
    let verb = if pods == 1 { "moves" } else { "move" };
    format!("{what}: {} {verb}, saves ${} an hour", count(pods, "pod"), decision.savings())
}

fn is_consolidation(decision: &Decision) -> bool {
    decision.reason == DecisionReason::Disruption(RemovalReason::Underutilized)
}

/// The instance type that a launch is planned with.
fn first_type(machine: &PlannedMachine) -> &str {
    machine.launch.options.first().map_or("?", |option| option.instance_type.as_ref())
}

/// `2 × a, b`: equal ones by their number.
fn counted<K: Ord + Display>(kinds: impl Iterator<Item = K>) -> String {
    let mut numbers: BTreeMap<K, usize> = BTreeMap::new();
    kinds.for_each(|kind| *numbers.entry(kind).or_default() += 1);
    let shown =
        |(kind, number): (&K, &usize)| if *number == 1 { kind.to_string() } else { format!("{number} × {kind}") };
    numbers.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn removed(decision: &Decision) -> String {
    let why = match decision.reason {
        DecisionReason::Disruption(reason) => reason.summary(),
        DecisionReason::Provision | DecisionReason::Hold => "not needed",
    };
    let first = decision.removals.first().map_or("", |removal| removal.node.as_ref());
    let what = match decision.removals.len() {
        1 => first.to_owned(),
        more => count(more, "node"),
    };
    let planned: BTreeSet<u64> = decision.removed.iter().filter_map(|node| Some(node.planned_by?.0)).collect();
    let planned: Vec<String> = planned.iter().map(ToString::to_string).collect();
    let noun = if planned.len() == 1 { "decision" } else { "decisions" };
    let planned = if planned.is_empty() { String::new() } else { format!(", of {noun} {}", planned.join(", ")) };
    format!("remove {what}, {why}, at ${} an hour{planned}", decision.removed_cost)
}

/// `1 pod`, `2 pods`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Reasons of the decision, a line for each launch, removal and unschedulable pod, and one with the date of the prices.
pub fn reasons(decision: &Decision) -> impl Iterator<Item = String> {
    let machines = decision.launches.iter().map(|machine| (&**machine.claim.name, &*machine.reason));
    let machines = grouped(machines).into_iter();
    let removals = grouped(decision.removals.iter().map(|removal| (&**removal.node, &*removal.reason))).into_iter();
    let would = decision.would.iter().chain(decision.notes.iter().filter(|_| decision.shadow)).cloned();
    let prices = decision.price_date.iter().map(|date| format!("prices of {date}"));
    let refused = decision.refused.iter().cloned();
    machines.chain(prices).chain(removals).chain(would).chain(refused).chain(decision.unplaced.iter().map(unplaced))
}

/// A line for each reason, with those that it is said of.
fn grouped<'d>(reasons: impl Iterator<Item = (&'d str, &'d str)>) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, reason) in reasons {
        let place = *places.entry(reason).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    groups.iter().map(|(reason, names)| format!("{}: {reason}", shown_names(names))).collect()
}

/// `a, b, c and 22 more`.
fn shown_names(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn unplaced(pod: &UnplacedPod) -> String {
    let reason = |reason: &Reason| format!("{}: {}", reason.code.as_str(), reason.message);
    let reasons: Vec<String> = pod.reasons.iter().map(reason).collect();
    format!("{} is unschedulable: {}", pod.pod, reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use controller::{ClaimOrder, DecisionId, OutgoingNode, Removal};
    use model::{CapacityType, LaunchOption, LaunchOrder, MicroUsd, PodKey, Timestamp};

    use super::*;

    fn outgoing(claim: &str, instance_type: &str, planned_by: Option<u64>) -> OutgoingNode {
        OutgoingNode {
            claim: claim.into(),
            node: claim.into(),
            pool: "default".into(),
            instance_type: instance_type.into(),
            capacity_type: "on-demand".into(),
            price: MicroUsd(768_000),
            planned_by: planned_by.map(DecisionId),
        }
    }

    fn launch(claim: &str, pods: usize) -> PlannedMachine {
        let option = LaunchOption { instance_type: "c6a.4xlarge".into(), zone: "a".into(), price: MicroUsd(214_000) };
        let pod = |number: usize| PodKey { namespace: "default".into(), name: format!("p-{number}").into() };
        PlannedMachine {
            claim: ClaimOrder {
                name: claim.into(),
                pool: "default".into(),
                node_class: "default".into(),
                labels: Default::default(),
                taints: Vec::new(),
                startup_taints: Vec::new(),
                requirements: Default::default(),
                requests: Default::default(),
                expire_after: None,
                termination_grace_period: None,
                pool_hash: None,
                class_hash: None,
            },
            launch: LaunchOrder {
                cluster: "shop".into(),
                cluster_uid: "uid".into(),
                claim: claim.into(),
                attempt: 1,
                token: claim.into(),
                pool: "default".into(),
                node_class: "default".into(),
                capacity_type: CapacityType::Spot,
                options: vec![option],
                reservation: None,
                terms: Default::default(),
                template: None,
                lane: Default::default(),
                repeats: false,
            },
            pods: (0..pods).map(pod).collect(),
            reason: "its pods leave nodes that it replaces".into(),
        }
    }

    fn consolidation() -> Decision {
        let reason = DecisionReason::Disruption(RemovalReason::Underutilized);
        Decision::new(DecisionId(17), "shop".into(), reason, 1, Timestamp::default())
    }

    #[test]
    fn a_consolidation_says_what_it_replaces_by_what_and_what_it_saves() {
        let plan = Decision {
            replaced: (0..25).map(|number| outgoing(&format!("old-{number}"), "m5.4xlarge", None)).collect(),
            launches: (0..25).map(|number| launch(&format!("new-{number:02}"), 10)).collect(),
            new_cost: MicroUsd(25 * 214_000),
            ..consolidation()
        };
        // 25 × ($0.768 - $0.214) = $13.85.
        assert_eq!(
            summary(&plan),
            "replace 25 × m5.4xlarge on-demand by 25 × c6a.4xlarge spot: 250 pods move, saves $13.85 an hour"
        );
        let reasons: Vec<String> = reasons(&plan).collect();
        assert_eq!(reasons, ["new-00, new-01, new-02 and 22 more: its pods leave nodes that it replaces"]);
        let pod = PodKey { namespace: "default".into(), name: "p".into() };
        let moved = Decision {
            replaced: vec![outgoing("old", "m5.4xlarge", None)],
            assignments: vec![(pod, "ip-1".into())],
            ..consolidation()
        };
        let expected = "remove m5.4xlarge on-demand once its pods have moved: 1 pod moves, saves $0.768 an hour";
        assert_eq!(summary(&moved), expected);
    }

    #[test]
    fn a_removal_names_the_decision_whose_replacement_it_ends() {
        let removal = |name: &str| Removal { claim: name.into(), node: name.into(), reason: "why".into() };
        let decided = |planned: [Option<u64>; 2]| Decision {
            removals: vec![removal("a"), removal("b")],
            removed: vec![outgoing("a", "m", planned[0]), outgoing("b", "m", planned[1])],
            removed_cost: MicroUsd(1_536_000),
            ..consolidation()
        };
        let head = "remove 2 nodes, pods fit elsewhere at a lower price, at $1.536 an hour";
        assert_eq!(summary(&decided([None, None])), head);
        assert_eq!(summary(&decided([Some(16), Some(16)])), format!("{head}, of decision 16"));
        assert_eq!(summary(&decided([Some(16), Some(9)])), format!("{head}, of decisions 9, 16"));
        assert_eq!(reasons(&decided([None, None])).collect::<Vec<_>>(), ["a, b: why"]);
    }

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
        let refused = Decision { refused: vec!["nothing is launched".to_owned()], ..decided(Vec::new()) };
        assert_eq!(summary(&refused), "nothing is launched");
        assert_eq!(reasons(&refused).collect::<Vec<_>>(), ["nothing is launched"]);
    }
}
