//! Why a node is there, and why one went: each block has its cause here, with the code that it is reported by.
//!
//! The cluster of the consolidation tests: two machines of 2 cores, each with a pod of half a core. consolidateAfter is
//! 30 s, and the first plan of disruption is due at 30 s.

use std::sync::Arc;

use super::fixture::{Fixture, freeze, snapshot};
use crate::cost_view::CpuAndMemory;
use crate::guardrails::{DisabledGuards, Mode};
use crate::node_report::{NodePod, PresentNode, ReportedNode, Verdict};
use crate::{Event, RegionEvent, Settings};
use cluster::testing::{bound_to, key, pod, pool, pool_with, text};
use cluster::{
    ClusterSnapshot, DoNotDisrupt, Key, NodeRecord, PodBudgetRecord, PodPhase, PodRecord, PoolRecord, UnmetCondition,
};
use model::disruption_plan::Block;
use model::disruption_policy::{BudgetLimit, BudgetWindow, ConsolidationPolicy};
use model::removal::RemovalReason;
use model::{Cron, LabelSelector, Millis, PodShape, Resources, TimeZone, Timestamp};

fn half_empty(pool: PoolRecord) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 500));
    ClusterSnapshot { pools: vec![pool], ..snapshot(2, (0..2).map(bound).collect()) }
}

/// The world at `end`, in milliseconds.
fn world_at(end: i64, shown: ClusterSnapshot, change: impl FnOnce(&mut Settings)) -> Fixture {
    let mut world = Fixture::consolidating(DisabledGuards::default(), change);
    world.connect("c", shown);
    world.run_to(end);
    world
}

fn reported(world: &Fixture, node: &str) -> ReportedNode {
    world.controller.node_report(&text("c"), node).expect("the cluster is there").node
}

fn present(world: &Fixture, node: &str) -> PresentNode {
    match reported(world, node) {
        ReportedNode::Present(present) => *present,
        other => panic!("{other:?}"),
    }
}

fn verdict(world: &Fixture, reason: RemovalReason) -> Verdict {
    let verdicts = present(world, "n-m0").verdicts;
    let found = verdicts.iter().find(|verdict| verdict.reason == reason);
    found.unwrap_or_else(|| panic!("no {reason} in {verdicts:?}")).clone()
}

fn names(blocks: &[Block]) -> Vec<String> {
    blocks.iter().map(|block| format!("{} {}", block.code.as_str(), block.object)).collect()
}

/// What blocks `n-m0` as underutilized.
fn blocks(world: &Fixture) -> Vec<String> {
    names(&verdict(world, RemovalReason::Underutilized).by)
}

/// The same at 60 s in the cluster `shown`.
fn blocks_of(shown: ClusterSnapshot) -> Vec<String> {
    blocks(&world_at(60_000, shown, |_| {}))
}

#[test]
fn a_node_waits_for_consolidate_after_and_then_for_nothing() {
    let world = world_at(10_000, half_empty(pool()), |_| {});
    let verdict = verdict(&world, RemovalReason::Underutilized);
    assert_eq!(verdict.by.len(), 1, "{verdict:?}");
    // The pods came at 0 s, and 20 s of 30 s are left.
    assert_eq!(verdict.by[0].message, "may be consolidated in 20 s, at 1970-01-01T00:00:30Z: a pod came or went");
    let mut never = pool();
    never.disruption.consolidate_after = None;
    assert_eq!(blocks_of(half_empty(never)), ["ConsolidateAfter NodePool/p"]);
}

#[test]
fn what_would_not_save_is_known_from_the_last_plan() {
    // Each pod fills its machine.
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let world = world_at(60_000, snapshot(2, (0..2).map(bound).collect()), |_| {});
    let node = present(&world, "n-m0");
    assert_eq!(node.planned_at, Some(Timestamp::from_millis(30_000)));
    // The machines are spot, and fewer than the 15 that spot requires are cheaper.
    assert_eq!(blocks(&world), ["SpotFlexibility Node/n-m0"]);
    let before = world_at(29_000, half_empty(pool()), |_| {});
    assert_eq!(present(&before, "n-m0").planned_at, None);
}

