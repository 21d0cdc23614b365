//! Explanations agree with the verifier about existing nodes.

use model::input::PlanningInput;
use model::plan::Plan;
use proptest::prelude::{prop_assert, proptest};
use proptest::strategy::ValueTree;
use scheduler::schedule;
use verifier::check;

use crate::cases::Case;
use crate::clusters::cluster;
use crate::config;
use crate::strategies::cases;

/// For the pod that the plan places last, if it is on an existing node: the number of other nodes
/// that its report names, and the number of other nodes on which the verifier accepts it. The last
/// pod has no pod after it in the order, so no other pod's rules depend on where it is.
fn other_nodes(input: &PlanningInput, plan: &Plan) -> Option<(usize, usize)> {
    let last = *plan.order.last()?;
    let at = plan.placements.iter().position(|(pod, _)| *pod == last)?;
    let explain::Outcome::Existing(existing) = explain::pod_report(input, plan, last).outcome else { return None };
    let is_accepted = |node: u32| {
        let mut moved = plan.clone();
        moved.placements[at].1 = node;
        check(input, &moved).is_empty()
    };
    let others = (0_u32..).zip(&input.nodes).map(|(node, _)| node).filter(|node| *node != plan.placements[at].1);
    Some((existing.others, others.filter(|node| is_accepted(*node)).count()))
}

/// Whether the case has a hard spread constraint. In that case the report may name fewer nodes: it
/// leaves room for domains in which a node could be launched, as the scheduler does.
fn is_spread(case: &Case) -> bool {
    case.shapes.iter().flat_map(|shape| &shape.spread).next().is_some()
}

fn agrees(case: &Case) -> bool {
    let input = case.input();
    match other_nodes(&input, &schedule(&input)) {
        Some((named, accepted)) => named == accepted || (named < accepted && is_spread(case)),
        None => true,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_report_names_the_existing_nodes_that_the_verifier_accepts(case in cases()) {
        prop_assert!(agrees(&case));
    }
}

#[test]
fn a_report_names_the_nodes_of_a_cluster_that_the_verifier_accepts() {
    let cases = (1..=60).map(|seed| (seed, cluster(seed).1.current()));
    let wrong: Vec<u64> = cases.filter(|(_, case)| !agrees(case)).map(|(seed, _)| seed).collect();
    assert_eq!(wrong, Vec::<u64>::new());
}
