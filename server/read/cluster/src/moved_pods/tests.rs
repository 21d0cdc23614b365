use super::*;
use crate::testing::{bound_to, initialized_cluster, key, observe, pod, pool, text};
use crate::{ClusterSnapshot, Key, Object, Observation, PodRecord};
use model::Taint;
use model::drain::RecordedDrain;
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
    let moves = state.moves_of(&text(claim), None, now);
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

/// Names of the pods of `m1` that stay at this time, and until which minute.
fn stay(state: &ClusterState, now: Timestamp) -> Vec<(&str, i64)> {
    let node = text("n-m1");
    let moved: Vec<(&PodRecord, Timestamp)> = state.moved_pods_on(&node, DAY, now).collect();
    moved.into_iter().map(|(pod, until)| (pod.key.name.as_ref(), until.as_millis() / 60_000)).collect()
}

#[test]
fn the_successor_of_an_evicted_pod_stays_for_the_interval() {
    let state = moved();
    // Created in minute 61, and 24 h are 1,440 min.
    assert_eq!(stay(&state, at(63)), [("w2", 1_501)]);
    assert_eq!(stay(&state, at(1_500)), [("w2", 1_501)]);
    assert_eq!(stay(&state, at(1_501)), []);
}

#[test]
fn without_an_interval_no_pod_stays() {
    assert_eq!(moved().moved_pods_on(&text("n-m1"), Millis::ZERO, at(61)).count(), 0);
}

#[test]
fn a_node_is_held_until_all_its_moved_pods_may_move_again() {
    let mut state = moved();
    observe(&mut state, 62 * 60_000, [Object::Pod(replica("m1", "w3", "web", 62))]);
    let held = state.recent_move_to(&text("n-m1"), DAY, at(63)).map(|moved| (moved.pod.name, moved.until));
    assert_eq!(held, Some((text("w3"), at(1_502))));
    assert_eq!(state.recent_move_to(&text("n-m1"), DAY, at(1_502)), None);
}

#[test]
fn pods_that_end_with_their_node_are_not_taken_for_moved() {
    let mut state = moved();
    let daemon = PodRecord { daemon: Some(text("web")), ..replica("m1", "d1", "web", 61) };
    let terminating = PodRecord { terminating: true, ..replica("m1", "w2", "web", 61) };
    observe(&mut state, 64 * 60_000, [daemon, terminating].map(Object::Pod));
    assert_eq!(stay(&state, at(64)), []);
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
        moved_by: BTreeMap::new(),
        since: at(*minute),
    };
    let mut shown = moved().to_snapshot();
    change(&mut shown);
    let mut state = ClusterState::default();
    state.restore_moves(decided.iter().map(moves).collect());
    state.apply(Observation::Snapshot(Box::new(shown)), at(90));
    state
}

#[test]
fn the_next_owner_knows_the_pods_that_were_moved() {
    let state = restored(&[("m0", 60)], |_| {});
    assert_eq!(stay(&state, at(90)), [("w2", 1_501)]);
    // Its end is unknown, and taken to be an hour later: it would have to begin in minute 1.
    assert_eq!(stay(&restored(&[("m0", 0)], |_| {}), at(90)), []);
    assert_eq!(stay(&restored(&[("m0", 1)], |_| {}), at(90)), [("w2", 1_501)]);
}

#[test]
fn a_restored_drain_goes_on_if_the_node_records_it_and_has_not_begun_otherwise() {
    let not_begun = restored(&[("m1", 60)], |_| {});
    assert_eq!((stay(&not_begun, at(90)).len(), not_begun.recent_moves().drains.len()), (0, 0));
    let taint = Taint { key: text("karpenter.sh/disrupted"), value: text(""), effect: Effect::NoSchedule };
    let with = |drain: Option<RecordedDrain>| {
        restored(&[("m1", 60)], |shown| {
            for node in shown.nodes.iter_mut().filter(|node| node.name.as_ref() == "n-m1") {
                node.taints.push(taint.clone());
                node.drain = drain.clone();
            }
        })
    };
    let drained = with(Some(RecordedDrain { claim: text("m1"), ..RecordedDrain::default() }));
    assert_eq!(drained.recent_moves().open, BTreeSet::from([text("m1")]));
    assert_eq!(with(None).recent_moves().open, BTreeSet::new(), "anybody may set the taint");
}

