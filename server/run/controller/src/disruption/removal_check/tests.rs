use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::cluster_controller::ClusterController;
use crate::{ClusterCall, Decision, DisruptionSettings, Effect, RegionState, Settings};
use cluster::testing::{bound_to, claim, initialized_cluster, node, observe, pod, pool, pool_with, text};
use cluster::{ClaimRecord, ClusterState, DoNotDisrupt, Object, Observation, PodBudgetRecord, Target};
use model::disruption_policy::DisruptionReason;
use model::interruption::InterruptionKind;
use model::{BudgetLimit, LabelSelector, Labels, Millis};
use verifier::{RemovalRule, RemovalViolation};

/// A controller of the cluster `c` in this state, with every machine that the state has.
struct Cluster {
    controller: ClusterController,
    settings: Settings,
    effects: Vec<Effect>,
}

impl Cluster {
    fn new(state: ClusterState) -> Self {
        let mut controller = ClusterController::new(text("c"), Arc::default());
        controller.state = state.into();
        crate::nodeclaim::lifecycle::adopt_claims(Timestamp::from_millis(0), &mut controller.claims, &controller.state);
        Self { controller, settings: Settings::default(), effects: Vec::new() }
    }

    /// Runs `act` at 60 s, 30 s after empty nodes of the pool may be removed.
    fn run<T>(&mut self, act: impl FnOnce(&mut ClusterController, &mut Context<'_>) -> T) -> T {
        let (region, locked) = (RegionState::new(self.settings.clone()), Cell::new(false));
        let mut ctx = Context::new(
            (self.controller.cluster.clone(), self.controller.uid.clone()),
            &region,
            &locked,
            &mut self.effects,
            Timestamp::from_millis(60_000),
        );
        act(&mut self.controller, &mut ctx)
    }

    /// Runs a pass for empty nodes.
    fn run_pass(&mut self) {
        let snapshot = Observation::Snapshot(Box::new(self.controller.state.to_snapshot()));
        self.run(|controller, ctx| {
            controller.state.apply(snapshot, ctx.now);
            controller.connected = true;
            controller.disruption.schedule_now();
            controller.reconcile_disruption(ctx);
        });
    }

    /// The NodeClaims of those of `claims` whose removal the verifier accepts.
    fn verify(&mut self, claims: &[&str], reason: RemovalReason) -> Vec<ClaimName> {
        let removal = |name: &&str| Removal {
            claim: text(name),
            node: NodeName::from(format!("n-{name}")),
            reason: text("a test removes it"),
        };
        let removals: Vec<Removal> = claims.iter().map(removal).collect();
        let (accepted, _) = self.run(|controller, ctx| controller.verify(removals, reason, None, ctx));
        accepted.into_iter().map(|removal| removal.claim).collect()
    }

    fn decisions(&self) -> Vec<&Decision> {
        let decisions = self.effects.iter().filter_map(|effect| match effect {
            Effect::Call(ClusterCall::RecordDecision(decision)) => Some(decision.as_ref()),
            _ => None,
        });
        decisions.collect()
    }

    fn rejections(&self) -> Vec<&RemovalViolation> {
        let rejections = self.effects.iter().filter_map(|effect| match effect {
            Effect::ReportFinding(Finding::RemovalRejected { violation }) => Some(violation),
            _ => None,
        });
        rejections.collect()
    }

    /// Rule and NodeClaim of each reported rejection.
    fn rejected(&self) -> Vec<(RemovalRule, &str)> {
        self.rejections().into_iter().map(|violation| (violation.rule, violation.claim.as_ref())).collect()
    }
}

fn web(name: &str) -> PodRecord {
    let labels: Labels = [(text("app"), text("web"))].into_iter().collect();
    PodRecord { workload: text("ReplicaSet/web"), ready: true, labels: labels.into(), ..pod(name, 100) }
}

fn pod_disruption_budget(allowed: i32) -> Object {
    Object::PodBudget(PodBudgetRecord {
        namespace: text("default"),
        name: text("all"),
        selector: Some(LabelSelector::new(Vec::new())),
        allowed,
        evicts_unhealthy_always: false,
        never_allows: false,
    })
}

#[test]
fn a_removal_that_the_verifier_rejects_is_left_out_counted_and_reported() {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Pod(bound_to("m0", web("web-0")))]);
    let mut cluster = Cluster::new(state);
    assert_eq!(cluster.verify(&["m0", "m1"], RemovalReason::Empty), ["m1"]);
    assert_eq!(cluster.rejected(), [(RemovalRule::Room, "m0")]);
    assert_eq!(cluster.controller.guardrails.rejected_removals(), 1);
    let finding = Finding::RemovalRejected { violation: cluster.rejections()[0].clone() };
    assert_eq!(
        finding.to_string(),
        "the verifier rejected a removal (Room on NodeClaim m0: pod default/web-0 runs on a node that is removed as \
         empty): the node is kept. Please report this with the state of the cluster"
    );
}

