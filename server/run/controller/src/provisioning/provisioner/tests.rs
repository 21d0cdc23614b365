use core::time::Duration;

use super::*;
use crate::PlanError;
use crate::guardrails::Guardrails;
use crate::provisioning::Planned;
use crate::unavailable_offerings::UnavailableOfferings;
use cluster::testing::{key, observe, pod, pool, text};
use cluster::{Object, PodRecord};
use model::Millis;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// The pool `p` and pending pods of these names.
fn state_with(pods: &[&str]) -> ClusterState {
    let mut state = ClusterState::default();
    let pods = pods.iter().map(|name| Object::Pod(pod(name, 500)));
    observe(&mut state, 0, [Object::Pool(pool())].into_iter().chain(pods));
    state
}

/// Requests the plan that is due at `now`.
fn request(provisioner: &mut Provisioner, state: &ClusterState, settings: &Settings, now: i64) -> PlanRequest {
    let due = provisioner.next_plan_at(settings, at(now)).filter(|due| *due <= at(now)).expect("a plan is due");
    let draft = provisioner.draft_plan(due, state, false, settings, at(now)).expect("pods are pending");
    provisioner.request_plan(draft, PlanNumber(1), text("c"), Vec::new(), state, at(now))
}

/// A request for the pending pod `a` at 1 s.
fn requested(state: &ClusterState) -> (Provisioner, PlanRequest) {
    let mut provisioner = Provisioner::default();
    provisioner.add_pending_pod(&key("a"), state, at(0));
    let request = request(&mut provisioner, state, &Settings::default(), 1_000);
    (provisioner, request)
}

fn answer(
    provisioner: &mut Provisioner,
    state: &ClusterState,
    answer: PlanAnswer,
    is_ready: bool,
    now: i64,
) -> Option<ArrivedPlan> {
    let (cluster, guardrails, offerings) =
        (text("c"), Guardrails::default(), UnavailableOfferings::new(Millis::from_secs(30), true));
    let view = LaunchView {
        cluster: &cluster,
        state,
        quarantined: false,
        guardrails: &guardrails,
        offerings: &offerings,
        now: at(now),
    };
    provisioner.take_answer(answer, is_ready, &Settings::default(), &view)
}

/// A plan that places no pod.
fn nothing_placed(request: PlanRequest) -> PlanAnswer {
    let plan = Plan { unschedulable: vec![0], ..Plan::default() };
    let entry = Unschedulable { pod: 0, reasons: [].into(), fits_if: [].into() };
    let report = PlanReport { unschedulable: vec![entry], ..PlanReport::default() };
    PlanAnswer { request, outcome: Ok(Planned::Pods(Box::new((plan, report)))), used: Duration::ZERO }
}

fn next_plan(provisioner: &Provisioner, now: i64) -> Option<i64> {
    provisioner.next_plan_at(&Settings::default(), at(now)).map(Timestamp::as_millis)
}

#[test]
fn a_plan_is_due_when_the_window_closes_or_a_retry_is_and_not_during_a_plan() {
    let state = state_with(&["a"]);
    let mut provisioner = Provisioner::default();
    assert_eq!(next_plan(&provisioner, 0), None);
    provisioner.schedule_retry(at(5_000));
    provisioner.schedule_retry(at(9_000));
    assert_eq!(next_plan(&provisioner, 0), Some(5_000));
    provisioner.add_pending_pod(&key("a"), &state, at(0));
    provisioner.add_pending_pod(&key("unknown"), &state, at(500));
    assert_eq!(next_plan(&provisioner, 500), Some(1_000));
    request(&mut provisioner, &state, &Settings::default(), 1_000);
    provisioner.replan_displaced_pods(at(1_500));
    assert_eq!((next_plan(&provisioner, 3_000), provisioner.is_planning()), (None, true));
}

#[test]
fn unplaced_pods_are_planned_again_after_the_retry_delay_or_four_times_the_duration_of_the_plan() {
    let state = state_with(&["a"]);
    for (answered, again) in [(2_000, 12_000), (21_000, 101_000)] {
        let (mut provisioner, request) = requested(&state);
        let arrived = answer(&mut provisioner, &state, nothing_placed(request), true, answered).unwrap();
        assert_eq!(arrived.unplaced.iter().map(|one| one.pod.clone()).collect::<Vec<_>>(), [key("a")]);
        assert_eq!((next_plan(&provisioner, answered), provisioner.is_planning()), (Some(again), false));
    }
}

