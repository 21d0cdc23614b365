//! Packings that break a rule: the decision keeps what is sound of them, and only the pods that offend stay out.

use engine::check::{Rule, check};
use engine::decide::{Decision, plan_packed_by};
use engine::input::PlanningInput;
use engine::model::CapacityType::OnDemand;
use engine::model::labels::HOSTNAME;
use engine::plan::{Plan, ReasonCode};
use engine::schedule::{CompileCache, Method, schedule, schedule_by};
use proptest::strategy::ValueTree;

use crate::cases::{Case, PoolCase, ShapeCase, TermCase};
use crate::clusters::cluster;
use crate::regressions::{kind, node, pod, small, world};

/// The decision when every packing is `broken`.
fn repaired(input: &PlanningInput, broken: &Plan) -> Decision {
    let decision = plan_packed_by(input, |_| broken.clone().into()).expect("a sound plan");
    let violations = check(input, &decision.plan);
    assert!(violations.is_empty(), "{violations:#?}");
    for entry in &decision.report.unschedulable {
        if decision.failed_checks.left_out.contains(&entry.pod) {
            let [reason] = entry.reasons.as_slice() else { panic!("{entry:?}") };
            assert_eq!((reason.code, &reason.pool), (ReasonCode::Internal, &None), "{entry:?}");
        }
    }
    decision
}

/// Machines of one CPU for a dollar cent each, and five pods of half a CPU: three web pods that refuse each other's hosts,
/// two others.
fn five_pods() -> Case {
    let shape = ShapeCase { apart: vec![TermCase { key: HOSTNAME, app: 0, everywhere: false }], ..small() };
    let pods = vec![pod(0, 0), pod(0, 0), pod(0, 0), pod(1, 1), pod(1, 1)];
    world(vec![kind(1, 4, &[("a", OnDemand, 10)])], vec![shape, small()], pods)
}

#[test]
fn a_packing_that_breaks_a_rule_is_replaced_by_a_plainer_one() {
    let input = five_pods().input();
    let good = schedule(&input);
    let broken = crowded(&good, &input);
    let mut memo = CompileCache::default();
    let decision = plan_packed_by(&input, |method| match method {
        Method::Full => broken.clone().into(),
        Method::Plain => schedule_by(&input, method, &mut memo),
    });
    let decision = decision.expect("a sound plan");
    assert!(check(&input, &decision.plan).is_empty() && decision.plan.unschedulable.is_empty());
    assert_eq!((decision.failed_checks.count, decision.failed_checks.left_out.len()), (1, 0));
    assert!(decision.report.notes.iter().any(|note| note.contains("own check")), "{:?}", decision.report.notes);
}

/// `good` with the pod that was placed last moved to the machine of the first, which has no room for it.
fn crowded(good: &Plan, input: &PlanningInput) -> Plan {
    let mut plan = good.clone();
    let (first, last) = (plan.order[0], *plan.order.last().expect("pods"));
    plan.nodes.iter_mut().for_each(|node| node.pods.retain(|pod| *pod != last));
    plan.nodes.retain(|node| !node.pods.is_empty());
    let requests = &input.shapes[input.pods[last as usize].shape as usize].requests;
    let home = plan.nodes.iter_mut().find(|node| node.pods.contains(&first)).expect("its machine");
    home.pods.extend([last]);
    home.pods.sort_unstable();
    home.requests.add(requests);
    plan
}

#[test]
fn only_the_pod_that_does_not_fit_stays_out_of_a_crowded_machine() {
    // Five half CPUs on machines of one CPU; the first machine has two pods already. Two machines are the limit, so that the
    // pod finds no other place.
    let mut case = five_pods();
    case.shapes[0].apart.clear();
    let mut broken = schedule(&case.input());
    case.pools[0].node_limit = Some(2);
    let input = case.input();
    let (first, last) = (broken.order[0], *broken.order.last().expect("pods"));
    assert!(broken.nodes.iter().any(|node| node.pods.contains(&first) && node.pods.len() == 2), "{broken:#?}");
    broken = crowded(&broken, &input);
    let decision = repaired(&input, &broken);
    assert_eq!(decision.plan.unschedulable, [last]);
    assert_eq!(decision.failed_checks.left_out, [last]);
    assert_eq!((decision.failed_checks.count, decision.failed_checks.violations[0].rule), (2, Rule::Resources));
}

