//! Holds: room for pods that do not exist yet is booked, kept, used and given back.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fixture::{Fixture, freeze, real, snapshot};
use crate::holds::{CapacityHold, HOLD, HeldPods, HoldEnd, HoldId, HoldKind, HoldStatus};
use crate::{DecisionReason, Event, RegionEvent, Settings};
use cluster::testing::{bound_to, cpu, labels, pod, text};
use cluster::{ClaimRecord, Object, PodRecord, Target};
use model::{ClaimName, Labels, MicroUsd, NodeName, PodShape, Taint, Timestamp};

/// A hold of `count` pods that request 1,500 millicores each; it ends at ten minutes.
fn hold(id: &str, kind: HoldKind, count: u32) -> CapacityHold {
    let pods = HeldPods {
        name: text("workers"),
        namespace: text("batch"),
        shape: Arc::new(PodShape { requests: cpu(1_500), ..PodShape::default() }),
        labels: Arc::new(Labels::new()),
        count,
    };
    CapacityHold {
        id: HoldId(text(id)),
        kind,
        pods: Ok(vec![pods]),
        expires: Some(Timestamp::from_millis(600_000)),
        max_price: None,
        status: HoldStatus::default(),
    }
}

fn dedicated(count: u32) -> CapacityHold {
    hold("h", HoldKind::Dedicated, count)
}

fn shared(count: u32) -> CapacityHold {
    hold("h", HoldKind::Shared, count)
}

/// The cluster `c` with machines `m0` … and the planner that servers run.
fn world(machines: usize, change: impl FnOnce(&mut Settings)) -> Fixture {
    let mut world = Fixture::planned_by(real, change);
    world.handle(Event::HoldsChanged { read: 1, holds: Vec::new() });
    world.connect("c", snapshot(machines, Vec::new()));
    world
}

fn give(world: &mut Fixture, read: u64, holds: Vec<CapacityHold>) {
    world.handle(Event::HoldsChanged { read, holds });
}

/// Has the hold booked, and gives its machines time to become ready.
fn booked(hold: CapacityHold, machines: usize) -> Fixture {
    let mut world = world(machines, |_| {});
    give(&mut world, 2, vec![hold]);
    let soon = world.now + 20_000;
    world.run_to(soon);
    world
}

fn last(world: &Fixture) -> &HoldStatus {
    &world.done.holds.last().expect("something was written of the hold").1
}

fn launched(world: &Fixture) -> Vec<ClaimName> {
    world.done.launches.iter().map(|(_, order)| order.claim.clone()).collect()
}

fn removed(world: &Fixture) -> Vec<ClaimName> {
    let mut removed: Vec<ClaimName> = world.done.removed.iter().map(|(_, claim)| claim.clone()).collect();
    removed.sort();
    removed
}

fn state(world: &Fixture) -> &cluster::ClusterState {
    world.controller.state(&text("c")).expect("the cluster was connected")
}

/// A pod of the hold: it has the label, and what a dedicated hold requires.
fn pod_of_hold(name: &str, millis: i64) -> PodRecord {
    let mut shape = PodShape { requests: cpu(millis), ..PodShape::default() };
    HoldId(text("h")).confine(&mut shape);
    PodRecord::pending("batch", name, Arc::new(shape), Arc::new(labels(&[(HOLD, "h")])))
}

#[test]
fn a_dedicated_hold_gets_nodes_of_its_own_that_have_its_label_and_taint() {
    // Two pods fit a t.4 at $0.04, one a t.2 at $0.02: three pods cost $0.06.
    let world = booked(dedicated(3), 1);
    let status = last(&world);
    assert!(status.ready && status.message.is_empty() && status.end.is_none(), "{status:?}");
    assert_eq!(status.places.iter().map(|place| place.pods).sum::<u32>(), 3);
    assert_eq!(status.price(), MicroUsd(60_000));
    let decision = world.done.decisions.last().unwrap();
    assert_eq!(decision.reason, DecisionReason::Hold);
    assert_eq!(decision.holds.len(), 1, "places and launches are recorded together");
    let shapes = &decision.basis.as_ref().unwrap().input.shapes;
    let distinct: BTreeSet<&PodShape> = shapes.iter().collect();
    assert_eq!(distinct.len(), shapes.len(), "the log refers to shapes by content");
    assert!(!decision.launches.is_empty());
    for claim in launched(&world) {
        let record = state(&world).claim(&claim).unwrap();
        assert_eq!(record.labels.get(HOLD).map(AsRef::as_ref), Some("h"));
        let taint = Taint { key: text(HOLD), value: text("h"), effect: model::Effect::NoSchedule };
        assert!(record.taints.contains(&taint), "{:?}", record.taints);
    }
}

