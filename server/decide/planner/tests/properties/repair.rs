//! Invalid packings: the decision retains their valid part, and only the offending pods are
//! removed.

use model::CapacityType::OnDemand;
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::{Plan, ReasonCode};
use planner::{PlannedDecision, plan_packed_by};
use proptest::strategy::ValueTree;
use scheduler::{CompileCache, PackingMethod, schedule, schedule_by};
use verifier::{Rule, check};

use crate::cases::{Case, PoolCase, ShapeCase, TermCase};
use crate::clusters::cluster;
use crate::regressions::{fixture, instance_type, node, pod, small};

/// The decision if every packing is `broken`.
fn repaired(input: &PlanningInput, broken: &Plan) -> PlannedDecision {
    let decision =
        plan_packed_by(input, &mut CompileCache::default(), |_, _| broken.clone().into()).expect("a sound plan");
    let violations = check(input, &decision.plan);
    assert!(violations.is_empty(), "{violations:#?}");
    for entry in &decision.report.unschedulable {
        if decision.failed_checks.left_out.contains(&entry.pod) {
            let [reason] = &*entry.reasons else { panic!("{entry:?}") };
            assert_eq!((reason.code, &reason.pool), (ReasonCode::Internal, &None), "{entry:?}");
        }
    }
    decision
}

/// Nodes of one CPU for a cent each, and five pods of half a CPU: three web pods with anti-affinity
/// per host, two others.
fn five_pods() -> Case {
    let shape = ShapeCase { anti_affinity: vec![TermCase { key: HOSTNAME, app: 0, all_namespaces: false }], ..small() };
    let pods = vec![pod(0, 0), pod(0, 0), pod(0, 0), pod(1, 1), pod(1, 1)];
    fixture(vec![instance_type(1, 4, &[("a", OnDemand, 10)])], vec![shape, small()], pods)
}

#[test]
fn an_invalid_packing_is_replaced_by_a_simpler_one() {
    let input = five_pods().input();
    let good = schedule(&input);
    let broken = overfilled(&good, &input);
    let decision = plan_packed_by(&input, &mut CompileCache::default(), |method, cache| match method {
        PackingMethod::Full => broken.clone().into(),
        PackingMethod::Plain => schedule_by(&input, method, cache),
    });
    let decision = decision.expect("a sound plan");
    assert!(check(&input, &decision.plan).is_empty() && decision.plan.unschedulable.is_empty());
    assert_eq!((decision.failed_checks.count, decision.failed_checks.left_out.len()), (1, 0));
    assert!(decision.report.notes.iter().any(|note| note.contains("own check")), "{:?}", decision.report.notes);
}

/// `good` with the pod placed last moved to the node of the first, where it does not fit.
fn overfilled(good: &Plan, input: &PlanningInput) -> Plan {
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
fn only_the_pod_that_does_not_fit_is_removed_from_an_overfilled_node() {
    // Five half CPUs on nodes of one CPU; the first node has two pods already. The limit is two
    // nodes, so the pod fits nowhere else.
    let mut case = five_pods();
    case.shapes[0].anti_affinity.clear();
    let mut broken = schedule(&case.input());
    case.pools[0].node_limit = Some(2);
    let input = case.input();
    let (first, last) = (broken.order[0], *broken.order.last().expect("pods"));
    assert!(broken.nodes.iter().any(|node| node.pods.contains(&first) && node.pods.len() == 2), "{broken:#?}");
    broken = overfilled(&broken, &input);
    let decision = repaired(&input, &broken);
    assert_eq!(decision.plan.unschedulable, [last]);
    assert_eq!(decision.failed_checks.left_out, [last]);
    assert_eq!((decision.failed_checks.count, decision.failed_checks.violations[0].rule), (2, Rule::Resources));
}

#[test]
fn only_the_later_of_two_mutually_exclusive_pods_is_removed() {
    // Three web pods on one node of four CPUs, which fits ten, and no available offering.
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
fn only_the_nodes_within_the_limit_are_launched() {
    // Two pools; three nodes of one CPU from the first, whose limit is two CPUs; one from the
    // second.
    let large = ShapeCase { half_cpus: 2, ..small() };
    let tolerant = ShapeCase { tolerates: true, ..large.clone() };
    let pods = vec![pod(0, 0), pod(0, 0), pod(0, 0), pod(1, 1)];
    let mut case = fixture(vec![instance_type(1, 4, &[("a", OnDemand, 10)])], vec![large, tolerant], pods);
    case.pools.push(PoolCase { tainted: true, weight: 1, ..PoolCase::default() });
    let broken = schedule(&case.input());
    assert_eq!(broken.nodes.iter().filter(|node| node.pool == 0).count(), 3, "{broken:#?}");
    case.pools[0].cpu_limit = Some(2);
    let decision = repaired(&case.input(), &broken);
    assert_eq!((decision.plan.nodes.len(), decision.failed_checks.left_out.len()), (3, 1));
}

#[test]
fn a_packing_with_invalid_indices_ends_in_a_valid_plan() {
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
fn a_misplaced_pod_is_moved_to_another_node() {
    // Same input, but a third node may be launched.
    let mut case = five_pods();
    case.shapes[0].anti_affinity.clear();
    let input = case.input();
    let decision = repaired(&input, &overfilled(&schedule(&input), &input));
    assert_eq!((decision.plan.nodes.len(), decision.plan.unschedulable.len()), (3, 0));
    assert!(decision.failed_checks.left_out.is_empty() && decision.failed_checks.count == 2);
}

/// `plan` with its pods rotated by `by` positions in its list of placements.
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
fn every_packing_ends_in_a_valid_decision() {
    let mut kept = 0;
    for seed in 1..=20 {
        let input = cluster(seed).1.current().input();
        let decision = repaired(&input, &shuffled(&schedule(&input), seed as usize));
        kept += decision.plan.order.len();
    }
    // Requests no longer match on nodes with pods of different sizes, but equal pods may be
    // swapped.
    assert!(kept > 200, "{kept}");
}
