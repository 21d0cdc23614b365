//! The gate for removals, seen from outside: what a listing, a Node picture or a hand may take away, and what waits.

use crate::cluster::testing::{claim, node, on, pod, text};
use crate::cluster::{ClaimRecord, Key, NodeRecord, Object, PodRecord};
use crate::control::guardrails::Freeze;
use crate::control::{Event, Inspection, ListedInstance, Listing, Settings};
use crate::model::taints::Effect;
use crate::model::{Taint, Text, Timestamp};

use super::world::{World, snapshot};

/// One running pod on each of `machines`.
fn busy(machines: usize) -> Vec<PodRecord> {
    (0..machines).map(|n| on(&format!("m{n}"), pod(&format!("p{n}"), 500))).collect()
}

fn world(machines: usize, change: impl FnOnce(&mut Settings)) -> World {
    World::with(machines, busy(machines), change)
}

/// The cloud lists the machines of these numbers and no others.
fn list(world: &mut World, second: i64, machines: std::ops::Range<usize>) {
    world.run_to(second * 1_000);
    let instance = |n: usize| ListedInstance {
        provider_id: Text::from(format!("aws:///z/i-m{n}")),
        cluster_uid: text(""),
        claim: Text::from(format!("m{n}")),
        ends: false,
    };
    let asked = Timestamp(second * 1_000);
    let listing = Box::new(Listing { asked, complete: true, instances: machines.map(instance).collect() });
    world.tell(Event::Listed { cluster: text("c"), listing });
}

fn not_ready(world: &mut World, machines: std::ops::Range<usize>) {
    for n in machines {
        world.see("c", Object::Node(NodeRecord { ready: false, ..node(&format!("m{n}")) }));
    }
}

/// The Nodes of these machines are no longer shown; their pods are.
fn lose_nodes(world: &mut World, machines: std::ops::Range<usize>) {
    for n in machines {
        world.lose("c", Key::Node(Text::from(format!("n-m{n}"))));
    }
}

/// Somebody deletes these NodeClaims: each has a deletion timestamp and its finalizer.
fn delete_claims(world: &mut World, machines: std::ops::Range<usize>) {
    for n in machines {
        world.see("c", Object::Claim(ClaimRecord { deleting: true, ..claim(&format!("m{n}")) }));
    }
}

fn freeze(world: &mut World, frozen: bool) {
    let freeze = Freeze {
        id: 1,
        cluster: None,
        pool: None,
        by: text("kim"),
        reason: text("a bad day"),
        since: Timestamp(0),
        until: None,
    };
    world.tell(Event::FreezesChanged { freezes: frozen.then_some(freeze).into_iter().collect() });
}

/// Half of the machines are cut off with their zone, and the cloud lists nothing for ten minutes: it answers for another account.
fn partitioned_while_nothing_is_listed(second_witness: bool) -> World {
    let mut world = world(20, |settings| settings.rails.removal.second_witness = second_witness);
    world.cloud = Inspection::Unknown;
    not_ready(&mut world, 0..10);
    for second in [100, 160, 220, 600] {
        list(&mut world, second, 0..0);
    }
    world
}

#[test]
fn an_empty_listing_removes_no_node_of_a_partitioned_zone() {
    let mut world = partitioned_while_nothing_is_listed(true);
    assert_eq!(world.done.removed.len(), 0, "{:?}", world.done.removed);
    let rails = world.controller.view("c").map(|view| view.rails).unwrap_or_default();
    let told = "the cloud's listing lacks 20 of 20 machines that are known to run: nothing is concluded from it until one shows \
                them, the cloud states of each by its id that it has ended, or `fleetwright removals confirm c`";
    assert_eq!(rails.listing_doubted.as_ref().map(|(reason, _)| reason.as_ref()), Some(told));
    assert_eq!(rails.held_because().as_deref(), Some(told));
    // Ten were asked about at first, and two for each further listing: the cloud is not flooded.
    assert_eq!((world.done.asked.len(), rails.waiting.len()), (16, 16), "each is named with its reason");
    // The right credentials are back: the next listing ends the doubt.
    list(&mut world, 660, 0..20);
    let rails = world.controller.view("c").map(|view| view.rails).unwrap_or_default();
    assert_eq!((rails.listing_doubted, rails.waiting.len(), world.done.removed.len()), (None, 0, 0));
}

