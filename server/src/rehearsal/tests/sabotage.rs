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
    let is: fn(&Violation) -> bool = |found| matches!(found, Violation::LateWrite { .. });
    assert!(paused_anywhere(Some(Guard::StoreEpoch), is) > 0);
    assert_eq!(paused_anywhere(None, is), 0);
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

/// In how many runs `is` holds of some violation, when each of two processes stands still after each of its first steps and
/// is replaced meanwhile: its calls are on their way then.
fn paused_anywhere(off: Option<Guard>, is: fn(&Violation) -> bool) -> usize {
    let run = |(process, after_steps)| {
        let pause = Fault::Pause { process, after_steps, for_ms: 100_000 };
        let faults = vec![Timed { at_ms: 1_000, fault: pause }];
        let report = Rehearsal::new(Setup::sized(1, (2, 1), off, faults), false).run();
        report.violations.iter().any(is)
    };
    (0..2).flat_map(|process| (0..80).map(move |steps| (process, steps))).filter(|at| run(*at)).count()
}

#[test]
fn without_a_local_fence_a_process_that_wakes_up_calls_the_cloud() {
    let is: fn(&Violation) -> bool = |found| matches!(found, Violation::FencedCall { .. });
    assert!(paused_anywhere(Some(Guard::Fence), is) > 0);
    assert_eq!(paused_anywhere(None, is), 0);
}

/// In how many of ten runs with an empty picture `is` holds of some violation.
fn scripted(off: Option<Guard>, is: fn(&Violation) -> bool) -> usize {
    let run = |seed| Rehearsal::new(Setup::sized(seed, (1, 1), off, fault::blinding()), false).run();
    (1..=10).filter(|seed| run(*seed).violations.iter().any(is)).count()
}

#[test]
fn who_believes_an_empty_picture_gives_machines_back_that_are_in_use() {
    let is: fn(&Violation) -> bool = |found| matches!(found, Violation::GivenBackInUse { .. });
    assert!(scripted(Some(Guard::Quarantine), is) > 0);
    assert_eq!(scripted(None, is), 0);
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
