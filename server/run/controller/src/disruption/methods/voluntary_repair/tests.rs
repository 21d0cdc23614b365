use super::*;
use crate::FeatureGates;
use crate::disruption::method::Selection;
use crate::disruption::methods::repair::Repair;
use cluster::testing::{bound_to, initialized_cluster, node, observe, pod, pool_with, text};
use cluster::{ClusterState, DoNotDisrupt, NodeRecord, Object, PodBudgetRecord, Target, UnmetCondition};
use model::disruption_policy::{Budget, BudgetLimit};
use model::{LabelSelector, Millis, Timestamp};

fn minutes(minutes: i64) -> Timestamp {
    Timestamp::default() + Millis::from_mins(minutes)
}

/// The Node of `name`, which has not been ready since 0.
fn unready(name: &str) -> NodeRecord {
    let unmet = UnmetCondition { kind: text("Ready"), status: text("False"), since: minutes(0) };
    NodeRecord { unmet: vec![unmet], ready: false, ..node(name) }
}

/// Machines m0 … m4 of a NodePool with this budget; `unready` replace their Nodes.
fn cluster(budget: BudgetLimit, unready: Vec<NodeRecord>) -> ClusterState {
    let mut state = initialized_cluster(pool_with(budget), &["m0", "m1", "m2", "m3", "m4"]);
    observe(&mut state, 0, unready.into_iter().map(Object::Node));
    state
}

fn view(state: &ClusterState, at: i64) -> DisruptionView<'_> {
    let feature_gates = FeatureGates { node_repair: true, ..FeatureGates::NONE };
    DisruptionView { feature_gates, repair: RepairMode::Voluntary, ..DisruptionView::of(state, minutes(at)) }
}

/// NodeClaims that are removed, and those that are replaced first.
fn selected(state: &ClusterState) -> (Vec<String>, Vec<String>) {
    let selection = VoluntaryRepair.select(&view(state, 30));
    let removed = selection.removals.iter().map(|removal| removal.claim.to_string()).collect();
    (removed, selection.replacements.iter().map(|planned| planned.removal.claim.to_string()).collect())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_unhealthy_machine_without_pods_is_removed_after_the_toleration() {
    let state = cluster(BudgetLimit::Nodes(1), vec![unready("m0")]);
    let early = VoluntaryRepair.select(&view(&state, 29));
    assert_eq!((early.removals, early.next_check), (vec![], Some(minutes(30))));
    let removals = VoluntaryRepair.select(&view(&state, 30)).removals;
    let reasons: Vec<&str> = removals.iter().map(|removal| removal.reason.as_ref()).collect();
    assert_eq!(reasons, ["condition Ready of node n-m0 has been False for 30 minutes"]);
}

#[test]
fn one_of_both_methods_repairs_by_the_setting() {
    let state = cluster(BudgetLimit::Nodes(1), vec![unready("m0")]);
    let voluntary = view(&state, 30);
    assert_eq!(Repair.select(&voluntary), Selection::default());
    let forceful = DisruptionView { repair: RepairMode::Forceful, ..voluntary.clone() };
    assert_eq!(VoluntaryRepair.select(&forceful), Selection::default());
    assert_eq!(Repair.select(&forceful).removals.len(), 1);
    let off = DisruptionView { feature_gates: FeatureGates::default(), ..voluntary };
    assert_eq!(VoluntaryRepair.select(&off), Selection::default());
}

#[test]
fn budgets_pace_it_and_nodes_that_are_only_not_ready_do_not_use_them() {
    let all = || vec![unready("m0"), unready("m1"), unready("m2")];
    let held = |budget: BudgetLimit| {
        let state = cluster(budget, all());
        let selection = VoluntaryRepair.select(&view(&state, 30));
        (selected(&state).0, selection.held_by_budget.get("p").copied().unwrap_or(0))
    };
    assert_eq!(held(BudgetLimit::Nodes(0)), (names(&[]), 3));
    // 20 % of five nodes is 1. As for drift, three nodes that are not ready would use it up.
    assert_eq!(held(BudgetLimit::Percent(20)), (names(&["m0"]), 2));
    assert_eq!(held(BudgetLimit::Nodes(9)), (names(&["m0", "m1", "m2"]), 0), "3 of 5 do not block it");
    let mut leaving = cluster(BudgetLimit::Nodes(2), all());
    leaving.mark_for_deletion(&text("m4"));
    assert_eq!(selected(&leaving).0, ["m0"], "a node that leaves uses the budget");
}

/// Karpenter 1.15: budgets may name `Unhealthy`.
#[test]
fn a_budget_that_names_repairs_holds_them_and_one_of_another_reason_does_not() {
    let removed = |reason: DisruptionReason| {
        let mut pool = pool_with(BudgetLimit::Nodes(5));
        let named = Budget { limit: BudgetLimit::Nodes(0), reasons: Some(vec![reason]), window: None };
        pool.disruption.budgets.push(named);
        let mut state = initialized_cluster(pool, &["m0", "m1", "m2", "m3", "m4"]);
        observe(&mut state, 0, [Object::Node(unready("m0"))]);
        selected(&state).0
    };
    assert_eq!(removed(DisruptionReason::Unhealthy), names(&[]));
    assert_eq!(removed(DisruptionReason::Drifted), names(&["m0"]));
}

#[test]
fn a_machine_with_pods_is_removed_when_they_have_another_place() {
    let mut state = cluster(BudgetLimit::Nodes(1), vec![unready("m0")]);
    observe(&mut state, 0, [Object::Pod(bound_to("m0", pod("web", 500)))]);
    assert_eq!(selected(&state), (names(&[]), names(&["m0"])));
    state.begin_replacement(&text("m0"), DisruptionReason::Unhealthy, true, minutes(30));
    assert_eq!(selected(&state), (names(&[]), names(&["m0"])));
    state.assign_pod(pod("web", 500).key, Target::Claim(text("m1")), None);
    assert_eq!(selected(&state), (names(&["m0"]), names(&[])));
}

#[test]
fn annotations_and_pod_disruption_budgets_hold_it() {
    let with_pod = |node: NodeRecord, pod: cluster::PodRecord, more: Option<Object>| {
        let mut state = cluster(BudgetLimit::Nodes(1), vec![node]);
        observe(&mut state, 0, [Object::Pod(bound_to("m0", pod))].into_iter().chain(more));
        selected(&state).1
    };
    let web = || pod("web", 500);
    assert_eq!(with_pod(unready("m0"), web(), None), ["m0"]);
    assert_eq!(with_pod(NodeRecord { do_not_repair: true, ..unready("m0") }, web(), None), [""; 0]);
    let always = Some(DoNotDisrupt::Always);
    assert_eq!(with_pod(NodeRecord { do_not_disrupt: always, ..unready("m0") }, web(), None), [""; 0]);
    let held = cluster::PodRecord { do_not_disrupt: always, ..web() };
    assert_eq!(with_pod(unready("m0"), held, None), [""; 0]);
    let budget = PodBudgetRecord {
        namespace: text("default"),
        name: text("all"),
        selector: Some(LabelSelector::new(Vec::new())),
        allowed: 0,
        evicts_unhealthy_always: false,
        never_allows: false,
    };
    assert_eq!(with_pod(unready("m0"), web(), Some(Object::PodBudget(budget))), [""; 0]);
}
