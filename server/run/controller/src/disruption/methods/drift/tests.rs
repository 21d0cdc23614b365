use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::disruption::method::Selection;
use cluster::testing::{bound_to, claim, initialized_cluster, key, node, observe, pod, pool, pool_with, text};
use cluster::{
    ClaimDriftFacts, ClaimRecord, ClusterState, DoNotDisrupt, NodeRecord, Object, PodBudgetRecord, PodRecord, PoolMeta,
    PoolRecord, Target,
};
use model::Timestamp;
use model::disruption_policy::{Budget, BudgetLimit, ConsolidationPolicy};
use model::resources::NODES;
use model::schedulers::PlannedSchedulers;
use model::{ClaimName, LabelSelector, Millis, NotReady, Resources};

const VERSION: &str = "1";

/// The pool with another template than that of [`old`] machines.
fn changed(mut pool: PoolRecord) -> PoolRecord {
    pool.drift.own_hash = Some((text("new"), text(VERSION)));
    pool
}

/// The NodeClaim of an earlier template, whose condition `Drifted` is `since` seconds old at the epoch.
fn old(name: &str, since: i64) -> ClaimRecord {
    let drift = ClaimDriftFacts {
        own_hash: Some((text("old"), text(VERSION))),
        drifted_since: Some(Timestamp::from_millis(since * 1_000)),
        ..ClaimDriftFacts::default()
    };
    ClaimRecord { drift, ..claim(name) }
}

/// Machines of an earlier template; that of a lower number drifted later.
fn drifted_cluster(pool: PoolRecord, machines: &[&str]) -> ClusterState {
    let mut state = initialized_cluster(changed(pool), machines);
    let since = |at: usize| i64::try_from(machines.len() - at).unwrap();
    observe(&mut state, 0, machines.iter().enumerate().map(|(at, name)| Object::Claim(old(name, since(at)))));
    state
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn select(state: &ClusterState) -> Selection {
    Drifted.select(&DisruptionView::of(state, at(60)))
}

fn removed(selection: &Selection) -> Vec<&str> {
    selection.removals.iter().map(|removal| removal.claim.as_ref()).collect()
}

/// Machines to replace first, and whether their pods are moved.
fn replaced(selection: &Selection) -> Vec<(&str, bool)> {
    selection.replacements.iter().map(|one| (one.removal.claim.as_ref(), one.moves_pods)).collect()
}

fn running(state: &mut ClusterState, machine: &str, name: &str) {
    observe(state, 0, [Object::Pod(bound_to(machine, pod(name, 100)))]);
}

#[test]
fn a_machine_that_matches_its_pool_stays() {
    let state = initialized_cluster(changed(pool()), &["m0"]);
    assert_eq!(select(&state), Selection::default(), "an adopted machine has no hash");
    let mut state = drifted_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Pool(pool())]);
    assert_eq!(select(&state), Selection::default(), "the template cannot be read");
}

#[test]
fn a_drifted_machine_without_pods_is_removed_at_once_and_one_with_pods_is_replaced_first() {
    let mut state = drifted_cluster(pool(), &["m0", "m1"]);
    running(&mut state, "m0", "a");
    let selection = select(&state);
    assert_eq!((removed(&selection), replaced(&selection)), (vec!["m1"], vec![("m0", true)]));
    assert_eq!(
        selection.removals[0].reason.as_ref(),
        "node n-m1 has drifted (NodePoolDrifted): the template of the NodePool has changed since the launch"
    );
}

#[test]
fn a_pod_of_another_scheduler_holds_it_because_no_place_can_be_planned_for_the_pod() {
    let mut state = drifted_cluster(pool(), &["m0", "m1"]);
    running(&mut state, "m0", "a");
    let other = PodRecord { other_scheduler: Some(text("volcano")), ..bound_to("m1", pod("b", 100)) };
    observe(&mut state, 0, [Object::Pod(other)]);
    assert_eq!(replaced(&select(&state)), [("m0", true)]);
    state.set_schedulers(PlannedSchedulers::beside_default("volcano"));
    assert_eq!(replaced(&select(&state)), [("m1", true), ("m0", true)]);
}

