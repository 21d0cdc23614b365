//! The taint `karpenter.sh/disrupted` that no drain of this server has set: it is taken off, and removes nothing.

use super::fixture::{Fixture, snapshot};
use crate::Event;
use crate::node_report::ReportedNode;
use cluster::testing::{bound_to, node, pod, text};
use cluster::{AutoscalerRecord, ClusterSnapshot, NodeRecord, Object};
use model::drain::{DISRUPTED, RecordedDrain};
use model::taints::Effect;
use model::{Budget, BudgetLimit, Taint};

/// The Node of `m0` with the taint, and with a drain of `m0` or none.
fn tainted(drain: Option<RecordedDrain>) -> NodeRecord {
    let taint = Taint { key: text(DISRUPTED), value: text(""), effect: Effect::NoSchedule };
    NodeRecord { taints: vec![taint], drain, ..node("m0") }
}

/// Two machines with a pod each; a budget of 0.
fn kept() -> ClusterSnapshot {
    let mut shown = snapshot(2, (0..2).map(|n| bound_to(&format!("m{n}"), pod(&format!("p{n}"), 500))).collect());
    shown.pools[0].disruption.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
    shown
}

fn taken_over(shown: ClusterSnapshot) -> Fixture {
    let mut world = Fixture::consolidating(Default::default(), |_| {});
    world.handle(Event::LeaseAcquired { uid: text("u"), launches: Vec::new() });
    world.connect("c", shown);
    world
}

fn untainted(world: &Fixture) -> Vec<(i64, &str)> {
    world.done.untainted.iter().map(|(at, node)| (at.as_millis(), node.as_ref())).collect()
}

#[test]
fn a_takeover_takes_the_taint_off_and_removes_no_machine() {
    let mut shown = kept();
    shown.nodes[0] = tainted(None);
    let mut world = taken_over(shown);
    assert_eq!(untainted(&world), [(0, "n-m0")]);
    world.observe("c", Object::Node(node("m0")));
    world.run_to(600_000);
    assert_eq!((world.drained().len(), world.done.launches.len(), world.done.untainted.len()), (0, 0, 1));
}

#[test]
fn sabotage_with_the_drain_of_its_claim_in_the_annotation_the_machine_is_drained() {
    let mut shown = kept();
    shown.nodes[0] = tainted(Some(RecordedDrain { claim: text("m0"), ..RecordedDrain::default() }));
    let mut world = taken_over(shown);
    // The drain begins when the pod has been planned.
    world.run_to(20_000);
    assert_eq!((world.drained().len(), world.done.untainted.len()), (1, 0));
}

#[test]
fn a_taint_that_stays_is_taken_off_every_five_seconds_and_said_meanwhile() {
    let mut world = taken_over(kept());
    world.now = 1_000;
    world.observe("c", Object::Node(tainted(None)));
    world.run_to(12_000);
    // Acknowledged at once; the effect is awaited for 5 s.
    assert_eq!(untainted(&world), [(1_000, "n-m0"), (6_000, "n-m0"), (11_000, "n-m0")]);
    let says = "has the taint karpenter.sh/disrupted, which no drain of this server has set: no pod is placed on it";
    let unusable = |world: &Fixture| match world.controller.node_report(&text("c"), "n-m0").map(|report| report.node) {
        Some(ReportedNode::Present(node)) => node.unusable,
        other => panic!("{other:?}"),
    };
    assert!(unusable(&world).is_some_and(|why| why.starts_with(says)));
    let shown = |world: &Fixture| world.controller.view(&text("c")).unwrap().unusable_nodes;
    assert!(matches!(shown(&world).as_slice(), [(node, why)] if node.as_ref() == "n-m0" && why.starts_with(says)));
    world.observe("c", Object::Node(node("m0")));
    world.run_to(30_000);
    assert_eq!((world.done.untainted.len(), unusable(&world), shown(&world)), (3, None, Vec::new()));
}

#[test]
fn the_taints_of_an_active_karpenter_and_of_nodes_that_are_deleted_are_left_to_them() {
    let karpenter = AutoscalerRecord { name: text("karpenter"), live: true, evidence: text("") };
    let mut world = taken_over(kept());
    world.observe("c", Object::Autoscaler(karpenter));
    world.observe("c", Object::Node(tainted(None)));
    world.run_to(12_000);
    assert_eq!(untainted(&world), []);
    let mut world = taken_over(kept());
    world.stuck = Some("m");
    world.observe("c", Object::Node(NodeRecord { deleting: true, ..tainted(None) }));
    world.run_to(12_000);
    assert_eq!((untainted(&world), world.controller.view(&text("c")).unwrap().unusable_nodes), (vec![], vec![]));
}
