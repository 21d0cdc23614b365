//! The work of planning is bounded for any pods.

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::Stop;
use model::input::STEP_LIMIT;
use model::plan::ReasonCode;
use planner::{NoPlan, PlannedDecision};
use scheduler::{CompileCache, schedule_within};

#[test]
fn a_plan_within_few_steps_places_some_pods_and_reports_the_others_as_not_reached() {
    let mut input = fixture::input(200, 50);
    let whole = schedule_within(&input, &mut CompileCache::default());
    assert!(whole.not_reached.is_empty() && whole.cut_off.is_empty() && whole.plan.unschedulable.is_empty());
    input.policy.step_limit = 100_000;
    let decision = planner::plan(&input).expect("a valid plan");
    let count = |code: ReasonCode| {
        let of = |entry: &&model::plan::Unschedulable| entry.reasons.iter().any(|reason| reason.code == code);
        decision.report.unschedulable.iter().filter(of).count()
    };
    let (left, cut) = (count(ReasonCode::HeldBack), count(ReasonCode::StepLimit));
    let placed: usize = decision.plan.nodes.iter().map(|node| node.pods.len()).sum();
    assert!(placed > 0 && left > 0 && cut <= 1, "{placed} placed, {left} not reached, {cut} cut off");
    assert_eq!(placed + left + cut, 200, "no pod is forgotten");
    assert_eq!(planner::plan(&input).unwrap().plan, decision.plan, "the same on every machine");
    input.policy.step_limit = 0;
    assert_eq!(planner::plan(&input).unwrap().plan, whole.plan, "switched off, every pod is reached");
}

#[test]
fn of_many_preferences_the_heaviest_are_evaluated_with_a_note() {
    let mut input = fixture::input(3, 50);
    let note = planner::plan(&input).unwrap().report.notes.into_iter().find(|note| note.contains("preferences,"));
    let expected =
        "3 pods state more than 20 preferences, greedy/p00000 among them: only their 20 heaviest are looked at";
    assert_eq!(note.as_deref(), Some(expected));
    // The heaviest 20 alone give the same plan.
    let bounded = planner::plan(&input).unwrap().plan;
    for shape in &mut input.shapes {
        let nodes = shape.preferred_node_affinity.iter().map(|term| term.weight);
        let near = shape.preferred_pod_affinity.iter().map(|term| term.weight);
        let apart = shape.preferred_pod_anti_affinity.iter().map(|term| term.weight);
        let mut order: Vec<(usize, i32)> = nodes.chain(near).chain(apart).enumerate().collect();
        order.sort_by_key(|(_, weight)| -weight);
        let kept: std::collections::BTreeSet<usize> = order.into_iter().take(20).map(|(at, _)| at).collect();
        let mut at = 0..;
        let mut keeps = || at.next().is_some_and(|at| kept.contains(&at));
        shape.preferred_node_affinity.retain(|_| keeps());
        shape.preferred_pod_affinity.retain(|_| keeps());
        shape.preferred_pod_anti_affinity.retain(|_| keeps());
    }
    assert_eq!(planner::plan(&input).unwrap().plan, bounded);
}

/// A tenth of the default limit suffices for ordinary inputs.
#[test]
fn the_default_limit_is_far_from_ordinary_inputs() {
    let diverse = fixture::input(5_000, 0);
    let mut plain = fixture::input(20_000, 0);
    plain.shapes.truncate(1);
    plain.label_sets.truncate(1);
    plain.pods.iter_mut().for_each(|pod| (pod.shape, pod.labels) = (0, 0));
    for mut input in [diverse, plain] {
        input.policy.step_limit = STEP_LIMIT / 10;
        let scheduled = schedule_within(&input, &mut CompileCache::default());
        assert!(scheduled.not_reached.is_empty() && scheduled.cut_off.is_empty());
        assert!(scheduled.plan.unschedulable.is_empty());
    }
}

/// One pod at a time, the zones would take some 60 steps per pod: every instance type is evaluated.
#[test]
fn a_spread_over_zones_uses_steps_per_domain_and_not_per_pod() {
    let mut input = fixture::spread_over_zones(6_000);
    input.policy.step_limit = 10_000;
    let scheduled = schedule_within(&input, &mut CompileCache::default());
    assert!(scheduled.not_reached.is_empty() && scheduled.cut_off.is_empty(), "the steps suffice");
    let mut by_zone: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &scheduled.plan.nodes {
        *by_zone.entry(&node.zones[0]).or_default() += node.pods.len();
    }
    assert_eq!(by_zone, BTreeMap::from([("a", 2_000), ("b", 2_000), ("c", 2_000)]));
}

/// A plan that asks `asked` times before it is stopped; the number of questions altogether.
fn stopped_after(input: &model::input::PlanningInput, asked: usize) -> (Result<PlannedDecision, NoPlan>, usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let stop = Stop::when(move || counted.fetch_add(1, Ordering::Relaxed) >= asked);
    let decision = planner::plan_until(input, &mut CompileCache::default(), &stop);
    (decision, count.load(Ordering::Relaxed))
}

#[test]
fn a_plan_that_nobody_needs_ends_at_the_next_question_and_a_needed_one_is_the_usual_one() {
    let mut input = fixture::input(60, 20);
    // Pods of three kinds fit nowhere: they are explained.
    for pod in 0..3 {
        let shape = &mut input.shapes[input.pods[pod].shape as usize];
        shape.requests.set("cpu", 1_000_000_000);
    }
    input.policy.search_steps = 0;
    let (whole, questions) = stopped_after(&input, usize::MAX);
    let whole = whole.expect("a plan");
    assert_eq!(whole.plan, planner::plan(&input).expect("a plan").plan);
    assert!(questions > 10, "{questions}: the steps, the phases, and the pools of each explained pod");
    for asked in 0..questions {
        let (ended, more) = stopped_after(&input, asked);
        assert!(matches!(ended, Err(NoPlan::Stopped)), "after {asked} of {questions} questions");
        // Each phase that was under way asks a last time, whatever the phase.
        assert!(more <= asked + 30, "{more} questions, and it was stopped after {asked}");
    }
}
