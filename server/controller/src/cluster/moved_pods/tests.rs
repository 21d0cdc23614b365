use std::collections::BTreeSet;

use super::*;
use crate::cluster::testing::{bound_to, initialized_cluster, key, observe, pod, pool, text};
use crate::cluster::{ClusterSnapshot, Key, Object, Observation, PodRecord};
use model::Taint;
use model::taints::Effect;

const DAY: Millis = Millis::from_hours(24);

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_millis(minutes * 60_000)
}

/// A pod of the ReplicaSet `owner` on `machine`, created in this minute.
fn replica(machine: &str, name: &str, owner: &str, minute: i64) -> PodRecord {
    let workload = text(&format!("ReplicaSet/{owner}"));
    PodRecord { workload, created: Some(at(minute)), ..bound_to(machine, pod(name, 100)) }
}

/// `m0` with a pod of `web`, and `m1` with one of each of `web` and `api`, all older than the drains.
fn cluster() -> ClusterState {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    let pods = [replica("m0", "w0", "web", -60), replica("m1", "w1", "web", -60), replica("m1", "a1", "api", -60)];
    observe(&mut state, 0, pods.map(Object::Pod));
    state
}

fn drain(state: &mut ClusterState, claim: &str, now: Timestamp) {
    let moves = state.moves_of(&text(claim), now);
    state.record_moves(moves, DAY, now);
}

fn remove(state: &mut ClusterState, key: Key, now: Timestamp) {
    state.apply(Observation::Delete(key), now);
}

/// `m0` is drained from 60 to 62 min: its pod `w0` has the successor `w2` on `m1`.
fn moved() -> ClusterState {
    let mut state = cluster();
    drain(&mut state, "m0", at(60));
    remove(&mut state, Key::Pod(key("w0")), at(61));
    observe(&mut state, 61 * 60_000, [Object::Pod(replica("m1", "w2", "web", 61))]);
    remove(&mut state, Key::Claim(text("m0")), at(62));
    state
}

/// The load changes: a pod of `api` is there.
fn change_load(state: &mut ClusterState, now: Timestamp) {
    observe(state, now.as_millis(), [Object::Pod(replica("m1", "a2", "api", now.as_millis() / 60_000))]);
    state.note_load();
}

/// Names of the pods of `m1` that stay at this time, and until which minute.
fn stay(state: &ClusterState, now: Timestamp) -> Vec<(&str, i64)> {
    let node = text("n-m1");
    let moved: Vec<(&PodRecord, Timestamp)> = state.moved_pods_on(&node, DAY, now).collect();
    moved.into_iter().map(|(pod, until)| (pod.key.name.as_ref(), until.as_millis() / 60_000)).collect()
}

#[test]
fn the_successor_of_an_evicted_pod_stays_for_the_interval_once_the_load_has_changed() {
    let mut state = moved();
    change_load(&mut state, at(100));
    // Created in minute 61, and 24 h are 1,440 min.
    assert_eq!(stay(&state, at(100)), [("w2", 1_501)]);
    assert_eq!(stay(&state, at(1_500)), [("w2", 1_501)]);
    assert_eq!(stay(&state, at(1_501)), []);
}

#[test]
fn a_further_step_moves_it_again_while_the_load_is_as_it_was() {
    let mut state = moved();
    state.note_load();
    assert_eq!(stay(&state, at(63)), []);
    // Later the load is the same again, and the pod stays nevertheless.
    change_load(&mut state, at(100));
    remove(&mut state, Key::Pod(key("a2")), at(200));
    state.note_load();
    assert_eq!(stay(&state, at(200)), [("w2", 1_501)]);
}

#[test]
fn while_a_machine_is_drained_moved_pods_stay_and_the_load_is_not_judged() {
    let mut state = moved();
    drain(&mut state, "m1", at(70));
    // A pod of web is evicted and has no successor yet.
    remove(&mut state, Key::Pod(key("w1")), at(71));
    state.note_load();
    assert_eq!(stay(&state, at(71)), [("w2", 1_501)]);
    observe(&mut state, 72 * 60_000, [Object::Pod(replica("m2", "w3", "web", 72))]);
    state.recent_moves_mut().end(&text("m1"), at(73));
    state.note_load();
    assert_eq!(stay(&state, at(73)), [], "the load is as it was before the drain of m0");
}