/// The verdict on the removal of drifted `m0`, whose pod is assigned to the Node of `m1` after `change`.
fn verdict_with_place(change: impl FnOnce(&mut ClusterState)) -> Vec<(RemovalRule, String)> {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Pod(bound_to("m0", web("web-0")))]);
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, Timestamp::from_millis(0));
    state.assign_pod(web("web-0").key, Target::Claim(text("m1")), None);
    change(&mut state);
    let mut cluster = Cluster::new(state);
    cluster.verify(&["m0"], RemovalReason::Drifted);
    cluster.rejected().into_iter().map(|(rule, claim)| (rule, claim.to_owned())).collect()
}

#[test]
fn a_drifted_node_is_removed_when_the_node_that_its_pod_is_assigned_to_is_initialized() {
    assert_eq!(verdict_with_place(|_| {}), []);
    let no_room = [(RemovalRule::Room, "m0".to_owned())];
    let initializing = |state: &mut ClusterState| {
        let mut late = node("m1");
        late.labels.remove(model::labels::INITIALIZED);
        observe(state, 0, [Object::Node(late)]);
    };
    assert_eq!(verdict_with_place(initializing), no_room);
    assert_eq!(
        verdict_with_place(|state| state.begin_replacement(
            &text("m1"),
            DisruptionReason::Drifted,
            true,
            Timestamp::from_millis(1_000)
        )),
        no_room
    );
    assert_eq!(verdict_with_place(|state| state.end_replacement(&text("m0"))), no_room, "no place is assigned");
}

/// Two Nodes name one instance, so the pass finds two empty nodes of one NodeClaim.
#[test]
fn an_empty_node_that_the_verifier_rejects_is_not_recorded() {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Node(NodeRecord { name: text("n-again"), ..node("m0") })]);
    let mut cluster = Cluster::new(state);
    cluster.run_pass();
    assert_eq!(cluster.rejected(), [(RemovalRule::Terminating, "m0")]);
    let decisions = cluster.decisions();
    let recorded: Vec<&str> = decisions.iter().flat_map(|one| &one.removals).map(|one| one.claim.as_ref()).collect();
    assert_eq!((decisions.len(), recorded), (1, vec!["m1"]));
    assert_eq!(cluster.controller.decisions.removals(), 1);
}

#[test]
fn an_interruption_that_the_verifier_rejects_is_neither_recorded_nor_executed() {
    let mut cluster = Cluster::new(initialized_cluster(pool(), &["m0"]));
    // The NodeClaim was handed over to another controller after its machine was adopted.
    let theirs = ClaimRecord { ours: false, ..claim("m0") };
    observe(&mut cluster.controller.state, 0, [Object::Claim(theirs)]);
    let provider_id = claim("m0").provider_id;
    cluster.run(|controller, ctx| {
        controller.handle_interruption(&provider_id, InterruptionKind::SpotInterrupted, None, ctx)
    });
    assert_eq!(cluster.rejected(), [(RemovalRule::Unmanaged, "m0")]);
    assert_eq!(cluster.effects.len(), 1, "nothing but the finding: {:?}", cluster.effects);
    assert!(!cluster.controller.state.is_marked_for_deletion(&text("m0")));
}

