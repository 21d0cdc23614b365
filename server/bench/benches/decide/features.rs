//! One feature at a time: what each kind of constraint, rule and set-up adds to a plain decision.
//!
//! `scene` makes the plain input, the other rooms change it in one respect each: `nodes` (a pod and its node), `between`
//! (pods among each other), `pools` (NodePools and opt-in rules), `standing` (what is there already, and pods that fit
//! nowhere). Every feature is measured in turns with the plain input of the same size, so that the load of the machine
//! falls on both.

mod between;
mod nodes;
mod pools;
mod scene;
mod standing;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use anyhow::{Result, bail};
use engine::decide;
use engine::input::PlanningInput;
use engine::model::MicroUsd;

use self::scene::{Growth, Scene};
use crate::proc;

/// A decision about 1,000 pods with a feature takes at most this many times what the plain one takes.
const MOST_TIMES: f64 = 10.0;
/// From 1,000 to 20,000 pods the time of a decision grows at most with this power of their number.
const MOST_EXPONENT: f64 = 1.2;
/// Pods of the two sizes.
const SIZES: [usize; 2] = [1_000, 20_000];

/// One respect in which an input differs from the plain one.
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Adds it to a plain scene.
    pub change: fn(&mut Scene),
}

impl Feature {
    /// A feature called `name`.
    pub const fn new(name: &'static str, change: fn(&mut Scene)) -> Self {
        Self { name, change }
    }

    fn input(&self, pods: usize, growth: Growth) -> Result<PlanningInput> {
        let mut scene = Scene::plain(pods, growth);
        (self.change)(&mut scene);
        scene.input()
    }
}

/// Every feature.
fn all() -> Vec<Feature> {
    [nodes::all(), between::all(), pools::all(), standing::all()].into_iter().flatten().collect()
}

/// What came out for one feature at one size.
struct Sample {
    /// CPU milliseconds of the decision, the median.
    own: f64,
    /// The same for the plain input.
    plain: f64,
    unplaced: usize,
    nodes: usize,
    /// Dollars per hour of what the plan buys.
    cost: MicroUsd,
    /// Equal for equal plans.
    mark: u64,
}

/// Measures the features whose name contains `only`, `runs` times each, and prints the table; with `small`, what 1,000 pods
/// take and which part of the decision takes it, without the growth.
///
/// # Errors
/// When an input cannot be made, and when a feature is beyond the bounds.
pub fn report(only: &str, runs: u32, small: bool) -> Result<()> {
    println!("{}", crate::table::machine());
    println!("Noise: a figure within a fifth of a bound is measured again on a quieter machine before it is believed.");
    let rest =
        if small { " schedule    check    bound  explain" } else { " 20k ms: replicas, exponent  workloads, exponent" };
    println!("{:<46} {:>8} {:>7} {rest}  unplaced nodes    $/hour plan", "feature, 1,000 pods", "CPU ms", "times");
    let mut beyond = Vec::new();
    for feature in all().iter().filter(|feature| feature.name.contains(only)) {
        match row(feature, runs, small) {
            Ok((line, within)) => {
                println!("{line}");
                if !within {
                    beyond.push(feature.name);
                }
            }
            Err(error) => {
                println!("{:<46} {error}", feature.name);
                beyond.push(feature.name);
            }
        }
    }
    if !beyond.is_empty() {
        bail!("beyond {MOST_TIMES} times or exponent {MOST_EXPONENT}: {}", beyond.join("; "));
    }
    Ok(())
}

/// One line of the table, and whether the feature keeps the bounds.
fn row(feature: &Feature, runs: u32, small: bool) -> Result<(String, bool)> {
    let first = sample(feature, SIZES[0], Growth::Replicas, runs)?;
    let times = first.own / first.plain;
    let mut line = format!("{:<46} {:8.2} {times:7.2} ", feature.name, first.own);
    let mut within = times <= MOST_TIMES;
    let mut marks = vec![first.mark];
    if small {
        let parts = crate::measure::parts(&feature.input(SIZES[0], Growth::Replicas)?);
        line.extend(parts.map(|part| format!("{:9.2}", part.as_secs_f64() * 1000.0)));
    } else {
        for growth in [Growth::Replicas, Growth::Workloads] {
            let large = sample(feature, SIZES[1], growth, runs.div_ceil(2))?;
            let exponent = (large.own / first.own).ln() / (SIZES[1] as f64 / SIZES[0] as f64).ln();
            line.push_str(&format!(" {:12.2} {exponent:10.2}", large.own));
            within &= exponent <= MOST_EXPONENT;
            marks.push(large.mark);
        }
    }
    let marks: Vec<String> = marks.iter().map(|mark| format!("{:04x}", mark & 0xffff)).collect();
    let dollars = first.cost.0 as f64 / 1e6;
    line.push_str(&format!(" {:10} {:5} {dollars:9.3} {}", first.unplaced, first.nodes, marks.join(" ")));
    Ok((line, within))
}

/// Decides about both inputs in turns, `runs` times after one that does not count.
fn sample(feature: &Feature, pods: usize, growth: Growth, runs: u32) -> Result<Sample> {
    let (own, plain) = (feature.input(pods, growth)?, Feature::new("plain", |_| ()).input(pods, growth)?);
    let first = decided(&own)?;
    let _ = decided(&plain)?;
    let (mut owns, mut plains) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        plains.push(timed(&plain)?);
        owns.push(timed(&own)?);
    }
    let mut hasher = DefaultHasher::new();
    format!("{:?}{:?}", first.plan, first.report).hash(&mut hasher);
    Ok(Sample {
        own: median(owns),
        plain: median(plains),
        unplaced: first.plan.unschedulable.len(),
        nodes: first.plan.nodes.len(),
        cost: first.report.new_cost,
        mark: hasher.finish(),
    })
}

fn timed(input: &PlanningInput) -> Result<f64> {
    let begun = proc::thread_cpu();
    let decision = decided(input)?;
    let taken = proc::thread_cpu().saturating_sub(begun);
    drop(decision);
    Ok(taken.as_secs_f64() * 1000.0)
}

fn decided(input: &PlanningInput) -> Result<decide::Decision> {
    match decide::plan(input) {
        Ok(decision) => Ok(decision),
        Err(violations) => bail!("the plan failed its own check: {}", violations[0]),
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
