//! Runs by seed.

mod incidents;
mod kept;
mod sabotage;

use super::fault::Timed;
use super::*;

fn calm(seed: u64) -> Report {
    Simulation::new(Setup::with_faults(seed, None, Vec::<Timed>::new()), false).run()
}

#[test]
fn on_a_calm_day_everything_comes_to_rest() {
    for seed in 1..=10 {
        let report = calm(seed);
        assert!(report.violations.is_empty(), "seed {seed}: {report:?}");
        assert!(report.sold > 0 && report.pods_ran > 4, "{report:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    assert_eq!(many::one(3, None, false), many::one(3, None, false));
    assert_ne!(many::one(3, None, false), many::one(4, None, false));
}

#[test]
fn runs_do_not_depend_on_the_number_of_threads() {
    let told = |jobs| {
        let summary = many::run(1..=8, None, jobs);
        (summary.runs, summary.steps, summary.virtual_ms, summary.faults, summary.felt)
    };
    assert_eq!(told(1), told(3));
}

/// A run that is made to fail by a guard that is missing, and how few faults are left of it.
#[test]
fn a_failing_run_is_shrunk_to_the_faults_that_are_enough() {
    let (guard, seed) = (guard::Guard::Quarantine, 1);
    let setup = Setup::showing(guard, seed, false);
    let mut faults = setup.faults().to_vec();
    faults.push(Timed { at_ms: 400_000, fault: Fault::Freeze { for_ms: 30_000 } });
    let rerun = |seed, faults| Simulation::new(Setup::again(seed, Some(guard), faults), false).run();
    let report = rerun(seed, faults.clone());
    assert!(report.shows("GivenBackInUse"), "{report:?}");
    let mut failure = many::Failure { report, faults };
    many::shrink(&mut failure, rerun);
    assert!(failure.report.shows("GivenBackInUse"));
    // The freeze has nothing to do with it, and the picture is empty for longer than it has to be.
    let left: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
    let lasts = |timed: &Timed| matches!(timed.fault, Fault::EmptyPicture { for_ms, .. } if for_ms < 240_000);
    assert!(failure.faults.len() <= 2 && failure.faults.iter().any(lasts), "{left:?}");
}

#[test]
fn faults_break_nothing() {
    let summary = many::run(1..=300, None, 2);
    for (seed, failure) in &summary.failures {
        let faults: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
        eprintln!("seed {seed}: {:?}\n    {}", failure.report.violations, faults.join("\n    "));
    }
    assert!(summary.failures.is_empty(), "{} of 300 seeds", summary.failures.len());
}