#[test]
fn settings_of_the_nodepool_and_of_the_server_block_a_node() {
    let mut when_empty = pool();
    when_empty.disruption.policy = ConsolidationPolicy::WhenEmpty;
    assert_eq!(blocks_of(half_empty(when_empty)), ["Policy NodePool/p"]);
    assert_eq!(blocks_of(half_empty(pool_with(BudgetLimit::Nodes(0)))), ["Budget NodePool/p"]);
    let mut closed = pool();
    // The test runs on 1 January 1970.
    let schedule = Cron::parse("0 0 1 7 *").unwrap();
    closed.disruption.windows = vec![BudgetWindow { schedule, zone: TimeZone::UTC, duration: Millis::from_hours(1) }];
    let world = world_at(60_000, half_empty(closed), |_| {});
    let closed = verdict(&world, RemovalReason::Underutilized).by;
    assert_eq!(names(&closed), ["Budget NodePool/p"]);
    assert_eq!(closed[0].message, "has no open disruption window now");
    let off = |settings: &mut Settings| settings.consolidation.is_enabled = false;
    assert_eq!(blocks(&world_at(60_000, half_empty(pool()), off)), ["Policy Setting/disruption.consolidation"]);
    let of_cluster = |settings: &mut Settings| settings.disruption.max_unavailable_nodes = Some(BudgetLimit::Nodes(0));
    assert_eq!(blocks(&world_at(60_000, half_empty(pool()), of_cluster)), ["Budget Cluster/c"]);
}

#[test]
fn pods_and_their_budgets_block_a_node() {
    let mut protected = half_empty(pool());
    protected.pods.iter_mut().for_each(|pod| pod.do_not_disrupt = Some(DoNotDisrupt::Always));
    assert_eq!(blocks_of(protected), ["DoNotDisrupt Pod/default/p0"]);
    let mut of_node = half_empty(pool());
    of_node.nodes.iter_mut().for_each(|node| node.do_not_disrupt = Some(DoNotDisrupt::Always));
    assert_eq!(blocks_of(of_node), ["DoNotDisrupt Node/n-m0"]);
    let budget = |name: &str| PodBudgetRecord {
        namespace: text("default"),
        name: text(name),
        selector: Some(LabelSelector::default()),
        allowed: 0,
        evicts_unhealthy_always: false,
        never_allows: false,
    };
    let one = ClusterSnapshot { budgets: vec![budget("all")], ..half_empty(pool()) };
    assert_eq!(blocks_of(one), ["PodDisruptionBudget PodDisruptionBudget/default/all"]);
    let two = ClusterSnapshot { budgets: vec![budget("all"), budget("too")], ..half_empty(pool()) };
    let both = ["all", "too"].map(|name| format!("PodDisruptionBudget PodDisruptionBudget/default/{name}"));
    assert_eq!(blocks_of(two), both);
}

#[test]
fn a_volume_on_the_disk_of_a_node_blocks_it() {
    let mut shown = half_empty(pool());
    shown.pods.iter_mut().for_each(|pod| pod.local_volumes = [text("disk")].into());
    let world = world_at(60_000, shown, |_| {});
    assert_eq!(blocks(&world), ["LocalVolume PersistentVolume/disk"]);
    assert!(world.done.drained.is_empty());
}

#[test]
fn operators_and_guardrails_block_a_node() {
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze(Some("c"), None, None)]));
    world.connect("c", half_empty(pool()));
    world.run_to(60_000);
    assert!(blocks(&world).contains(&"Frozen Freeze/7".to_owned()), "{:?}", blocks(&world));
    let shadow = |settings: &mut Settings| settings.disruption.mode = Mode::Shadow;
    assert!(blocks(&world_at(60_000, half_empty(pool()), shadow)).contains(&"Shadow Cluster/c".to_owned()));
    let mut gone = world_at(10_000, half_empty(pool()), |_| {});
    gone.handle(Event::AgentDisconnected);
    assert!(blocks(&gone).contains(&"NotSynced Cluster/c".to_owned()), "{:?}", blocks(&gone));
}

#[test]
fn a_node_of_another_manager_is_not_judged() {
    let mut shown = half_empty(pool());
    shown.claims[0].ours = false;
    assert_eq!(blocks_of(shown), ["NotManaged NodeClaim/m0"]);
    let mut without = half_empty(pool());
    without.claims.remove(0);
    assert_eq!(blocks_of(without), ["NotManaged Node/n-m0"]);
    let mut unmanaged = pool();
    unmanaged.meta.managed = Some(false);
    assert_eq!(blocks_of(half_empty(unmanaged)), ["NotManaged NodePool/p"]);
}

