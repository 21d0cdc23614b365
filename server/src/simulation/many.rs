//! Seed after seed, on several threads, and a failing seed with as few faults as it still fails with.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::Simulation;
use super::fault::{Counts, Timed};
use super::guard::Guard;
use super::report::Report;
use super::setup::Setup;

/// Failing seeds that are shrunk; with more of them the first few tell enough.
const SHRUNK: usize = 3;
/// Runs that shrinking one seed may take.
const SHRINK_RUNS: u32 = 200;

/// How many runs went.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) runs: u64,
    pub(crate) steps: u64,
    pub(crate) virtual_ms: i64,
    pub(crate) instructions: u64,
    pub(crate) sold: u64,
    pub(crate) pods_ran: u64,
    /// Faults that took place, by kind.
    pub(crate) faults: Counts,
    /// Calls that felt one, by what they felt.
    pub(crate) felt: Counts,
    /// Runs in which something was that must never be, by seed.
    pub(crate) failures: BTreeMap<u64, Failure>,
}

/// A run in which something was that must never be.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) report: Report,
    /// The faults that are enough for it.
    pub(crate) faults: Vec<Timed>,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.steps += report.steps;
        self.virtual_ms += report.ended_ms;
        self.instructions += report.instructions;
        self.sold += report.sold;
        self.pods_ran += report.pods_ran;
        for (mine, theirs) in [(&mut self.faults, &report.faults), (&mut self.felt, &report.felt)] {
            for (kind, count) in theirs {
                *mine.entry(kind).or_default() += count;
            }
        }
    }
}

/// The run of one seed.
pub(crate) fn one(seed: u64, off: Option<Guard>, trace: bool) -> Report {
    Simulation::new(Setup::by_seed(seed, off), trace).run()
}

/// The runs of many seeds on `jobs` threads. What comes out does not depend on their number.
pub(crate) fn run(seeds: RangeInclusive<u64>, off: Option<Guard>, jobs: usize) -> Summary {
    let next = AtomicU64::new(*seeds.start());
    let (told, reports) = mpsc::channel();
    let mut summary = Summary::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (told, next, last) = (told.clone(), &next, *seeds.end());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last || told.send(one(seed, off, false)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        for report in reports {
            summary.add(&report);
            if !report.violations.is_empty() {
                let faults = Setup::by_seed(report.seed, off).faults().to_vec();
                summary.failures.insert(report.seed, Failure { report, faults });
            }
        }
    });
    for failure in summary.failures.values_mut().take(SHRUNK) {
        shrink(failure, |seed, faults| Simulation::new(Setup::again(seed, off, faults), false).run());
    }
    summary
}

/// Drops faults one by one, and then halves what is left of them, as long as the run still fails in the same way.
pub(super) fn shrink(failure: &mut Failure, rerun: impl Fn(u64, Vec<Timed>) -> Report) {
    let mut runs = 0;
    let mut fails_with = |failure: &mut Failure, faults: Vec<Timed>| {
        runs += 1;
        let report = rerun(failure.report.seed, faults.clone());
        let same = runs <= SHRINK_RUNS && report.violations.iter().any(|found| failure.report.shows(found.kind()));
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