#[test]
fn an_interruption_is_recorded_whatever_protects_the_node_and_its_pods() {
    let mut state = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &["m0"]);
    let protected = NodeRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..node("m0") };
    let pods = [Object::Pod(bound_to("m0", web("web-0"))), Object::Pod(web("web-1"))];
    observe(&mut state, 0, [Object::Node(protected), pod_disruption_budget(0)].into_iter().chain(pods));
    let mut cluster = Cluster::new(state);
    assert_eq!(cluster.verify(&["m0"], RemovalReason::Underutilized), Vec::<ClaimName>::new());
    cluster.effects.clear();
    let provider_id = claim("m0").provider_id;
    cluster.run(|controller, ctx| {
        controller.handle_interruption(&provider_id, InterruptionKind::SpotInterrupted, None, ctx)
    });
    assert_eq!(cluster.rejected(), []);
    let kinds: Vec<&str> = cluster.decisions().iter().map(|decision| decision.reason.as_str()).collect();
    assert_eq!(kinds, ["interruption"]);
}

/// The facts of the cluster reach the rule that they concern.
#[test]
fn each_rule_is_judged_by_what_is_observed() {
    let rejected = |reason, pool, objects: Vec<Object>| {
        let mut state = initialized_cluster(pool, &["m0", "m1"]);
        observe(&mut state, 0, objects);
        let mut cluster = Cluster::new(state);
        cluster.verify(&["m0"], reason);
        cluster.rejected().into_iter().map(|(rule, _)| rule).collect::<Vec<_>>()
    };
    let alone = |name| Object::Pod(bound_to("m0", PodRecord { ready: true, ..pod(name, 100) }));
    assert_eq!(rejected(RemovalReason::Empty, pool(), vec![]), []);
    assert_eq!(rejected(RemovalReason::Underutilized, pool(), vec![alone("a")]), []);
    // m1 is not ready, so with m0 both nodes are unavailable; the budget is one.
    let unready = || Object::Node(NodeRecord { ready: false, ..node("m1") });
    let one = || pool_with(BudgetLimit::Nodes(1));
    assert_eq!(rejected(RemovalReason::Empty, one(), vec![]), []);
    assert_eq!(rejected(RemovalReason::Empty, one(), vec![unready()]), [RemovalRule::Budget]);
    let protected = Object::Node(NodeRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..node("m0") });
    assert_eq!(rejected(RemovalReason::Empty, pool(), vec![protected]), [RemovalRule::DoNotDisrupt]);
    // Started at 0; it is 60 s later.
    let until = |secs| {
        let do_not_disrupt = Some(DoNotDisrupt::For(Millis::from_secs(secs)));
        let daemon = Some(text("kube-system/agent"));
        vec![Object::Pod(bound_to("m0", PodRecord { do_not_disrupt, daemon, ..pod("agent", 10) }))]
    };
    assert_eq!(rejected(RemovalReason::Empty, pool(), until(61)), [RemovalRule::DoNotDisrupt]);
    assert_eq!(rejected(RemovalReason::Empty, pool(), until(60)), []);
    let blocked = vec![alone("a"), pod_disruption_budget(0)];
    assert_eq!(rejected(RemovalReason::Underutilized, pool(), blocked), [RemovalRule::PodDisruptionBudget]);
    assert_eq!(rejected(RemovalReason::Underutilized, pool(), vec![alone("a"), pod_disruption_budget(1)]), []);
    let uninitialized = Object::Node(NodeRecord { labels: Labels::new(), ..node("m0") });
    assert_eq!(rejected(RemovalReason::Drifted, pool(), vec![uninitialized]), [RemovalRule::NotInitialized]);
    let deleting = Object::Claim(ClaimRecord { deleting: true, ..claim("m0") });
    assert_eq!(rejected(RemovalReason::Drifted, pool(), vec![deleting]), [RemovalRule::Terminating]);
    let mut theirs = pool();
    theirs.meta.managed = Some(false);
    assert_eq!(rejected(RemovalReason::Empty, theirs, vec![]), [RemovalRule::Unmanaged]);
}

