//! The cost of one feature at a time: each kind of constraint, rule and set-up against a plain
//! decision.
//!
//! `scenario` makes the plain input, and a `feature` changes it in one respect: `nodes` (a pod and
//! its node), `between` (pods among each other), `pools` (NodePools and opt-in rules),
//! `cluster` (existing objects, and pods that fit nowhere). Runs of a feature and of the plain
//! input of the same size alternate, so that other load affects both.

mod between;
mod cluster;
mod feature;
mod nodes;
mod pools;
mod scenario;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use anyhow::{Result, bail};
use model::MicroUsd;
use model::input::PlanningInput;

use self::feature::Feature;
use self::scenario::Growth;
use crate::proc;

/// Maximum ratio of the time for 1,000 pods with a feature to the plain one.
const MAX_TIMES: f64 = 10.0;
/// Maximum growth exponent of the time from 1,000 to 20,000 pods.
const MAX_EXPONENT: f64 = 1.2;
const SIZES: [usize; 2] = [1_000, 20_000];

/// The features of all modules, in the order of the table.
fn all() -> Vec<Feature> {
    [nodes::all(), between::all(), pools::all(), cluster::all()].into_iter().flatten().collect()
}

/// Result of one feature at one size.
struct Sample {
    /// Median CPU milliseconds of the decision.
    own: f64,
    /// The same for the plain input.
    plain: f64,
    unplaced: usize,
    nodes: usize,
    /// Hourly cost of the plan, in dollars.
    cost: MicroUsd,
    /// Fingerprint: equal for equal plans.
    fingerprint: u64,
}

/// Measures the features whose name contains `only`, `runs` times each, and prints the table; with
/// `small`, only 1,000 pods, with the time of each part of the decision and without the growth.
///
/// # Errors
/// When an input cannot be made, and when a feature exceeds the maximum ratio or exponent.
pub fn report(only: &str, runs: u32, small: bool) -> Result<()> {
    println!("{}", crate::table::machine());
    println!("Noise: a figure within a fifth of a bound is measured again on a quieter machine before it is believed.");
    let rest =
        if small { " schedule    check    bound  explain" } else { " 20k ms: replicas, exponent  workloads, exponent" };
    println!("{:<46} {:>8} {:>7} {rest}  unplaced nodes    $/hour plan", "feature, 1,000 pods", "CPU ms", "times");
    let mut exceeding = Vec::new();
    for feature in all().iter().filter(|feature| feature.name.contains(only)) {
        match row(feature, runs, small) {
            Ok((line, within)) => {
                println!("{line}");
                if !within {
                    exceeding.push(feature.name);
                }
            }
            Err(error) => {
                println!("{:<46} {error}", feature.name);
                exceeding.push(feature.name);
            }
        }
    }
    if !exceeding.is_empty() {
        bail!("features above {MAX_TIMES} times or exponent {MAX_EXPONENT}: {}", exceeding.join("; "));
    }
    Ok(())
}

/// One line of the table, and whether the feature is within the maxima.
fn row(feature: &Feature, runs: u32, small: bool) -> Result<(String, bool)> {
    let first = sample(feature, SIZES[0], Growth::Replicas, runs)?;
    let times = first.own / first.plain;
    let mut line = format!("{:<46} {:8.2} {times:7.2} ", feature.name, first.own);
    let mut within = times <= MAX_TIMES;
    let mut fingerprints = vec![first.fingerprint];
    if small {
        let parts = crate::measure::parts(&feature.input(SIZES[0], Growth::Replicas)?);
        line.extend(parts.map(|part| format!("{:9.2}", part.as_secs_f64() * 1000.0)));
    } else {
        for growth in [Growth::Replicas, Growth::Workloads] {
            let large = sample(feature, SIZES[1], growth, runs.div_ceil(2))?;
            let exponent = (large.own / first.own).ln() / (SIZES[1] as f64 / SIZES[0] as f64).ln();
            line.push_str(&format!(" {:12.2} {exponent:10.2}", large.own));
            within &= exponent <= MAX_EXPONENT;
            fingerprints.push(large.fingerprint);
        }
    }
    let fingerprints: Vec<String> =
        fingerprints.iter().map(|fingerprint| format!("{:04x}", fingerprint & 0xffff)).collect();
    let dollars = first.cost.0 as f64 / 1e6;
    line.push_str(&format!(" {:10} {:5} {dollars:9.3} {}", first.unplaced, first.nodes, fingerprints.join(" ")));
    Ok((line, within))
}

/// Decides both inputs alternately, `runs` times after one warm-up.
fn sample(feature: &Feature, pods: usize, growth: Growth, runs: u32) -> Result<Sample> {
    let (own, plain) = (feature.input(pods, growth)?, Feature::new("plain", |_| ()).input(pods, growth)?);
    let first = decided(&own)?;
    let _ = decided(&plain)?;
    let (mut own_times, mut plain_times) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        plain_times.push(timed(&plain)?);
        own_times.push(timed(&own)?);
    }
    let mut hasher = DefaultHasher::new();
    format!("{:?}{:?}", first.plan, first.report).hash(&mut hasher);
    Ok(Sample {
        own: median(own_times),
        plain: median(plain_times),
        unplaced: first.plan.unschedulable.len(),
        nodes: first.plan.nodes.len(),
        cost: first.report.new_cost,
        fingerprint: hasher.finish(),
    })
}

fn timed(input: &PlanningInput) -> Result<f64> {
    let begun = proc::thread_cpu();
    let decision = decided(input)?;
    let taken = proc::thread_cpu().saturating_sub(begun);
    drop(decision);
    Ok(taken.as_secs_f64() * 1000.0)
}

fn decided(input: &PlanningInput) -> Result<planner::PlannedDecision> {
    match planner::plan(input) {
        Ok(decision) => Ok(decision),
        Err(violations) => bail!("the plan failed its own check: {}", violations[0]),
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
