//! Runs many seeds on several threads, and shrinks the faults of failing seeds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::Simulation;
use super::fault::{FaultCounts, TimedFault};
use super::guard::Guard;
use super::report::Report;
use super::setup::Setup;

/// Failing seeds that are shrunk; the first few are informative enough.
const MAX_SHRUNK: usize = 3;
/// Limit of runs for shrinking one seed.
const SHRINK_RUNS: u32 = 200;

#[derive(Debug, Default)]
pub struct Summary {
    pub runs: u64,
    pub steps: u64,
    pub virtual_ms: i64,
    pub instructions: u64,
    pub launched: u64,
    pub pods_ran: u64,
    /// Injected faults by kind.
    pub faults: FaultCounts,
    /// Calls that a fault affected, by effect.
    pub effects: FaultCounts,
    /// Runs that broke an invariant, by seed.
    pub failures: BTreeMap<u64, Failure>,
}

/// A run that broke an invariant.
#[derive(Debug)]
pub struct Failure {
    pub report: Report,
    /// Faults that suffice to break it.
    pub faults: Vec<TimedFault>,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.steps += report.steps;
        self.virtual_ms += report.ended_ms;
        self.instructions += report.instructions;
        self.launched += report.launched;
        self.pods_ran += report.pods_ran;
        for (mine, theirs) in [(&mut self.faults, &report.faults), (&mut self.effects, &report.effects)] {
            for (kind, count) in theirs {
                *mine.entry(kind).or_default() += count;
            }
        }
    }
}

pub fn run_one(seed: u64, off: Option<Guard>, trace: bool) -> Report {
    Simulation::new(Setup::by_seed(seed, off), trace).run()
}

/// Runs many seeds on `jobs` threads. The result does not depend on their number.
pub fn run_all(seeds: RangeInclusive<u64>, off: Option<Guard>, jobs: usize) -> Summary {
    let next = AtomicU64::new(*seeds.start());
    let (sender, reports) = mpsc::channel();
    let mut summary = Summary::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, next, last) = (sender.clone(), &next, *seeds.end());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last || sender.send(run_one(seed, off, false)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for report in reports {
            summary.add(&report);
            if !report.violations.is_empty() {
                let faults = Setup::by_seed(report.seed, off).faults().to_vec();
                summary.failures.insert(report.seed, Failure { report, faults });
            }
        }
    });
    for failure in summary.failures.values_mut().take(MAX_SHRUNK) {
        shrink(failure, |seed, faults| Simulation::new(Setup::replay(seed, off, faults), false).run());
    }
    summary
}

/// Drops faults one by one, then halves the remaining ones, as long as the run breaks the same
/// invariant.
pub(super) fn shrink(failure: &mut Failure, rerun: impl Fn(u64, Vec<TimedFault>) -> Report) {
    let mut runs = 0;
    let mut fails_with = |failure: &mut Failure, faults: Vec<TimedFault>| {
        runs += 1;
        let report = rerun(failure.report.seed, faults.clone());
        let same = runs <= SHRINK_RUNS && report.violations.iter().any(|found| failure.report.violates(found.kind()));
        if same {
            *failure = Failure { report, faults };
        }
        same
    };
    let mut at = 0;
    while at < failure.faults.len() {
        let mut fewer = failure.faults.clone();
        fewer.remove(at);
        at = if fails_with(failure, fewer) { 0 } else { at + 1 };
    }
    for at in 0..failure.faults.len() {
        while let Some(fault) = failure.faults[at].fault.smaller() {
            let mut smaller = failure.faults.clone();
            smaller[at].fault = fault;
            if !fails_with(failure, smaller) {
                break;
            }
        }
    }
}
