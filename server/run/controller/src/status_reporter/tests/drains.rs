//! Events of drains under way, and of their beginning.

use super::*;
use model::drain::RecordedDrain;
use model::{Effect as TaintEffect, Taint};

#[test]
fn a_drain_blocked_by_a_budget_is_reported_on_the_node_and_in_the_view() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    let budget = PodBudgetRecord {
        namespace: text("default"),
        name: text("web"),
        selector: Some(LabelSelector::default()),
        allowed: 0,
        evicts_unhealthy_always: false,
        never_allows: false,
    };
    world.observe(2_000, Observation::upsert(Object::PodBudget(budget.clone())));
    world.observe(2_000, Observation::upsert(Object::Pod(PodRecord { ready: true, ..bound_to("m0", pod("a", 100)) })));
    world.observe(3_000, Observation::upsert(Object::Node(NodeRecord { deleting: true, ..node("m0") })));
    let why = "PodDisruptionBudget default/web blocks the eviction of pod default/a (disruptionsAllowed is 0)";
    let message = format!("{why} ($0.02/h)");
    let event = world.events.iter().find(|event| event.reason == EventReason::FailedDraining).unwrap();
    assert_eq!(
        (event.subject.clone(), event.reason.is_warning(), event.message.as_ref()),
        (ObjectRef::Node(text("n-m0")), true, message.as_str())
    );
    let blocked =
        |world: &Fixture| world.controller.view(&text("c")).and_then(|view| view.machines().next()?.blocked.clone());
    assert_eq!(blocked(&world).as_deref(), Some(why));
    world.observe(4_000, Observation::upsert(Object::PodBudget(PodBudgetRecord { allowed: 1, ..budget })));
    assert_eq!(blocked(&world), None);
    assert_eq!(world.conditions(&ObjectRef::Claim(text("m0")))[0], "Drained=Unknown Draining");
}

#[test]
fn an_eviction_is_blocked_under_the_conditions_of_the_api_server() {
    let budget = |name: &str, allowed, evicts_unhealthy_always| {
        Object::PodBudget(PodBudgetRecord {
            namespace: text("default"),
            name: text(name),
            selector: Some(LabelSelector::default()),
            allowed,
            evicts_unhealthy_always,
            never_allows: false,
        })
    };
    let blocked = |budgets: Vec<Object>, ready| {
        let mut state = initialized_cluster(pool(), &["m0"]);
        let a = PodRecord { ready, ..bound_to("m0", pod("a", 1)) };
        cluster::testing::observe(&mut state, 0, budgets.into_iter().chain([Object::Pod(a)]));
        state.drain_blockers(&text("n-m0"), Timestamp::from_millis(0)).len()
    };
    assert_eq!(blocked(vec![], true), 0);
    assert_eq!(blocked(vec![budget("a", 1, false)], true), 0);
    assert_eq!(blocked(vec![budget("a", 0, false)], true), 1);
    assert_eq!(blocked(vec![budget("a", 0, true)], true), 1, "a pod that is ready is guarded");
    assert_eq!(blocked(vec![budget("a", 0, true)], false), 0, "one that is not may always go");
    assert_eq!(blocked(vec![budget("a", 1, false), budget("b", 1, false)], true), 1, "two budgets bar every eviction");
}

#[test]
fn a_drain_with_a_deadline_is_announced_on_node_and_node_claim() {
    let mut shown = snapshot(&["m0"]);
    shown.claims[0].termination_grace_period = Some(Millis::from_hours(1));
    let mut world = Fixture::new(shown, Settings::default());
    world.observe(3_000, Observation::upsert(Object::Node(NodeRecord { deleting: true, ..node("m0") })));
    world.tick(5_000);
    let message =
        "pods that are left at 1970-01-01T01:00:03Z are deleted, whatever their PodDisruptionBudgets ($0.02/h)";
    let expected = [format!("nodeclaim/m0: {message}"), format!("node/n-m0: {message}")];
    assert_eq!(world.said(EventReason::TerminationGracePeriodExpiring), expected);
    assert!(EventReason::TerminationGracePeriodExpiring.is_warning());
    // Without the deadline, pods are waited for.
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    world.observe(3_000, Observation::upsert(Object::Node(NodeRecord { deleting: true, ..node("m0") })));
    world.tick(5_000);
    assert_eq!(world.said(EventReason::TerminationGracePeriodExpiring), Vec::<String>::new());
}

#[test]
fn a_removal_without_a_decision_names_its_price_on_node_and_node_claim() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    world.observe(3_000, Observation::upsert(Object::Node(NodeRecord { deleting: true, ..node("m0") })));
    world.tick(5_000);
    let message = "the machine is being terminated: the NodeClaim or its Node was deleted in the cluster ($0.02/h)";
    let expected = [format!("nodeclaim/m0: {message}"), format!("node/n-m0: {message}")];
    assert_eq!(world.said(EventReason::DisruptionTerminating), expected);
}

/// The reasons of the drains that the next owner orders, where one is under way whose annotation has this reason.
fn resumed(reason: &str) -> Vec<String> {
    let mut shown = snapshot(&["m0"]);
    let taint = Taint { key: text("karpenter.sh/disrupted"), value: text(""), effect: TaintEffect::NoSchedule };
    shown.nodes[0].taints.push(taint);
    shown.nodes[0].drain = Some(RecordedDrain { claim: text("m0"), deadline: None, reason: text(reason) });
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    world.handle(1_000, Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() });
    let observation = Observation::Snapshot(Box::new(shown));
    let effects = world.handle(2_000, Event::Observed(observation));
    let drains = effects.iter().filter_map(|effect| match effect {
        Effect::Instruct { instruction, .. } => match instruction.as_ref() {
            Instruction::Drain { reason, .. } => Some(reason.to_string()),
            _ => None,
        },
        _ => None,
    });
    drains.collect()
}

#[test]
fn the_next_owner_repeats_why_a_node_drains_with_the_number_of_the_decision() {
    let why = "it is empty (decision 42, $0.02/h)";
    assert_eq!(resumed(why), [why]);
    assert_eq!(resumed(""), ["its removal began before the takeover ($0.02/h)"]);
}
