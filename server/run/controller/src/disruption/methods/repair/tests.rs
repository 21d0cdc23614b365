use std::collections::BTreeSet;

use super::*;
use crate::FeatureGates;
use crate::Removal;
use crate::disruption::method::Selection;
use cluster::testing::{initialized_cluster, node, observe, pool_with, text};
use cluster::{ClusterState, DoNotDisrupt, Object};
use model::Millis;
use model::disruption_policy::BudgetLimit;

const GATES: FeatureGates = FeatureGates { node_repair: true, ..FeatureGates::NONE };

fn minutes(minutes: i64) -> Timestamp {
    Timestamp::default() + Millis::from_mins(minutes)
}

/// The Node of `name`, whose condition `kind` has had `status` since `since`, in minutes.
fn with_condition(name: &str, kind: &str, status: &str, since: i64) -> NodeRecord {
    let unmet = UnmetCondition { kind: text(kind), status: text(status), since: minutes(since) };
    NodeRecord { unmet: vec![unmet], ready: kind != "Ready", ..node(name) }
}

/// Machines m0 … of a NodePool whose budget allows no removal; `unhealthy` replace their Nodes.
fn cluster(machines: usize, unhealthy: Vec<NodeRecord>) -> ClusterState {
    let names: Vec<String> = (0..machines).map(|number| format!("m{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &names);
    observe(&mut state, 0, unhealthy.into_iter().map(Object::Node));
    state
}

fn select(state: &ClusterState, at: i64) -> Selection {
    Repair.select(&DisruptionView { feature_gates: GATES, ..DisruptionView::of(state, minutes(at)) })
}

fn removed(state: &ClusterState, at: i64) -> Vec<String> {
    select(state, at).removals.iter().map(|removal| removal.claim.to_string()).collect()
}

#[test]
fn a_machine_is_removed_when_the_toleration_of_its_condition_ends() {
    let cases = [
        ("Ready", "False", Some(30)),
        ("Ready", "Unknown", Some(30)),
        ("AcceleratedHardwareReady", "False", Some(10)),
        ("AcceleratedHardwareReady", "Unknown", None),
        ("StorageReady", "False", Some(30)),
        ("NetworkingReady", "False", Some(30)),
        ("KernelReady", "False", Some(30)),
        ("ContainerRuntimeReady", "False", Some(30)),
        ("LicenceReady", "False", None),
    ];
    for (kind, status, toleration) in cases {
        let state = cluster(5, vec![with_condition("m3", kind, status, 100)]);
        let Some(toleration) = toleration else {
            assert_eq!(select(&state, 1_000), Selection::default(), "{kind} {status}");
            continue;
        };
        let before = select(&state, 100 + toleration - 1);
        assert_eq!((before.removals, before.next_check), (Vec::new(), Some(minutes(100 + toleration))), "{kind}");
        let reason = text(&format!("condition {kind} of node n-m3 has been {status} for {toleration} minutes"));
        let expected = Removal { claim: text("m3"), node: text("n-m3"), reason };
        assert_eq!(select(&state, 100 + toleration).removals, [expected], "{kind}");
    }
}

#[test]
fn of_several_conditions_the_one_that_is_due_first_counts() {
    let mut both = with_condition("m0", "Ready", "False", 100);
    both.unmet.extend(with_condition("m0", "AcceleratedHardwareReady", "False", 115).unmet);
    // 100 + 30 against 115 + 10.
    let state = cluster(5, vec![both]);
    assert_eq!((removed(&state, 124), removed(&state, 125)), (vec![], vec!["m0".to_owned()]));
}

#[test]
fn too_many_unhealthy_nodes_of_a_pool_block_its_repairs() {
    // 20 % of 6 are 1.2, rounded up 2. The third is within its toleration, and counts.
    let two = vec![with_condition("m0", "Ready", "False", 0), with_condition("m1", "Ready", "False", 0)];
    assert_eq!(removed(&cluster(6, two.clone()), 30), ["m0", "m1"]);
    let three = [two, vec![with_condition("m2", "Ready", "Unknown", 29)]].concat();
    let selection = select(&cluster(6, three.clone()), 30);
    let blocked = BTreeMap::from([(text("p"), BlockedRepair { unhealthy: 3, nodes: 6 })]);
    assert_eq!((selection.removals, selection.blocked_repairs), (Vec::new(), blocked));
    assert_eq!(selection.next_check, Some(minutes(35)), "five minutes later");
    // 20 % of 11 are 2.2, rounded up 3.
    assert_eq!(removed(&cluster(11, three), 30), ["m0", "m1"]);
}

#[test]
fn do_not_repair_keeps_the_node_and_do_not_disrupt_does_not() {
    let kept = NodeRecord { do_not_repair: true, ..with_condition("m0", "Ready", "False", 0) };
    let protected =
        NodeRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..with_condition("m1", "Ready", "False", 0) };
    assert_eq!(removed(&cluster(10, vec![kept, protected]), 30), ["m1"]);
}

#[test]
fn machines_that_leave_are_not_removed_again_and_count_as_unhealthy() {
    let unhealthy = |name| with_condition(name, "Ready", "False", 0);
    let mut state = cluster(6, vec![unhealthy("m0"), unhealthy("m1")]);
    state.mark_for_deletion(&text("m0"));
    assert_eq!(removed(&state, 30), ["m1"]);
    let view = DisruptionView { feature_gates: GATES, ..DisruptionView::of(&state, minutes(30)) };
    let decided = DisruptionView { being_removed: BTreeSet::from([text("m1")]), ..view };
    assert_eq!(Repair.select(&decided).removals, []);
    observe(&mut state, 0, [Object::Node(unhealthy("m2"))]);
    assert_eq!(select(&state, 30).blocked_repairs["p"], BlockedRepair { unhealthy: 3, nodes: 6 });
}

#[test]
fn without_the_feature_gate_and_for_machines_of_others_nothing_is_repaired() {
    let mut state = cluster(5, vec![with_condition("m0", "Ready", "False", 0)]);
    assert_eq!(Repair.select(&DisruptionView::of(&state, minutes(30))), Selection::default());
    let others = ClaimRecord { ours: false, ..cluster::testing::claim("m0") };
    observe(&mut state, 0, [Object::Claim(others)]);
    assert_eq!(select(&state, 30), Selection::default());
}

#[test]
fn pods_of_a_repaired_node_are_deleted_at_once() {
    let (state, now) = (cluster(1, Vec::new()), minutes(30));
    let terms = Repair.drain_terms(&DisruptionView::of(&state, now));
    assert_eq!(terms, DrainTerms { deadline: Some(now), ..DrainTerms::default() });
}