#[test]
fn neither_consolidate_after_nor_the_policy_holds_it() {
    let mut never = pool();
    never.disruption.consolidate_after = None;
    never.disruption.policy = ConsolidationPolicy::WhenEmpty;
    let mut state = drifted_cluster(never, &["m0"]);
    running(&mut state, "m0", "a");
    assert_eq!(replaced(&select(&state)), [("m0", true)]);
}

#[test]
fn machines_without_pods_are_first_and_then_those_that_drifted_first() {
    // m0 drifted at 4 s, m1 at 3 s, m2 at 2 s, m3 at 1 s; m1 has no pods. Two may leave.
    let mut state = drifted_cluster(pool_with(BudgetLimit::Nodes(2)), &["m0", "m1", "m2", "m3"]);
    ["m0", "m2", "m3"].iter().for_each(|machine| running(&mut state, machine, machine));
    let selection = select(&state);
    assert_eq!((removed(&selection), replaced(&selection)), (vec!["m1"], vec![("m3", true)]));
    assert_eq!(selection.held_by_budget, BTreeMap::from([(text("p"), 2)]));
}

#[test]
fn budgets_for_other_reasons_do_not_hold_it() {
    let budget = |reason| Budget { limit: BudgetLimit::Nodes(0), reasons: Some(vec![reason]), window: None };
    let of = |reason| {
        let mut held = pool();
        held.disruption.budgets = vec![budget(reason)];
        select(&drifted_cluster(held, &["m0"])).removals.len()
    };
    assert_eq!(of(DisruptionReason::Drifted), 0);
    assert_eq!((of(DisruptionReason::Empty), of(DisruptionReason::Underutilized)), (1, 1));
}

#[test]
fn a_replacement_under_way_uses_the_budget_and_goes_on() {
    let mut state = drifted_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1"]);
    ["m0", "m1"].iter().for_each(|machine| running(&mut state, machine, machine));
    // m1 drifted first, and the replacement of m0 is under way.
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(50));
    assert_eq!(replaced(&select(&state)), [("m0", true)]);
}

#[test]
fn a_replacement_that_the_budget_does_not_allow_any_more_is_not_selected() {
    let mut state = drifted_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1"]);
    ["m0", "m1"].iter().for_each(|machine| running(&mut state, machine, machine));
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(50));
    state.begin_replacement(&text("m1"), DisruptionReason::Drifted, true, at(49));
    let selection = select(&state);
    assert_eq!(replaced(&selection), [("m1", true)], "the one that began first goes on");
    assert_eq!(selection.held_by_budget, BTreeMap::from([(text("p"), 1)]));
}

/// A pool with two nodes for each reason, and one for `Drifted`, of which `m0` is being replaced since 49 s. `m1` is
/// consolidated since `other` seconds.
fn beside_consolidation(other: i64) -> ClusterState {
    let mut pool = pool_with(BudgetLimit::Nodes(2));
    let reasons = Some(vec![DisruptionReason::Drifted]);
    pool.disruption.budgets.push(Budget { limit: BudgetLimit::Nodes(1), reasons, window: None });
    let mut state = drifted_cluster(pool, &["m0"]);
    observe(&mut state, 0, [Object::Claim(claim("m1")), Object::Node(node("m1"))]);
    ["m0", "m1"].iter().for_each(|machine| running(&mut state, machine, machine));
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(49));
    state.begin_consolidation(&text("m1"), at(other));
    state
}

#[test]
fn a_consolidation_that_began_later_does_not_end_a_replacement_under_way() {
    let mut state = beside_consolidation(50);
    assert_eq!(replaced(&select(&state)), [("m0", true)]);
    // It is removed first.
    state.mark_for_deletion(&text("m1"));
    assert_eq!(replaced(&select(&state)), [("m0", true)]);
    // The budget for drift counts what was there before.
    assert_eq!(replaced(&select(&beside_consolidation(48))), []);
}