#[test]
fn ready_replicas_count_on_nodes_that_stay() {
    let last_ready = |elsewhere: Vec<PodRecord>| {
        let mut state = initialized_cluster(pool(), &["m0", "m1"]);
        observe(&mut state, 0, elsewhere.into_iter().chain([bound_to("m0", web("web-0"))]).map(Object::Pod));
        let cluster = Cluster::new(state);
        let plan = plan_of("m0");
        let input = {
            let ClusterController { claims, state, decisions, .. } = &cluster.controller;
            removal_input(&plan, Timestamp::from_millis(60_000), claims, state, decisions)
        };
        input.elsewhere.get(&(text("default"), text("ReplicaSet/web"))).copied()
    };
    let count = |pods, ready| Some(ReplicaCount { pods, ready });
    assert_eq!(last_ready(vec![]), count(0, 0));
    assert_eq!(last_ready(vec![bound_to("m1", web("web-1"))]), count(1, 1));
    assert_eq!(last_ready(vec![PodRecord { ready: false, ..web("web-1") }]), count(1, 0));
    assert_eq!(last_ready(vec![bound_to("m1", PodRecord { terminating: true, ..web("web-1") })]), count(0, 0));
    assert_eq!(last_ready(vec![bound_to("m0", web("web-1"))]), count(0, 0));
    assert_eq!(last_ready(vec![bound_to("m9", web("web-1"))]), count(1, 0), "the Node m9 does not exist");
}

/// The budget of the cluster is judged independently of what selects nodes.
#[test]
fn the_budget_of_the_cluster_is_verified() {
    let rejected = |limit: Option<BudgetLimit>, reason| {
        let mut state = initialized_cluster(pool(), &["m0", "m1", "m2", "m3"]);
        observe(&mut state, 0, [Object::Node(NodeRecord { ready: false, ..node("m3") })]);
        let mut cluster = Cluster::new(state);
        cluster.settings.disruption =
            DisruptionSettings { max_unavailable_nodes: limit, ..DisruptionSettings::default() };
        cluster.verify(&["m0", "m1"], reason);
        cluster.rejected().into_iter().map(|(rule, claim)| (rule, claim.to_owned())).collect::<Vec<_>>()
    };
    // m3 is not ready: with m0 and m1 three of four nodes are unavailable, 75 %.
    let m1 = vec![(RemovalRule::ClusterBudget, "m1".to_owned())];
    assert_eq!(rejected(Some(BudgetLimit::Nodes(2)), RemovalReason::Empty), m1);
    assert_eq!(rejected(Some(BudgetLimit::Percent(50)), RemovalReason::Empty), m1);
    for limit in [None, Some(BudgetLimit::Nodes(3)), Some(BudgetLimit::Percent(75))] {
        assert_eq!(rejected(limit, RemovalReason::Empty), []);
    }
    assert_eq!(rejected(Some(BudgetLimit::Nodes(0)), RemovalReason::Expired), []);
}

fn plan_of(claim: &str) -> RemovalPlan {
    let removal = NodeRemoval { claim: text(claim), reason: RemovalReason::Underutilized, deadline: None };
    RemovalPlan { removals: vec![removal], placements: BTreeMap::new() }
}

/// A decision that is not durable yet counts as begun, and its nodes are not removed again.
#[test]
fn undurable_removals_count() {
    let mut cluster = Cluster::new(initialized_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1", "m2"]));
    cluster.run_pass();
    assert_eq!(cluster.decisions()[0].removals[0].claim, "m0");
    assert_eq!(cluster.verify(&["m1"], RemovalReason::Empty), Vec::<ClaimName>::new());
    assert_eq!(cluster.rejected(), [(RemovalRule::Budget, "m1")]);
    cluster.effects.clear();
    assert_eq!(cluster.verify(&["m0"], RemovalReason::Empty), Vec::<ClaimName>::new());
    assert_eq!(cluster.rejected(), [(RemovalRule::Terminating, "m0")]);
}
