//! Measures one case in this process.

use std::time::Duration;

use anyhow::{Result, bail};
use model::input::PlanningInput;
use planner::PlannedDecision;
use scheduler::CompileCache;
use scheduler::bound::lower_bound;
use serde::{Deserialize, Serialize};
use verifier::check;

use crate::cases::Case;
use crate::proc;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measurement {
    pub pods: usize,
    pub shapes: usize,
    /// Number of pods that the plan does not place.
    pub unplaced: usize,
    pub nodes: usize,
    /// Their price, in dollars per hour.
    pub cost: f64,
    /// The lower bound, in dollars per hour.
    pub bound: f64,
    pub decide: Spread,
    /// The median of the whole decision with a compile cache that has seen the same input, as on a
    /// server.
    pub again: f64,
    /// Parts of the decision, each measured alone.
    pub schedule: f64,
    pub check: f64,
    pub bounding: f64,
    pub explain: f64,
    /// Peak resident memory before the first decision, in MiB: program, catalogue and input.
    pub input_mib: f64,
    /// Peak resident memory at the end, in MiB.
    pub peak_mib: f64,
}

/// CPU milliseconds of several runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

/// Decides once to warm up, then `runs` times whole and `runs` times part by part.
pub fn measure(case: &Case, runs: u32) -> Result<Measurement> {
    let input = case.workload()?.input()?;
    let input_mib = proc::peak_rss_mib("self").unwrap_or(0.0);
    let decision = decided(&input)?;
    let whole = timed(runs, || decided(&input))?;
    let mut cache = CompileCache::default();
    drop(decided_with_cache(&input, &mut cache)?);
    let again = timed(runs, || decided_with_cache(&input, &mut cache))?;
    let peak_mib = proc::peak_rss_mib("self").unwrap_or(0.0);
    let parts: Vec<[Duration; 4]> = (0..runs).map(|_| parts(&input)).collect();
    let part = |at: usize| spread(parts.iter().map(|part| part[at]).collect()).median;
    Ok(Measurement {
        pods: input.pods.len(),
        shapes: input.shapes.len(),
        unplaced: decision.plan.unschedulable.len(),
        nodes: decision.plan.nodes.len(),
        cost: decision.report.new_cost.0 as f64 / 1e6,
        bound: decision.report.lower_bound.0 as f64 / 1e6,
        decide: spread(whole),
        again: spread(again).median,
        schedule: part(0),
        check: part(1),
        bounding: part(2),
        explain: part(3),
        input_mib,
        peak_mib,
    })
}

/// CPU time of each of `runs` decisions.
fn timed(runs: u32, mut decide: impl FnMut() -> Result<PlannedDecision>) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let begun = proc::thread_cpu();
        let decision = decide()?;
        times.push(proc::thread_cpu().saturating_sub(begun));
        drop(decision);
    }
    Ok(times)
}

fn decided(input: &PlanningInput) -> Result<PlannedDecision> {
    decided_with_cache(input, &mut CompileCache::default())
}

fn decided_with_cache(input: &PlanningInput, cache: &mut CompileCache) -> Result<PlannedDecision> {
    match planner::plan_with(input, cache) {
        Ok(decision) => Ok(decision),
        Err(violations) => bail!("the plan failed its own check: {}", violations[0]),
    }
}

/// CPU time of each step of a decision: schedule, check, bound, explain.
pub fn parts(input: &PlanningInput) -> [Duration; 4] {
    let mut marks = [proc::thread_cpu(); 5];
    let plan = scheduler::schedule(input);
    marks[1] = proc::thread_cpu();
    let violations = check(input, &plan);
    marks[2] = proc::thread_cpu();
    let bound = lower_bound(input, &plan);
    marks[3] = proc::thread_cpu();
    let told = (explain::unschedulable(input, &plan), explain::notes(input, &plan));
    marks[4] = proc::thread_cpu();
    std::hint::black_box((violations, bound, told));
    std::array::from_fn(|at| marks[at + 1].saturating_sub(marks[at]))
}

fn spread(mut times: Vec<Duration>) -> Spread {
    times.sort();
    let ms = |at: usize| times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    Spread { least: ms(0), median: ms(times.len() / 2), most: ms(times.len().saturating_sub(1)) }
}