#[test]
fn do_not_disrupt_on_the_node_always_holds_it() {
    let mut state = drifted_cluster(pool(), &["m0"]);
    let ends = ClaimRecord { termination_grace_period: Some(Millis::from_secs(30)), ..old("m0", 1) };
    let held = NodeRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..node("m0") };
    observe(&mut state, 0, [Object::Claim(ends), Object::Node(held)]);
    assert_eq!(select(&state), Selection::default());
}

#[test]
fn do_not_disrupt_on_a_pod_holds_it_unless_a_grace_period_ends_the_drain() {
    let mut state = drifted_cluster(pool(), &["m0"]);
    let held = PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..bound_to("m0", pod("a", 100)) };
    observe(&mut state, 0, [Object::Pod(held)]);
    assert_eq!(select(&state), Selection::default());
    let ends = ClaimRecord { termination_grace_period: Some(Millis::from_secs(30)), ..old("m0", 1) };
    observe(&mut state, 0, [Object::Claim(ends)]);
    // The pod runs until the grace period ends, so nothing is moved before.
    assert_eq!(removed(&select(&state)), ["m0"]);
}

fn budget_for_all(allowed: i32) -> Object {
    Object::PodBudget(PodBudgetRecord {
        namespace: text("default"),
        name: text("b"),
        selector: Some(LabelSelector::default()),
        allowed,
        evicts_unhealthy_always: false,
        never_allows: false,
    })
}

#[test]
fn a_pod_disruption_budget_holds_it_unless_a_grace_period_ends_the_drain() {
    let mut state = drifted_cluster(pool(), &["m0"]);
    running(&mut state, "m0", "a");
    observe(&mut state, 0, [budget_for_all(0)]);
    assert_eq!(select(&state), Selection::default());
    let ends = ClaimRecord { termination_grace_period: Some(Millis::from_secs(30)), ..old("m0", 1) };
    observe(&mut state, 0, [Object::Claim(ends)]);
    assert_eq!(replaced(&select(&state)), [("m0", true)]);
}

/// Machines `m0` and `m1`, each with a pod that is assigned to the initialized machine `m2` of the new
/// template, whose replacements are under way.
fn moved_pods(change: impl Fn(PodRecord) -> PodRecord) -> ClusterState {
    let mut state = drifted_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Claim(claim("m2")), Object::Node(node("m2"))]);
    for (machine, name) in [("m0", "a"), ("m1", "b")] {
        observe(&mut state, 0, [Object::Pod(change(bound_to(machine, pod(name, 100))))]);
        state.begin_replacement(&text(machine), DisruptionReason::Drifted, true, at(50));
        state.assign_pod(key(name), Target::Claim(text("m2")), None);
    }
    state
}

#[test]
fn a_machine_is_removed_when_its_pods_have_initialized_nodes() {
    // Both began at one time, and m1 drifted first.
    assert_eq!(removed(&select(&moved_pods(|pod| pod))), ["m1", "m0"]);
    let not_there = |change: fn(&mut NodeRecord)| {
        let (mut state, mut new) = (moved_pods(|pod| pod), node("m2"));
        change(&mut new);
        observe(&mut state, 1_000, [Object::Node(new)]);
        let selection = select(&state);
        (selection.removals.len(), selection.replacements.len())
    };
    assert_eq!(not_there(|_| {}), (2, 0));
    assert_eq!(not_there(|node| drop(node.labels.remove(model::labels::INITIALIZED))), (0, 2));
    assert_eq!(not_there(|node| node.ready = false), (0, 2));
    assert_eq!(not_there(|node| node.unschedulable = true), (0, 2));
}

#[test]
fn sabotage_without_waiting_for_initialization_it_is_removed_before_its_capacity_is_there() {
    let (mut state, mut new) = (moved_pods(|pod| pod), node("m2"));
    new.labels.remove(model::labels::INITIALIZED);
    observe(&mut state, 1_000, [Object::Node(new)]);
    let view = DisruptionView { waits_for_initialization: false, ..DisruptionView::of(&state, at(60)) };
    assert_eq!(Drifted.select(&view).removals.len(), 2);
}

#[test]
fn one_pod_without_a_place_keeps_the_machine() {
    let mut state = moved_pods(|pod| pod);
    running(&mut state, "m0", "late");
    let selection = select(&state);
    assert_eq!((removed(&selection), replaced(&selection)), (vec!["m1"], vec![("m0", true)]));
}