#[test]
fn only_the_later_of_two_pods_that_refuse_each_other_stays_out() {
    // Three web pods on one node of four CPUs, which has room for ten, and nothing for sale.
    let mut case = five_pods();
    case.pools.clear();
    case.nodes = vec![node("a", 4, vec![])];
    let input = case.input();
    let web: Vec<u32> = (0..5).filter(|at| input.pods[*at as usize].shape == 0).collect();
    let others: Vec<u32> = (0..5).filter(|at| !web.contains(at)).collect();
    let all: Vec<u32> = others.iter().chain(&web).copied().collect();
    let mut placements: Vec<(u32, u32)> = all.iter().map(|pod| (*pod, 0)).collect();
    placements.sort_unstable();
    let broken = Plan { placements, order: all, ..Plan::default() };
    let decision = repaired(&input, &broken);
    assert_eq!(decision.failed_checks.left_out, web[1..]);
    assert_eq!(decision.plan.placements.len(), 3);
}

#[test]
fn machines_beyond_a_limit_are_not_bought_and_the_others_are() {
    // Two pools; three machines of one CPU from the first, whose limit is two CPUs; one from the second.
    let large = ShapeCase { half_cpus: 2, ..small() };
    let tolerant = ShapeCase { tolerates: true, ..large.clone() };
    let pods = vec![pod(0, 0), pod(0, 0), pod(0, 0), pod(1, 1)];
    let mut case = world(vec![kind(1, 4, &[("a", OnDemand, 10)])], vec![large, tolerant], pods);
    case.pools.push(PoolCase { tainted: true, weight: 1, ..PoolCase::default() });
    let broken = schedule(&case.input());
    assert_eq!(broken.nodes.iter().filter(|node| node.pool == 0).count(), 3, "{broken:#?}");
    case.pools[0].cpu_limit = Some(2);
    let decision = repaired(&case.input(), &broken);
    assert_eq!((decision.plan.nodes.len(), decision.failed_checks.left_out.len()), (3, 1));
}

#[test]
fn a_packing_of_nonsense_ends_in_a_plan_without_the_nonsense() {
    let input = five_pods().input();
    let mut broken = schedule(&input);
    broken.placements.push((0, 7));
    broken.placements.push((9, 0));
    broken.order.extend([0, 9]);
    broken.nodes.iter_mut().for_each(|node| node.types = [40].into());
    let decision = repaired(&input, &broken);
    assert_eq!((decision.plan.placements.len(), decision.failed_checks.left_out.len()), (0, 0));
    assert_eq!(decision.plan.order.len(), 5);
}

#[test]
fn a_pod_that_offends_where_it_is_gets_another_place() {
    // As before, but a third machine may be bought.
    let mut case = five_pods();
    case.shapes[0].apart.clear();
    let input = case.input();
    let decision = repaired(&input, &crowded(&schedule(&input), &input));
    assert_eq!((decision.plan.nodes.len(), decision.plan.unschedulable.len()), (3, 0));
    assert!(decision.failed_checks.left_out.is_empty() && decision.failed_checks.count == 2);
}

/// `plan` with its pods shifted by `by` places along its own list of places.
fn shuffled(plan: &Plan, by: usize) -> Plan {
    let mut plan = plan.clone();
    let mut pods: Vec<u32> = plan.placements.iter().map(|(pod, _)| *pod).collect();
    pods.extend(plan.nodes.iter().flat_map(|node| node.pods.iter().copied()));
    let by = by % pods.len().max(1);
    pods.rotate_left(by);
    let mut pods = pods.into_iter();
    plan.placements.iter_mut().zip(&mut pods).for_each(|((pod, _), other)| *pod = other);
    for node in &mut plan.nodes {
        node.pods.iter_mut().zip(&mut pods).for_each(|(pod, other)| *pod = other);
        node.pods.sort_unstable();
    }
    plan.placements.sort_unstable();
    plan
}

#[test]
fn whatever_a_packing_is_the_decision_is_sound() {
    let mut kept = 0;
    for seed in 1..=20 {
        let input = cluster(seed).1.current().input();
        let decision = repaired(&input, &shuffled(&schedule(&input), seed as usize));
        kept += decision.plan.order.len();
    }
    // Requests no longer match on machines whose pods are of different sizes, but pods of one kind trade places in peace.
    assert!(kept > 200, "{kept}");
}
