//! Machines drift from what their EC2NodeClass selects in the account now.
//!
//! The cluster: `m0`, `m1`, … of type t.2 with image `ami-1` in `subnet-1`, a group `sg-1`, and a pod of 1.8 cores each,
//! so that each pod needs a machine of its own. A pass runs every 10 s, and a batch window closes a second after it.

use std::sync::Arc;

use super::fixture::{Fixture, real, snapshot};
use crate::guardrails::{DisabledGuards, Guard};
use crate::{ClassFacts, Event, ListedInstance, Listing};
use cluster::testing::{bound_to, claim, pod, pool_with, text};
use cluster::{ClassRecord, ClusterSnapshot};
use model::disruption_policy::BudgetLimit;
use model::node_class::{ImageEntry, NodeClassStatus, Resolution, ResolvedNodeClass, SecurityGroupEntry, SubnetEntry};
use model::{InstanceDetails, Requirements, Text, Timestamp, Zone};

const KINDS: [&str; 4] = ["AMIsReady", "CapacityReservationsReady", "SecurityGroupsReady", "SubnetsReady"];

fn selecting(image: &str, group: &str, subnet: &str) -> NodeClassStatus {
    let image =
        ImageEntry { id: text(image), name: Text::default(), deprecated: false, requirements: Requirements::new() };
    NodeClassStatus {
        images: Some(vec![image]),
        security_groups: Some(vec![SecurityGroupEntry { id: text(group), name: Text::default() }]),
        subnets: Some(vec![SubnetEntry { id: text(subnet), zone: Zone::from("z"), zone_id: None }]),
        reservations: Some(Vec::new()),
        instance_profile: Some(text("nodes")),
    }
}

/// What the machines were launched with.
fn first() -> NodeClassStatus {
    selecting("ami-1", "sg-1", "subnet-1")
}

fn cluster(machines: usize, status: NodeClassStatus) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let mut shown = snapshot(machines, (0..machines).map(bound).collect());
    shown.claims.iter_mut().for_each(|claim| claim.drift.image = text("ami-1"));
    let class = ClassRecord {
        name: text("default"),
        uid: text("u-1"),
        generation: 1,
        deleting: false,
        has_finalizer: true,
        invalid: None,
        spec: Some(Arc::default()),
        status: Arc::new(status),
        hash: None,
    };
    ClusterSnapshot { pools: vec![pool_with(BudgetLimit::Nodes(1))], classes: vec![class], ..shown }
}

fn world_of(disabled: DisabledGuards, shown: ClusterSnapshot) -> Fixture {
    let resolved = |settings: &mut crate::Settings| settings.class_facts = ClassFacts::Resolved;
    let mut world = Fixture::with_disabled_guards(real, disabled, resolved);
    world.connect("c", shown);
    world
}

fn world(machines: usize) -> Fixture {
    world_of(DisabledGuards::default(), cluster(machines, first()))
}

/// The cloud lists `m0`, … with these details. The listing was requested now.
fn list(world: &mut Fixture, machines: usize, subnet: &str, groups: &[&str]) {
    let details = Arc::new(InstanceDetails {
        image: text("ami-1"),
        subnet: text(subnet),
        security_groups: groups.iter().map(|group| text(group)).collect(),
        reservation: None,
    });
    let instance = |number: usize| {
        let claim = claim(&format!("m{number}"));
        ListedInstance {
            provider_id: claim.provider_id,
            cluster_uid: Text::default(),
            claim: claim.name,
            terminating: false,
            details: Arc::clone(&details),
        }
    };
    let (requested_at, instances) = (Timestamp::from_millis(world.now), (0..machines).map(instance).collect());
    let listing = Box::new(Listing { requested_at, complete: true, instances });
    world.handle(Event::Listed(listing));
}