/// The successor of an evicted pod may be bound where a plan that was in progress has assigned another pod.
#[test]
fn a_machine_stays_while_another_pod_has_taken_the_place_of_its_pod() {
    let mut state = moved_pods(|pod| pod);
    // m2 has 2 cores, and a and b request a tenth of one each.
    observe(&mut state, 0, [Object::Pod(bound_to("m2", pod("taken", 1_800)))]);
    assert_eq!(removed(&select(&state)), ["m1", "m0"]);
    observe(&mut state, 0, [Object::Pod(bound_to("m2", pod("taken", 1_801)))]);
    assert_eq!((removed(&select(&state)), replaced(&select(&state)).len()), (Vec::new(), 2));
}

#[test]
fn machines_leave_one_after_another_as_a_pod_disruption_budget_allows() {
    let mut state = moved_pods(|pod| pod);
    observe(&mut state, 0, [budget_for_all(1)]);
    let selection = select(&state);
    assert_eq!((removed(&selection), replaced(&selection)), (vec!["m1"], vec![("m0", true)]));
    // While the first one is drained, the budget allows no eviction: the other replacement waits.
    observe(&mut state, 0, [budget_for_all(0)]);
    assert_eq!(replaced(&select(&state)), [("m1", true), ("m0", true)]);
}

#[test]
fn the_last_ready_pod_of_a_workload_stays() {
    let replica = |pod: PodRecord| PodRecord { workload: text("ReplicaSet/web"), ready: true, ..pod };
    let selection = select(&moved_pods(replica)).removals.len();
    assert_eq!(selection, 1, "the other one of two ready pods stays until the first is back");
    let lone = |pod: PodRecord| PodRecord { ready: pod.key.name.as_ref() == "a", ..replica(pod) };
    assert_eq!(removed(&select(&moved_pods(lone))), ["m1"], "a is the only ready one of two pods");
}

#[test]
fn a_pool_that_failed_begins_no_replacement_and_goes_on_with_those_under_way() {
    let mut state = drifted_cluster(pool(), &["m0", "m1"]);
    ["m0", "m1"].iter().for_each(|machine| running(&mut state, machine, machine));
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(50));
    let mut view = DisruptionView::of(&state, at(60));
    view.backoff.record_failure(&text("p"), &text("gone"), at(60));
    let selection = Drifted.select(&view);
    assert_eq!((replaced(&selection), selection.next_check), (vec![("m0", true)], Some(at(120))));
    let later = DisruptionView { now: at(120), ..view };
    assert_eq!(replaced(&Drifted.select(&later)).len(), 2);
}

#[test]
fn a_machine_whose_replacement_failed_is_behind_the_others_of_its_pool() {
    // m1 drifted first, and the budget allows one.
    let mut state = drifted_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1"]);
    ["m0", "m1"].iter().for_each(|machine| running(&mut state, machine, machine));
    assert_eq!(replaced(&select(&state)), [("m1", true)]);
    let mut view = DisruptionView::of(&state, at(60));
    view.backoff.record_failure(&text("p"), &text("m1"), at(0));
    assert_eq!(replaced(&Drifted.select(&view)), [("m0", true)]);
}

#[test]
fn a_pool_that_cannot_launch_replaces_nothing() {
    let mut closed = pool();
    closed.pool.not_ready = Some(NotReady::NodeClass(text("no subnets")));
    assert_eq!(select(&drifted_cluster(closed, &["m0"])), Selection::default());
    let unmanaged = PoolRecord { meta: PoolMeta { managed: Some(false), ..PoolMeta::default() }, ..pool() };
    assert_eq!(select(&drifted_cluster(unmanaged, &["m0"])), Selection::default());
}

#[test]
fn a_machine_that_leaves_or_that_pods_are_assigned_to_is_not_selected() {
    let mut state = drifted_cluster(pool(), &["m0", "m1", "m2", "m3"]);
    state.mark_for_deletion(&text("m0"));
    state.assign_pod(key("x"), Target::Claim(text("m1")), None);
    let being_removed = BTreeSet::from([ClaimName::from("m2")]);
    let view = DisruptionView { being_removed, ..DisruptionView::of(&state, at(60)) };
    assert_eq!(removed(&Drifted.select(&view)), ["m3"]);
}

