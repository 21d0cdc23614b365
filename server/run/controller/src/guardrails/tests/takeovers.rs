//! A process that takes a cluster over continues the replacements of its predecessor.
//!
//! A NodePool of t.2 and t.4 with an on-demand t.4, `m0`, whose pod fits a t.2. Its consolidation is planned at 30 s and
//! launches a t.2. A pass runs every 10 s; `consolidateAfter` is 30 s.

use super::fixture::{Fixture, real};
use super::{consolidation, drift};
use crate::Event;
use crate::guardrails::DisabledGuards;
use cluster::replacement::{RecordedReplacement, ReplacementWait, ReplacementsRead};
use cluster::testing::{key, pool, text};
use cluster::{ClusterSnapshot, Replacement, Target};
use model::disruption_policy::DisruptionReason;
use model::{ClaimName, Millis, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn drained(world: &Fixture) -> Vec<(i64, &str)> {
    world.done.drained.iter().map(|(at, claim)| (at.as_millis() / 1_000, claim.as_ref())).collect()
}

/// The process that consolidates `m0`, until 40 s: the new machine has joined and is not ready.
fn first_owner() -> Fixture {
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.never_ready = true;
    world.connect("c", consolidation::dear());
    world.run_to(40_000);
    assert_eq!((world.done.launches.len(), drained(&world)), (1, vec![]));
    world
}

fn recorded(world: &Fixture) -> Vec<RecordedReplacement> {
    world.done.decisions.iter().flat_map(|decision| decision.replacements.clone()).collect()
}

/// The process that takes over at `seconds` with these records and sees `shown`.
fn next_owner(mut world: Fixture, seconds: i64, read: ReplacementsRead, shown: ClusterSnapshot) -> Fixture {
    world.now = seconds * 1_000;
    world.handle(Event::ReplacementsLoaded(Box::new(read)));
    world.handle(Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() });
    world.connect("c", shown);
    world
}

/// The new machine is initialized when the next process takes over, at 50 s, with the records or without them.
fn taken_over(with_records: bool) -> (Fixture, ClaimName) {
    let before = first_owner();
    let replacements = if with_records { recorded(&before) } else { Vec::new() };
    let read = ReplacementsRead { replacements, ..ReplacementsRead::default() };
    let after = Fixture::consolidating(DisabledGuards::default(), |_| {});
    let after = next_owner(after, 50, read, before.with_launched(consolidation::dear()));
    (after, before.done.launches[0].1.claim.clone())
}

#[test]
fn the_decision_that_launches_for_a_replacement_records_it_once() {
    let world = first_owner();
    let new = world.done.launches[0].1.claim.clone();
    let begun = Replacement { reason: DisruptionReason::Underutilized, since: at(30), moves_pods: true };
    let places = vec![(key("p0"), Target::Claim(new))];
    let expected = RecordedReplacement { claim: text("m0"), pool: text("p"), begun, places };
    assert_eq!(recorded(&world), [expected]);
    assert_eq!(world.done.ended_replacements, [], "it is under way");
}

#[test]
fn the_next_owner_removes_the_replaced_machine_and_keeps_its_fresh_replacement() {
    let (mut world, new) = taken_over(true);
    world.run_to(65_000);
    assert_eq!((world.done.launches.len(), drained(&world)), (0, vec![(50, "m0")]));
    let ended: Vec<_> = world.done.ended_replacements.iter().map(|(at, claims, _)| (*at, claims.clone())).collect();
    assert_eq!(ended, [(at(50), vec![text("m0")])], "with its NodeClaim");
    assert!(!world.drained().contains(&new));
}

#[test]
fn sabotage_without_records_the_fresh_replacement_is_removed_as_an_empty_node() {
    let (mut world, new) = taken_over(false);
    world.run_to(90_000);
    // Both have had no pod event for 30 s at 80 s, and the empty one goes first.
    assert!(world.drained().contains(&new), "{:?}", drained(&world));
}