/// The answer to the last request, with `status` found at `found_at` for `kinds`. The lookup of all others failed.
fn answer(world: &mut Fixture, status: NodeClassStatus, kinds: &[&'static str], found_at: i64) {
    let query = world.done.node_class_queries.last().cloned().unwrap();
    let failed = || Resolution::Unknown { reason: text("RequestLimitExceeded"), message: text("slow down") };
    let condition = |kind: &'static str| (kind, if kinds.contains(&kind) { Resolution::Met } else { failed() });
    let resolved = Box::new(ResolvedNodeClass {
        status,
        conditions: KINDS.map(condition).into(),
        found_at: kinds.iter().map(|kind| (*kind, Timestamp::from_millis(found_at))).collect(),
        service_cidr: None,
    });
    world.handle(Event::NodeClassResolved { query: Box::new(query), resolved });
}

/// Lets time pass, with a listing at 5 s and a lookup of `status` at 6 s, and so every 10 s. The pod of a drained machine ends, and its successor
/// is bound to the machine of the launch with the same number.
fn roll_to(world: &mut Fixture, end: i64, machines: usize, status: &NodeClassStatus) {
    let mut moved = world.done.drained.len();
    while world.now < end {
        world.run_to(world.now + 1_000);
        moved = world.move_drained_pods(moved);
        match world.now % 10_000 {
            5_000 => list(world, machines, "subnet-1", &["sg-1"]),
            6_000 => answer(world, status.clone(), &KINDS, world.now),
            _ => {}
        }
    }
}

fn drained(world: &Fixture) -> Vec<(i64, &str)> {
    world.done.drained.iter().map(|(at, claim)| (at.as_millis(), claim.as_ref())).collect()
}

/// Reasons of the removals that were decided.
fn reasons(world: &Fixture) -> Vec<String> {
    let removals = world.done.decisions.iter().flat_map(|decision| &decision.removals);
    removals.map(|removal| removal.reason.to_string()).collect()
}

#[test]
fn machines_that_match_what_is_selected_stay() {
    let mut world = world(2);
    roll_to(&mut world, 300_000, 2, &first());
    assert_eq!(drained(&world), []);
}

#[test]
fn machines_of_another_subnet_roll_through_under_their_budget() {
    let mut world = world(2);
    // The class selects subnet-2 from the lookup at 6 s on. The listing before it may show an earlier state, and the one at
    // 15 s does not. The pass at 20 s begins with one machine, and its window closes at 21 s. The pass at 30 s removes it,
    // the next one begins with the other one, and the one after that removes it.
    roll_to(&mut world, 120_000, 2, &selecting("ami-1", "sg-1", "subnet-2"));
    let launches: Vec<i64> = world.done.launches.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(launches, [21_000, 41_000]);
    assert_eq!(drained(&world), [(30_000, "m0"), (50_000, "m1")]);
    assert_eq!(
        reasons(&world)[0],
        "node n-m0 has drifted (SubnetDrift): the instance is in subnet-1, and the EC2NodeClass selects subnet-2"
    );
}

#[test]
fn another_image_or_group_is_drift() {
    for (status, why) in [
        (selecting("ami-2", "sg-1", "subnet-1"), "(AMIDrift): the instance has image ami-1"),
        (selecting("ami-1", "sg-2", "subnet-1"), "(SecurityGroupDrift): the instance has security groups sg-1"),
    ] {
        let mut world = world(1);
        roll_to(&mut world, 40_000, 1, &status);
        assert_eq!(drained(&world), [(30_000, "m0")], "{why}");
        assert!(reasons(&world)[0].contains(why), "{:?}", reasons(&world));
    }
}

#[test]
fn a_group_that_is_added_by_hand_is_drift() {
    let mut world = world(1);
    roll_to(&mut world, 59_000, 1, &first());
    list(&mut world, 1, "subnet-1", &["sg-1", "sg-9"]);
    world.run_to(75_000);
    assert_eq!(drained(&world), [(70_000, "m0")]);
    assert!(reasons(&world)[0].ends_with("selects sg-1: sg-9 is not selected"), "{:?}", reasons(&world));
}

/// The server has just acquired the cluster. The status is one of before the machine was launched by another replica.
fn outdated_status() -> ClusterSnapshot {
    cluster(1, selecting("ami-0", "sg-0", "subnet-0"))
}

#[test]
fn what_was_not_looked_up_drifts_nothing() {
    let mut world = world_of(DisabledGuards::default(), outdated_status());
    world.run_to(5_000);
    list(&mut world, 1, "subnet-1", &["sg-1"]);
    world.run_to(600_000);
    assert_eq!(drained(&world), []);
}

#[test]
fn sabotage_with_an_outdated_status_a_machine_of_a_newer_one_drifts() {
    let mut world = world_of(DisabledGuards::only(Guard::CurrentLookup), outdated_status());
    world.run_to(15_000);
    assert_eq!(drained(&world), [(10_000, "m0")]);
}

/// A lookup that arrives after the first listing, by answers of before it. The NodeClaim is `minutes` older than this process.
fn answered_from_before_the_listing(disabled: DisabledGuards, minutes: i64) -> Fixture {
    let mut shown = cluster(1, first());
    shown.claims[0].created = Some(Timestamp::from_millis(-60_000 * minutes));
    let mut world = world_of(disabled, shown);
    world.run_to(5_000);
    list(&mut world, 1, "subnet-1", &["sg-1"]);
    world.run_to(6_000);
    answer(&mut world, selecting("ami-0", "sg-0", "subnet-0"), &KINDS, 4_999);
    world.run_to(7_000);
    list(&mut world, 1, "subnet-1", &["sg-1"]);
    world.run_to(50_000);
    world
}

#[test]
fn a_machine_is_not_compared_with_what_was_found_before_its_launch() {
    assert_eq!(drained(&answered_from_before_the_listing(DisabledGuards::default(), 14)), []);
}

#[test]
fn a_machine_that_was_launched_long_ago_is_compared_with_the_first_lookup() {
    assert_eq!(drained(&answered_from_before_the_listing(DisabledGuards::default(), 15)), [(20_000, "m0")]);
}

#[test]
fn sabotage_with_answers_from_before_its_launch_a_machine_drifts() {
    let world = answered_from_before_the_listing(DisabledGuards::only(Guard::CurrentLookup), 14);
    // The pass at 10 s begins, and the one at 20 s removes.
    assert_eq!(drained(&world), [(20_000, "m0")]);
}

/// Lookups succeed for a minute, and then all of them fail, with another status than what was found.
fn with_failed_lookups(disabled: DisabledGuards) -> Fixture {
    let mut world = world_of(disabled, cluster(1, first()));
    roll_to(&mut world, 59_000, 1, &first());
    for _ in 0..10 {
        answer(&mut world, selecting("ami-0", "sg-0", "subnet-0"), &[], 0);
        world.run_to(world.now + 10_000);
        list(&mut world, 1, "subnet-1", &["sg-1"]);
    }
    world
}

#[test]
fn a_lookup_that_fails_drifts_nothing() {
    assert_eq!(drained(&with_failed_lookups(DisabledGuards::default())), []);
}

#[test]
fn sabotage_with_the_status_of_a_failed_lookup_a_machine_drifts() {
    let world = with_failed_lookups(DisabledGuards::only(Guard::FailedLookup));
    // The listing at 69 s is later than the answer at 59 s; the pass at 70 s begins, and the one at 80 s removes.
    assert_eq!(drained(&world), [(80_000, "m0")]);
}

#[test]
fn a_selector_that_finds_nothing_drifts_nothing() {
    let mut world = world(1);
    roll_to(&mut world, 59_000, 1, &first());
    let query = Box::new(world.done.node_class_queries.last().cloned().unwrap());
    let missing = |kind| (kind, Resolution::Missing { reason: text("NotFound"), message: text("nothing has the tag") });
    let resolved =
        Box::new(ResolvedNodeClass { conditions: KINDS.map(missing).into(), ..ResolvedNodeClass::default() });
    world.handle(Event::NodeClassResolved { query, resolved });
    world.run_to(60_000);
    list(&mut world, 1, "subnet-9", &["sg-9"]);
    world.run_to(600_000);
    assert_eq!(drained(&world), []);
}

#[test]
fn an_instance_without_details_drifts_nothing() {
    let mut world = world(1);
    for second in 1..60 {
        world.run_to(second * 10_000);
        list(&mut world, 1, "", &[]);
        answer(&mut world, selecting("ami-1", "sg-2", "subnet-2"), &KINDS, second * 10_000);
    }
    assert_eq!(drained(&world), []);
}

#[test]
fn a_machine_that_the_previous_owner_found_drifted_stays_drifted_until_it_is_compared_again() {
    let drifted = || {
        let mut shown = cluster(1, first());
        shown.claims[0].drift.shown = Some((text("SubnetDrift"), text("the instance is in subnet-1")));
        world_of(DisabledGuards::default(), shown)
    };
    let mut unknown = drifted();
    unknown.run_to(15_000);
    assert_eq!(drained(&unknown), [(10_000, "m0")]);
    // The pass at 0 s begins with it, and the comparison ends it.
    let mut compared = drifted();
    compared.never_ready = true;
    compared.run_to(5_000);
    list(&mut compared, 1, "subnet-1", &["sg-1"]);
    answer(&mut compared, first(), &KINDS, 5_000);
    compared.run_to(6_000);
    list(&mut compared, 1, "subnet-1", &["sg-1"]);
    compared.run_to(120_000);
    assert_eq!(drained(&compared), []);
    let replacements = compared.controller.state(&text("c")).map(|state| state.replacements().len());
    assert_eq!(replacements, Some(0));
}