#[test]
fn a_young_machine_of_an_unknown_type_is_looked_at_again_when_it_is_an_hour_old() {
    let mut odd = ClaimRecord { created: Some(at(0)), ..claim("m0") };
    odd.labels.insert(text(model::labels::INSTANCE_TYPE), text("t.9"));
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Claim(odd)]);
    assert_eq!(select(&state).next_check, Some(at(3_600)));
    let selection = Drifted.select(&DisruptionView::of(&state, at(3_600)));
    assert!(selection.removals[0].reason.contains("InstanceTypeNotFound"), "{selection:?}");
}

/// The pool as a static one.
fn fixed(replicas: i64, limit: Option<i64>) -> PoolRecord {
    let mut fixed = pool();
    fixed.pool.replicas = Some(replicas);
    fixed.pool.limits = limit.map(|limit| Resources::from_iter([(NODES, limit)])).unwrap_or_default();
    fixed
}

#[test]
fn a_machine_of_a_static_pool_is_replaced_by_one_although_it_has_no_pods() {
    let state = drifted_cluster(fixed(2, None), &["m0", "m1"]);
    let selection = select(&state);
    assert_eq!((removed(&selection), replaced(&selection)), (vec![], vec![("m1", false), ("m0", false)]));
}

#[test]
fn the_node_limit_of_a_static_pool_needs_room_for_the_old_and_the_new_machine() {
    let begun = |limit| replaced(&select(&drifted_cluster(fixed(2, Some(limit)), &["m0", "m1"]))).len();
    // Two replicas: a limit of 2 has no room, 3 has room for one new machine, 4 for two.
    assert_eq!([2, 3, 4, 9].map(begun), [0, 1, 2, 2]);
    let mut state = drifted_cluster(fixed(2, Some(3)), &["m0", "m1"]);
    state.begin_replacement(&text("m1"), DisruptionReason::Drifted, false, at(50));
    assert_eq!(replaced(&select(&state)), [("m1", false)], "the one under way uses the room");
}

#[test]
fn a_static_pool_with_surplus_machines_replaces_none() {
    assert_eq!(select(&drifted_cluster(fixed(1, None), &["m0", "m1"])), Selection::default());
}

/// Two replicas; m0 and m1 are being replaced, and m2 is initialized, and m3 if it has `joined`.
fn static_replacement(joined: bool) -> ClusterState {
    let mut state = drifted_cluster(fixed(2, None), &["m0", "m1"]);
    let mut late = node("m3");
    if !joined {
        late.labels.remove(model::labels::INITIALIZED);
    }
    let new = [Object::Claim(claim("m2")), Object::Node(node("m2")), Object::Claim(claim("m3")), Object::Node(late)];
    observe(&mut state, 0, new);
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, false, at(50));
    state.begin_replacement(&text("m1"), DisruptionReason::Drifted, false, at(51));
    state
}

#[test]
fn as_many_machines_of_a_static_pool_leave_as_new_ones_are_initialized() {
    // One of two replicas is there: the machine whose replacement began first may leave.
    let selection = select(&static_replacement(false));
    assert_eq!((removed(&selection), replaced(&selection)), (vec!["m0"], vec![("m1", false)]));
    assert_eq!(removed(&select(&static_replacement(true))), ["m0", "m1"]);
}

#[test]
fn pods_of_a_static_pools_machine_move_when_the_new_machine_is_initialized() {
    let mut state = static_replacement(false);
    ["m0", "m1"].iter().for_each(|machine| running(&mut state, machine, machine));
    assert_eq!(replaced(&select(&state)), [("m0", true), ("m1", false)]);
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(55));
    state.assign_pod(key("m0"), Target::Node(text("n-m2")), None);
    let selection = select(&state);
    assert_eq!((removed(&selection), replaced(&selection)), (vec!["m0"], vec![("m1", false)]));
}
