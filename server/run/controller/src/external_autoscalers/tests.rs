use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::methods::emptiness::Emptiness;
use crate::testing::SynchronousController;
use crate::{ClusterCall, Effect, Event, PlanError, PlanOutcome, Settings};
use cluster::testing::{bound_to, claim, initialized_cluster, node, pod, pool, text};
use cluster::{AutoscalerRecord, ClaimRecord, ClusterSnapshot, NodeRecord, Object, Observation, PodRecord, PoolRecord};
use model::input::PlanningInput;
use model::{Millis, NotReady, Timestamp};
use verifier::{Rule, Violation};

/// Places nothing, and reports the pods and pools of its input: `a | p`, or `a | p (why not)`.
fn asked(input: &PlanningInput) -> PlanOutcome {
    let pods: Vec<&str> = input.pods.iter().map(|pod| pod.name.as_ref()).collect();
    let pool = |pool: &model::NodePool| match &pool.not_ready {
        Some(NotReady::NodePool(why) | NotReady::NodeClass(why)) => format!("{} ({why})", pool.name),
        None => pool.name.to_string(),
    };
    let pools: Vec<String> = input.pools.iter().map(pool).collect();
    let message = format!("{} | {}", pods.join(" "), pools.join(" "));
    Err(PlanError::Rejected(vec![Violation { rule: Rule::Placement, pod: None, node: None, message }]))
}

fn controller(snapshot: ClusterSnapshot, settings: Settings) -> SynchronousController {
    let mut controller = SynchronousController::new(settings, asked);
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    observe(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(1_000));
    controller
}

fn observe(controller: &mut SynchronousController, at: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed(observation), Timestamp::from_millis(at))
}

/// The planner's last input, after a tick at `at`.
fn at(controller: &mut SynchronousController, at: i64) -> String {
    controller.handle(Event::Tick, Timestamp::from_millis(at));
    let error = controller.view(&text("c")).and_then(|view| view.last_error).unwrap_or_default();
    error.strip_prefix("the plan failed the plan verifier: Placement: ").unwrap_or_default().to_owned()
}

fn pools(records: Vec<PoolRecord>) -> ClusterSnapshot {
    ClusterSnapshot { pools: records, ..ClusterSnapshot::default() }
}

fn bought_by_others(name: &str, when: i64) -> Observation {
    let foreign = PodRecord { external_scale_up: Some(Timestamp::from_millis(when)), ..pod(name, 100) };
    Observation::upsert(Object::Pod(foreign))
}

#[test]
fn a_pod_held_for_cluster_autoscaler_is_planned_when_the_hold_ends() {
    let mut controller = controller(pools(vec![pool()]), Settings::default());
    observe(&mut controller, 2_000, bought_by_others("a", 1_500));
    assert_eq!(at(&mut controller, 60_000), "", "no pod is planned");
    // 1.5 s and the five minutes of the default; disruption is looked at after five minutes without a change.
    assert_eq!(at(&mut controller, 300_000), "");
    assert_eq!(controller.next_wakeup(), Some(Timestamp::from_millis(301_500)));
    assert_eq!(at(&mut controller, 301_499), "");
    at(&mut controller, 301_500);
    assert_eq!(at(&mut controller, 302_500), "a | p", "the window of one second has closed");
}

#[test]
fn without_the_hold_both_autoscalers_would_launch_for_the_same_pod() {
    let settings = Settings { hold_after_external_scale_up: Millis::ZERO, ..Settings::default() };
    let mut controller = controller(pools(vec![pool()]), settings);
    observe(&mut controller, 2_000, bought_by_others("a", 1_500));
    assert_eq!(at(&mut controller, 3_000), "a | p");
}

#[test]
fn a_new_scale_up_of_cluster_autoscaler_restarts_the_hold() {
    let mut controller = controller(pools(vec![pool()]), Settings::default());
    observe(&mut controller, 2_000, bought_by_others("a", 1_500));
    observe(&mut controller, 200_000, bought_by_others("a", 200_000));
    assert_eq!(at(&mut controller, 400_000), "");
    at(&mut controller, 500_000);
    assert_eq!(at(&mut controller, 501_000), "a | p");
}

fn karpenter(live: bool) -> Observation {
    let evidence = text(if live { "Deployment karpenter/karpenter has 2 replicas" } else { "" });
    Observation::upsert(Object::Autoscaler(AutoscalerRecord { name: text("karpenter"), live, evidence }))
}

fn marked(name: &str, managed: Option<bool>) -> PoolRecord {
    let mut record = pool();
    record.pool.name = text(name);
    record.meta.managed = managed;
    record
}

