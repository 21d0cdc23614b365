use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use cluster::testing::{bound_to, initialized_cluster, key, node, observe, pod, pool, pool_with, text};
use cluster::{DoNotDisrupt, NodeRecord, Object, PodBudgetRecord, Target};
use model::disruption_policy::BudgetLimit;
use model::{ClaimName, LabelSelector, Millis, PodShape, Text, Timestamp, Toleration, TolerationOperator};

fn going(state: &ClusterState, at: i64) -> Vec<ClaimName> {
    let selection = Emptiness.select(&DisruptionView::of(state, Timestamp::from_millis(at)));
    selection.removals.into_iter().map(|removal| removal.claim).collect()
}

fn daemon(machine: &str) -> PodRecord {
    PodRecord { daemon: Some(text("kube-system/agent")), ..bound_to(machine, pod("agent", 10)) }
}

#[test]
fn a_node_with_daemons_only_is_removed_after_consolidate_after() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 5_000, [Object::Pod(daemon("m0"))]);
    // Initialized at 0, consolidateAfter is 30 s; a DaemonSet's pod is no pod event.
    assert_eq!(
        Emptiness.select(&DisruptionView::of(&state, Timestamp::from_millis(29_999))).next_check,
        Some(Timestamp::from_millis(30_000))
    );
    assert_eq!(going(&state, 29_999), Vec::<ClaimName>::new());
    assert_eq!(going(&state, 30_000), ["m0"]);
}

#[test]
fn a_pod_event_restarts_consolidate_after() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 10_000, [Object::Pod(bound_to("m0", pod("a", 1)))]);
    assert_eq!(going(&state, 60_000), Vec::<ClaimName>::new());
    let gone = cluster::Observation::Delete(cluster::Key::Pod(pod("a", 1).key));
    state.apply(gone, Timestamp::from_millis(70_000));
    assert_eq!(going(&state, 99_999), Vec::<ClaimName>::new());
    assert_eq!(going(&state, 100_000), ["m0"]);
}

#[test]
fn budgets_limit_simultaneous_removals() {
    let state = initialized_cluster(pool_with(BudgetLimit::Percent(40)), &["m0", "m1", "m2"]);
    // 40 % of 3 nodes is 1.2, rounded up 2.
    assert_eq!(going(&state, 60_000), ["m0", "m1"]);
    let view = DisruptionView::of(&state, Timestamp::from_millis(60_000));
    let rest = Emptiness.select(&DisruptionView { being_removed: BTreeSet::from([text("m0")]), ..view });
    let held: usize = rest.held_by_budget.values().sum();
    assert_eq!((rest.removals.len(), rest.removals[0].claim.as_ref(), held), (1, "m1", 1));
    let none = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &["m0"]);
    assert_eq!(going(&none, 60_000), Vec::<ClaimName>::new());
}

#[test]
fn a_node_that_is_not_ready_counts_against_the_budget() {
    let mut state = initialized_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Node(NodeRecord { ready: false, ..node("m1") })]);
    assert_eq!(going(&state, 60_000), Vec::<ClaimName>::new());
}

#[test]
fn do_not_disrupt_on_the_node_or_any_of_its_pods_keeps_the_node() {
    let mut state = initialized_cluster(pool(), &["m0", "m1", "m2"]);
    let kept = NodeRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..node("m0") };
    let guarded = PodRecord { do_not_disrupt: Some(DoNotDisrupt::For(Millis::from_secs(40))), ..daemon("m1") };
    observe(&mut state, 0, [Object::Node(kept), Object::Pod(guarded)]);
    // The daemon on m1 started at 0 and is protected for 40 s.
    assert_eq!(going(&state, 39_999), ["m2"]);
    assert_eq!(going(&state, 40_000), ["m1", "m2"]);
}

#[test]
fn do_not_disrupt_with_a_duration_keeps_the_node_from_its_creation_on() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let do_not_disrupt = Some(DoNotDisrupt::For(Millis::from_secs(50)));
    let kept = NodeRecord { do_not_disrupt, created: Some(Timestamp::from_millis(5_000)), ..node("m0") };
    observe(&mut state, 0, [Object::Node(kept)]);
    // Created at 5 s, protected for 50 s; without it the node may leave after 30 s.
    assert_eq!(going(&state, 54_999), Vec::<ClaimName>::new());
    let next = Emptiness.select(&DisruptionView::of(&state, Timestamp::from_millis(40_000))).next_check;
    assert_eq!(next, Some(Timestamp::from_millis(55_000)));
    assert_eq!(going(&state, 55_000), ["m0"]);
    let undated = NodeRecord { do_not_disrupt, created: None, ..node("m0") };
    observe(&mut state, 0, [Object::Node(undated)]);
    assert_eq!(going(&state, 1 << 40), Vec::<ClaimName>::new());
}

#[test]
fn a_node_assigned_to_a_pod_is_kept() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    state.assign_pod(key("a"), Target::Node(text("n-m0")), Some(Timestamp::from_millis(90_000)));
    assert_eq!(going(&state, 60_000), Vec::<ClaimName>::new());
}

#[test]
fn machines_of_others_and_pools_that_never_consolidate_are_not_removed() {
    let mut never = pool();
    never.disruption.consolidate_after = None;
    assert_eq!(going(&initialized_cluster(never, &["m0"]), 1 << 40), Vec::<ClaimName>::new());
    let mut fixed = pool();
    fixed.pool.replicas = Some(1);
    assert_eq!(going(&initialized_cluster(fixed, &["m0"]), 1 << 40), Vec::<ClaimName>::new());
    let mut others = initialized_cluster(pool(), &["m0"]);
    let claim = cluster::ClaimRecord { ours: false, ..cluster::testing::claim("m0") };
    observe(&mut others, 0, [Object::Claim(claim)]);
    assert_eq!(going(&others, 60_000), Vec::<ClaimName>::new());
}

/// The machines that go when a PodDisruptionBudget of the DaemonSet pod on m0 allows so many evictions; the pod has
/// `tolerations`.
fn with_budget(allowed: i32, tolerations: Vec<Toleration>) -> Vec<ClaimName> {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let budget = PodBudgetRecord {
        namespace: text("default"),
        name: text("agent"),
        selector: Some(LabelSelector::default()),
        allowed,
        evicts_unhealthy_always: false,
        never_allows: false,
    };
    let pod = daemon("m0");
    let shape = Arc::new(PodShape { tolerations, ..PodShape::clone(&pod.shape) });
    observe(&mut state, 0, [Object::PodBudget(budget), Object::Pod(PodRecord { shape, ready: true, ..pod })]);
    going(&state, 60_000)
}

/// A drain evicts a DaemonSet's pod that does not tolerate the taint of a drained node, and would wait for ever.
#[test]
fn a_budget_of_a_daemon_set_s_pods_holds_an_empty_node() {
    assert_eq!(with_budget(0, Vec::new()), Vec::<ClaimName>::new());
    assert_eq!(with_budget(1, Vec::new()), ["m0"]);
    let (key, value) = (text("karpenter.sh/disrupted"), Text::default());
    let tolerant = Toleration { key, operator: TolerationOperator::Exists, value, effect: None };
    assert_eq!(with_budget(0, vec![tolerant]), ["m0"]);
}
