//! Removal gate, tested through events: what a listing, a snapshot or a manual deletion may remove,
//! and what waits.

use crate::guardrails::Freeze;
use crate::{Event, Inspection, ListedInstance, Listing, RegionEvent, Settings};
use cluster::testing::{bound_to, claim, node, pod, text};
use cluster::{ClaimRecord, Key, NodeRecord, Object, PodRecord};
use model::drain::RecordedDrain;
use model::interruption::InterruptionKind::SpotInterrupted;
use model::taints::Effect;
use model::{ClaimName, NodeName, ProviderId, Taint, Timestamp};

use super::fixture::{Fixture, snapshot};

/// One running pod on each of `machines`.
fn busy(machines: usize) -> Vec<PodRecord> {
    (0..machines).map(|n| bound_to(&format!("m{n}"), pod(&format!("p{n}"), 500))).collect()
}

fn world(machines: usize, change: impl FnOnce(&mut Settings)) -> Fixture {
    Fixture::with(machines, busy(machines), change)
}

/// The cloud lists the machines of these numbers and no others.
fn list(world: &mut Fixture, second: i64, machines: std::ops::Range<usize>) {
    world.run_to(second * 1_000);
    let instance = |n: usize| ListedInstance {
        provider_id: ProviderId::from(format!("aws:///z/i-m{n}")),
        cluster_uid: text(""),
        claim: ClaimName::from(format!("m{n}")),
        terminating: false,
        details: std::sync::Arc::default(),
    };
    let asked = Timestamp::from_millis(second * 1_000);
    let listing =
        Box::new(Listing { requested_at: asked, complete: true, instances: machines.map(instance).collect() });
    world.handle(Event::Listed(listing));
}

fn not_ready(world: &mut Fixture, machines: std::ops::Range<usize>) {
    for n in machines {
        world.observe("c", Object::Node(NodeRecord { ready: false, ..node(&format!("m{n}")) }));
    }
}

/// The Nodes of these machines are no longer reported; their pods are.
fn lose_nodes(world: &mut Fixture, machines: std::ops::Range<usize>) {
    for n in machines {
        world.delete("c", Key::Node(NodeName::from(format!("n-m{n}"))));
    }
}

/// These NodeClaims are deleted by hand: each has a deletion timestamp and its finalizer.
fn delete_claims(world: &mut Fixture, machines: std::ops::Range<usize>) {
    for n in machines {
        world.observe("c", Object::Claim(ClaimRecord { deleting: true, ..claim(&format!("m{n}")) }));
    }
}

fn freeze(world: &mut Fixture, frozen: bool) {
    let freeze = Freeze {
        id: 1,
        cluster: None,
        pool: None,
        only_disruption: false,
        by: text("kim"),
        reason: text("a bad day"),
        since: Timestamp::from_millis(0),
        until: None,
    };
    world.handle(RegionEvent::FreezesChanged(frozen.then_some(freeze).into_iter().collect()));
}

/// Half of the machines are partitioned with their zone, and the cloud lists nothing for ten
/// minutes: it answers for another account. A query by id finds this.
fn partitioned_while_nothing_is_listed(found: Inspection) -> Fixture {
    let mut world = world(20, |_| {});
    world.cloud = found;
    not_ready(&mut world, 0..10);
    for second in [100, 160, 220, 600] {
        list(&mut world, second, 0..0);
    }
    world
}

#[test]
fn an_empty_listing_removes_no_node_of_a_partitioned_zone() {
    let mut world = partitioned_while_nothing_is_listed(Inspection::Unknown);
    assert_eq!(world.done.removed.len(), 0, "{:?}", world.done.removed);
    let guardrails = world.controller.view(&text("c")).map(|view| view.guardrails).unwrap_or_default();
    let expected = "the cloud's listing lacks 20 of 20 instances known to run: listings are ignored until one contains them, the \
                cloud states for each id that it has ended, or an operator runs `fleetwright removals confirm c`";
    assert_eq!(guardrails.untrusted_listing.as_ref().map(|(reason, _)| reason.as_ref()), Some(expected));
    assert_eq!(guardrails.held_reason().as_deref(), Some(expected));
    // Ten were queried at first, and two for each further listing: the cloud is not flooded.
    assert_eq!(
        (world.done.inspected.len(), guardrails.waiting_removals.len()),
        (16, 16),
        "each is named with its reason"
    );
    // The right credentials are back: the next listing ends the suspicion.
    list(&mut world, 660, 0..20);
    let guardrails = world.controller.view(&text("c")).map(|view| view.guardrails).unwrap_or_default();
    assert_eq!(
        (guardrails.untrusted_listing, guardrails.waiting_removals.len(), world.done.removed.len()),
        (None, 0, 0)
    );
}

