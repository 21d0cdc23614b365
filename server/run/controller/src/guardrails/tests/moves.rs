//! Consolidation leaves a pod that it has moved where it is.
//!
//! m0 runs one pod of `web`, and m1 two. At 30 s, when consolidateAfter has passed, m0 is drained, because fewer pods have
//! to move; its pod has a successor on m1. At 60 s m2 joins with a pod of `api` that may not be disrupted: all pods of m1
//! would fit beside it.

use cost::MovedShare;

use super::fixture::{Fixture, snapshot};
use crate::guardrails::DisabledGuards;
use crate::node_report::ReportedNode;
use crate::{Decision, Event};
use cluster::testing::{bound_to, claim, node, pod, text};
use cluster::{ClusterSnapshot, DecidedMoves, DoNotDisrupt, Object, PodRecord};
use model::removal::RemovalReason;
use model::{Millis, Timestamp};

const DAY: i64 = 24 * 3_600_000;
const MINUTES: i64 = 60_000;

fn replica(machine: &str, name: &str, millis: i64, owner: &str, created: i64) -> PodRecord {
    let workload = text(&format!("ReplicaSet/{owner}"));
    PodRecord { workload, created: Some(Timestamp::from_millis(created)), ..bound_to(machine, pod(name, millis)) }
}

fn world(interval: Millis) -> Fixture {
    Fixture::consolidating(DisabledGuards::default(), |settings| settings.consolidation.move_interval = interval)
}

/// Until m0 is drained.
fn draining(interval: Millis, stuck: Option<&'static str>) -> Fixture {
    let mut world = world(interval);
    world.stuck = stuck;
    let pods = vec![
        replica("m0", "w0", 500, "web", -DAY),
        replica("m1", "w1", 300, "web", -DAY),
        replica("m1", "w2", 300, "web", -DAY),
    ];
    world.connect("c", snapshot(2, pods));
    world.run_to(30_000);
    assert_eq!(drained(&world), ["m0"]);
    world
}

/// Until the pod of m0 has moved.
fn moved(interval: Millis) -> Fixture {
    let mut world = draining(interval, None);
    world.end_pod("c", replica("m0", "w0", 500, "web", -DAY));
    world.observe("c", Object::Pod(replica("m1", "w3", 500, "web", 30_000)));
    world.run_to(60_000);
    world
}

fn add_m2(world: &mut Fixture) {
    world.observe("c", Object::Claim(claim("m2")));
    world.observe("c", Object::Node(node("m2")));
    let api = replica("m2", "a0", 500, "api", 60_000);
    world.observe("c", Object::Pod(PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..api }));
}

fn drained(world: &Fixture) -> Vec<&str> {
    world.done.drained.iter().map(|(_, claim)| claim.as_ref()).collect()
}

/// What blocks the Node of m1 as underutilized.
fn blocks(world: &Fixture) -> Vec<String> {
    let report = world.controller.node_report(&text("c"), "n-m1").expect("the cluster is there");
    let ReportedNode::Present(node) = report.node else { panic!("it is there") };
    let verdicts = node.verdicts.iter().filter(|verdict| verdict.reason == RemovalReason::Underutilized);
    verdicts
        .flat_map(|verdict| &verdict.by)
        .map(|by| format!("{} {} {}", by.code.as_str(), by.object, by.message))
        .collect()
}

/// The block by the pod w3, `left` before it may be moved again: 24 h after its move at 30 s.
fn recently_moved(left: &str) -> Vec<String> {
    let why = "was moved by consolidation, which may move it again in";
    let at = "at 1970-01-02T00:00:30Z";
    vec![format!("RecentlyMoved Pod/default/w3 {why} {left}, {at} (disruption.move-interval)")]
}

#[test]
fn a_moved_pod_keeps_its_node_for_the_interval() {
    let mut world = moved(Millis::new(DAY));
    add_m2(&mut world);
    world.run_to(10 * MINUTES);
    assert_eq!(drained(&world), ["m0"]);
    // 10 min less 30 s of the 24 h have passed, so that 23 h, 50 min and 30 s are left.
    assert_eq!(blocks(&world), recently_moved("23 h 50 min"));
    // The pod was created at 30 s. Then the machine waits for no other event: a pass follows the plan within 10 s.
    world.run_to(DAY + 29_000);
    assert_eq!(drained(&world), ["m0"]);
    world.run_to(DAY + 30_000 + 11_000);
    assert_eq!(drained(&world), ["m0", "m1"]);
}

