//! Random captured clusters: the first packing and the decision keep every rule, and the decision gives up no pod that fits on
//! top of it.
//!
//! `RANDOM_CLUSTERS=1..2000` chooses the seeds; without it a few dozen are planned.

use engine::check::{Rule, check};
use engine::decide;
use engine::input::PlanningInput;
use engine::plan::Plan;
use engine::schedule::schedule;
use proptest::strategy::ValueTree;

use crate::cases::Case;
use crate::clusters::cluster;
use crate::judge::{given_up, place_for};

/// What may be wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Check(Rule, String),
    GivenUp(String),
}

impl Fault {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Check(own, _), Self::Check(other, _)) => own == other,
            (Self::GivenUp(_), Self::GivenUp(_)) => true,
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
    let input = case.input();
    let decision = match decide::plan(&input) {
        Ok(decision) => decision,
        Err(violations) => return Some(Fault::Check(violations[0].rule, format!("no decision: {}", violations[0]))),
    };
    if let Some(violation) = check(&input, &decision.plan).first() {
        return Some(Fault::Check(violation.rule, format!("decided: {violation}")));
    }
    if let Some((pod, place)) = given_up(&input, &decision.plan).into_iter().next() {
        return Some(Fault::GivenUp(format!("pod {} of shape {} fits {place}", pod, input.pods[pod as usize].shape)));
    }
    let violation = decision.failed_checks.violations.first()?;
    Some(Fault::Check(violation.rule, format!("first packing: {violation}")))
}

/// The simplest case with such a fault that shrinking finds.
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
fn random_clusters_are_planned_soundly_and_nothing_that_fits_is_given_up() {
    let mut faults = Vec::new();
    for seed in seeds() {
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

/// `plan` without the pod that it placed last; a machine that is empty then is gone.
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
fn the_judge_finds_the_place_of_a_pod_that_is_left_out() {
    let fits = |input: &PlanningInput, plan: &Plan| {
        let (plan, pod) = without_the_last(plan)?;
        Some(place_for(input, &plan, pod))
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
