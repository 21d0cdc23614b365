//! Each method's decision carries what it was made from, and is made again from it.

use std::cell::Cell;
use std::sync::Arc;

use super::*;
use crate::context::Context;
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::methods::drift::Drifted;
use crate::disruption::methods::emptiness::Emptiness;
use crate::guardrails::Mode;
use crate::{ClusterCall, ClusterController, Decision, Effect, RegionState, RepairMode, Settings};
use cluster::testing::{bound_to, claim, initialized_cluster, node, observe, pod, pool, text};
use cluster::{
    ClaimDriftFacts, ClaimRecord, ClusterState, DoNotDisrupt, NodeRecord, Object, Observation, PoolRecord, Target,
    UnmetCondition,
};
use model::disruption_policy::{Budget, BudgetLimit, DisruptionReason};
use model::interruption::InterruptionKind;
use model::{ClaimName, Millis, ProviderId};

/// What an operator or the cloud does before a pass.
type Cause = fn(&mut ClusterController, &mut Context<'_>);

/// The decisions of a pass at 60 s on `state`, after `cause`.
fn decisions(state: ClusterState, settings: Settings, cause: Cause) -> Vec<Decision> {
    let (region, locked, mut effects) = (RegionState::new(settings), Cell::new(false), Vec::new());
    let mut ctx = Context::new((text("c"), text("")), &region, &locked, &mut effects, Timestamp::from_millis(60_000));
    let mut controller = ClusterController::new(text("c"), Arc::default());
    let snapshot = Observation::Snapshot(Box::new(state.to_snapshot()));
    controller.state = state.into();
    crate::nodeclaim::lifecycle::adopt_claims(Timestamp::from_millis(0), &mut controller.claims, &controller.state);
    controller.state.apply(snapshot, ctx.now);
    controller.connected = true;
    controller.disruption.schedule_now();
    cause(&mut controller, &mut ctx);
    controller.reconcile_disruption(&mut ctx);
    drop(ctx);
    let decision = |effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(*decision),
        _ => None,
    };
    effects.into_iter().filter_map(decision).collect()
}

/// Kind and NodeClaims of each decision, after its basis has been replayed.
fn replayed(decisions: &[Decision]) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for decision in decisions {
        let basis = decision.removal_record.as_ref().expect("what the method selected from");
        assert_eq!(RemovalAnswer::again(&basis.input, &basis.check), basis.answer, "{decision:?}");
        let removals: Vec<&ClaimName> = decision.removals.iter().map(|removal| &removal.claim).collect();
        assert!(decision.shadow || basis.answer.removals.iter().eq(removals), "{decision:?}");
        found.push((decision.reason.as_str(), basis.answer.removals.iter().map(AsRef::as_ref).collect()));
    }
    found
}

/// A NodePool that no empty node is removed from.
fn kept() -> PoolRecord {
    let mut pool = pool();
    pool.disruption.consolidate_after = None;
    pool
}

fn web() -> Object {
    Object::Pod(bound_to("m0", pod("web-0", 100)))
}

/// Machine m0 whose pod has a place on m1, under replacement for `reason`.
fn moved(pool: PoolRecord, reason: DisruptionReason, objects: Vec<Object>) -> ClusterState {
    let mut state = initialized_cluster(pool, &["m0", "m1"]);
    observe(&mut state, 0, objects.into_iter().chain([web()]));
    state.begin_replacement(&text("m0"), reason, true, Timestamp::from_millis(1_000));
    state.assign_pod(pod("web-0", 100).key, Target::Claim(text("m1")), None);
    state
}

/// The Node of a machine that is not ready for an hour at 60 s.
fn unready(name: &str) -> Object {
    let since = Timestamp::from_millis(60_000) - Millis::from_hours(1);
    let unmet = UnmetCondition { kind: text("Ready"), status: text("False"), since };
    Object::Node(NodeRecord { unmet: vec![unmet], ready: false, ..node(name) })
}

fn repairing(mode: RepairMode) -> Settings {
    let mut settings = Settings::default();
    settings.feature_gates.node_repair = true;
    settings.disruption.repair = mode;
    settings
}

fn drifted() -> (PoolRecord, Object) {
    let mut pool = kept();
    pool.drift.own_hash = Some((text("new"), text("1")));
    let drift = ClaimDriftFacts { own_hash: Some((text("old"), text("1"))), ..ClaimDriftFacts::default() };
    (pool, Object::Claim(ClaimRecord { drift, ..claim("m0") }))
}

#[test]
fn empty_nodes() {
    let made = decisions(initialized_cluster(pool(), &["m0", "m1"]), Settings::default(), |_, _| {});
    assert_eq!(replayed(&made), [("empty", vec!["m0", "m1"])]);
}

