use std::collections::BTreeSet;

use super::*;
use crate::Removal;
use crate::disruption::method::Selection;
use crate::nodeclaim::DrainTerms;
use cluster::testing::{claim, initialized_cluster, observe, pool, pool_with, text};
use cluster::{ClusterState, Object};
use model::Millis;
use model::disruption_policy::BudgetLimit;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// `name`, created `created` milliseconds after the epoch, which expires after `lifetime` seconds.
fn aging(name: &str, created: i64, lifetime: Option<i64>) -> ClaimRecord {
    ClaimRecord { created: Some(at(created)), expire_after: lifetime.map(Millis::from_secs), ..claim(name) }
}

fn cluster(claims: Vec<ClaimRecord>) -> ClusterState {
    let names: Vec<String> = claims.iter().map(|claim| claim.name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &names);
    observe(&mut state, 0, claims.into_iter().map(Object::Claim));
    state
}

fn selected(state: &ClusterState, now: i64) -> Vec<String> {
    let selection = Expiration.select(&DisruptionView::of(state, at(now)));
    selection.removals.into_iter().map(|removal| removal.claim.to_string()).collect()
}

#[test]
fn machines_expire_by_the_age_and_the_lifetime_of_their_claims_whatever_budgets_allow() {
    // m0 expires at 5 + 60 s, m1 at 1 + 60 s, m2 never.
    let claims = vec![aging("m0", 5_000, Some(60)), aging("m1", 1_000, Some(60)), aging("m2", 0, None)];
    let state = cluster(claims);
    assert_eq!(selected(&state, 60_999), Vec::<String>::new());
    let next = |now| Expiration.select(&DisruptionView::of(&state, at(now))).next_check;
    assert_eq!((next(60_999), next(61_000), next(65_000)), (Some(at(61_000)), Some(at(65_000)), None));
    assert_eq!(selected(&state, 61_000), ["m1"]);
    assert_eq!(selected(&state, 1 << 40), ["m1", "m0"], "the oldest first");
}

#[test]
fn machines_that_leave_or_are_of_others_or_not_launched_do_not_expire() {
    let mut deleting = aging("m0", 0, Some(60));
    deleting.deleting = true;
    let others = ClaimRecord { ours: false, ..aging("m1", 0, Some(60)) };
    let unaged = ClaimRecord { created: None, ..aging("m3", 0, Some(60)) };
    let claims = vec![deleting, others, unaged, aging("m4", 0, Some(60)), aging("m5", 0, Some(60))];
    let mut state = cluster(claims);
    let unlaunched = ClaimRecord { provider_id: text(""), ..aging("m2", 0, Some(60)) };
    observe(&mut state, 0, [Object::Claim(unlaunched)]);
    state.mark_for_deletion(&text("m4"));
    assert_eq!(selected(&state, 60_000), ["m5"]);
    let view = DisruptionView { being_removed: BTreeSet::from([text("m5")]), ..DisruptionView::of(&state, at(60_000)) };
    assert_eq!(Expiration.select(&view), Selection::default());
}

#[test]
fn a_machine_expires_before_it_has_a_node_and_without_its_pool() {
    let mut state = ClusterState::default();
    observe(&mut state, 0, [Object::Claim(aging("m0", 0, Some(60)))]);
    let removals = Expiration.select(&DisruptionView::of(&state, at(60_000))).removals;
    let reason = text("NodeClaim m0 is older than 60 s, its expireAfter");
    assert_eq!(removals, [Removal { claim: text("m0"), node: text(""), reason }]);
    observe(&mut state, 0, [Object::Pool(pool())]);
    assert_eq!(selected(&state, 60_000), ["m0"]);
}

#[test]
fn with_jitter_machines_of_one_age_expire_at_times_of_their_own() {
    let of = |uid: &str, jitter: Option<i64>, lifetime: i64| {
        let mut pool = pool();
        pool.disruption.expire_jitter = jitter.map(Millis::new);
        let mut state = initialized_cluster(pool, &["m0"]);
        let claim = ClaimRecord { uid: text(uid), ..aging("m0", 0, Some(lifetime)) };
        observe(&mut state, 0, [Object::Claim(claim)]);
        Expiration.select(&DisruptionView::of(&state, at(0))).next_check
    };
    // FNV-1a of "a" ends in the byte 8c, 140, and of "foobar" in e8, 232: modulo 256 ms, they are that much earlier.
    assert_eq!([of("a", Some(256), 60), of("foobar", Some(256), 60)], [at(59_860), at(59_768)].map(Some));
    assert_eq!(of("a", None, 60), Some(at(60_000)), "without the annotation all expire at once");
    // Half of a lifetime of 60 s is left, whatever the jitter.
    assert!(of("a", Some(1 << 40), 60) > Some(at(30_000)));
}

#[test]
fn its_drain_has_no_deadline_but_the_grace_period() {
    assert_eq!(Expiration.drain_terms(&DisruptionView::of(&ClusterState::default(), at(1_000))), DrainTerms::default());
}