#[test]
fn a_drifted_node_an_empty_one_and_an_unhealthy_one_have_their_own_reasons() {
    let mut changed = pool_with(BudgetLimit::Nodes(0));
    changed.drift.own_hash = Some((text("new"), text("1")));
    let mut shown = half_empty(changed);
    shown.claims.iter_mut().for_each(|claim| claim.drift.own_hash = Some((text("old"), text("1"))));
    let world = world_at(60_000, shown, |_| {});
    let drifted = verdict(&world, RemovalReason::Drifted);
    assert_eq!(names(&drifted.by), ["Budget NodePool/p"], "{drifted:?}");
    assert!(drifted.evidence.contains("NodePoolDrifted"), "{drifted:?}");

    let world = world_at(10_000, snapshot(2, Vec::new()), |_| {});
    assert_eq!(names(&verdict(&world, RemovalReason::Empty).by), ["ConsolidateAfter Node/n-m0"]);

    let since = Timestamp::from_millis(0);
    let unmet = UnmetCondition { kind: text("Ready"), status: text("False"), since };
    let mut shown = half_empty(pool());
    shown.nodes[0] = NodeRecord { ready: false, unmet: vec![unmet], ..shown.nodes[0].clone() };
    let world = world_at(10_000, shown, |_| {});
    // The gate NodeRepair is off, and the toleration of half an hour has not passed.
    let by = names(&verdict(&world, RemovalReason::Unhealthy).by);
    assert_eq!(by[..2], ["Policy FeatureGate/NodeRepair", "Policy Node/n-m0"], "{by:?}");
}

#[test]
fn a_machine_that_is_being_replaced_says_so_and_its_nodepool_waits_after_a_failure() {
    let mut changed = pool();
    changed.drift.own_hash = Some((text("new"), text("1")));
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let mut shown = ClusterSnapshot { pools: vec![changed], ..snapshot(1, vec![bound(0)]) };
    shown.claims[0].drift.own_hash = Some((text("old"), text("1")));
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.never_ready = true;
    world.connect("c", shown);
    world.run_to(60_000);
    let by = verdict(&world, RemovalReason::Drifted).by;
    assert_eq!(names(&by), ["Replacing Node/n-m0"]);
    // It fails after ten minutes, and its NodePool waits one.
    world.run_to(620_000);
    let by = names(&verdict(&world, RemovalReason::Drifted).by);
    assert!(by.contains(&"BackOff NodePool/p".to_owned()), "{by:?}");
}

#[test]
fn a_report_lists_the_pods_of_the_node_that_have_not_ended_by_name() {
    let mut shown = half_empty(pool());
    let requests = Resources::from_iter([("cpu", 500), ("memory", 1_024), ("pods", 1)]);
    let shape = Arc::new(PodShape { requests, ..PodShape::default() });
    shown.pods[0] = PodRecord { shape, workload: text("ReplicaSet/web"), ..shown.pods[0].clone() };
    let on_m0 = |name: &str| bound_to("m0", pod(name, 10));
    let (daemon, workload) = (Some(text("kube-system/agent")), text("DaemonSet/agent"));
    shown.pods.push(PodRecord { daemon, workload, ..on_m0("agent") });
    shown.pods.push(PodRecord { terminating: true, ..on_m0("leaves") });
    shown.pods.push(PodRecord { phase: PodPhase::Succeeded, ..on_m0("ended") });
    let node = present(&world_at(10_000, shown, |_| {}), "n-m0");
    let running = |name: &str, workload: &str, cpu_millis: i64, memory_bytes: i64| NodePod {
        key: key(name),
        workload: text(workload),
        is_daemon: false,
        is_terminating: false,
        requests: CpuAndMemory { cpu_millis, memory_bytes },
    };
    let expected = [
        NodePod { is_daemon: true, ..running("agent", "DaemonSet/agent", 10, 0) },
        NodePod { is_terminating: true, ..running("leaves", "Pod/leaves", 10, 0) },
        running("p0", "ReplicaSet/web", 500, 1_024),
    ];
    assert_eq!(node.running, expected);
    assert_eq!(node.pods, 2, "without the one of the DaemonSet");
}

#[test]
fn a_node_that_went_is_remembered_with_its_reason_and_other_names_are_unknown() {
    let mut world = world_at(60_000, half_empty(pool()), |_| {});
    let gone = world.done.removed[0].1.clone();
    let ReportedNode::Removed(removed) = reported(&world, &format!("n-{gone}")) else { panic!("{gone} is there") };
    assert_eq!((&removed.claim, removed.at.as_millis()), (&gone, 30_000));
    let reason = removed.reason.expect("a decision removed it");
    assert!(reason.contains("have other nodes at a lower price"), "{reason}");
    assert!(matches!(reported(&world, &gone), ReportedNode::Removed(_)), "by its NodeClaim");

    let stays = if gone.as_ref() == "m0" { "m1" } else { "m0" };
    assert_eq!(reported(&world, "n-x"), ReportedNode::Unknown(vec![text(&format!("n-{stays}"))]));
    world.delete("c", Key::Node(text(&format!("n-{stays}"))));
    let ReportedNode::Removed(removed) = reported(&world, &format!("n-{stays}")) else { panic!("{stays} is there") };
    assert_eq!(removed.reason, None, "this server was not removing it");
}
