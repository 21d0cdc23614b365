use super::method::InterruptionNotice;
use super::*;
use cluster::testing::{claim, initialized_cluster, observe, pool, pool_with, text};
use cluster::{ClaimRecord, Object};
use model::BudgetLimit;

const INTERVAL: Millis = Millis::from_secs(10);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn changes_cause_at_most_one_pass_in_an_interval() {
    let state = initialized_cluster(pool(), &[]);
    let mut disruption = Disruption::default();
    assert!(!disruption.is_due(INTERVAL, at(1_000)), "nothing changed");
    disruption.mark_changed();
    assert!(disruption.is_due(INTERVAL, at(1_000)));
    disruption.reconcile(&DisruptionView::of(&state, at(1_000)), INTERVAL, None);
    assert_eq!(disruption.next_wakeup(), None);
    disruption.mark_changed();
    assert!(!disruption.is_due(INTERVAL, at(2_000)));
    assert_eq!(disruption.next_wakeup(), Some(at(11_000)));
    assert!(disruption.is_due(INTERVAL, at(11_000)));
    // A change of the limits does not wait.
    disruption.reconcile(&DisruptionView::of(&state, at(11_000)), INTERVAL, None);
    disruption.schedule_now();
    assert!(disruption.is_due(INTERVAL, at(11_001)));
}

#[test]
fn a_pass_is_scheduled_for_the_next_node_that_becomes_removable() {
    // Initialized at 0, consolidateAfter is 30 s.
    let state = initialized_cluster(pool(), &["m0"]);
    let mut disruption = Disruption::default();
    let pass = disruption.reconcile(&DisruptionView::of(&state, at(5_000)), INTERVAL, None);
    assert!(pass.proposals.iter().all(|proposal| proposal.removals.is_empty()));
    assert_eq!(disruption.next_wakeup(), Some(at(30_000)));
    disruption.schedule_at(at(40_000));
    assert_eq!(disruption.next_wakeup(), Some(at(30_000)), "the earlier one stays");
    assert!(disruption.is_due(INTERVAL, at(30_000)));
    // Until 33 s a plan may need the node.
    let pass = disruption.reconcile(&DisruptionView::of(&state, at(30_000)), INTERVAL, Some(at(33_000)));
    assert!(pass.proposals.iter().all(|proposal| proposal.removals.is_empty()));
    assert!(!disruption.is_due(INTERVAL, at(30_000)));
    assert!(disruption.is_due(INTERVAL, at(33_000)));
}

#[test]
fn what_a_budget_holds_back_is_checked_again_after_the_interval() {
    let state = initialized_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1", "m2"]);
    let mut disruption = Disruption::default();
    let pass = disruption.reconcile(&DisruptionView::of(&state, at(30_000)), INTERVAL, None);
    let claims: Vec<&str> =
        pass.proposals.iter().flat_map(|proposal| &proposal.removals).map(|removal| removal.claim.as_ref()).collect();
    assert_eq!((claims, pass.held_by_budget), (vec!["m0"], BTreeMap::from([(text("p"), 2)])));
    assert_eq!(disruption.next_wakeup(), Some(at(40_000)));
}

#[test]
fn urgent_methods_ignore_budgets_and_propose_nothing_without_a_cause() {
    let state = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &["m0"]);
    let view = DisruptionView::of(&state, at(30_000));
    assert!(Disruption::reconcile_urgent(&view).iter().all(|proposal| proposal.removals.is_empty()));
    let notice = InterruptionNotice { claim: text("m0"), reason: text("spot"), deadline: None };
    let proposals = Disruption::reconcile_urgent(&DisruptionView { notice: Some(notice), ..view });
    let proposed: Vec<(&str, usize)> =
        proposals.iter().map(|proposal| (proposal.method.reason().kind(), proposal.removals.len())).collect();
    assert_eq!(proposed, [("interruption", 1)]);
}

#[test]
fn forceful_methods_run_while_a_plan_may_need_the_nodes_and_graceful_ones_do_not() {
    let mut state = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &["m0", "m1"]);
    let expiring = ClaimRecord { created: Some(at(0)), expire_after: Some(Millis::from_secs(20)), ..claim("m1") };
    observe(&mut state, 0, [Object::Claim(expiring)]);
    let pass = Disruption::default().reconcile(&DisruptionView::of(&state, at(30_000)), INTERVAL, Some(at(33_000)));
    let ran: Vec<(&str, usize)> =
        pass.proposals.iter().map(|proposal| (proposal.method.reason().kind(), proposal.removals.len())).collect();
    let forceful = [("rebalance", 0), ("repair", 0), ("expiration", 1), ("static-scale-down", 0), ("hold-ended", 0)];
    assert_eq!(ran, forceful);
}
