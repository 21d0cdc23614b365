//! Runs that broke an invariant once, by seed and with the faults that were enough for it.

use crate::rehearsal::Rehearsal;
use crate::rehearsal::fault::{Fault, Timed};
use crate::rehearsal::setup::Setup;

#[track_caller]
fn holds(seed: u64, faults: &[(i64, Fault)]) {
    let faults = faults.iter().map(|(at_ms, fault)| Timed { at_ms: *at_ms, fault: *fault }).collect();
    let report = Rehearsal::new(Setup::with_faults(seed, None, faults), false).run();
    let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "seed {seed}: {found:?}");
}

#[test]
fn a_process_that_dies_between_nodeclaims_and_launches_leaves_none_hollow() {
    holds(85, &[(9_132, Fault::Kill { process: 0, after_steps: 14, away_ms: 13_291 })]);
    holds(93, &[(9_426, Fault::Kill { process: 0, after_steps: 30, away_ms: 16_456 })]);
    let faults = [
        (102_197, Fault::Interrupt { cluster: 0 }),
        (137_533, Fault::NoCapacity { for_ms: 81_738 }),
        (281_649, Fault::Kill { process: 1, after_steps: 6, away_ms: 31_467 }),
    ];
    holds(59, &faults);
}