#[test]
fn other_pods_get_no_room_that_is_held() {
    // The hold has the 2,000 millicores of m0, so the pod needs a machine of its own.
    for hold in [shared(1), dedicated(1)] {
        let mut world = booked(hold.clone(), usize::from(hold.kind == HoldKind::Shared));
        let before = launched(&world).len();
        assert_eq!(before, usize::from(hold.kind == HoldKind::Dedicated));
        world.observe("c", Object::Pod(pod("other", 1_000)));
        let soon = world.now + 5_000;
        world.run_to(soon);
        assert_eq!(launched(&world).len(), before + 1, "{:?}", hold.kind);
    }
}

#[test]
fn a_pod_that_names_the_hold_takes_its_place() {
    // Without the label it would need a machine: see above. With it, the place of the booked pod is its own.
    let mut world = booked(shared(1), 1);
    let shape = pod("mine", 1_500).shape;
    let labelled = PodRecord::pending("batch", "mine", shape, Arc::new(labels(&[(HOLD, "h")])));
    world.observe("c", Object::Pod(labelled));
    let soon = world.now + 5_000;
    world.run_to(soon);
    assert_eq!(launched(&world).len(), 0);
    assert_eq!(state(&world).assignments().iter().count(), 1);
    let mut world = booked(dedicated(1), 0);
    world.observe("c", Object::Pod(pod_of_hold("mine", 1_500)));
    let soon = world.now + 5_000;
    world.run_to(soon);
    assert_eq!(launched(&world).len(), 1, "that of the hold");
    assert_eq!(state(&world).assignments().iter().count(), 1);
}

/// The pod of another namespace that has copied the label, node selector and toleration of the hold.
fn stranger(name: &str, millis: i64) -> PodRecord {
    let PodRecord { shape, labels, .. } = pod_of_hold(name, millis);
    PodRecord::pending("elsewhere", name, shape, labels)
}

fn report(world: &Fixture, namespace: &str, name: &str) -> Vec<String> {
    let key = model::PodKey { namespace: text(namespace), name: text(name) };
    match world.controller.pod_report(&text("c"), &key).expect("the cluster is there").pod {
        crate::pod_report::ReportedPod::Pending { reasons, .. } => reasons.iter().map(ToString::to_string).collect(),
        other => panic!("{name} is not pending: {other:?}"),
    }
}

#[test]
fn a_pod_of_another_namespace_or_with_larger_requests_takes_no_place() {
    for thief in [stranger("thief", 1_500), pod_of_hold("thief", 1_600)] {
        let mut world = booked(dedicated(1), 0);
        world.observe("c", Object::Pod(thief.clone()));
        let soon = world.now + 5_000;
        world.run_to(soon);
        assert_eq!(state(&world).assignments().iter().count(), 0, "{thief:?}");
        assert_eq!(state(&world).open_bookings().iter().map(|(_, left)| left).sum::<u32>(), 1);
        let said = report(&world, &thief.key.namespace, "thief");
        assert!(said.iter().any(|why| why.contains("takes none of its places")), "{said:?}");
        // The holder's pod finds the place.
        world.observe("c", Object::Pod(pod_of_hold("mine", 1_400)));
        let soon = world.now + 5_000;
        world.run_to(soon);
        assert_eq!(state(&world).assignments().iter().count(), 1);
        assert_eq!(launched(&world).len(), 1);
    }
}

