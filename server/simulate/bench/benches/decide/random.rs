//! Random inputs planned by this project and by a baseline on the same files: how often each is cheaper.

use std::cmp::Ordering;
use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use planner::PlannedDecision;
use serde_json::json;

use crate::baseline::{Outcome, plan_by};
use crate::catalogue::{self, Bounds};
use crate::flags::Flags;
use crate::generate::SeededRng;
use crate::proc;
use crate::template::{PodTemplate, Rule};
use crate::workload::Workload;

/// Costs that differ by at most so much are equal.
const EQUAL: f64 = 0.002;

/// CPU time of a search that exceeds that of the first packing by more than this is counted, in milliseconds.
const SLOW_MS: f64 = 1_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Cheaper,
    Equal,
    Dearer,
    /// It places more pods than the baseline, so that their costs do not compare.
    MorePods,
    FewerPods,
}

/// Plans `flags.inputs` inputs and prints the dearer ones and a summary.
pub fn report(flags: &Flags) -> Result<()> {
    let program = flags.baseline.as_deref().context("set KARPENTER_REF to the program to compare with")?;
    println!(
        "| seed | pods | search: nodes, $/h | CPU ms more | Karpenter: nodes, $/h | this over it | |\n|---|---:|---:|---:|---:|---:|---|"
    );
    let (mut verdicts, mut slow, mut sums) = (Vec::new(), 0, (0.0, 0.0));
    for seed in 1..=flags.inputs {
        let workload = workload(seed);
        let (own, ms) = own(&workload, flags.search)?;
        let theirs = theirs(&workload, program)?;
        let cost = own.report.new_cost.0 as f64 / 1e6;
        let verdict = verdict(&own, cost, &theirs);
        slow += usize::from(ms > SLOW_MS);
        verdicts.push(verdict);
        if !matches!(verdict, Verdict::MorePods | Verdict::FewerPods) {
            sums = (sums.0 + cost, sums.1 + theirs.cost);
        }
        println!(
            "| {seed} | {} | {}, {cost:.4} | {ms:.0} | {}, {:.4} | {:.2} % | {verdict:?} |",
            own.plan.order.len() + own.plan.unschedulable.len(),
            own.plan.nodes.len(),
            theirs.nodes,
            theirs.cost,
            (cost / theirs.cost.max(1e-6) - 1.0) * 100.0,
        );
    }
    let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    println!(
        "\n{} inputs: {} cheaper, {} equal, {} dearer, {} place more pods, {} fewer; in sum of the others {:.4} against {:.4} $/h; {slow} searches above {SLOW_MS} ms",
        flags.inputs,
        count(Verdict::Cheaper),
        count(Verdict::Equal),
        count(Verdict::Dearer),
        count(Verdict::MorePods),
        count(Verdict::FewerPods),
        sums.0,
        sums.1,
    );
    Ok(())
}

fn verdict(own: &PlannedDecision, cost: f64, theirs: &Outcome) -> Verdict {
    match own.plan.unschedulable.len().cmp(&theirs.unplaced) {
        Ordering::Less => return Verdict::MorePods,
        Ordering::Greater => return Verdict::FewerPods,
        Ordering::Equal => {}
    }
    match cost / theirs.cost.max(1e-6) - 1.0 {
        over if over > EQUAL => Verdict::Dearer,
        over if over < -EQUAL => Verdict::Cheaper,
        _ => Verdict::Equal,
    }
}

/// The decision with a search, and how much longer than without it took, in milliseconds of CPU.
fn own(workload: &Workload, steps: u64) -> Result<(PlannedDecision, f64)> {
    let mut input = workload.input()?;
    let begun = proc::thread_cpu();
    let first = planner::plan(&input);
    let between = proc::thread_cpu();
    input.policy.search_steps = steps;
    match (first, planner::plan(&input)) {
        (Ok(_), Ok(decision)) => {
            let (first, searched) = (between - begun, proc::thread_cpu() - between);
            Ok((decision, searched.saturating_sub(first).as_secs_f64() * 1000.0))
        }
        (Err(violations), _) | (_, Err(violations)) => bail!("a plan failed its own check: {}", violations[0]),
    }
}

fn theirs(workload: &Workload, program: &Path) -> Result<Outcome> {
    let folder = env::temp_dir().join(format!("fleetwright-random-{}", std::process::id()));
    let files = workload.write(&folder)?;
    let outcome = plan_by(program, &files, workload.preferences, 1000);
    fs::remove_dir_all(&folder)?;
    outcome
}

/// 11 to 400 pods of 1 to 12 workloads, with one rule each at most, for a NodePool of some families of EC2.
fn workload(seed: u64) -> Workload {
    let mut rng = SeededRng::new(seed);
    let rules = [
        Rule::Plain,
        Rule::Plain,
        Rule::Plain,
        Rule::ZoneSpread,
        Rule::HostSpread,
        Rule::ZoneAffinity,
        Rule::HostExclusion,
        Rule::ZoneAndHostSpread,
    ];
    let workloads = rng.pick(&[1, 2, 3, 5, 8, 12]);
    let mut pods = Vec::new();
    for number in 0..workloads {
        let own = Some(("app".to_owned(), format!("app-{number}")));
        let cpu = rng.pick(&[50, 100, 250, 500, 700, 1_000, 1_500, 2_000, 3_000, 4_000, 7_000]);
        let memory = cpu * rng.pick(&[1, 2, 2, 4, 4, 8]) + rng.pick(&[0, 64, 200]);
        let rule = rng.pick(&rules);
        let template = PodTemplate { rule, label: own.clone(), selects: own, ..PodTemplate::plain(cpu, memory) };
        pods.extend(std::iter::repeat_n(template, rng.pick(&[1, 3, 7, 12, 20, 33])));
    }
    while pods.len() <= 10 {
        pods.push(pods[0].clone());
    }
    let demand: u32 = pods.iter().map(|pod| pod.cpu).sum();
    let bounds = rng.pick(&[Bounds::MODEST, Bounds::GETTING_STARTED]);
    let mut setup = catalogue::ec2(bounds);
    let limited = rng.pick(&[false, false, false, true]);
    if limited {
        setup.objects[1]["spec"]["limits"] = json!({"cpu": format!("{}m", demand / 10 * 14)});
    }
    let families = rng.pick(&[&["c", "m", "r"][..], &["c", "m"], &["m", "r"], &["m"]]);
    let category = json!({"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": families});
    if let Some(requirements) = setup.objects[1]["spec"]["template"]["spec"]["requirements"].as_array_mut() {
        requirements.push(category);
    }
    Workload::of_pods(setup, pods.into_iter())
}
