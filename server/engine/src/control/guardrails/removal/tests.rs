use super::*;

fn machine(node: NodeState, pods: usize) -> MachineFacts {
    MachineFacts { node, pods, confirmed: false }
}

fn judged(evidence: Evidence, facts: MachineFacts, constraints: &RemovalConstraints) -> bool {
    evaluate_removal(&RemovalRule::default(), evidence, facts, constraints) == GateDecision::Proceed
}

fn bulk() -> RemovalConstraints {
    RemovalConstraints { bulk: Some(Text::from("many were deleted")), allowance: 1, ..RemovalConstraints::default() }
}

#[test]
fn a_ready_node_with_pods_stays_whatever_the_cloud_answers_about_its_id() {
    let calm = RemovalConstraints::default();
    let busy = machine(NodeState::Ready, 1);
    assert!(!judged(Evidence::Ended, busy, &calm));
    assert!(!judged(Evidence::Unknown, busy, &calm));
    // A confirmation does not override it either: the Node proves that the machine runs.
    assert!(!judged(Evidence::Unknown, MachineFacts { confirmed: true, ..busy }, &calm));
    assert!(judged(Evidence::Ended, machine(NodeState::Ready, 0), &calm));
    assert!(
        !judged(Evidence::Unknown, machine(NodeState::Ready, 0), &calm),
        "the credentials may be of another account"
    );
    for node in [NodeState::NotReady, NodeState::Never, NodeState::Vanished { with_most: false }] {
        assert!(judged(Evidence::Ended, machine(node, 1), &calm));
        assert!(judged(Evidence::Unknown, machine(node, 1), &calm));
    }
}

#[test]
fn an_unknown_instance_waits_for_distrust_freezes_and_limits_unless_confirmed() {
    let why = || Some(Text::from("why"));
    let capped = Some(Hold { reason: Text::from("why"), until: Some(Timestamp(5)) });
    let constraint_sets = [
        RemovalConstraints { distrusted: why(), ..RemovalConstraints::default() },
        RemovalConstraints { frozen: why(), ..RemovalConstraints::default() },
        RemovalConstraints { capped, ..RemovalConstraints::default() },
    ];
    let lost = machine(NodeState::NotReady, 3);
    for constraints in &constraint_sets {
        assert!(!judged(Evidence::Unknown, lost, constraints), "{constraints:?}");
        assert!(judged(Evidence::Unknown, MachineFacts { confirmed: true, ..lost }, constraints), "{constraints:?}");
        // The cloud's report overrides all of them.
        assert!(judged(Evidence::Ended, lost, constraints), "{constraints:?}");
    }
    let GateDecision::Hold { until, .. } =
        evaluate_removal(&RemovalRule::default(), Evidence::Unknown, lost, &constraint_sets[2])
    else {
        panic!("it waits");
    };
    assert_eq!(until, Some(Timestamp(5)));
}

#[test]
fn a_node_that_vanished_under_its_pods_holds_its_machine() {
    let calm = RemovalConstraints::default();
    let vanished = |with_most, pods| machine(NodeState::Vanished { with_most }, pods);
    assert!(!judged(Evidence::Terminating, vanished(false, 1), &calm));
    assert!(!judged(Evidence::Terminating, vanished(true, 0), &calm));
    assert!(judged(Evidence::Terminating, vanished(false, 0), &calm), "nothing runs there");
    assert!(judged(Evidence::Terminating, machine(NodeState::Never, 0), &calm), "it never joined");
    assert!(judged(Evidence::Terminating, MachineFacts { confirmed: true, ..vanished(true, 9) }, &calm));
    // Sabotage: without the guard the removal proceeds.
    let off = RemovalRule { keep_vanished: false, ..RemovalRule::default() };
    assert_eq!(evaluate_removal(&off, Evidence::Terminating, vanished(true, 9), &calm), GateDecision::Proceed);
}

#[test]
fn few_manual_deletions_proceed_at_once_and_many_wait_for_freeze_limits_and_budget() {
    let busy = machine(NodeState::Ready, 4);
    let frozen = || Some(Text::from("the fleet is frozen"));
    assert!(judged(Evidence::ByHand, busy, &RemovalConstraints { frozen: frozen(), ..RemovalConstraints::default() }));
    assert!(judged(Evidence::ByHand, busy, &bulk()));
    assert!(!judged(Evidence::ByHand, busy, &RemovalConstraints { allowance: 0, ..bulk() }));
    assert!(!judged(Evidence::ByHand, busy, &RemovalConstraints { frozen: frozen(), ..bulk() }));
    let confirmed = MachineFacts { confirmed: true, ..busy };
    assert!(judged(Evidence::ByHand, confirmed, &RemovalConstraints { frozen: frozen(), ..bulk() }));
    assert!(!judged(Evidence::ByHand, confirmed, &RemovalConstraints { allowance: 0, ..bulk() }), "the pace stays");
}

#[test]
fn a_tenth_of_the_machines_and_at_least_three_are_removed_at_once() {
    let rule = RemovalRule::default();
    assert_eq!([0, 3, 30, 31, 100].map(|machines| rule.by_hand(machines)), [3, 3, 3, 4, 10]);
    assert_eq!(RemovalRule { by_hand_percent: 0, ..rule }.by_hand(5), usize::MAX);
}

#[test]
fn a_hold_keeps_its_start_and_changes_the_version_with_its_reason() {
    let mut waiting = HeldRemovals::default();
    let (claim, text) = (Text::from("a"), Text::from);
    waiting.hold(HoldCause::Missing, &claim, text("one"), text("until"), Timestamp(1));
    waiting.hold(HoldCause::Missing, &claim, text("one"), text("until"), Timestamp(2));
    assert_eq!(waiting.version(), 1);
    waiting.hold(HoldCause::Missing, &claim, text("two"), text("until"), Timestamp(3));
    assert_eq!((waiting.version(), waiting.all().map(|(_, _, held)| held.since).collect()), (2, vec![Timestamp(1)]));
    waiting.release(HoldCause::Foreign, &claim);
    assert_eq!(waiting.version(), 2, "it waits for another reason");
    waiting.release(HoldCause::Missing, &claim);
    assert_eq!((waiting.version(), waiting.all().count()), (3, 0));
}
