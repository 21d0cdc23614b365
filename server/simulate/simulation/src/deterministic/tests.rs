mod budgeted_drift;
mod incidents;
mod kept;
mod long_runs;
mod mixed_bursts;
mod offerings;
mod one_server;
mod replacements;
mod replays;
mod sabotage;
mod searches;

use super::fault::TimedFault;
use super::*;

fn run_without_faults(seed: u64) -> Report {
    Simulation::new(Setup::with_faults(seed, None, Vec::<TimedFault>::new()), false).run()
}

#[test]
fn without_faults_the_system_comes_to_rest() {
    for seed in 1..=10 {
        let report = run_without_faults(seed);
        assert!(report.violations.is_empty(), "seed {seed}: {report:?}");
        assert!(report.launched > 0 && report.pods_ran > 4, "{report:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    assert_eq!(seeds::run_one(3, None, false), seeds::run_one(3, None, false));
    assert_ne!(seeds::run_one(3, None, false), seeds::run_one(4, None, false));
}

#[test]
fn runs_do_not_depend_on_the_number_of_threads() {
    let totals = |jobs| {
        let summary = seeds::run_all(1..=8, None, jobs);
        (summary.runs, summary.steps, summary.virtual_ms, summary.faults, summary.effects)
    };
    assert_eq!(totals(1), totals(3));
}

/// A run that fails because a guard is off, shrunk to few faults.
#[test]
fn a_failing_run_is_shrunk_to_sufficient_faults() {
    let (guard, seed) = (guard::Guard::Quarantine, 1);
    let setup = Setup::for_guard(guard, seed, false);
    let mut faults = setup.faults().to_vec();
    faults.push(TimedFault { at_ms: 400_000, fault: Fault::Freeze { for_ms: 30_000 } });
    let rerun = |seed, faults| Simulation::new(Setup::replay(seed, Some(guard), faults), false).run();
    let report = rerun(seed, faults.clone());
    assert!(report.violates("GivenBackInUse"), "{report:?}");
    let mut failure = seeds::Failure { report, faults };
    seeds::shrink(&mut failure, rerun);
    assert!(failure.report.violates("GivenBackInUse"));
    // The freeze is irrelevant, and the empty snapshots last longer than necessary.
    let left: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
    let lasts = |timed: &TimedFault| matches!(timed.fault, Fault::EmptySnapshot { for_ms, .. } if for_ms < 240_000);
    assert!(failure.faults.len() <= 2 && failure.faults.iter().any(lasts), "{left:?}");
}

#[test]
fn faults_break_nothing() {
    let summary = seeds::run_all(1..=300, None, 2);
    for (seed, failure) in &summary.failures {
        let faults: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
        eprintln!("seed {seed}: {:?}\n    {}", failure.report.violations, faults.join("\n    "));
    }
    assert!(summary.failures.is_empty(), "{} of 300 seeds", summary.failures.len());
}
