//! What plans cost, with and without search, beside bounds, the realised cost and Karpenter.
//!
//! The table is Markdown, so that it can stand in a document as it is printed.

use std::path::Path;
use std::{env, fs};

use anyhow::{Result, bail};
use karpenter_baseline::Launches;
use model::MicroUsd;
use model::input::PlanningInput;
use planner::{CompileCache, PlannedDecision};

use crate::baseline::{Outcome, plan_by};
use crate::cases::Case;
use crate::flags::Flags;
use crate::proc;

/// Pods above which Karpenter's greedy takes minutes.
const MOST_FOR_GREEDY: usize = 5_000;

/// Limit on the work for the realised cost: enough for all orders of every case, which may be more than a decision counts.
const REALISED_STEPS: u64 = 4_000_000_000;

const HEAD: &str = "| case | pods | first packing: nodes, $/h | search: nodes, $/h | CPU ms more | above the own bound | above the known bound | realised, $/h | Karpenter's greedy: nodes, $/h | this over it | Karpenter: nodes, $/h, CPU s |\n\
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// Prints a row for each of `cases`.
pub fn report<'c>(cases: impl Iterator<Item = &'c Case>, flags: &Flags) -> Result<()> {
    println!("{}\n\n{HEAD}", crate::table::machine());
    for case in cases {
        println!("{}", row(case, flags)?);
    }
    Ok(())
}

fn row(case: &Case, flags: &Flags) -> Result<String> {
    let mut input = case.workload()?.input()?;
    let (first, first_ms) = decided(&input)?;
    input.policy.search_steps = flags.search;
    let (searched, ms) = decided(&input)?;
    let cost = searched.report.new_cost;
    let above_own = above(cost, dollars(searched.report.lower_bound));
    let above_known = case.known_bound.map(|bound| above(cost, bound)).unwrap_or_default();
    let greedy = if input.pods.len() <= MOST_FOR_GREEDY { greedy(&input, &searched) } else { " | ".to_owned() };
    let realised = planner::realised_cost(&input, &searched.plan, REALISED_STEPS, &mut CompileCache::default());
    let realised = realised.map(|realised| {
        format!("{:.4} (+{:.1} %)", dollars(realised), (dollars(realised) / dollars(cost).max(1e-6) - 1.0) * 100.0)
    });
    let karpenter = match &flags.baseline {
        Some(program) if input.pods.len() <= flags.baseline_pods => karpenter(case, program)?,
        _ => String::new(),
    };
    Ok(format!(
        "| {} | {} | {} | {} | {:.0} | {above_own} | {above_known} | {} | {greedy} | {karpenter} |",
        case.name,
        input.pods.len(),
        nodes_and_cost(&first),
        nodes_and_cost(&searched),
        ms - first_ms,
        realised.unwrap_or_default(),
    ))
}

/// What Karpenter's greedy costs, and the distance of `own` from it.
fn greedy(input: &PlanningInput, own: &PlannedDecision) -> String {
    let greedy = karpenter_baseline::provision(input);
    let cost = dollars(greedy.cost());
    let over = (dollars(own.report.new_cost) / cost.max(1e-6) - 1.0) * 100.0;
    format!("{}, {cost:.4} | {over:.1} %{}", greedy.nodes.len(), unplaced(own, &greedy))
}

/// The pods without a place on both sides, where they differ: those plans do not compare.
fn unplaced(own: &PlannedDecision, greedy: &Launches) -> String {
    let (own, greedy) = (own.plan.unschedulable.len(), greedy.unschedulable.len());
    if own == greedy { String::new() } else { format!(" ({own} pods without a place against {greedy})") }
}

/// Karpenter itself on the files of `case`, if it reads the catalogue.
fn karpenter(case: &Case, program: &Path) -> Result<String> {
    let workload = case.workload()?;
    if workload.setup.catalogue.is_some() {
        return Ok(String::new());
    }
    let folder = env::temp_dir().join(format!("fleetwright-cost-{}", std::process::id()));
    let files = workload.write(&folder)?;
    let outcome = plan_by(program, &files, workload.preferences, 1000);
    fs::remove_dir_all(&folder)?;
    let Outcome { cpu, nodes, cost, unplaced, .. } = outcome?;
    let left = if unplaced == 0 { String::new() } else { format!(", {unplaced} pods without a place") };
    Ok(format!("{nodes}, {cost:.4}, {:.1}{left}", cpu.as_secs_f64()))
}

fn nodes_and_cost(decision: &PlannedDecision) -> String {
    format!("{}, {:.4}", decision.plan.nodes.len(), dollars(decision.report.new_cost))
}

fn above(cost: MicroUsd, bound: f64) -> String {
    if bound > 0.0 { format!("{:.2} %", (dollars(cost) / bound - 1.0) * 100.0) } else { String::new() }
}

fn dollars(amount: MicroUsd) -> f64 {
    amount.0 as f64 / 1e6
}

fn decided(input: &PlanningInput) -> Result<(PlannedDecision, f64)> {
    let begun = proc::thread_cpu();
    match planner::plan(input) {
        Ok(decision) => Ok((decision, proc::thread_cpu().saturating_sub(begun).as_secs_f64() * 1000.0)),
        Err(violations) => bail!("the plan failed its own check: {}", violations[0]),
    }
}