fn decision(number: u64, minute: i64) -> SavingDecision {
    SavingDecision { number, at: at(minute) }
}

/// `m0` is drained by decision 5 from 60 to 62 min, and decided at 59 min.
fn saved() -> ClusterState {
    let mut state = cluster();
    let moves = state.moves_of(&text("m0"), Some(decision(5, 59)), at(60));
    state.record_moves(moves, Millis::ZERO, at(60));
    remove(&mut state, Key::Pod(key("w0")), at(61));
    observe(&mut state, 61 * 60_000, [Object::Pod(replica("m1", "w2", "web", 61))]);
    remove(&mut state, Key::Claim(text("m0")), at(62));
    state
}

/// Number of the decision that has moved this pod, and which part.
fn moved_by(state: &ClusterState, pod: &str, now: Timestamp) -> Option<(u64, u32)> {
    state.part_moved(state.pod(&key(pod))?, now).map(|part| (part.saving.number, part.ppm))
}

#[test]
fn the_decision_that_has_moved_a_pod_is_known_for_a_day() {
    let state = saved();
    assert_eq!(moved_by(&state, "w2", at(63)), Some((5, WHOLE)));
    assert_eq!(moved_by(&state, "w1", at(63)), None, "it was there before");
    // 59 min and a day.
    assert_eq!(moved_by(&state, "w2", at(1_498)), Some((5, WHOLE)));
    assert_eq!(moved_by(&state, "w2", at(1_499)), None);
    // Drains are kept for a day, without an interval in which no pod moves again too.
    let mut later = saved();
    let moves = later.moves_of(&text("m1"), None, at(1_400));
    later.record_moves(moves, Millis::ZERO, at(1_400));
    assert_eq!(moved_by(&later, "w2", at(1_400)), Some((5, WHOLE)));
}

#[test]
fn a_moved_pod_that_is_drained_for_another_reason_is_still_moved_by_the_decision() {
    let mut state = saved();
    // On m1 are w1 and w2 of web, of which decision 5 has moved one.
    let moves = state.moved_again_by_drain_of(&text("m1"), at(100));
    let owner = (text("default"), text("ReplicaSet/web"));
    assert_eq!(moves.moved_by, BTreeMap::from([(owner, MovedPart { saving: decision(5, 59), ppm: WHOLE / 2 })]));
    assert_eq!(moves.owners, BTreeSet::new());
    state.record_moves(moves, Millis::ZERO, at(100));
    let successors =
        [replica("m1", "w8", "web", 101), replica("m1", "w9", "web", 101), replica("m1", "a9", "api", 101)];
    observe(&mut state, 101 * 60_000, successors.map(Object::Pod));
    assert_eq!(moved_by(&state, "w8", at(102)), Some((5, WHOLE / 2)));
    assert_eq!(moved_by(&state, "w9", at(102)), Some((5, WHOLE / 2)));
    assert_eq!(moved_by(&state, "a9", at(102)), None);
    // Consolidation moved w2 alone.
    assert_eq!(stay(&state, at(102)), [("w2", 1_501)]);
}

#[test]
fn a_pod_that_consolidation_moves_again_is_moved_by_the_later_decision() {
    let mut state = saved();
    let moves = state.moves_of(&text("m1"), Some(decision(6, 100)), at(100));
    state.record_moves(moves, Millis::ZERO, at(100));
    observe(&mut state, 101 * 60_000, [Object::Pod(replica("m1", "w8", "web", 101))]);
    assert_eq!(moved_by(&state, "w8", at(102)), Some((6, WHOLE)));
}
