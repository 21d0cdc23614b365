//! Node repair end to end: forceful, and voluntary as drift is.
//!
//! The cluster: m0 and m1, a t.2 of 2 cores with a pod of 1.8 cores each. The Node of m0 has not been ready since 0,
//! and is unhealthy after 30 minutes.

use super::fixture::{Fixture, real, snapshot};
use crate::disruption::settings::RepairMode;
use crate::node_report::ReportedNode;
use crate::{DisruptionSettings, FeatureGates};
use cluster::testing::{bound_to, node, pod, pool_with, text};
use cluster::{ClusterSnapshot, NodeRecord, UnmetCondition};
use model::disruption_policy::BudgetLimit;
use model::removal::RemovalReason;
use model::{Millis, Timestamp};

const DUE: i64 = 30 * 60_000;

fn world(repair: RepairMode, budget: BudgetLimit) -> Fixture {
    let mut world = Fixture::planned_by(real, |settings| {
        settings.feature_gates = FeatureGates { node_repair: true, ..FeatureGates::NONE };
        settings.disruption = DisruptionSettings { repair, ..DisruptionSettings::default() };
    });
    world.never_joins = true;
    let unmet = UnmetCondition { kind: text("Ready"), status: text("False"), since: Timestamp::default() };
    let unready = NodeRecord { unmet: vec![unmet], ready: false, ..node("m0") };
    let pods = ["m0", "m1"].map(|machine| bound_to(machine, pod(&format!("of-{machine}"), 1_800)));
    let shown = snapshot(2, pods.into());
    let nodes = vec![unready, node("m1")];
    world.connect("c", ClusterSnapshot { pools: vec![pool_with(budget)], nodes, ..shown });
    world
}

/// Begin and deadline of each drain.
fn drains(world: &Fixture) -> Vec<(i64, &str, Option<i64>)> {
    let drains = world.done.drained.iter().zip(&world.done.deadlines);
    drains.map(|((at, claim), end)| (at.as_millis(), claim.as_ref(), end.map(Timestamp::as_millis))).collect()
}

#[test]
fn a_voluntary_repair_launches_first_and_drains_without_a_deadline() {
    let mut world = world(RepairMode::Voluntary, BudgetLimit::Nodes(1));
    world.run_to(DUE + 300_000);
    assert_eq!((world.done.launches.len(), drains(&world)), (1, vec![]), "its replacement has not joined");
    world.join_launched("c");
    world.run_to(DUE + 320_000);
    let drained = drains(&world);
    assert!(matches!(drained.as_slice(), [(at, "m0", None)] if *at >= DUE + 300_000), "{drained:?}");
}

#[test]
fn a_budget_blocks_a_voluntary_repair() {
    let mut world = world(RepairMode::Voluntary, BudgetLimit::Nodes(0));
    world.run_to(2 * DUE);
    assert_eq!((world.done.launches.len(), drains(&world)), (0, vec![]));
}

#[test]
fn the_report_of_a_node_judges_it_by_the_way_in_which_it_is_repaired() {
    let reasons = |repair| {
        let mut world = world(repair, BudgetLimit::Nodes(0));
        world.run_to(10 * 60_000);
        match world.controller.node_report(&text("c"), "n-m0").expect("the cluster is there").node {
            ReportedNode::Present(node) => node.verdicts.iter().map(|verdict| verdict.reason).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let (voluntary, forceful) = (reasons(RepairMode::Voluntary), reasons(RepairMode::Forceful));
    assert!(
        voluntary.contains(&RemovalReason::Repaired) && !voluntary.contains(&RemovalReason::Unhealthy),
        "{voluntary:?}"
    );
    assert!(
        forceful.contains(&RemovalReason::Unhealthy) && !forceful.contains(&RemovalReason::Repaired),
        "{forceful:?}"
    );
}

#[test]
fn sabotage_a_forceful_repair_deletes_the_pods_at_once_whatever_the_budget() {
    let mut world = world(RepairMode::Forceful, BudgetLimit::Nodes(0));
    world.run_to(DUE + 60_000);
    let drained = drains(&world);
    assert!(matches!(drained.as_slice(), [(_, "m0", Some(end))] if *end <= DUE + 1_000), "{drained:?}");
    let begun = Timestamp::from_millis(drained[0].0);
    assert!(begun <= Timestamp::from_millis(DUE) + Millis::from_secs(20), "{drained:?}");
}
