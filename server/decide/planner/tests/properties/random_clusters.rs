//! Random captured clusters: the first packing and the decision satisfy every rule, and the
//! decision leaves no pod unschedulable that fits on top of it.
//!
//! `RANDOM_CLUSTERS=1..2000` selects the seeds; without it a few dozen are planned.

use model::input::PlanningInput;
use model::plan::Plan;
use proptest::strategy::ValueTree;
use scheduler::schedule;
use verifier::{Rule, check};

use crate::SEARCH_STEPS;
use crate::cases::Case;
use crate::clusters::cluster;
use crate::groups::wrongly_separated;
use crate::placement_search::{needless_node, node_for, wrongly_unplaced};

/// Clusters whose plans had a node that they did not need: because of the work for machines that are alike, for
/// trials that `minValues`, a cordon or the pods of a host exclude, because of sizes that were matched by first fit
/// only, because of a machine that was bought afterwards (1881), and because a spread depends on the order of its
/// pods (203, 365).
const ONCE_NEEDLESS: [u64; 9] = [152, 203, 365, 652, 872, 1127, 1698, 1737, 1881];

/// Clusters whose plans left a pod out although a node had room for it and the pod that it requires there.
const ONCE_SEPARATED: [u64; 6] = [188, 236, 326, 522, 894, 1587];

/// Clusters whose plans left a pod out that fits where a group had moved away.
const ONCE_UNPLACED: [u64; 4] = [324, 326, 496, 615];

/// Clusters with a plan of the search in which a spread over zones was broken on the way: one zone was filled ahead
/// of the others, and these got their pods after other classes only.
const ONCE_REFUSED: [u64; 5] = [1239, 1486, 1514, 1589, 1973];

/// A fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Check(Rule, String),
    Unplaced(String),
}

impl Fault {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Check(own, _), Self::Check(other, _)) => own == other,
            (Self::Unplaced(_), Self::Unplaced(_)) => true,
            _ => false,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "which seeds a test looks at configures no decision")]
fn seeds() -> std::ops::RangeInclusive<u64> {
    let given = std::env::var("RANDOM_CLUSTERS").unwrap_or_else(|_| "1..40".to_owned());
    let (first, last) = given.split_once("..").expect("RANDOM_CLUSTERS is FIRST..LAST");
    first.parse().expect("a number")..=last.parse().expect("a number")
}

fn fault_of(case: &Case) -> Option<Fault> {
    let mut input = case.input();
    fault_of_decision(&input).or_else(|| {
        input.policy.search_steps = SEARCH_STEPS;
        fault_of_decision(&input)
    })
}

fn fault_of_decision(input: &PlanningInput) -> Option<Fault> {
    let decision = match planner::plan(input) {
        Ok(decision) => decision,
        Err(violations) => return Some(Fault::Check(violations[0].rule, format!("no decision: {}", violations[0]))),
    };
    if let Some(violation) = check(input, &decision.plan).first() {
        return Some(Fault::Check(violation.rule, format!("decided: {violation}")));
    }
    if let Some((pod, place)) = wrongly_unplaced(input, &decision.plan).into_iter().next() {
        return Some(Fault::Unplaced(format!("pod {} of shape {} fits {place}", pod, input.pods[pod as usize].shape)));
    }
    let violation = decision.failed_checks.violations.first()?;
    Some(Fault::Check(violation.rule, format!("refused packing: {violation}")))
}

/// The simplest case with an equal fault that shrinking finds.
fn shrunk(mut tree: impl ValueTree<Value = Case>, fault: &Fault) -> Case {
    let mut least = tree.current();
    for _ in 0..10_000 {
        let case = tree.current();
        let same = fault_of(&case).is_some_and(|other| other.is_like(fault));
        let more = if same { tree.simplify() } else { tree.complicate() };
        if same {
            least = case;
        }
        if !more {
            break;
        }
    }
    least
}

#[test]
fn random_clusters_are_planned_correctly_and_every_fitting_pod_is_placed() {
    let mut faults = Vec::new();
    for seed in seeds().chain(ONCE_UNPLACED).chain(ONCE_REFUSED) {
        let (_, tree) = cluster(seed);
        if let Some(fault) = fault_of(&tree.current()) {
            println!("cluster {seed}: {fault:?}");
            faults.push((seed, fault));
        }
    }
    let Some((seed, fault)) = faults.first() else { return };
    let least = shrunk(cluster(*seed).1, fault);
    let input = least.input();
    panic!(
        "{} clusters: {faults:#?}\nseed {seed}: {:?}\n{least:#?}\n{:#?}",
        faults.len(),
        fault_of(&least),
        schedule(&input)
    );
}

#[test]
fn no_node_is_launched_whose_pods_fit_on_the_others() {
    let needless = |seed: u64| {
        let mut input = cluster(seed).1.current().input();
        input.policy.search_steps = SEARCH_STEPS;
        let decision = planner::plan(&input).ok()?;
        needless_node(&input, &decision.plan).map(|node| format!("cluster {seed}: {node}"))
    };
    let found: Vec<String> = seeds().chain(ONCE_NEEDLESS).filter_map(needless).collect();
    assert!(found.is_empty(), "{} clusters:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_node_has_room_for_all_pods_of_a_group_that_is_left_out() {
    let separated = |seed: u64| {
        let mut input = cluster(seed).1.current().input();
        input.policy.search_steps = SEARCH_STEPS;
        let decision = planner::plan(&input).ok()?;
        wrongly_separated(&input, &decision.plan).map(|group| format!("cluster {seed}: {group}"))
    };
    let found: Vec<String> = seeds().chain(ONCE_SEPARATED).filter_map(separated).collect();
    assert!(found.is_empty(), "{} clusters:\n{}", found.len(), found.join("\n"));
}

/// `plan` without the pod placed last; a node left empty is removed.
fn without_the_last(plan: &Plan) -> Option<(Plan, u32)> {
    let mut plan = plan.clone();
    let pod = plan.order.pop()?;
    plan.placements.retain(|(other, _)| *other != pod);
    plan.nodes.iter_mut().for_each(|node| node.pods.retain(|other| *other != pod));
    plan.nodes.retain(|node| !node.pods.is_empty());
    plan.unschedulable.push(pod);
    plan.unschedulable.sort_unstable();
    Some((plan, pod))
}

#[test]
fn the_placement_search_finds_the_node_of_a_removed_pod() {
    let fits = |input: &PlanningInput, plan: &Plan| {
        let (plan, pod) = without_the_last(plan)?;
        Some(node_for(input, &plan, pod))
    };
    for seed in seeds() {
        let input = cluster(seed).1.current().input();
        let plan = schedule(&input);
        if check(&input, &plan).is_empty()
            && let Some(place) = fits(&input, &plan)
        {
            assert!(place.is_some(), "cluster {seed}");
        }
    }
}
