//! The short form of long runs without faults.

use cost::{CostCause, CostParts};
use model::MicroUsd;

use crate::deterministic::guard::Guard;
use crate::deterministic::long_run::{Load, LongRun, LongRunReport};

fn run(load: Load, hours: u32, off: Option<Guard>) -> LongRunReport {
    LongRun { load, hours, seed: 1, off }.run()
}

#[track_caller]
fn within_bounds(load: Load, hours: u32) -> LongRunReport {
    let figures = run(load, hours, None);
    assert_eq!(figures.exceeded(load), Vec::<String>::new(), "{figures:?}");
    assert_eq!(figures.hours, i64::from(hours));
    figures
}

#[test]
fn no_pod_of_a_steady_load_moves_after_the_first_hour() {
    let figures = within_bounds(Load::Steady, 30);
    assert_eq!(figures.pods, (70, 70));
}

#[test]
fn a_daily_load_moves_each_pod_once_a_day_at_most() {
    let figures = within_bounds(Load::Daily, 49);
    // 30 % of 40, 20 and 10 pods, and all of them.
    assert_eq!(figures.pods, (12 + 6 + 3, 70));
    assert_eq!(figures.most_moves_in_a_day, 1, "the load is consolidated: {figures:?}");
}

#[test]
fn sabotage_without_the_interval_pods_of_a_daily_load_move_several_times_a_day() {
    let figures = run(Load::Daily, 49, Some(Guard::MoveInterval));
    let moves = figures.most_moves_in_a_day;
    assert!(moves > 1);
    let of_all = format!("{:.2} moves a pod and day, more than one", figures.moves_per_pod_and_day);
    let of_one = format!("{moves} moves of one pod within 24 h, more than one");
    assert_eq!(figures.exceeded(Load::Daily), [of_all, of_one]);
}

#[test]
fn sabotage_without_the_removal_of_nodes_a_daily_load_keeps_its_machines_at_night() {
    let figures = run(Load::Daily, 49, Some(Guard::Emptiness));
    let (least, most) = figures.machines;
    assert_eq!(figures.exceeded(Load::Daily), [format!("{least} machines at least, more than 60 % of {most}")]);
}

#[test]
fn every_drifted_node_is_replaced_in_time() {
    // Templates change after 2 and 50 hours.
    let figures = within_bounds(Load::Drift, 76);
    assert!(figures.replaced >= 2 * 4, "two changes of at least four nodes: {figures:?}");
}

#[test]
fn sabotage_without_drift_no_node_is_replaced_and_the_bounds_are_exceeded() {
    let figures = run(Load::Drift, 30, Some(Guard::Drift));
    let exceeded = figures.exceeded(Load::Drift);
    assert_eq!(exceeded[0], "no drifted node was replaced");
    assert_eq!(exceeded.len(), 3, "and both NodePools exceed their bound: {exceeded:?}");
}

/// A server that is killed every two hours has not written up to half an hour of what machines cost that run on, and half a minute of
/// those that are gone. The next one charges it.
#[test]
fn restarts_lose_no_cost() {
    let figures = LongRun { load: Load::Daily, hours: 26, seed: 1, off: None }.run_with_restarts();
    let (stored, billed) = (figures.stored.total(), figures.billed_until_stored);
    assert!(stored.0.abs_diff(billed.0) <= billed.0.unsigned_abs() / 1_000, "${stored} stored, ${billed} billed");
    assert!(billed.0 > 10_000_000, "${billed} in 26 hours");
    assert_eq!(figures.stored.overlaps, 0);
    // A restart is no gap. What keeps a node is not known until disruption is planned again.
    let unexplained = figures.stored.parts.get(CostCause::Unexplained);
    assert!(unexplained <= stored.0 / 1_000, "{:?}", figures.stored.parts);
}

#[test]
fn a_ledger_that_differs_from_the_bill_by_more_than_a_thousandth_exceeds_the_bounds() {
    let charged = |amount| LongRunReport {
        charged: CostParts::of(CostCause::Useful, amount),
        billed: MicroUsd(1_000_000),
        ..LongRunReport::default()
    };
    for amount in [999_000, 1_000_000, 1_001_000] {
        assert_eq!(charged(amount).exceeded(Load::Steady), Vec::<String>::new());
    }
    let expected = "$1.001001 are charged and $1.00 billed: they differ by more than 0.1 %";
    assert_eq!(charged(1_001_001).exceeded(Load::Steady), [expected]);
}
