//! Each guard switched off is noticed within so many seeds, and by nothing else than its absence: with the guard, the same
//! seeds show no such thing.

use crate::rehearsal::Rehearsal;
use crate::rehearsal::fault::{self, Fault, Timed};
use crate::rehearsal::guard::Guard;
use crate::rehearsal::invariants::Violation;
use crate::rehearsal::many;
use crate::rehearsal::setup::Setup;

/// In how many of the seeds `noticed` holds of some violation.
fn noticed(seeds: u64, off: Option<Guard>, noticed: fn(&Violation) -> bool) -> usize {
    let runs = (1..=seeds).map(|seed| many::one(seed, off, false));
    runs.filter(|report| report.violations.iter().any(noticed)).count()
}

#[track_caller]
fn is_noticed(off: Guard, seeds: u64, is: fn(&Violation) -> bool) {
    assert!(noticed(seeds, Some(off), is) > 0, "{off:?} is switched off, and {seeds} seeds do not show it");
    assert_eq!(noticed(seeds, None, is), 0, "the same seeds, with {off:?}");
}

#[test]
fn without_tokens_machines_are_sold_twice() {
    is_noticed(Guard::Tokens, 30, |found| matches!(found, Violation::LaunchedTwice { .. }));
}

#[test]
fn without_a_fenced_store_old_owners_write() {
    // The process that the agent meets first stands still while its write is on its way, and is replaced meanwhile.
    let late = |off| {
        let paused = |after_steps| {
            let pause = Fault::Pause { process: 1, after_steps, for_ms: 100_000 };
            let faults = vec![Timed { at_ms: 20_000, fault: pause }];
            let report = Rehearsal::new(Setup::sized(1, (2, 1), off, faults), false).run();
            report.violations.iter().any(|found| matches!(found, Violation::LateWrite { .. }))
        };
        (0..60).filter(|steps| paused(*steps)).count()
    };
    assert!(late(Some(Guard::StoreEpoch)) > 0);
    assert_eq!(late(None), 0);
}

#[test]
fn without_limits_pools_grow_beyond_them() {
    let over = |off| {
        let runs = (1..=10).map(|seed| Rehearsal::new(Setup::limited(seed, off), false).run());
        runs.filter(|report| report.violations.iter().any(|found| matches!(found, Violation::OverLimit { .. }))).count()
    };
    assert!(over(Some(Guard::Limits)) > 0);
    assert_eq!(over(None), 0);
}

#[test]
fn without_budgets_too_many_nodes_leave_at_one_time() {
    is_noticed(Guard::Budgets, 40, |found| matches!(found, Violation::OverBudget { .. }));
}

#[test]
fn without_pod_disruption_budgets_too_many_pods_are_evicted() {
    is_noticed(Guard::PodBudgets, 30, |found| matches!(found, Violation::PodBudgetBroken { .. }));
}

#[test]
fn without_answers_instructions_wait_for_ever() {
    is_noticed(Guard::Answers, 2, |found| matches!(found, Violation::Unanswered { .. }));
}

#[test]
fn without_planning_pods_never_run() {
    is_noticed(Guard::Planning, 2, |found| matches!(found, Violation::NeverRan { .. }));
}

#[test]
fn probe() {
    for off in [Guard::Fence, Guard::Collection, Guard::WholeLists, Guard::Quarantine] {
        let summary = many::run(1..=100, Some(off), 2);
        eprintln!("PROBE {off:?} {}", summary.failures.len());
        for failure in summary.failures.values().take(6) {
            eprintln!("PROBE   {} {:?}", failure.report.seed, failure.report.violations);
        }
    }
    for off in [None, Some(Guard::Quarantine)] {
        for seed in 1..=5 {
            let faults = vec![Timed { at_ms: 240_000, fault: Fault::EmptyPicture { cluster: 0, for_ms: 240_000 } }];
            let report = Rehearsal::new(Setup::sized(seed, (1, 1), off, faults), false).run();
            eprintln!("PROBE empty {off:?} {seed} {:?}", report.violations);
        }
    }
}

#[test]
fn who_does_not_hear_of_freezes_decides_on() {
    let decided = |off| {
        let faults = vec![Timed { at_ms: 1_000, fault: Fault::Freeze { for_ms: 240_000 } }];
        let report = Rehearsal::new(Setup::sized(1, (2, 1), off, faults), false).run();
        report.violations.iter().any(|found| matches!(found, Violation::DecidedFrozen { .. }))
    };
    assert!(decided(Some(Guard::Freezes)));
    assert!(!decided(None));
}

#[test]
fn an_agent_that_forgets_epochs_obeys_old_ones() {
    let old_epoch = |off| {
        let report = Rehearsal::new(Setup::sized(1, (1, 1), off, fault::forgetting()), false).run();
        report.violations.iter().any(|found| matches!(found, Violation::OldEpoch { .. } | Violation::TwoOwners { .. }))
    };
    assert!(old_epoch(Some(Guard::AgentEpoch)));
    assert!(!old_epoch(None));
}
