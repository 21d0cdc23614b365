use std::collections::BTreeSet;

use super::*;
use crate::nodeclaim::DrainTerms;
use cluster::testing::{initialized_cluster, pool, text};
use model::Timestamp;

#[test]
fn a_machine_that_the_cloud_recommends_to_leave_is_removed_once() {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    let removed = |view: &DisruptionView<'_>| -> Vec<String> {
        Rebalance.select(view).removals.iter().map(|removal| removal.claim.to_string()).collect()
    };
    let now = Timestamp::from_millis(5_000);
    let recommended = BTreeSet::from([text("m1"), text("gone")]);
    let view = DisruptionView { recommended, ..DisruptionView::of(&state, now) };
    assert_eq!(removed(&view), ["m1"]);
    assert_eq!(removed(&DisruptionView { being_removed: BTreeSet::from([text("m1")]), ..view.clone() }), [""; 0]);
    assert_eq!(removed(&DisruptionView::of(&state, now)), [""; 0], "nothing is recommended");
    let recommended = view.recommended;
    state.mark_for_deletion(&text("m1"));
    assert_eq!(removed(&DisruptionView { recommended, ..DisruptionView::of(&state, now) }), [""; 0]);
}

#[test]
fn it_is_drained_without_a_deadline() {
    let state = initialized_cluster(pool(), &[]);
    let view = DisruptionView::of(&state, Timestamp::from_millis(5_000));
    assert_eq!(Rebalance.drain_terms(&view), DrainTerms::default());
}