#[test]
fn the_timeout_goes_on_and_the_pool_waits_after_it() {
    let before = first_owner();
    let mut shown = before.with_launched(consolidation::dear());
    let ready = shown.nodes.len() - 1;
    shown.nodes[ready].labels.remove(model::labels::INITIALIZED);
    shown.nodes[ready].ready = false;
    let read = ReplacementsRead { replacements: recorded(&before), ..ReplacementsRead::default() };
    let after = Fixture::consolidating(DisabledGuards::default(), |_| {});
    let mut world = next_owner(after, 400, read, shown);
    // It began at 30 s and has ten minutes.
    world.run_to(629_000);
    assert_eq!(world.done.ended_replacements, []);
    world.run_to(631_000);
    let wait = ReplacementWait { wait: Millis::from_mins(1), until: at(690) };
    assert_eq!(world.done.ended_replacements, [(at(630), vec![text("m0")], vec![(text("p"), Some(wait))])]);
    assert_eq!((world.done.launches.len(), drained(&world)), (0, vec![]));
}

/// When the drifted `m0` is replaced after a takeover at 0 s, in seconds.
fn replaced_at(read: ReplacementsRead) -> Vec<i64> {
    let mut world = next_owner(Fixture::planned_by(real, |_| {}), 0, read, drift::cluster(1, pool()));
    world.run_to(600_000);
    world.done.launches.iter().map(|(at, _)| at.as_millis() / 1_000).take(1).collect()
}

#[test]
fn a_pool_waits_on_after_a_takeover() {
    let wait = ReplacementWait { wait: Millis::from_mins(8), until: at(300) };
    let waits = vec![(text("p"), wait)];
    // The wait ends with a pass, and a batch window closes a second later.
    assert_eq!(replaced_at(ReplacementsRead { waits, ..ReplacementsRead::default() }), [301]);
    assert_eq!(replaced_at(ReplacementsRead::default()), [1], "without the record");
}

#[test]
fn the_record_of_a_machine_that_is_gone_is_deleted() {
    let gone = RecordedReplacement { claim: text("gone"), ..recorded(&first_owner()).remove(0) };
    let read = ReplacementsRead { replacements: vec![gone], ..ReplacementsRead::default() };
    let world = next_owner(Fixture::planned_by(real, |_| {}), 0, read, consolidation::dear());
    let ended: Vec<_> = world.done.ended_replacements.iter().map(|(_, claims, _)| claims.clone()).collect();
    assert_eq!(ended, [vec![text::<ClaimName>("gone")]]);
    assert!(world.controller.state(&text("c")).is_some_and(|state| state.replacements().is_empty()));
}

/// A decision that is not durable may still begin the replacement in the store after its end.
#[test]
fn a_record_is_deleted_when_the_decision_that_wrote_it_is_durable() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.slow_store = true;
    world.connect("c", drift::cluster(1, pool()));
    world.run_to(5_000);
    // The cause ends: the machine is of the present template.
    let mut kept = drift::cluster(1, pool());
    kept.claims[0].drift.own_hash = Some((text("new"), text("1")));
    world.send_snapshot("c", kept);
    world.run_to(60_000);
    assert_eq!((recorded(&world).len(), world.done.ended_replacements.len()), (1, 0));
    world.slow_store = false;
    world.record_decisions();
    assert_eq!(world.done.ended_replacements.len(), 1);
}

#[test]
fn records_are_written_and_deleted_and_nothing_else_per_replacement() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", drift::cluster(1, pool()));
    world.run_to(9_000);
    let wakeups_later = recorded(&world).len();
    world.run_to(300_000);
    assert_eq!((wakeups_later, recorded(&world).len(), world.done.ended_replacements.len()), (1, 1, 1));
    assert!(
        matches!(world.done.ended_replacements[0], (_, ref claims, ref waits) if claims.len() == 1 && waits.is_empty())
    );
}
