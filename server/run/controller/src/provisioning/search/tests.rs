use std::sync::Arc;

use crate::search_allowance::{SearchSettings, SearchTotals};
use crate::testing::SynchronousController;
use crate::tests::one_machine;
use crate::{ClusterCall, Decision, Effect, Event, PlanError, PlanJob, PlanOutcome, Settings};
use cluster::testing::{key, pod, pool};
use cluster::{ClusterSnapshot, Key, Object, Observation};
use model::input::PlanningInput;
use model::plan::Plan;
use model::{MicroUsd, Timestamp};

/// The first packing takes a machine for each pod, and a search one for all of them, each for
/// $0.01 an hour.
fn planner(input: &PlanningInput) -> PlanOutcome {
    let (plan, mut report) = one_machine(input)?;
    let each = |pod: &u32| model::plan::PlannedNode { pods: vec![*pod], ..plan.nodes[0].clone() };
    let first: Vec<_> = plan.order.iter().map(each).collect();
    let cost = |nodes: usize| MicroUsd(10_000 * i64::try_from(nodes).unwrap_or(0));
    report.new_cost = cost(first.len());
    if input.policy.search_steps == 0 {
        return Ok((Plan { nodes: first, ..plan }, report));
    }
    report.first_cost = Some(report.new_cost);
    report.new_cost = cost(1);
    report.search_steps = input.policy.search_steps;
    Ok((plan, report))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn with_search() -> Settings {
    Settings { search: SearchSettings::with_share(25, 2), ..Settings::default() }
}

/// The pods `a` and `b` are pending in these clusters since 0 s. Plans are queued.
fn pending_in(clusters: &[&str], settings: Settings) -> SynchronousController {
    let mut controller = SynchronousController::new(settings, planner);
    controller.stalled = true;
    for cluster in clusters {
        controller.handle(Event::AgentConnected.of(*cluster), at(0));
        let pods = vec![pod("a", 500), pod("b", 500)];
        let snapshot = ClusterSnapshot { pools: vec![pool()], pods, ..ClusterSnapshot::default() };
        let observation = Observation::Snapshot(Box::new(snapshot));
        controller.handle(Event::Observed(observation).of(*cluster), at(0));
    }
    controller
}

/// A search for `a` and `b` in the cluster `c`, requested at 250 ms.
fn searching() -> SynchronousController {
    let mut controller = pending_in(&["c"], with_search());
    assert_eq!(controller.next_wakeup(), Some(at(250)));
    controller.handle(Event::Tick, at(250));
    assert_eq!(requests(&controller), ["c: search"]);
    controller
}

fn add_pod(controller: &mut SynchronousController, name: &str, now: i64) {
    let observation = Observation::upsert(Object::Pod(pod(name, 500)));
    controller.handle(Event::Observed(observation), at(now));
}

fn requests(controller: &SynchronousController) -> Vec<String> {
    let kind = |is_search: bool| if is_search { "search" } else { "first packing" };
    controller.waiting.iter().map(|request| format!("{}: {}", request.cluster, kind(request.is_search()))).collect()
}

fn decisions(effects: &[Effect]) -> Vec<Arc<Decision>> {
    let decision = |effect: &Effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(Arc::new(Decision::clone(decision))),
        _ => None,
    };
    effects.iter().filter_map(decision).collect()
}

/// The pods of the machines of each decision, its cost, and the steps in its recorded input.
fn decided(effects: &[Effect]) -> Vec<String> {
    let machines = |decision: &Decision| {
        let pods = |pods: &[model::PodKey]| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>().join("+");
        decision.launches.iter().map(|machine| pods(&machine.pods)).collect::<Vec<_>>().join(" ")
    };
    let steps = |decision: &Decision| decision.basis.as_ref().map_or(0, |basis| basis.input.policy.search_steps);
    let line =
        |decision: &Arc<Decision>| format!("{}: {}, {} steps", machines(decision), decision.new_cost, steps(decision));
    decisions(effects).iter().map(line).collect()
}

