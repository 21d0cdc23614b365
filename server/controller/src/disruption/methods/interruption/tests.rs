use super::*;
use crate::Removal;
use crate::cluster::testing::{initialized_cluster, pool, text};
use crate::disruption::method::InterruptionNotice;

#[test]
fn the_machine_of_the_notice_is_removed_with_its_node_or_before_it_has_one() {
    let state = initialized_cluster(pool(), &["m0", "m1"]);
    let view = DisruptionView::of(&state, Timestamp::from_millis(5_000));
    assert_eq!(Interruption.select(&view), Selection::default(), "there is no notice");
    for (claim, node) in [("m1", "n-m1"), ("m7", "")] {
        let notice = InterruptionNotice { claim: text(claim), reason: text("spot") };
        let removals = Interruption.select(&DisruptionView { notice: Some(notice), ..view.clone() }).removals;
        assert_eq!(removals, [Removal { claim: text(claim), node: text(node), reason: text("spot") }]);
    }
}

#[test]
fn pods_leave_within_two_minutes() {
    let terms = Interruption.drain_terms(Timestamp::from_millis(10_000));
    let deadline = Some(Timestamp::from_millis(130_000));
    assert_eq!(terms, DrainTerms { deadline, interrupted: true, only_if_empty: false });
}
