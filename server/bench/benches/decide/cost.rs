//! What plans cost, with and without search, beside the bounds.

use anyhow::{Result, bail};
use model::input::PlanningInput;
use planner::PlannedDecision;

use crate::cases::Case;
use crate::proc;

const HEAD: &str = "case                    pods |  first: nodes     $/hour     ms | search: nodes     $/hour      ms      steps |      bound   above |      known   above";

/// Prints a row for each of `cases`, searched with `steps`.
pub fn report<'c>(cases: impl Iterator<Item = &'c Case>, steps: u64) -> Result<()> {
    println!("{HEAD}");
    for case in cases {
        println!("{}", row(case, steps)?);
    }
    Ok(())
}

fn row(case: &Case, steps: u64) -> Result<String> {
    let mut input = case.workload()?.input()?;
    let (first, first_ms) = decided(&input)?;
    input.policy.search_steps = steps;
    let (searched, ms) = decided(&input)?;
    let dollars = |decision: &PlannedDecision| decision.report.new_cost.0 as f64 / 1e6;
    let cost = dollars(&searched);
    let bound = searched.report.lower_bound.0 as f64 / 1e6;
    let above =
        |bound: f64| format!("{bound:10.4} {:6.2}%", if bound > 0.0 { (cost / bound - 1.0) * 100.0 } else { 0.0 });
    Ok(format!(
        "{:<20} {:7} | {:13} {:10.4} {first_ms:6.0} | {:13} {cost:10.4} {ms:7.0} {:10} | {} | {}",
        case.name,
        input.pods.len(),
        first.plan.nodes.len(),
        dollars(&first),
        searched.plan.nodes.len(),
        searched.report.search_steps,
        above(bound),
        case.known_bound.map(above).unwrap_or_default(),
    ))
}

fn decided(input: &PlanningInput) -> Result<(PlannedDecision, f64)> {
    let begun = proc::thread_cpu();
    match planner::plan(input) {
        Ok(decision) => Ok((decision, proc::thread_cpu().saturating_sub(begun).as_secs_f64() * 1000.0)),
        Err(violations) => bail!("the plan failed its own check: {}", violations[0]),
    }
}
