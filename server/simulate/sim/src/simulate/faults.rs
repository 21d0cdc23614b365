//! `fleetwright-sim simulate faults`: deterministic simulation of the whole system with faults, by
//! seed.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::form::Form;
use command::exit::{Failure, Status};
use simulation::deterministic::guard::Guard;
use simulation::deterministic::seeds::{self, Summary};

/// Simulate the whole system by seed on a virtual clock: processes die, connections drop, store and
/// cloud fail, clocks jump
///
/// Every seed is a deterministic run of several server processes, simulated clusters with their
/// agents, a simulated cloud and a store, in one thread. Exit status 1 means that a run violated an
/// invariant; its seed and a sufficient set of faults are printed.
#[derive(Debug, Args)]
pub(crate) struct FaultsFlags {
    /// Range of seeds, inclusive
    #[arg(long, value_name = "FROM..TO", default_value = "1..1000", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Number of threads; the number of processors by default
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Disable a guard, to verify that the violation is detected
    #[arg(long, value_enum, value_name = "GUARD")]
    without: Option<Guard>,
    /// Print the events of each run on standard error, one run after the other
    #[arg(long)]
    trace: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// An invalid range of seeds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum SeedsError {
    #[error("{0:?} is not a seed; use two numbers, such as 1..1000")]
    Number(String),
    #[error("{from}..{to} is not a range of seeds; use the smaller number first, and none above {most}", most = u32::MAX)]
    Range { from: u64, to: u64 },
}

fn seeds(text: &str) -> Result<RangeInclusive<u64>, SeedsError> {
    let number = |part: &str| part.parse::<u64>().map_err(|_| SeedsError::Number(part.to_owned()));
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (number(from)?, number(to.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if from > to || to > u64::from(u32::MAX) {
        return Err(SeedsError::Range { from, to });
    }
    Ok(from..=to)
}

pub fn run(flags: &FaultsFlags) -> Result<Status, Failure> {
    let begun = Instant::now();
    if flags.trace {
        for seed in flags.seeds.clone() {
            eprintln!("seed {seed}");
            seeds::run_one(seed, flags.without, true);
        }
    }
    let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = flags.jobs.map_or_else(available, NonZeroUsize::get);
    let summary = seeds::run_all(flags.seeds.clone(), flags.without, jobs);
    let took = begun.elapsed();
    flags.output.print(|| table(&summary, took), || document(&summary, took))?;
    Ok(if summary.failures.is_empty() { Status::Done } else { Status::Leftover })
}

fn hours(millis: i64) -> f64 {
    millis as f64 / 3_600_000.0
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(0.001)
}

fn table(summary: &Summary, took: Duration) -> String {
    let Summary { runs, steps, virtual_ms, instructions, launched, pods_ran, .. } = summary;
    let mut text = format!(
        "{runs} runs in {:.1} s ({:.1} a second): {:.1} virtual hours, {steps} steps\n\
         {pods_ran} pods ran, {launched} instances launched, {instructions} instructions executed\n",
        took.as_secs_f64(),
        per_second(*runs, took),
        hours(*virtual_ms),
    );
    for (title, counts) in [("faults", &summary.faults), ("affected calls", &summary.effects)] {
        let listed: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        // Writing to a String cannot fail.
        let _always = writeln!(text, "{title}: {}", listed.join(", "));
    }
    for (seed, failure) in &summary.failures {
        let _always = writeln!(text, "seed {seed}: invariant violated");
        for violation in &failure.report.violations {
            let _always = writeln!(text, "  {violation}");
        }
        for fault in &failure.faults {
            let _always = writeln!(text, "    {fault}");
        }
        let _always = writeln!(text, "  again: fleetwright-sim simulate faults --seeds {seed}..{seed} --trace");
    }
    let _always = writeln!(text, "{} of {runs} runs violated an invariant", summary.failures.len());
    text
}

fn document(summary: &Summary, took: Duration) -> Value {
    let failures: Vec<Value> = (summary.failures.iter())
        .map(|(seed, failure)| {
            let violations: Vec<String> = failure.report.violations.iter().map(ToString::to_string).collect();
            let faults: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
            json!({ "seed": seed, "violations": violations, "faults": faults })
        })
        .collect();
    json!({
        "runs": summary.runs,
        "steps": summary.steps,
        "virtualHours": hours(summary.virtual_ms),
        "seconds": took.as_secs_f64(),
        "runsPerSecond": per_second(summary.runs, took),
        "podsRan": summary.pods_ran,
        "machinesSold": summary.launched,
        "instructionsCarriedOut": summary.instructions,
        "faults": summary.faults,
        "callsThatFeltOne": summary.effects,
        "failures": failures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_two_numbers_or_one() {
        assert_eq!(seeds("1..10"), Ok(1..=10));
        assert_eq!(seeds("1..=10"), Ok(1..=10));
        assert_eq!(seeds("7"), Ok(7..=7));
        assert!(seeds("10..1").is_err());
        assert!(seeds("a..1").unwrap_err().to_string().contains("\"a\" is not a seed"));
    }
}
