use super::*;
use crate::testing::{bound_to, initialized_cluster, key, observe, pod, pool, text};
use crate::{NOMINATION_WINDOW, Object};
use model::input::Policy;
use model::resources::NODES;
use model::{NodeStage, Resources};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// `m0` with the pod `a`, and `m1`.
fn cluster() -> ClusterState {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Pod(bound_to("m0", pod("a", 500)))]);
    state
}

/// Pods that are planned, and the stage of `m0` in the input.
fn planned(state: &ClusterState) -> (usize, NodeStage) {
    let input = state.planning_input(&Policy::default(), at(1));
    (input.pods.len(), input.nodes[0].stage)
}

#[test]
fn pods_of_a_replaced_machine_are_planned_elsewhere_and_nothing_is_planned_onto_it() {
    let mut state = cluster();
    assert_eq!(planned(&state), (0, NodeStage::Initialized));
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, false, at(1));
    assert_eq!(planned(&state), (0, NodeStage::Deleting), "the pods wait for the new machine of a static pool");
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(2));
    assert_eq!(planned(&state), (1, NodeStage::Deleting));
    assert_eq!(
        state.replacement_of(&text("m0")),
        Some(Replacement { reason: DisruptionReason::Drifted, since: at(1), moves_pods: true })
    );
    assert!(!state.is_node_terminating(&text("n-m0")) && !state.is_node_outgoing(&text("n-m1")));
}

#[test]
fn a_replaced_machine_uses_the_limits_of_its_pool_until_it_terminates() {
    let mut limited = pool();
    limited.pool.limits = Resources::from_iter([("cpu", 8_000), (NODES, 3)]);
    let mut state = initialized_cluster(limited, &["m0", "m1"]);
    let left = |state: &ClusterState| {
        let limits = state.planning_input(&Policy::default(), at(1)).pools[0].limits.clone();
        (limits.get("cpu"), limits.get(NODES))
    };
    assert_eq!(left(&state), (8_000, 3));
    // m0 is a t.2 of 2 cores.
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(1));
    assert_eq!(left(&state), (6_000, 2));
    state.mark_for_deletion(&text("m0"));
    assert_eq!(left(&state), (8_000, 3));
}

#[test]
fn an_assignment_outlasts_observations_of_the_running_pod_and_ends_with_the_replacement() {
    let mut state = cluster();
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(1));
    state.assign_pod(key("a"), Target::Node(text("n-m1")), Some(at(20)));
    observe(&mut state, 2_000, [Object::Pod(bound_to("m0", pod("a", 500)))]);
    state.extend_assignments(at(20));
    assert_eq!(state.assignments().get(&key("a")).and_then(|found| found.until), Some(at(20) + NOMINATION_WINDOW));
    assert_eq!(state.initialized_node_for(&key("a")).map(|node| node.name.as_ref()), Some("n-m1"));
    state.end_replacement(&text("m0"));
    assert!(state.assignments().is_empty());
    assert_eq!(planned(&state), (0, NodeStage::Initialized));
}

#[test]
fn a_removal_keeps_the_places_that_the_replacement_found() {
    let mut state = cluster();
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(1));
    state.assign_pod(key("a"), Target::Node(text("n-m1")), Some(at(20)));
    state.mark_for_deletion(&text("m0"));
    assert_eq!((state.replacements().len(), state.assignments().get(&key("a")).is_some()), (0, true));
    assert_eq!(planned(&state), (0, NodeStage::Deleting));
}

#[test]
fn a_machine_that_is_replaced_itself_is_no_place() {
    let mut state = cluster();
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(1));
    state.assign_pod(key("a"), Target::Node(text("n-m1")), Some(at(20)));
    state.begin_replacement(&text("m1"), DisruptionReason::Drifted, true, at(2));
    assert_eq!(state.initialized_node_for(&key("a")), None);
    state.extend_assignments(at(20));
    assert!(state.expire_assignments(at(20)), "the pod is planned again");
}

/// `m0` is replaced: its pod `a` is assigned to `m1`, and the pending pod `b`, which is equal, to `m2`. Each fills a
/// machine, and kube-scheduler binds `b` to `m1`.
#[test]
fn a_pod_of_a_replaced_machine_takes_the_place_of_an_equal_pod_that_was_bound_to_its_own() {
    let mut state = initialized_cluster(pool(), &["m0", "m1", "m2"]);
    observe(&mut state, 0, [Object::Pod(bound_to("m0", pod("a", 2_000))), Object::Pod(pod("b", 2_000))]);
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, at(1));
    state.assign_pod(key("a"), Target::Claim(text("m1")), Some(at(20)));
    state.assign_pod(key("b"), Target::Claim(text("m2")), Some(at(30)));
    observe(&mut state, 2_000, [Object::Pod(bound_to("m1", pod("b", 2_000)))]);
    assert_eq!(state.initialized_node_for(&key("a")).map(|node| node.name.as_ref()), Some("n-m2"));
    assert_eq!(state.assignments().get(&key("a")).and_then(|found| found.until), Some(at(30)));
}
