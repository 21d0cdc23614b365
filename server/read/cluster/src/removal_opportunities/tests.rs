//! The cluster has `m0`, on which pod `a` runs and is ready, and `m1` without pods.

use super::*;
use crate::testing::{bound_to, initialized_cluster, key, observe, pod, pool, text};
use crate::{Key, Object, Observation, PodPhase, Target};
use model::Timestamp;

fn of_workload(pod: PodRecord, ready: bool) -> PodRecord {
    PodRecord { workload: text("ReplicaSet/web"), ready, ..pod }
}

fn running(name: &str, ready: bool) -> PodRecord {
    of_workload(bound_to("m0", pod(name, 100)), ready)
}

fn cluster() -> ClusterState {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Pod(running("a", true))]);
    state
}

/// Whether each of these observations, one after another, may enable a removal.
fn may_enable_removal<const N: usize>(state: &mut ClusterState, pods: [PodRecord; N]) -> [bool; N] {
    pods.map(|pod| {
        let before = state.removal_opportunity_version();
        observe(state, 1, [Object::Pod(pod)]);
        state.removal_opportunity_version() != before
    })
}

#[test]
fn a_pod_that_appears_and_is_bound_beside_others_enables_no_removal() {
    let waiting = of_workload(pod("b", 100), false);
    let seen =
        [waiting, running("b", false), PodRecord { started: Some(Timestamp::from_millis(5)), ..running("b", false) }];
    assert_eq!(may_enable_removal(&mut cluster(), seen), [false, false, false]);
}

#[test]
fn the_first_pod_on_a_node_may_enable_a_removal_because_an_empty_node_is_not_consolidated() {
    let first = bound_to("m1", pod("b", 100));
    assert_eq!(may_enable_removal(&mut cluster(), [pod("b", 100), first]), [false, true]);
}

#[test]
fn a_pod_of_a_daemonset_enables_no_removal_when_it_appears() {
    let daemon = PodRecord { daemon: Some(text("default/agent")), ..bound_to("m1", pod("d", 100)) };
    assert_eq!(may_enable_removal(&mut cluster(), [daemon]), [false]);
}

#[test]
fn a_pod_that_arrives_where_it_was_assigned_may_enable_a_removal() {
    let mut state = cluster();
    observe(&mut state, 0, [Object::Pod(pod("b", 100))]);
    state.assign_pod(key("b"), Target::Node(text("n-m0")), None);
    assert_eq!(may_enable_removal(&mut state, [running("b", false)]), [true]);
}

#[test]
fn a_second_ready_pod_of_a_workload_may_enable_a_removal_and_a_third_does_not() {
    let mut state = cluster();
    let seen = [running("b", false), running("b", true), running("c", false), running("c", true), running("c", false)];
    assert_eq!(may_enable_removal(&mut state, seen), [false, true, false, false, false]);
}

#[test]
fn a_pod_that_ends_or_becomes_free_to_go_may_enable_a_removal() {
    let protect = |pod| PodRecord { do_not_disrupt: Some(crate::DoNotDisrupt::Always), ..pod };
    let seen = [
        protect(running("b", false)),
        running("b", false),
        PodRecord { terminating: true, ..running("b", false) },
        PodRecord { phase: PodPhase::Succeeded, ..running("a", true) },
    ];
    let mut state = cluster();
    assert_eq!(may_enable_removal(&mut state, seen), [false, true, true, true]);
    assert_eq!(state.pods_left(), 1, "a has ended");
    let before = state.removal_opportunity_version();
    state.apply(Observation::Delete(Key::Pod(key("b"))), Timestamp::from_millis(2));
    assert!(state.removal_opportunity_version() > before && state.pods_left() == 2);
}

#[test]
fn any_change_of_a_node_may_enable_a_removal() {
    let mut state = cluster();
    let (before, node) =
        (state.removal_opportunity_version(), state.node(&text("n-m0")).cloned().expect("it is there"));
    observe(&mut state, 1, [Object::Node(node)]);
    assert!(state.removal_opportunity_version() > before);
}
