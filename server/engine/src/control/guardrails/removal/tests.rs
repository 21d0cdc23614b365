use super::*;

fn machine(node: NodeState, pods: usize) -> Facts {
    Facts { node, pods, confirmed: false }
}

fn judged(evidence: Evidence, facts: Facts, around: &Circumstances) -> bool {
    judge(&RemovalRule::default(), evidence, facts, around) == Verdict::Proceed
}

fn bulk() -> Circumstances {
    Circumstances { bulk: Some(Text::from("many were deleted")), allowance: 1, ..Circumstances::default() }
}

#[test]
fn a_ready_node_with_pods_stays_whatever_the_cloud_answers_about_its_id() {
    let calm = Circumstances::default();
    let busy = machine(NodeState::Ready, 1);
    assert!(!judged(Evidence::Ended, busy, &calm));
    assert!(!judged(Evidence::Unknown, busy, &calm));
    // No person can confirm it away either: the Node says otherwise.
    assert!(!judged(Evidence::Unknown, Facts { confirmed: true, ..busy }, &calm));
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
fn what_the_cloud_does_not_know_waits_for_doubts_freezes_and_bounds_and_a_person_overrules_them() {
    let why = || Some(Text::from("why"));
    let capped = Some(Held { reason: Text::from("why"), until: Some(Timestamp(5)) });
    let arounds = [
        Circumstances { doubted: why(), ..Circumstances::default() },
        Circumstances { frozen: why(), ..Circumstances::default() },
        Circumstances { capped, ..Circumstances::default() },
    ];
    let lost = machine(NodeState::NotReady, 3);
    for around in &arounds {
        assert!(!judged(Evidence::Unknown, lost, around), "{around:?}");
        assert!(judged(Evidence::Unknown, Facts { confirmed: true, ..lost }, around), "{around:?}");
        // What the cloud states goes past all of them.
        assert!(judged(Evidence::Ended, lost, around), "{around:?}");
    }
    let Verdict::Hold { until, .. } = judge(&RemovalRule::default(), Evidence::Unknown, lost, &arounds[2]) else {
        panic!("it waits");
    };
    assert_eq!(until, Some(Timestamp(5)));
}

#[test]
fn a_node_that_vanished_under_its_pods_holds_its_machine() {
    let calm = Circumstances::default();
    let vanished = |with_most, pods| machine(NodeState::Vanished { with_most }, pods);
    assert!(!judged(Evidence::Leaving, vanished(false, 1), &calm));
    assert!(!judged(Evidence::Leaving, vanished(true, 0), &calm));
    assert!(judged(Evidence::Leaving, vanished(false, 0), &calm), "nothing runs there");
    assert!(judged(Evidence::Leaving, machine(NodeState::Never, 0), &calm), "it never joined");
    assert!(judged(Evidence::Leaving, Facts { confirmed: true, ..vanished(true, 9) }, &calm));
    // Sabotage: without the guard it goes.
    let off = RemovalRule { keep_vanished: false, ..RemovalRule::default() };
    assert_eq!(judge(&off, Evidence::Leaving, vanished(true, 9), &calm), Verdict::Proceed);
}

#[test]
fn few_deletions_by_hand_go_at_once_and_many_wait_for_freeze_bounds_and_budget() {
    let busy = machine(NodeState::Ready, 4);
    let frozen = || Some(Text::from("the fleet is frozen"));
    assert!(judged(Evidence::ByHand, busy, &Circumstances { frozen: frozen(), ..Circumstances::default() }));
    assert!(judged(Evidence::ByHand, busy, &bulk()));
    assert!(!judged(Evidence::ByHand, busy, &Circumstances { allowance: 0, ..bulk() }));
    assert!(!judged(Evidence::ByHand, busy, &Circumstances { frozen: frozen(), ..bulk() }));
    let confirmed = Facts { confirmed: true, ..busy };
    assert!(judged(Evidence::ByHand, confirmed, &Circumstances { frozen: frozen(), ..bulk() }));
    assert!(!judged(Evidence::ByHand, confirmed, &Circumstances { allowance: 0, ..bulk() }), "the pace stays");
}

#[test]
fn a_tenth_of_the_machines_and_three_at_least_go_at_once() {
    let rule = RemovalRule::default();
    assert_eq!([0, 3, 30, 31, 100].map(|machines| rule.by_hand(machines)), [3, 3, 3, 4, 10]);
    assert_eq!(RemovalRule { by_hand_percent: 0, ..rule }.by_hand(5), usize::MAX);
}

#[test]
fn what_waits_keeps_its_beginning_and_is_news_when_it_changes() {
    let mut waiting = Waiting::default();
    let (claim, text) = (Text::from("a"), Text::from);
    waiting.hold(Cause::Missing, &claim, text("one"), text("until"), Timestamp(1));
    waiting.hold(Cause::Missing, &claim, text("one"), text("until"), Timestamp(2));
    assert_eq!(waiting.version(), 1);
    waiting.hold(Cause::Missing, &claim, text("two"), text("until"), Timestamp(3));
    assert_eq!((waiting.version(), waiting.all().map(|(_, _, held)| held.since).collect()), (2, vec![Timestamp(1)]));
    waiting.release(Cause::Foreign, &claim);
    assert_eq!(waiting.version(), 2, "it waits for another reason");
    waiting.release(Cause::Missing, &claim);
    assert_eq!((waiting.version(), waiting.all().count()), (3, 0));
}