#[test]
fn sabotage_without_the_interval_it_is_moved_again() {
    let mut world = moved(Millis::ZERO);
    add_m2(&mut world);
    world.run_to(10 * MINUTES);
    assert_eq!(drained(&world), ["m0", "m1"]);
}

#[test]
fn a_node_with_a_moved_pod_is_removed_when_its_pods_are_gone() {
    let mut world = moved(Millis::new(DAY));
    add_m2(&mut world);
    world.run_to(5 * MINUTES);
    for name in ["w1", "w2", "w3"] {
        world.end_pod("c", replica("m1", name, 300, "web", 30_000));
    }
    world.run_to(10 * MINUTES);
    assert_eq!(drained(&world), ["m0", "m1"]);
}

/// What the decisions of the first owner say, and the cluster as it left it.
fn taken_over(moves: impl FnOnce(Vec<DecidedMoves>) -> Vec<DecidedMoves>) -> Fixture {
    let mut first = moved(Millis::new(DAY));
    add_m2(&mut first);
    let shown: ClusterSnapshot = first.controller.state(&text("c")).expect("it is owned").to_snapshot();
    let decided = first.done.decisions.iter().flat_map(|decision| decision.moves.clone()).collect();
    let mut next = world(Millis::new(DAY));
    next.now = 90_000;
    next.handle(Event::MovesLoaded(moves(decided)));
    next.connect("c", shown);
    next.run_to(10 * MINUTES);
    next
}

#[test]
fn the_next_owner_of_the_cluster_leaves_moved_pods_as_well() {
    let next = taken_over(|moves| moves);
    assert_eq!(drained(&next), Vec::<&str>::new());
    assert_eq!(blocks(&next), recently_moved("23 h 50 min"));
}

#[test]
fn sabotage_without_the_moves_of_the_decisions_the_next_owner_moves_them_again() {
    assert_eq!(drained(&taken_over(|_| Vec::new())), ["m1"]);
}

/// The room on m1 is taken before the pod of m0 comes, so a machine is launched for it.
#[test]
fn a_machine_that_is_bought_for_a_moved_pod_counts_for_the_decision_that_has_moved_it() {
    let mut world = draining(Millis::new(DAY), Some("m0"));
    world.observe("c", Object::Pod(replica("m1", "a0", 1_200, "api", 30_000)));
    world.end_pod("c", replica("m0", "w0", 500, "web", -DAY));
    let successor = replica("m1", "w3", 500, "web", 30_000);
    world.observe(
        "c",
        Object::Pod(PodRecord { workload: successor.workload, created: successor.created, ..pod("w3", 500) }),
    );
    world.run_to(2 * MINUTES);
    world.finish_drains();
    world.run_to(40 * MINUTES);
    let [(_, launched)] = world.done.launches.as_slice() else { panic!("{:?}", world.done.launches) };
    // The decision that gives the pods of m0 another place; its removal follows once that is there.
    let replaces = |decision: &&Decision| decision.replacements.iter().any(|one| one.claim.as_ref() == "m0");
    let decision = world.done.decisions.iter().find(replaces).expect("m0 is consolidated").id.0;
    let machines = world.done.costs.iter().map(|interval| &interval.machine);
    let shares: Vec<_> = machines.filter(|machine| machine.claim == launched.claim).map(|one| &one.moved).collect();
    assert!(!shares.is_empty() && shares.iter().all(|moved| **moved == [MovedShare { decision, ppm: 1_000_000 }]));
    // It is one of the machines by which the decision is compared.
    let saving = cost::savings(&world.done.costs).into_iter().find(|saving| saving.number == decision);
    assert_eq!(saving.map(|saving| (saving.removed, saving.launched, saving.bought_later)), Some((1, 0, 1)));
}