#[test]
fn sabotage_without_a_second_witness_the_listing_is_believed() {
    // Ready Nodes too: nothing else speaks for them then.
    assert_eq!(partitioned_while_nothing_is_listed(false).done.removed.len(), 20);
}

#[test]
fn a_person_confirms_what_an_empty_listing_lacks_and_ready_nodes_stay_all_the_same() {
    let mut world = partitioned_while_nothing_is_listed(true);
    world.tell(Event::RemovalsConfirmed { cluster: text("c") });
    list(&mut world, 660, 0..0);
    list(&mut world, 720, 0..0);
    let removed: Vec<&str> = world.done.removed.iter().map(|(_, claim)| claim.as_ref()).collect();
    assert_eq!(removed.len(), 10, "{removed:?}");
    assert!((0..10).all(|n| removed.contains(&format!("m{n}").as_str())), "those that are not ready: {removed:?}");
}

#[test]
fn machines_that_have_ended_indeed_are_cleaned_up_although_a_listing_lacks_most() {
    let mut world = world(20, |_| {});
    world.cloud = Inspection::Ended;
    not_ready(&mut world, 0..20);
    // Ten are asked about for each listing.
    for second in [100, 160, 220] {
        list(&mut world, second, 0..0);
    }
    assert_eq!(world.done.removed.len(), 20);
}

