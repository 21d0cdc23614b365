use super::*;
use crate::Removal;
use crate::disruption::method::InterruptionNotice;
use crate::disruption::method::Selection;
use cluster::testing::{initialized_cluster, pool, text};
use model::Timestamp;

#[test]
fn the_machine_of_the_notice_is_removed_with_its_node_or_before_it_has_one() {
    let state = initialized_cluster(pool(), &["m0", "m1"]);
    let view = DisruptionView::of(&state, Timestamp::from_millis(5_000));
    assert_eq!(Interruption.select(&view), Selection::default(), "there is no notice");
    for (claim, node) in [("m1", "n-m1"), ("m7", "")] {
        let notice = InterruptionNotice { claim: text(claim), reason: text("spot"), deadline: None };
        let removals = Interruption.select(&DisruptionView { notice: Some(notice), ..view.clone() }).removals;
        assert_eq!(removals, [Removal { claim: text(claim), node: text(node), reason: text("spot") }]);
    }
}

#[test]
fn the_drain_ends_at_the_time_of_the_notice() {
    let state = initialized_cluster(pool(), &["m0"]);
    let deadline = Some(Timestamp::from_millis(130_000));
    let notice = InterruptionNotice { claim: text("m0"), reason: text("spot"), deadline };
    let view = DisruptionView { notice: Some(notice), ..DisruptionView::of(&state, Timestamp::from_millis(10_000)) };
    assert_eq!(Interruption.drain_terms(&view), DrainTerms { deadline, interrupted: true, only_if_empty: false });
}
