//! Runs by seed.

mod incidents;
mod kept;
mod sabotage;

use super::fault::Timed;
use super::*;

fn calm(seed: u64) -> Report {
    Rehearsal::new(Setup::with_faults(seed, None, Vec::<Timed>::new()), false).run()
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

#[test]
fn faults_break_nothing() {
    let summary = many::run(1..=300, None, 2);
    for (seed, failure) in &summary.failures {
        let faults: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
        eprintln!("seed {seed}: {:?}\n    {}", failure.report.violations, faults.join("\n    "));
    }
    assert!(summary.failures.is_empty(), "{} of 300 seeds", summary.failures.len());
}
