use std::sync::Arc;

use super::*;
use cluster::testing::{bound_to, claim, initialized_cluster, observe, pod, pool_with, text};
use cluster::{ClusterState, DoNotDisrupt, Object};
use model::disruption_policy::BudgetLimit;
use model::{Millis, PodShape, Timestamp};

/// Machines m0 … of a NodePool with `replicas` whose budget allows no removal.
fn cluster(machines: usize, replicas: Option<i64>) -> ClusterState {
    let names: Vec<String> = (0..machines).map(|number| format!("m{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut pool = pool_with(BudgetLimit::Nodes(0));
    pool.pool.replicas = replicas;
    initialized_cluster(pool, &names)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn removed(state: &ClusterState) -> Vec<String> {
    let selection = StaticScaleDown.select(&DisruptionView::of(state, at(60_000)));
    selection.removals.iter().map(|removal| removal.claim.to_string()).collect()
}

#[test]
fn the_machines_beyond_the_replicas_are_removed() {
    assert_eq!(removed(&cluster(3, Some(3))), Vec::<String>::new());
    assert_eq!(removed(&cluster(3, Some(4))), Vec::<String>::new());
    assert_eq!(removed(&cluster(3, Some(1))), ["m0", "m1"]);
    assert_eq!(removed(&cluster(3, Some(0))).len(), 3);
    assert_eq!(removed(&cluster(3, None)), Vec::<String>::new(), "the NodePool is not static");
}

#[test]
fn machines_that_leave_do_not_count_and_those_of_others_neither() {
    let mut state = cluster(4, Some(2));
    state.mark_for_deletion(&text("m0"));
    assert_eq!(removed(&state), ["m1"]);
    observe(&mut state, 0, [Object::Claim(ClaimRecord { ours: false, ..claim("m1") })]);
    assert_eq!(removed(&state), Vec::<String>::new());
}

#[test]
fn machines_that_are_missed_least_are_removed_first() {
    let mut state = cluster(5, Some(0));
    let shape = |priority| Arc::new(PodShape { priority, ..PodShape::default() });
    let with = |name: &str, on: &str, priority: i32| {
        Object::Pod(PodRecord { shape: shape(priority), ..bound_to(on, pod(name, 1)) })
    };
    let protected = PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..bound_to("m0", pod("a", 1)) };
    // m0 is protected. m1 has a pod of 1 + 2^26 / 2^25 = 3, m2 two of 1 each. m3 has a pod of 1 and half of its
    // lifetime left, 0.5. m4 is empty, and m5 is not launched.
    let aged = ClaimRecord { created: Some(at(0)), expire_after: Some(Millis::from_mins(2)), ..claim("m3") };
    observe(&mut state, 0, [Object::Pod(protected), with("b", "m1", 1 << 26), with("c", "m2", 0), with("d", "m2", 0)]);
    observe(&mut state, 0, [with("e", "m3", 0), Object::Claim(aged)]);
    observe(&mut state, 0, [Object::Claim(ClaimRecord { provider_id: text(""), ..claim("m5") })]);
    assert_eq!(removed(&state), ["m5", "m4", "m3", "m2", "m1", "m0"]);
}

#[test]
fn pods_say_what_their_disruption_costs() {
    let mut state = cluster(3, Some(0));
    let with =
        |name: &str, on: &str, stated_cost: i32| Object::Pod(PodRecord { stated_cost, ..bound_to(on, pod(name, 1)) });
    // m0: 1 + 2^27 / 2^27 = 2. m1: 1 - 2^26 / 2^27 = 0.5. m2: 1.
    observe(&mut state, 0, [with("a", "m0", 1 << 27), with("b", "m1", -(1 << 26)), with("c", "m2", 0)]);
    assert_eq!(removed(&state), ["m1", "m2", "m0"]);
}

#[test]
fn sabotage_without_stated_costs_the_name_decides() {
    let mut state = cluster(3, Some(0));
    observe(&mut state, 0, ["m0", "m1", "m2"].map(|on| Object::Pod(bound_to(on, pod(on, 1)))));
    assert_eq!(removed(&state), ["m0", "m1", "m2"]);
}
