use super::method::InterruptionNotice;
use super::*;
use crate::cluster::testing::{initialized_cluster, pool, pool_with, text};
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
    disruption.reconcile(&DisruptionView::of(&state, at(1_000)), INTERVAL);
    assert_eq!(disruption.next_wakeup(), None);
    disruption.mark_changed();
    assert!(!disruption.is_due(INTERVAL, at(2_000)));
    assert_eq!(disruption.next_wakeup(), Some(at(11_000)));
    assert!(disruption.is_due(INTERVAL, at(11_000)));
    // A change of the limits does not wait.
    disruption.reconcile(&DisruptionView::of(&state, at(11_000)), INTERVAL);
    disruption.schedule_now();
    assert!(disruption.is_due(INTERVAL, at(11_001)));
}

#[test]
fn a_pass_is_scheduled_for_the_next_node_that_becomes_removable() {
    // Initialized at 0, consolidateAfter is 30 s.
    let state = initialized_cluster(pool(), &["m0"]);
    let mut disruption = Disruption::default();
    let pass = disruption.reconcile(&DisruptionView::of(&state, at(5_000)), INTERVAL);
    assert!(pass.proposals.iter().all(|proposal| proposal.removals.is_empty()));
    assert_eq!(disruption.next_wakeup(), Some(at(30_000)));
    disruption.schedule_at(at(40_000));
    assert_eq!(disruption.next_wakeup(), Some(at(30_000)), "the earlier one stays");
    assert!(disruption.is_due(INTERVAL, at(30_000)));
    disruption.postpone(at(33_000));
    assert!(!disruption.is_due(INTERVAL, at(30_000)));
    assert!(disruption.is_due(INTERVAL, at(33_000)));
}

#[test]
fn what_a_budget_holds_back_is_checked_again_after_the_interval() {
    let state = initialized_cluster(pool_with(BudgetLimit::Nodes(1)), &["m0", "m1", "m2"]);
    let mut disruption = Disruption::default();
    let pass = disruption.reconcile(&DisruptionView::of(&state, at(30_000)), INTERVAL);
    let claims: Vec<&str> =
        pass.proposals.iter().flat_map(|proposal| &proposal.removals).map(|removal| removal.claim.as_ref()).collect();
    assert_eq!((claims, pass.held_by_budget), (vec!["m0"], BTreeMap::from([(text("p"), 2)])));
    assert_eq!(disruption.next_wakeup(), Some(at(40_000)));
}

#[test]
fn forceful_methods_ignore_budgets_and_propose_nothing_without_a_cause() {
    let state = initialized_cluster(pool_with(BudgetLimit::Nodes(0)), &["m0"]);
    let view = DisruptionView::of(&state, at(30_000));
    assert!(Disruption::reconcile_forceful(&view).iter().all(|proposal| proposal.removals.is_empty()));
    let notice = InterruptionNotice { claim: text("m0"), reason: text("spot") };
    let proposals = Disruption::reconcile_forceful(&DisruptionView { notice: Some(notice), ..view });
    let proposed: Vec<(&str, usize)> =
        proposals.iter().map(|proposal| (proposal.method.reason().kind, proposal.removals.len())).collect();
    assert_eq!(proposed, [("interruption", 1)]);
}