#[test]
fn removals_on_missing_evidence_count_against_the_caps_and_wait_for_freezes() {
    // Four of twenty are missing: fewer than would be doubted.
    let lacks_four = |frozen: bool| {
        let mut world = world(20, |settings| settings.rails.removals.cluster.machines = 2);
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
    let rails = world.controller.view("c").map(|view| view.rails).unwrap_or_default();
    assert!(rails.waiting[0].reason.contains("cluster c may lose no more than 2 machines"), "{:?}", rails.waiting);
    assert_eq!(lacks_four(true).done.removed.len(), 0);
}

/// Six Nodes of twenty are not shown any more, which is too few to doubt the agent; their pods are shown. Then the NodePool is deleted with its NodeClaims.
fn nodes_vanish(keep_vanished: bool) -> World {
    let mut world = world(20, |settings| settings.rails.removal.keep_vanished = keep_vanished);
    world.run_to(10_000);
    lose_nodes(&mut world, 0..6);
    world.lose("c", Key::Pool(text("p")));
    delete_claims(&mut world, 0..6);
    world.run_to(900_000);
    world
}

#[test]
fn a_machine_whose_node_vanished_under_its_pods_is_not_given_back() {
    let mut world = nodes_vanish(true);
    assert_eq!((world.done.given_back.len(), world.done.removed.len()), (0, 0));
    let rails = world.controller.view("c").map(|view| view.rails).unwrap_or_default();
    let why = rails.waiting_because().unwrap_or_default();
    assert!(why.contains("fleetwright removals confirm c"), "{why}");
    // The Nodes are shown again, and are drained like any other.
    for n in 0..6 {
        world.see("c", Object::Node(node(&format!("m{n}"))));
    }
    world.run_to(1_800_000);
    assert_eq!((world.drained().len(), world.done.given_back.len()), (6, 6));
}

#[test]
fn sabotage_without_the_guard_machines_are_given_back_under_their_pods() {
    let world = nodes_vanish(false);
    assert_eq!(world.drained().len(), 0);
    assert!(world.done.given_back.len() >= 3, "{:?}", world.done.given_back);
}

#[test]
fn a_machine_whose_node_vanished_goes_when_the_cloud_states_that_it_has_ended_or_a_person_confirms() {
    let mut ended = world(2, |_| {});
    ended.cloud = Inspection::Ended;
    lose_nodes(&mut ended, 0..1);
    delete_claims(&mut ended, 0..1);
    ended.run_to(60_000);
    assert_eq!((ended.done.given_back.len(), ended.done.removed.len()), (0, 1));

    let mut confirmed = world(2, |_| {});
    lose_nodes(&mut confirmed, 0..1);
    delete_claims(&mut confirmed, 0..1);
    confirmed.run_to(60_000);
    assert_eq!(confirmed.done.given_back.len(), 0);
    confirmed.tell(Event::RemovalsConfirmed { cluster: text("c") });
    confirmed.run_to(80_000);
    assert_eq!(confirmed.done.given_back.len(), 1);
}

/// The NodePool of 30 busy machines is deleted at 10 s, with their NodeClaims.
fn pool_deleted(frozen: bool, percent: usize, stuck: bool) -> World {
    let mut world = world(30, |settings| settings.rails.removal.by_hand_percent = percent);
    world.stuck = stuck.then_some("m");
    freeze(&mut world, frozen);
    world.run_to(10_000);
    world.lose("c", Key::Pool(text("p")));
    delete_claims(&mut world, 0..30);
    world
}

#[test]
fn a_nodepool_that_is_deleted_under_a_freeze_takes_no_node_along_until_a_person_confirms() {
    let mut world = pool_deleted(true, 10, true);
    world.run_to(900_000);
    // Three, 10 % of 30, are what a hand may take at any time: they were shown before the others.
    assert_eq!(world.drained().len(), 3);
    let rails = world.controller.view("c").map(|view| view.rails).unwrap_or_default();
    assert_eq!(rails.waiting.len(), 27);
    let why = rails.waiting_because().unwrap_or_default();
    assert!(why.contains("30 of 30 machines were deleted by hand or with their NodePool within 10 min"), "{why}");
    assert!(why.contains("the fleet is frozen by kim") && why.contains("`fleetwright removals confirm c`"), "{why}");
    world.tell(Event::RemovalsConfirmed { cluster: text("c") });
    world.stuck = None;
    world.let_drains_go();
    world.run_to(2_000_000);
    assert_eq!(world.drained().len(), 30);
}

#[test]
fn nodes_of_a_deleted_nodepool_leave_a_few_at_a_time() {
    let mut world = pool_deleted(false, 10, true);
    world.run_to(100_000);
    // A tenth of 30, as the pool has no budgets of its own.
    assert_eq!(world.drained().len(), 3);
    world.let_drains_go();
    world.run_to(200_000);
    assert!((4..=6).contains(&world.drained().len()), "{:?}", world.drained());
}

#[test]
fn sabotage_without_the_pace_a_deleted_nodepool_takes_all_of_its_nodes_along_at_once() {
    let mut world = pool_deleted(true, 0, true);
    world.run_to(100_000);
    assert_eq!(world.drained().len(), 30);
}

#[test]
fn a_restart_in_between_lets_no_more_go() {
    let mut before = pool_deleted(true, 10, true);
    before.run_to(100_000);
    let going = before.drained();
    // The next process finds NodeClaims that are being deleted, three of whose Nodes have the taint of a drain.
    let mut after = World::new(|_| {});
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
    }
    after.tell(Event::Adopted { cluster: text("c"), uid: text("u"), launches: Vec::new() });
    after.connect("c", shown);
    after.run_to(900_000);
    assert_eq!((going.len(), after.drained().len()), (3, 3));
}

#[test]
fn an_interruption_is_never_held() {
    let mut world = pool_deleted(true, 10, true);
    world.run_to(60_000);
    for n in 10..20 {
        let provider_id = Text::from(format!("aws:///z/i-m{n}"));
        world.tell(Event::Interrupted { cluster: text("c"), provider_id, reason: text("taken back") });
    }
    world.run_to(80_000);
    assert_eq!(world.drained().len(), 13);
}

#[test]
fn few_nodes_that_are_deleted_by_hand_go_at_once_also_under_a_freeze() {
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