#[test]
fn while_karpenter_is_active_no_pool_is_managed_and_each_has_a_reason() {
    let both = vec![marked("annotated", Some(true)), marked("plain", None)];
    let mut controller = controller(pools(both), Settings::default());
    observe(&mut controller, 2_000, Observation::upsert(Object::Pod(pod("a", 100))));
    assert_eq!(at(&mut controller, 3_000), "a | annotated plain");
    observe(&mut controller, 4_000, karpenter(true));
    let why = |refused: &str| {
        format!(
            "Karpenter is active in this cluster (Deployment karpenter/karpenter has 2 replicas) and would launch a second \
             instance for each NodeClaim: the NodePool is not managed{refused}. Scale Karpenter to 0, or set \
             agent.karpenter-absent = true in the agent's configuration if it is not installed"
        )
    };
    let annotated = why(", regardless of its annotation fleetwright.dev/managed");
    assert_eq!(at(&mut controller, 5_000), format!("a | annotated ({annotated}) plain ({})", why("")));
    let left = controller.view(&text("c")).map(|view| view.unmanaged_pools).unwrap_or_default();
    assert_eq!(left, [(text("annotated"), text(&annotated)), (text("plain"), text(&why("")))]);
    observe(&mut controller, 6_000, karpenter(false));
    assert_eq!(at(&mut controller, 7_000), "a | annotated plain");
}

#[test]
fn in_shadow_mode_decisions_are_made_beside_an_active_karpenter() {
    let mut settings = Settings::default();
    settings.guardrails.mode = crate::guardrails::Mode::Shadow;
    let mut controller = controller(pools(vec![marked("plain", None)]), settings);
    observe(&mut controller, 2_000, karpenter(true));
    observe(&mut controller, 3_000, Observation::upsert(Object::Pod(pod("a", 100))));
    assert_eq!(at(&mut controller, 4_000), "a | plain");
}

#[test]
fn a_pool_annotated_as_unmanaged_is_not_used_with_or_without_karpenter() {
    let mut controller = controller(pools(vec![marked("p", Some(false))]), Settings::default());
    observe(&mut controller, 2_000, Observation::upsert(Object::Pod(pod("a", 100))));
    assert_eq!(at(&mut controller, 3_000), "a | p (its annotation fleetwright.dev/managed is \"false\")");
}

/// A cluster with one empty machine, as `change` leaves it.
fn with_machine(change: impl FnOnce(&mut ClaimRecord, &mut NodeRecord, &mut PoolRecord)) -> ClusterSnapshot {
    let (mut claim, mut node, mut pool) = (claim("m0"), node("m0"), pool());
    change(&mut claim, &mut node, &mut pool);
    ClusterSnapshot { pools: vec![pool], nodes: vec![node], claims: vec![claim], ..ClusterSnapshot::default() }
}

/// Whether a machine of this cluster is changed within ten minutes.
fn touched(snapshot: ClusterSnapshot, other: Observation) -> bool {
    let mut controller = controller(snapshot, Settings::default());
    let mut effects = observe(&mut controller, 1_000, other);
    for second in 2..600 {
        effects.extend(controller.handle(Event::Tick, Timestamp::from_millis(second * 1_000)));
    }
    let decided = effects.iter().any(|effect| {
        matches!(effect, Effect::Call(ClusterCall::RecordDecision(_)) | Effect::Call(ClusterCall::Terminate { .. }))
    });
    let sent = |effect: &Effect| matches!(effect, Effect::Instruct { instruction, .. } if instruction.claim().is_some_and(|claim| claim.as_ref() == "m0"));
    decided || effects.iter().any(sent)
}

#[test]
fn an_empty_node_is_removed_only_if_claim_and_pool_are_managed() {
    assert!(touched(with_machine(|_, _, _| {}), karpenter(false)), "a managed one is removed after 30 s");
    assert!(!touched(with_machine(|claim, _, _| claim.ours = false), karpenter(false)), "a NodeClaim of Karpenter's");
    assert!(
        !touched(with_machine(|claim, _, _| claim.provider_id = text("")), karpenter(false)),
        "a Node without NodeClaim"
    );
    assert!(!touched(with_machine(|_, _, _| {}), karpenter(true)), "a pool managed by Karpenter");
    let annotated = with_machine(|_, _, pool| pool.meta.managed = Some(true));
    assert!(!touched(annotated, karpenter(true)), "an annotation does not keep Karpenter from draining it as well");
}

#[test]
fn a_node_claim_of_another_owner_is_not_changed_even_when_deleted() {
    let going = with_machine(|claim, node, _| {
        claim.ours = false;
        claim.deleting = true;
        node.deleting = true;
    });
    assert!(!touched(going, karpenter(false)));
}

#[test]
fn a_pod_nominated_by_others_uses_capacity_of_its_node_and_keeps_it() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let nominated = PodRecord { nominated: Some(text("n-m0")), ..pod("a", 100) };
    cluster::testing::observe(&mut state, 0, [Object::Pod(nominated.clone())]);
    let input = state.planning_input(&model::input::Policy::default(), Timestamp::from_millis(0));
    assert_eq!((input.pods.len(), input.nodes[0].pods.len()), (0, 1));
    let view = DisruptionView::of(&state, Timestamp::from_millis(60_000));
    assert!(Emptiness.select(&view).removals.is_empty());
    // Its nominated node is deleted: it is planned like any other.
    let elsewhere = PodRecord { nominated: Some(text("n-m9")), ..nominated };
    cluster::testing::observe(&mut state, 1, [Object::Pod(elsewhere), Object::Pod(bound_to("m0", pod("b", 1)))]);
    let input = state.planning_input(&model::input::Policy::default(), Timestamp::from_millis(1));
    assert_eq!((input.pods.len(), input.nodes[0].pods.len()), (1, 1));
}