/// Searches granted, applied, late, outdated and failed.
fn counts(controller: &SynchronousController) -> [u64; 5] {
    let SearchTotals { granted, applied, late, outdated, failed, .. } = controller.region().search_totals();
    [granted, applied, late, outdated, failed]
}

#[test]
fn a_search_that_ends_within_the_window_is_the_decision_when_the_window_closes() {
    let mut controller = searching();
    assert!(decided(&controller.plan_waiting(at(700))).is_empty(), "the window is still open");
    let effects = controller.handle(Event::Tick, at(1_000));
    // 750 ms less 120 microseconds for two pods would be 13.5 million steps: the largest search has 9.
    assert_eq!(decided(&effects), ["a+b: 0.01, 9000000 steps"]);
    let note = "the search found nodes for 0.01 an hour; those of the first packing cost 0.02";
    assert_eq!(decisions(&effects)[0].notes, [note]);
    assert_eq!((requests(&controller).len(), counts(&controller)), (0, [1, 1, 0, 0, 0]));
    let totals = controller.region().search_totals();
    assert_eq!((totals.saved, totals.used_steps), (MicroUsd(10_000), 9_000_000));
}

#[test]
fn the_first_packing_goes_out_when_the_search_has_not_ended() {
    let mut controller = searching();
    controller.handle(Event::Tick, at(1_000));
    assert_eq!(requests(&controller), ["c: search", "c: first packing"]);
    let search = controller.waiting.pop_front().expect("the search is queued");
    let effects = controller.plan_waiting(at(1_010));
    assert_eq!(decided(&effects), ["a b: 0.02, 0 steps"]);
    controller.waiting.push_back(search);
    assert!(decided(&controller.plan_waiting(at(1_500))).is_empty(), "the late answer changes nothing");
    assert_eq!(counts(&controller), [1, 0, 1, 0, 0]);
}

#[test]
fn a_search_that_had_not_begun_uses_none_of_the_allowance() {
    let mut controller = searching();
    controller.handle(Event::Tick, at(1_000));
    let request = controller.waiting.pop_front().expect("the search is queued");
    let dropped = PlanJob::Pods(Box::new(request)).into_dropped();
    assert!(decided(&controller.handle(Event::Planned(Box::new(dropped)), at(1_001))).is_empty());
    let totals = controller.region().search_totals();
    assert_eq!((totals.granted_steps, totals.used_steps), (9_000_000, 0));
    assert_eq!(counts(&controller), [1, 0, 1, 0, 0]);
}

#[test]
fn a_search_for_other_pods_than_those_of_the_window_is_not_used() {
    let mut controller = searching();
    controller.plan_waiting(at(700));
    let deleted = Observation::Delete(Key::Pod(key("b")));
    controller.handle(Event::Observed(deleted), at(900));
    controller.handle(Event::Tick, at(1_000));
    assert_eq!(requests(&controller), ["c: first packing"]);
    assert_eq!(decided(&controller.plan_waiting(at(1_010))), ["a: 0.01, 0 steps"]);
    assert_eq!(counts(&controller), [1, 0, 0, 1, 0]);
}

#[test]
fn a_pod_that_extends_the_window_is_searched_for_again() {
    let mut controller = searching();
    controller.plan_waiting(at(300));
    add_pod(&mut controller, "d", 600);
    controller.handle(Event::Tick, at(849));
    assert!(requests(&controller).is_empty(), "the window has been idle for 249 ms");
    controller.handle(Event::Tick, at(850));
    assert_eq!(requests(&controller), ["c: search"]);
    controller.plan_waiting(at(1_100));
    assert_eq!(decided(&controller.handle(Event::Tick, at(1_600))), ["a+b+d: 0.01, 9000000 steps"]);
    assert_eq!(counts(&controller), [2, 1, 0, 1, 0]);
}