#[test]
fn pods_of_other_owners_or_times_are_not_taken_for_successors() {
    let mut state = moved();
    // api had no pod on m0; the others were created before and after the drain, beyond the tolerance of 10 s.
    let others = [
        replica("m1", "a2", "api", 61),
        replica("m1", "w4", "web", 59),
        replica("m1", "w5", "web", 63),
        PodRecord { workload: text("Pod/bare"), ..replica("m1", "bare", "web", 61) },
    ];
    observe(&mut state, 64 * 60_000, others.map(Object::Pod));
    state.note_load();
    assert_eq!(stay(&state, at(64)), [("w2", 1_501)]);
    let namesake =
        PodRecord { key: model::PodKey { namespace: text("b"), name: text("w6") }, ..replica("m1", "", "web", 61) };
    observe(&mut state, 64 * 60_000, [Object::Pod(namesake)]);
    assert_eq!(stay(&state, at(64)), [("w2", 1_501)]);
}

#[test]
fn clocks_that_differ_by_seconds_make_no_difference() {
    let mut state = moved();
    let created =
        |millis: i64| PodRecord { created: Some(Timestamp::from_millis(millis)), ..replica("m1", "w2", "web", 0) };
    change_load(&mut state, at(100));
    // The drain begins at 3,600 s and ends at 3,720 s.
    for (millis, is_successor) in [(3_589_000, false), (3_590_000, true), (3_730_000, true), (3_731_000, false)] {
        observe(&mut state, 100 * 60_000, [Object::Pod(created(millis))]);
        assert_eq!(stay(&state, at(100)).len(), usize::from(is_successor), "{millis}");
    }
}

#[test]
fn drains_are_kept_for_the_interval() {
    let mut state = moved();
    drain(&mut state, "m1", at(62) + DAY);
    assert_eq!(state.recent_moves().drains.len(), 2);
    // 10 s later successors of pods of m0 are older than the interval.
    state.recent_moves_mut().end(&text("m1"), at(62) + DAY);
    drain(&mut state, "m1", at(63) + DAY);
    let known: Vec<&str> = state.recent_moves().drains.keys().map(|claim| claim.as_ref()).collect();
    assert_eq!((known, state.recent_moves().by_owner.len()), (vec!["m1"], 2));
}

/// What the next owner of the cluster reads, which observes it first at 90 min.
fn restored(decided: &[(&str, i64)], change: impl FnOnce(&mut ClusterSnapshot)) -> ClusterState {
    let owners = BTreeSet::from([(text("default"), text("ReplicaSet/web"))]);
    let moves = |(claim, minute): &(&str, i64)| DecidedMoves {
        claim: text(claim),
        owners: owners.clone(),
        since: at(*minute),
        load: Some(0),
    };
    let mut shown = moved().to_snapshot();
    change(&mut shown);
    let mut state = ClusterState::default();
    state.restore_moves(decided.iter().map(moves).collect());
    state.apply(Observation::Snapshot(Box::new(shown)), at(90));
    state.note_load();
    state
}

#[test]
fn the_next_owner_knows_the_pods_that_were_moved() {
    let state = restored(&[("m0", 60)], |_| {});
    assert_eq!(stay(&state, at(90)), [("w2", 1_501)], "the load was another one");
    // Its end is unknown, and taken to be an hour later: it would have to begin in minute 1.
    assert_eq!(stay(&restored(&[("m0", 0)], |_| {}), at(90)), []);
    assert_eq!(stay(&restored(&[("m0", 1)], |_| {}), at(90)), [("w2", 1_501)]);
}

#[test]
fn the_next_owner_takes_the_load_for_unchanged_if_it_is_as_it_was_at_the_move() {
    let mut first = cluster();
    let decided = first.moves_of(&text("m0"), at(60));
    first = moved();
    let mut state = ClusterState::default();
    state.restore_moves(vec![decided]);
    state.apply(Observation::Snapshot(Box::new(first.to_snapshot())), at(90));
    state.note_load();
    assert_eq!(stay(&state, at(90)), []);
}

#[test]
fn a_restored_drain_goes_on_if_the_node_is_tainted_and_has_not_begun_otherwise() {
    let not_begun = restored(&[("m1", 60)], |_| {});
    assert_eq!((stay(&not_begun, at(90)).len(), not_begun.recent_moves().drains.len()), (0, 0));
    let taint = Taint { key: text("karpenter.sh/disrupted"), value: text(""), effect: Effect::NoSchedule };
    let drained = restored(&[("m1", 60)], |shown| {
        shown
            .nodes
            .iter_mut()
            .filter(|node| node.name.as_ref() == "n-m1")
            .for_each(|node| node.taints.push(taint.clone()));
    });
    assert_eq!(drained.recent_moves().open, BTreeSet::from([text("m1")]));
}