#[test]
fn an_error_is_kept_until_a_plan_succeeds() {
    let state = state_with(&["a"]);
    let (mut provisioner, asked) = requested(&state);
    let failed = PlanAnswer { request: asked, outcome: Err(PlanError::Panicked), used: Duration::ZERO };
    assert!(answer(&mut provisioner, &state, failed, true, 2_000).is_none());
    assert!(provisioner.last_error().is_some_and(|error| error.contains("panicked")));
    // A failed launch replaces the retry, which may be later then.
    provisioner.record_failed_launch(String::from("no such subnet"), at(15_000));
    assert_eq!((next_plan(&provisioner, 2_000), provisioner.last_error()), (Some(15_000), Some("no such subnet")));
    let asked = request(&mut provisioner, &state, &Settings::default(), 15_000);
    assert_eq!(provisioner.last_error(), Some("no such subnet"));
    answer(&mut provisioner, &state, nothing_placed(asked), true, 16_000).unwrap();
    assert_eq!(provisioner.last_error(), None);
}

#[test]
fn an_outdated_answer_is_ignored_and_one_for_an_unsynced_state_is_planned_again() {
    let state = state_with(&["a"]);
    let (mut provisioner, asked) = requested(&state);
    let outdated = nothing_placed(PlanRequest { number: PlanNumber(7), ..asked.clone() });
    assert!(answer(&mut provisioner, &state, outdated, true, 2_000).is_none());
    assert_eq!(provisioner.plan_in_progress(), Some(PlanNumber(1)));
    assert!(answer(&mut provisioner, &state, nothing_placed(asked), false, 3_000).is_none());
    assert_eq!((provisioner.plan_in_progress(), next_plan(&provisioner, 3_000)), (None, Some(4_000)));
}

#[test]
fn unplaced_pods_are_compared_with_the_same_plan_of_the_previous_round() {
    let settings = Settings { plan_pods: 1, ..Settings::default() };
    let state = state_with(&["a", "b"]);
    let mut provisioner = Provisioner::default();
    let unplaced = |name: &str| [UnplacedPod { pod: key(name), reasons: [].into() }];
    let mut plan = |now: i64, name: &str| {
        provisioner.add_all_pending_pods(&state, at(now - 1_000));
        let request = request(&mut provisioner, &state, &settings, now);
        assert_eq!(request.input.pods.iter().map(|pod| pod.key()).collect::<Vec<_>>(), [key(name)]);
        answer(&mut provisioner, &state, nothing_placed(request), true, now).unwrap();
        provisioner.record_unplaced(&unplaced(name))
    };
    assert_eq!([plan(1_000, "a"), plan(1_000, "b")], [false; 2]);
    assert!(plan(20_000, "a"));
}

#[test]
fn nothing_is_planned_without_demand_unless_pods_are_in_launch_backoff() {
    let (state, settings) = (state_with(&[]), Settings::default());
    let mut provisioner = Provisioner::default();
    let mut draft = |backed_off| {
        provisioner.replan_for_changed_objects(at(0));
        provisioner.draft_plan(at(1_000), &state, backed_off, &settings, at(1_000))
    };
    assert!(draft(false).is_none());
    assert!(draft(true).is_some_and(|draft| draft.is_empty()));
    assert_eq!(next_plan(&provisioner, 1_000), None, "the window is closed");
}

#[test]
fn empty_nodes_are_kept_while_pods_wait_for_a_plan_and_five_minutes_during_it() {
    let (state, settings) = (state_with(&["a"]), Settings::default());
    let mut provisioner = Provisioner::default();
    let until = |provisioner: &Provisioner, state: &ClusterState, now: i64| {
        provisioner.needs_nodes_until(state, &settings, at(now)).map(Timestamp::as_millis)
    };
    assert_eq!(until(&provisioner, &state, 0), None);
    provisioner.replan_displaced_pods(at(0));
    assert_eq!((until(&provisioner, &state, 0), until(&provisioner, &state_with(&[]), 0)), (Some(1_000), None));
    request(&mut provisioner, &state, &settings, 1_000);
    assert_eq!((until(&provisioner, &state, 1_000), until(&provisioner, &state, 301_000)), (Some(301_000), None));
}

#[test]
fn a_cluster_that_is_not_ready_is_woken_for_held_pods_only() {
    let settings = Settings::default();
    let mut state = state_with(&["a"]);
    let held = PodRecord { external_scale_up: Some(at(0)), ..pod("b", 500) };
    observe(&mut state, 0, [Object::Pod(held)]);
    let mut provisioner = Provisioner::default();
    provisioner.plan_released_pods(&state, at(0));
    let expiry = state.next_hold_expiry(at(0)).unwrap();
    provisioner.add_pending_pod(&key("a"), &state, at(0));
    assert_eq!(provisioner.next_wakeup(true, &settings, at(0)), Some(at(1_000)));
    assert_eq!(provisioner.next_wakeup(false, &settings, at(0)), Some(expiry));
    request(&mut provisioner, &state, &settings, 1_000);
    let released = expiry + Millis::from_secs(1);
    provisioner.plan_released_pods(&state, released);
    let (_, pending) = provisioner.pending_plan.take().unwrap();
    assert_eq!(pending.pods(), 1, "b is held");
    assert_eq!(next_plan(&provisioner, released.as_millis()), Some((released + Millis::from_secs(1)).as_millis()));
}