#[test]
fn a_hold_gets_other_room_for_what_strangers_take_and_its_pod_is_told_by_whom() {
    let mut world = booked(dedicated(1), 0);
    let first = launched(&world)[0].clone();
    world.no_capacity = true;
    world.observe("c", Object::Pod(bound_to(&first, stranger("thief", 1_500))));
    world.observe("c", Object::Pod(pod_of_hold("mine", 1_500)));
    let soon = world.now + 5_000;
    world.run_to(soon);
    let taken = format!("pod elsewhere/thief on node n-{first} has its room and is not of the hold");
    let said = report(&world, "batch", "mine");
    assert!(said.iter().any(|why| why.contains("hold h") && why.contains(&taken)), "{said:?}");
    let unplaced = world.done.decisions.iter().rev().flat_map(|decision| &decision.unplaced);
    let reasons: Vec<&str> = unplaced.take(1).flat_map(|one| one.reasons.iter()).map(|one| &*one.message).collect();
    assert!(reasons.len() == 1 && reasons[0].contains(&taken), "{reasons:?}");
    let told = world.done.holds.iter().any(|(_, status)| !status.ready && status.message.contains(&taken));
    assert!(told, "{:?}", world.done.holds);
    world.no_capacity = false;
    let soon = world.now + 120_000;
    world.run_to(soon);
    assert!(last(&world).ready, "{:?}", last(&world));
    assert_eq!(state(&world).assignments().iter().count(), 1, "the pod of the holder has a place");
}

#[test]
fn a_pod_that_waits_for_its_place_gets_other_room_when_a_stranger_takes_it() {
    let mut world = booked(dedicated(1), 0);
    let first = launched(&world)[0].clone();
    world.observe("c", Object::Pod(pod_of_hold("mine", 1_500)));
    world.observe("c", Object::Pod(bound_to(&first, stranger("thief", 1_500))));
    let soon = world.now + 120_000;
    world.run_to(soon);
    assert_eq!(launched(&world).len(), 2);
    let second = launched(&world)[1].clone();
    let targets = state(&world).assignments().targets();
    let nodes: Vec<NodeName> = targets.map(|target| state(&world).name_of_target(target)).collect();
    assert_eq!(nodes, [NodeName::from(format!("n-{second}"))]);
}

#[test]
fn a_hold_that_fits_nowhere_fails_and_nothing_is_launched() {
    let mut large = dedicated(2);
    let pods = large.pods.as_mut().unwrap();
    let huge = PodShape { requests: cpu(9_000), ..PodShape::default() };
    pods.push(HeldPods { name: text("huge"), shape: Arc::new(huge), count: 1, ..pods[0].clone() });
    let world = booked(large, 1);
    assert_eq!(last(&world).end, Some(HoldEnd::Failed));
    assert!(last(&world).message.contains("1 of its pods fit nowhere"), "{:?}", last(&world).message);
    assert!(launched(&world).is_empty(), "all of it or nothing");
}

#[test]
fn a_hold_above_its_price_fails_and_one_at_its_price_does_not() {
    let world = booked(CapacityHold { max_price: Some(MicroUsd(59_999)), ..dedicated(3) }, 0);
    assert_eq!(last(&world).end, Some(HoldEnd::Failed));
    assert!(last(&world).message.contains("more than its limit"), "{:?}", last(&world).message);
    assert!(launched(&world).is_empty());
    let world = booked(CapacityHold { max_price: Some(MicroUsd(60_000)), ..dedicated(3) }, 0);
    assert!(last(&world).ready);
}

#[test]
fn a_hold_counts_the_price_of_the_catalogue_in_a_cluster_whose_overlays_say_zero() {
    let free = |limit: i64| {
        let mut shown = snapshot(0, Vec::new());
        let catalogue = Arc::make_mut(&mut shown.pools[0].pool.catalogue);
        for offering in catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            offering.catalogue_price = Some(std::mem::replace(&mut offering.price, MicroUsd(0)));
        }
        let mut world = Fixture::planned_by(real, |_| {});
        let hold = CapacityHold { max_price: Some(MicroUsd(limit)), ..dedicated(1) };
        world.handle(Event::HoldsChanged { read: 1, holds: vec![hold] });
        world.connect("c", shown);
        world.run_to(20_000);
        world
    };
    // One pod fits a t.2 at $0.02 or a t.4 at $0.04, which overlays make equal.
    let world = free(40_000);
    let price = last(&world).price();
    assert!(last(&world).ready && price >= MicroUsd(20_000), "{:?}", last(&world));
    let world = free(price.0 - 1);
    assert_eq!(last(&world).end, Some(HoldEnd::Failed), "{:?}", last(&world));
    assert!(launched(&world).is_empty());
}