#[test]
fn sabotage_without_a_second_source_the_nodes_of_the_partitioned_zone_are_removed() {
    // The answers by id repeat the listing. Only their Nodes keep the ten ready machines.
    assert_eq!(partitioned_while_nothing_is_listed(Inspection::Ended).done.removed.len(), 10);
}

#[test]
fn confirmed_removals_of_an_empty_listing_still_keep_ready_nodes() {
    let mut world = partitioned_while_nothing_is_listed(Inspection::Unknown);
    world.handle(Event::RemovalsConfirmed);
    list(&mut world, 660, 0..0);
    list(&mut world, 720, 0..0);
    let removed: Vec<&str> = world.done.removed.iter().map(|(_, claim)| claim.as_ref()).collect();
    assert_eq!(removed.len(), 10, "{removed:?}");
    assert!((0..10).all(|n| removed.contains(&format!("m{n}").as_str())), "those that are not ready: {removed:?}");
}

#[test]
fn machines_that_have_ended_are_cleaned_up_although_a_listing_lacks_most() {
    let mut world = world(20, |_| {});
    world.cloud = Inspection::Ended;
    not_ready(&mut world, 0..20);
    // Ten are queried after each listing.
    for second in [100, 160, 220] {
        list(&mut world, second, 0..0);
    }
    assert_eq!(world.done.removed.len(), 20);
}

#[test]
fn removals_on_missing_evidence_count_against_rate_limits_and_wait_for_freezes() {
    // Four of twenty are missing: fewer than would be suspicious.
    let lacks_four = |frozen: bool| {
        let mut world = world(20, |settings| settings.guardrails.removals.cluster.machines = 2);
        world.cloud = Inspection::Unknown;
        freeze(&mut world, frozen);
        not_ready(&mut world, 0..4);
        for second in [100, 160, 220] {
            list(&mut world, second, 4..20);
        }
        world
    };
    let world = lacks_four(false);
    assert_eq!(world.done.removed.len(), 2);
    let guardrails = world.controller.view(&text("c")).map(|view| view.guardrails).unwrap_or_default();
    assert!(
        guardrails.waiting_removals[0].reason.contains("cluster c may lose no more than 2 machines"),
        "{:?}",
        guardrails.waiting_removals
    );
    assert_eq!(lacks_four(true).done.removed.len(), 0);
}

/// Six Nodes of twenty are not reported any more, too few for a quarantine; their pods are
/// reported. Then the NodePool is deleted with its NodeClaims.
pub(super) fn nodes_vanish() -> Fixture {
    let mut world = world(20, |_| {});
    world.run_to(10_000);
    lose_nodes(&mut world, 0..6);
    world.delete("c", Key::Pool(text("p")));
    delete_claims(&mut world, 0..6);
    world.run_to(900_000);
    world
}

#[test]
fn a_machine_whose_node_vanished_under_its_pods_is_not_terminated() {
    let mut world = nodes_vanish();
    assert_eq!((world.done.terminated.len(), world.done.removed.len()), (0, 0));
    let guardrails = world.controller.view(&text("c")).map(|view| view.guardrails).unwrap_or_default();
    let why = guardrails.waiting_because().unwrap_or_default();
    assert!(why.contains("fleetwright removals confirm c"), "{why}");
    // The Nodes are reported again, and are drained like any other.
    for n in 0..6 {
        world.observe("c", Object::Node(node(&format!("m{n}"))));
    }
    world.run_to(1_800_000);
    assert_eq!((world.drained().len(), world.done.terminated.len()), (6, 6));
}

#[test]
fn sabotage_when_an_operator_overrules_the_guard_machines_are_terminated_under_their_pods() {
    let mut world = nodes_vanish();
    world.handle(Event::RemovalsConfirmed);
    world.run_to(1_800_000);
    assert_eq!(world.drained().len(), 0);
    assert!(world.done.terminated.len() >= 3, "{:?}", world.done.terminated);
}

#[test]
fn a_machine_whose_node_vanished_is_removed_once_it_has_ended_or_an_operator_confirms() {
    let mut ended = world(2, |_| {});
    ended.cloud = Inspection::Ended;
    lose_nodes(&mut ended, 0..1);
    delete_claims(&mut ended, 0..1);
    ended.run_to(60_000);
    assert_eq!((ended.done.terminated.len(), ended.done.removed.len()), (0, 1));

    let mut confirmed = world(2, |_| {});
    lose_nodes(&mut confirmed, 0..1);
    delete_claims(&mut confirmed, 0..1);
    confirmed.run_to(60_000);
    assert_eq!(confirmed.done.terminated.len(), 0);
    confirmed.handle(Event::RemovalsConfirmed);
    confirmed.run_to(80_000);
    assert_eq!(confirmed.done.terminated.len(), 1);
}