#[test]
fn eligible_nodes_are_those_that_nothing_but_a_budget_holds() {
    let of = |method: &dyn Method, state: &ClusterState| {
        method.read(&DisruptionView::of(state, Timestamp::from_millis(60_000))).eligible()
    };
    let mut full = pool();
    full.disruption.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
    let mut state = initialized_cluster(full, &["m0", "m1", "m2"]);
    let protected = NodeRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..node("m1") };
    observe(&mut state, 0, [Object::Node(protected), Object::Pod(bound_to("m2", pod("web-0", 100)))]);
    assert_eq!(of(&Emptiness, &state), 1, "m1 is protected and m2 is used");
    let (pool, old) = drifted();
    let mut state = initialized_cluster(pool, &["m0", "m1"]);
    observe(&mut state, 0, [old]);
    assert_eq!(of(&Drifted, &state), 1);
}

#[test]
fn drifted_nodes() {
    let (pool, old) = drifted();
    let made = decisions(moved(pool, DisruptionReason::Drifted, vec![old]), Settings::default(), |_, _| {});
    assert_eq!(replayed(&made), [("drift", vec!["m0"])]);
}

#[test]
fn consolidated_nodes() {
    let mut pool = pool();
    pool.disruption.consolidate_after = Some(Millis::from_hours(1));
    let made = decisions(moved(pool, DisruptionReason::Underutilized, vec![]), Settings::default(), |_, _| {});
    assert_eq!(replayed(&made), [("consolidation", vec!["m0"])]);
}

#[test]
fn expired_nodes() {
    let mut state = initialized_cluster(kept(), &["m0", "m1"]);
    let aging = ClaimRecord { created: Some(Timestamp::from_millis(0)), ..claim("m1") };
    observe(&mut state, 0, [Object::Claim(ClaimRecord { expire_after: Some(Millis::from_secs(50)), ..aging })]);
    assert_eq!(replayed(&decisions(state, Settings::default(), |_, _| {})), [("expiration", vec!["m1"])]);
}

#[test]
fn unhealthy_nodes() {
    let cluster = || {
        let mut state = initialized_cluster(kept(), &["m0", "m1", "m2", "m3", "m4"]);
        observe(&mut state, 0, [unready("m2")]);
        state
    };
    let forceful = decisions(cluster(), repairing(RepairMode::Forceful), |_, _| {});
    assert_eq!(replayed(&forceful), [("repair", vec!["m2"])]);
    let voluntary = decisions(cluster(), repairing(RepairMode::Voluntary), |_, _| {});
    assert_eq!(replayed(&voluntary), [("voluntary-repair", vec!["m2"])]);
}

#[test]
fn surplus_nodes() {
    let mut fixed = kept();
    fixed.pool.replicas = Some(1);
    let mut state = initialized_cluster(fixed, &["m0", "m1"]);
    observe(&mut state, 0, [web()]);
    assert_eq!(replayed(&decisions(state, Settings::default(), |_, _| {})), [("static-scale-down", vec!["m1"])]);
}

#[test]
fn announced_nodes() {
    let recommend: Cause = |controller, _| controller.disruption.recommend_removal(text("m0"));
    let made = decisions(initialized_cluster(kept(), &["m0", "m1"]), Settings::default(), recommend);
    assert_eq!(replayed(&made), [("rebalance", vec!["m0"])]);
    let interrupt: Cause = |controller, ctx| {
        let instance: ProviderId = claim("m1").provider_id;
        controller.handle_interruption(&instance, InterruptionKind::SpotInterrupted, None, ctx);
    };
    let made = decisions(initialized_cluster(kept(), &["m0", "m1"]), Settings::default(), interrupt);
    assert_eq!(replayed(&made), [("interruption", vec!["m1"])]);
}

#[test]
fn a_shadow_decision_has_the_replacements_that_would_begin() {
    let (pool, old) = drifted();
    let mut state = initialized_cluster(pool, &["m0", "m1"]);
    observe(&mut state, 0, [old, web()]);
    let mut settings = Settings::default();
    settings.disruption.mode = Mode::Shadow;
    let made = decisions(state, settings, |_, _| {});
    assert_eq!(replayed(&made), [("drift", vec![])]);
    let selection = &made[0].removal_record.as_ref().unwrap().answer.selection;
    let replaced: Vec<&str> = selection.replacements.iter().map(|one| one.removal.claim.as_ref()).collect();
    assert_eq!((replaced, made[0].would.len()), (vec!["m0"], 1));
}

#[test]
fn sabotage_another_fact_gives_another_answer() {
    let made = decisions(initialized_cluster(pool(), &["m0", "m1"]), Settings::default(), |_, _| {});
    let mut basis = RemovalRecord::clone(made[0].removal_record.as_ref().unwrap());
    let SelectionFacts::Empty(facts) = &mut basis.input.facts else { panic!("{basis:?}") };
    facts.machines[0].last_pod_event = Some(basis.input.now);
    let again = RemovalAnswer::again(&basis.input, &basis.check);
    assert_eq!((again.removals.len(), basis.answer.removals.len()), (1, 2));
}