#[test]
fn a_window_is_searched_once_while_no_pod_arrives() {
    let mut controller = searching();
    for now in [260, 500, 999] {
        controller.handle(Event::Tick, at(now));
    }
    assert_eq!((requests(&controller).len(), controller.next_wakeup()), (1, Some(at(1_000))));
}

#[test]
fn a_search_that_the_planner_rejects_is_replaced_by_the_first_packing() {
    let mut controller = SynchronousController::new(with_search(), |input| {
        if input.policy.search_steps > 0 { Err(PlanError::Panicked) } else { planner(input) }
    });
    controller.handle(Event::AgentConnected, at(0));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed(observation), at(0));
    controller.handle(Event::Tick, at(250));
    assert_eq!(decided(&controller.handle(Event::Tick, at(1_000))), ["a: 0.01, 0 steps"]);
    assert_eq!(counts(&controller), [1, 0, 0, 0, 1]);
}

#[test]
fn a_packing_that_takes_too_many_steps_is_not_searched_and_not_used() {
    let controller = searching();
    // Two pods and no node: the least limit. A plan without a search may have up to 200 million.
    let limits: Vec<u64> = controller.waiting.iter().map(|request| request.input.policy.step_limit).collect();
    assert_eq!(limits, [1_000_000]);
    let mut unsearched = SynchronousController::new(with_search(), one_machine);
    unsearched.handle(Event::AgentConnected, at(0));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    unsearched.handle(Event::Observed(observation), at(0));
    unsearched.handle(Event::Tick, at(250));
    let [line] = &decided(&unsearched.handle(Event::Tick, at(1_000)))[..] else { panic!("one decision") };
    assert!(line.ends_with(", 0 steps"), "{line}");
    assert_eq!(counts(&unsearched), [1, 0, 0, 0, 1]);
}

#[test]
fn without_a_share_there_is_no_search() {
    let mut controller = pending_in(&["c"], Settings::default());
    assert_eq!(controller.next_wakeup(), Some(at(1_000)));
    controller.handle(Event::Tick, at(1_000));
    assert_eq!((requests(&controller), counts(&controller)), (vec!["c: first packing".to_owned()], [0; 5]));
}

/// Decisions and searches of twelve clusters whose windows close together, with these limits.
fn twelve_at_once(search: SearchSettings) -> (Vec<String>, SearchTotals, usize) {
    let names: Vec<String> = (0..12).map(|number| format!("c{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut controller = pending_in(&names, Settings { search, ..Settings::default() });
    controller.handle(Event::Tick, at(250));
    let searches = controller.waiting.len();
    for _ in 0..searches {
        assert!(decided(&controller.plan_waiting(at(900))).is_empty());
    }
    let mut effects = controller.handle(Event::Tick, at(1_000));
    while !controller.waiting.is_empty() {
        effects.extend(controller.plan_waiting(at(1_000)));
    }
    let mut decided = decided(&effects);
    decided.sort();
    (decided, controller.region().search_totals(), searches)
}

#[test]
fn under_load_every_cluster_has_a_plan_in_time_and_those_with_an_allowance_a_cheaper_one() {
    // Three of four processors: three searches at a time, 540 million steps within the window.
    let (decided, totals, searches) = twelve_at_once(SearchSettings::with_share(75, 4));
    let (cheaper, first): (Vec<String>, Vec<String>) = decided.iter().cloned().partition(|line| line.contains("a+b"));
    assert_eq!((cheaper, first.len()), (vec!["a+b: 0.01, 9000000 steps".to_owned(); 3], 9));
    assert_eq!(first, vec!["a b: 0.02, 0 steps".to_owned(); 9]);
    assert_eq!((searches, totals.skipped_busy), (3, 9));
    assert_eq!(twelve_at_once(SearchSettings::with_share(75, 4)), (decided, totals, searches));
}

#[test]
fn sabotage_without_the_limit_every_cluster_searches_at_once() {
    let (_, _, searches) = twelve_at_once(SearchSettings { steps_per_second: u64::MAX });
    assert_eq!(searches, 12);
}