#[test]
fn an_uncommitted_hold_ends_in_time_and_its_machines_are_removed() {
    let mut world = booked(dedicated(3), 0);
    let machines = {
        let mut all = launched(&world);
        all.sort();
        all
    };
    world.run_to(599_999);
    assert!(removed(&world).is_empty() && last(&world).ready);
    world.run_to(630_000);
    assert_eq!(last(&world).end, Some(HoldEnd::Expired));
    assert_eq!(removed(&world), machines);
}

#[test]
fn a_committed_hold_lasts_until_it_is_released() {
    let mut world = booked(dedicated(1), 0);
    give(&mut world, 3, vec![CapacityHold { expires: None, ..dedicated(1) }]);
    world.run_to(3_600_000);
    assert!(removed(&world).is_empty() && last(&world).ready);
    assert_eq!(launched(&world).len(), 1, "its room is known, and not bought twice");
    // A released hold is missing from the list.
    give(&mut world, 4, Vec::new());
    world.run_to(3_630_000);
    assert_eq!(removed(&world), launched(&world));
}

#[test]
fn a_machine_of_an_ended_hold_stays_until_its_pods_are_gone() {
    let mut world = booked(dedicated(1), 0);
    let machine = launched(&world)[0].clone();
    let running = bound_to(&machine, pod_of_hold("mine", 1_500));
    world.observe("c", Object::Pod(running.clone()));
    give(&mut world, 3, Vec::new());
    world.run_to(300_000);
    assert!(removed(&world).is_empty(), "a pod of the holder runs on it");
    world.end_pod("c", running);
    world.run_to(330_000);
    assert_eq!(removed(&world), [machine]);
}

#[test]
fn an_agent_that_sees_pods_on_the_machine_of_an_ended_hold_keeps_it() {
    let mut world = booked(dedicated(1), 0);
    world.occupied.insert(launched(&world)[0].clone());
    give(&mut world, 3, Vec::new());
    world.run_to(60_000);
    assert!(!world.done.refused.is_empty() && removed(&world).is_empty());
}

#[test]
fn launches_that_fail_are_planned_again_and_leave_no_machine_when_the_hold_ends() {
    let mut world = world(0, |_| {});
    world.no_capacity = true;
    give(&mut world, 2, vec![dedicated(3)]);
    world.run_to(60_000);
    assert!(!last(&world).ready && last(&world).end.is_none(), "{:?}", last(&world));
    world.no_capacity = false;
    world.never_joins = true;
    world.run_to(590_000);
    assert!(!last(&world).ready);
    world.run_to(660_000);
    assert_eq!(last(&world).end, Some(HoldEnd::Expired));
    assert_eq!(state(&world).claims().count(), 0, "the machines that never joined are gone as well");
}

#[test]
fn a_frozen_cluster_launches_nothing_for_a_hold_until_it_is_thawed() {
    let mut world = world(0, |_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze(Some("c"), None, None)]));
    give(&mut world, 2, vec![dedicated(1)]);
    world.run_to(60_000);
    assert!(launched(&world).is_empty() && last(&world).end.is_none(), "{:?}", last(&world));
    world.handle(RegionEvent::FreezesChanged(Vec::new()));
    world.run_to(120_000);
    assert_eq!(launched(&world).len(), 1);
    assert!(last(&world).ready);
}

#[test]
fn rate_limits_hold_all_machines_of_a_hold_back_or_none() {
    // Three machines at a time, of four.
    let mut world = world(0, |settings| {
        settings.guardrails.launches.cluster.machines = 3;
    });
    give(
        &mut world,
        2,
        vec![{
            let mut large = dedicated(4);
            let shape = PodShape { requests: cpu(3_900), ..PodShape::default() };
            large.pods.as_mut().unwrap()[0].shape = Arc::new(shape);
            large
        }],
    );
    world.run_to(30_000);
    assert!(launched(&world).is_empty(), "{:?}", last(&world));
    assert!(last(&world).message.contains("limit"), "{:?}", last(&world).message);
}

