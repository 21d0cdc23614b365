use super::*;
use crate::guardrails::RemovalRule;
use cluster::testing::text;

use crate::guardrails::rate_limits::{ExceededLimit, Limit, LimitScope, RateLimitKind};

fn machine(node: NodeState, pods: usize) -> MachineFacts {
    MachineFacts { node, pods, confirmed: false }
}

fn judged(evidence: Evidence, facts: MachineFacts, constraints: &RemovalConstraints) -> bool {
    evaluate_removal(evidence, facts, constraints) == GateDecision::Proceed
}

fn bulk() -> RemovalConstraints {
    RemovalConstraints { bulk: Some(BULK), allowance: 1, ..RemovalConstraints::default() }
}

const BULK: BulkDeletion = BulkDeletion { deleted: 7, machines: 30, window_minutes: 10, most: 3 };

fn listing_loss() -> ListingLoss {
    ListingLoss { cluster: text("c"), missing: 9, of: 10 }
}

fn freeze() -> Freeze {
    let (by, reason) = (text("ada"), text("audit"));
    Freeze {
        id: 4,
        cluster: None,
        pool: None,
        only_disruption: false,
        by,
        reason,
        since: Timestamp::from_millis(0),
        until: None,
    }
}

/// At most two machines of cluster c within ten minutes, until 5 ms.
fn capped() -> LimitBlock {
    let limit = ExceededLimit {
        counted: RateLimitKind::Removals,
        scope: LimitScope::Cluster(text("c")),
        limit: Limit::Machines(2),
        window_minutes: 10,
    };
    LimitBlock { limit, until: Timestamp::from_millis(5) }
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
    let distrusted = Some(Distrust::Listing(listing_loss()));
    let constraint_sets = [
        RemovalConstraints { distrusted, ..RemovalConstraints::default() },
        RemovalConstraints { frozen: Some(freeze()), ..RemovalConstraints::default() },
        RemovalConstraints { capped: Some(capped()), ..RemovalConstraints::default() },
    ];
    let lost = machine(NodeState::NotReady, 3);
    for constraints in &constraint_sets {
        assert!(!judged(Evidence::Unknown, lost, constraints), "{constraints:?}");
        assert!(judged(Evidence::Unknown, MachineFacts { confirmed: true, ..lost }, constraints), "{constraints:?}");
        // The cloud's report overrides all of them.
        assert!(judged(Evidence::Ended, lost, constraints), "{constraints:?}");
    }
    let GateDecision::Block { until, .. } = evaluate_removal(Evidence::Unknown, lost, &constraint_sets[2]) else {
        panic!("it waits");
    };
    assert_eq!(until, Some(Timestamp::from_millis(5)));
}

#[test]
fn a_node_that_vanished_under_its_pods_blocks_its_machine() {
    let calm = RemovalConstraints::default();
    let vanished = |with_most, pods| machine(NodeState::Vanished { with_most }, pods);
    assert!(!judged(Evidence::Terminating, vanished(false, 1), &calm));
    assert!(!judged(Evidence::Terminating, vanished(true, 0), &calm));
    assert!(judged(Evidence::Terminating, vanished(false, 0), &calm), "nothing runs there");
    assert!(judged(Evidence::Terminating, machine(NodeState::Never, 0), &calm), "it never joined");
    // Sabotage: an operator overrules the guard, and the removal proceeds.
    assert!(judged(Evidence::Terminating, MachineFacts { confirmed: true, ..vanished(true, 9) }, &calm));
}

#[test]
fn few_manual_deletions_proceed_at_once_and_many_wait_for_freeze_limits_and_budget() {
    let busy = machine(NodeState::Ready, 4);
    let frozen = || Some(freeze());
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
    assert_eq!(RemovalRule { by_hand_percent: 100, ..rule }.by_hand(5), 5);
}

#[test]
fn a_block_keeps_its_start_and_changes_the_version_with_its_reason() {
    let mut waiting = HeldRemovals::default();
    let claim = text("a");
    let pods = |pods| RemovalRefusal::EndedUnderReadyNode { pods };
    waiting.block(BlockCause::Missing, &claim, pods(1), Timestamp::from_millis(1));
    waiting.block(BlockCause::Missing, &claim, pods(1), Timestamp::from_millis(2));
    assert_eq!(waiting.version(), 1);
    waiting.block(BlockCause::Missing, &claim, pods(2), Timestamp::from_millis(3));
    assert_eq!(
        (waiting.version(), waiting.all().map(|(_, _, held)| held.since).collect()),
        (2, vec![Timestamp::from_millis(1)])
    );
    waiting.release(BlockCause::Foreign, &claim);
    assert_eq!(waiting.version(), 2, "it waits for another reason");
    waiting.release(BlockCause::Missing, &claim);
    assert_eq!((waiting.version(), waiting.all().count()), (3, 0));
}

#[test]
fn each_refusal_says_why_the_removal_waits_and_what_ends_it() {
    let unknown = "the cloud knows no machine of this id with these credentials";
    let bulk = "7 of 30 machines were deleted by hand or with their NodePool within 10 min, more than the 3 that may be \
                removed at once";
    let frozen = "the fleet is frozen by ada: audit (freeze 4)";
    let limit = "cluster c may lose no more than 2 machines within 10 min; the rest stays until the window moves on";
    let listing = "the cloud's listing lacks 9 of 10 instances known to run: listings are ignored until one contains \
                   them, the cloud states for each id that it has ended, or an operator runs `fleetwright removals \
                   confirm c`";
    let or_confirmed = "or until `fleetwright removals confirm c`";
    let cases = [
        (
            RemovalRefusal::EndedUnderReadyNode { pods: 2 },
            "the cloud reports that the machine has ended, while its Node is ready and holds 2 pods".to_owned(),
            "until its Node is not ready, or holds no pods".to_owned(),
        ),
        (
            RemovalRefusal::UnknownUnderReadyNode,
            format!("{unknown}, while its Node is ready: check that they belong to the right account and region"),
            "until its Node is not ready".to_owned(),
        ),
        (
            RemovalRefusal::Unknown(RemovalObstacle::Distrusted(Distrust::Listing(listing_loss()))),
            format!("{unknown}, and {listing}"),
            format!("until that is over, {or_confirmed}"),
        ),
        (
            RemovalRefusal::NodeVanished { pods: 4 },
            "its Node is not reported any more, and 4 pods are bound to it".to_owned(),
            format!(
                "until its Node is reported again, or the cloud reports that the machine has ended, {or_confirmed}"
            ),
        ),
        (
            RemovalRefusal::MostNodesVanished,
            "its Node is not reported any more, and neither are most others".to_owned(),
            format!(
                "until its Node is reported again, or the cloud reports that the machine has ended, {or_confirmed}"
            ),
        ),
        (
            RemovalRefusal::Bulk(BULK, RemovalObstacle::Frozen(freeze())),
            format!("{bulk}, and {frozen}"),
            format!("until the freeze ends, {or_confirmed}"),
        ),
        (
            RemovalRefusal::Bulk(BULK, RemovalObstacle::RateLimited(capped().limit)),
            format!("{bulk}, and {limit}"),
            format!("until the window moves on, {or_confirmed}"),
        ),
        (
            RemovalRefusal::BulkOverBudget(BULK),
            format!("{bulk}: the others are removed within its NodePool's budget"),
            format!("until others are removed, {or_confirmed}"),
        ),
    ];
    for (refusal, why, release) in cases {
        assert_eq!((refusal.to_string(), refusal.release(&text("c"))), (why, release));
    }
}