/// The NodePool of 30 busy machines is deleted at 10 s, with their NodeClaims.
fn pool_deleted(frozen: bool, percent: usize, stuck: bool) -> Fixture {
    let mut world = world(30, |settings| settings.guardrails.removal.by_hand_percent = percent);
    world.stuck = stuck.then_some("m");
    freeze(&mut world, frozen);
    world.run_to(10_000);
    world.delete("c", Key::Pool(text("p")));
    delete_claims(&mut world, 0..30);
    world
}

#[test]
fn a_nodepool_deleted_under_a_freeze_removes_no_node_until_an_operator_confirms() {
    let mut world = pool_deleted(true, 10, true);
    world.run_to(900_000);
    // Three, 10 % of 30, may be deleted by hand at any time: they were reported before the others.
    assert_eq!(world.drained().len(), 3);
    let guardrails = world.controller.view(&text("c")).map(|view| view.guardrails).unwrap_or_default();
    assert_eq!(guardrails.waiting_removals.len(), 27);
    let why = guardrails.waiting_because().unwrap_or_default();
    assert!(why.contains("30 of 30 machines were deleted by hand or with their NodePool within 10 min"), "{why}");
    assert!(why.contains("the fleet is frozen by kim") && why.contains("`fleetwright removals confirm c`"), "{why}");
    world.handle(Event::RemovalsConfirmed);
    world.stuck = None;
    world.finish_drains();
    world.run_to(2_000_000);
    assert_eq!(world.drained().len(), 30);
}

#[test]
fn nodes_of_a_deleted_nodepool_are_drained_a_few_at_a_time() {
    let mut world = pool_deleted(false, 10, true);
    world.run_to(100_000);
    // A tenth of 30, as the pool has no budgets of its own.
    assert_eq!(world.drained().len(), 3);
    world.finish_drains();
    world.run_to(200_000);
    assert!((4..=6).contains(&world.drained().len()), "{:?}", world.drained());
}

#[test]
fn sabotage_without_the_budget_a_deleted_nodepool_removes_all_its_nodes_at_once() {
    let mut world = pool_deleted(true, 100, true);
    world.run_to(100_000);
    assert_eq!(world.drained().len(), 30);
}

#[test]
fn a_restart_in_between_admits_no_further_removals() {
    let mut before = pool_deleted(true, 10, true);
    before.run_to(100_000);
    let going = before.drained();
    // The next process finds NodeClaims that are being deleted, three of whose Nodes have the taint of a drain.
    let mut after = Fixture::new(|_| {});
    after.stuck = Some("m");
    freeze(&mut after, true);
    let mut shown = snapshot(30, busy(30));
    shown.pools.clear();
    for record in &mut shown.claims {
        record.deleting = true;
    }
    let disrupted = Taint { key: text("karpenter.sh/disrupted"), value: text(""), effect: Effect::NoSchedule };
    for record in shown.nodes.iter_mut().take(3) {
        record.taints.push(disrupted.clone());
        let claim = text(record.name.trim_start_matches("n-"));
        record.drain = Some(RecordedDrain { claim, ..RecordedDrain::default() });
    }
    after.handle(Event::LeaseAcquired { uid: text("u"), launches: Vec::new() });
    after.connect("c", shown);
    after.run_to(900_000);
    assert_eq!((going.len(), after.drained().len()), (3, 3));
}

#[test]
fn an_interruption_is_never_held() {
    let mut world = pool_deleted(true, 10, true);
    world.run_to(60_000);
    for n in 10..20 {
        let provider_id = ProviderId::from(format!("aws:///z/i-m{n}"));
        world.handle(Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None });
    }
    world.run_to(80_000);
    assert_eq!(world.drained().len(), 13);
}

#[test]
fn few_nodes_deleted_by_hand_are_removed_at_once_also_under_a_freeze() {
    let mut world = world(30, |_| {});
    freeze(&mut world, true);
    world.run_to(10_000);
    delete_claims(&mut world, 5..8);
    world.run_to(60_000);
    assert_eq!(world.drained().len(), 3);
    // Ten minutes later as many again.
    world.run_to(640_000);
    delete_claims(&mut world, 8..11);
    world.run_to(700_000);
    assert_eq!(world.drained().len(), 6);
}