#[test]
fn room_that_kube_scheduler_gives_to_others_is_booked_again() {
    let mut world = booked(shared(1), 1);
    assert!(launched(&world).is_empty(), "it has room on m0");
    assert!(last(&world).ready);
    world.observe("c", Object::Pod(bound_to("m0", pod("other", 1_000))));
    let soon = world.now + 60_000;
    world.run_to(soon);
    assert_eq!(launched(&world).len(), 1);
    let status = last(&world);
    assert!(status.ready, "{status:?}");
    assert_eq!(
        status.places.iter().map(|place| &place.target).collect::<Vec<_>>(),
        [&Target::Claim(launched(&world)[0].clone())]
    );
}

#[test]
fn a_node_with_held_room_is_not_removed_as_empty() {
    let mut world = booked(shared(1), 1);
    world.run_to(590_000);
    assert!(removed(&world).is_empty(), "consolidateAfter is 30 seconds");
    world.run_to(700_000);
    assert_eq!(removed(&world), [ClaimName::from("m0")], "the hold is over");
}

#[test]
fn a_machine_that_is_lost_is_replaced_for_the_hold() {
    let mut world = booked(dedicated(1), 0);
    let first = launched(&world)[0].clone();
    let record = state(&world).claim(&first).unwrap().clone();
    world.observe("c", Object::Claim(ClaimRecord { deleting: true, ..record }));
    let soon = world.now + 60_000;
    world.run_to(soon);
    assert_eq!(launched(&world).len(), 2);
    assert!(last(&world).ready);
}

#[test]
fn the_next_owner_of_the_cluster_keeps_the_room_and_buys_nothing_twice() {
    let world = booked(dedicated(3), 0);
    let status = last(&world).clone();
    let shown = world.with_launched(snapshot(0, Vec::new()));
    let machines = launched(&world).len();
    let mut next = Fixture::planned_by(real, |_| {});
    give(&mut next, 9, vec![CapacityHold { status, ..dedicated(3) }]);
    next.connect("c", shown);
    next.run_to(590_000);
    assert!(launched(&next).is_empty());
    assert!(removed(&next).is_empty(), "its nodes are empty and booked");
    next.run_to(660_000);
    assert_eq!(removed(&next).len(), machines);
}

#[test]
fn an_owner_without_the_places_of_a_hold_does_not_remove_its_machines_as_empty() {
    // The list of holds is not known yet: machines with the label of a hold stay.
    let world = booked(dedicated(1), 0);
    let mut next = Fixture::planned_by(real, |_| {});
    next.connect("c", world.with_launched(snapshot(0, Vec::new())));
    next.run_to(300_000);
    assert!(removed(&next).is_empty());
}

#[test]
fn an_older_list_of_holds_ends_none() {
    let mut world = booked(dedicated(1), 0);
    give(&mut world, 1, Vec::new());
    world.run_to(300_000);
    assert!(removed(&world).is_empty() && last(&world).ready);
}

#[test]
fn a_hold_released_before_its_decision_is_durable_launches_nothing() {
    let mut world = world(0, |_| {});
    world.slow_store = true;
    give(&mut world, 2, vec![dedicated(1)]);
    give(&mut world, 3, Vec::new());
    world.slow_store = false;
    world.record_decisions();
    world.run_to(60_000);
    assert!(launched(&world).is_empty());
    assert_eq!(state(&world).claims().count(), 0);
}

#[test]
fn a_hold_whose_pods_are_unreadable_fails_with_the_reason() {
    let world = booked(CapacityHold { pods: Err(text("its pods are unreadable")), ..dedicated(1) }, 0);
    assert_eq!(last(&world).end, Some(HoldEnd::Failed));
    assert_eq!(&*last(&world).message, "its pods are unreadable");
}

#[test]
fn shadow_mode_books_nothing() {
    let mut world = world(0, |settings| settings.guardrails.mode = crate::guardrails::Mode::Shadow);
    give(&mut world, 2, vec![dedicated(1)]);
    world.run_to(60_000);
    assert!(launched(&world).is_empty());
    assert!(last(&world).message.contains("shadow"), "{:?}", last(&world).message);
}
