//! `cargo bench -p fleetwright-bench -- quotes`: the time of a quote over all clusters of a fleet, on two threads, and of
//! decisions made meanwhile.
//!
//! Each cluster has 100 nodes and about 2,000 pods, with room on some nodes, and the catalogue of a whole region. Clusters
//! differ in their pods; those made from one template have equal NodePools. Each quote asks for another number of pods,
//! so that nothing that is planned for one is of use for the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use model::input::PlanningInput;
use model::{
    CapacityType, InstanceTypeName, LabelSelector, Labels, Millis, PodShape, SpreadConstraint, Text, Timestamp,
};
use odds::{CapacityOdds, OddsSnapshot};
use planner::CompileCache;
use quote::{Answer, LaunchSettings, PodSet, PreparedCluster, Quote, QuoteContext, ReadyTime, rank};

use crate::flags::Flags;
use crate::generate::SeededRng;
use crate::{generate, proc};

const NOW: Timestamp = Timestamp::from_millis(0);
const THREADS: usize = 2;
/// Time between two decisions that are made during quotes.
const BETWEEN_DECISIONS: Duration = Duration::from_millis(20);

/// What a fleet is asked.
struct Case {
    name: &'static str,
    clusters: usize,
    templates: usize,
    ask: fn(&Template, u32) -> Vec<PodSet>,
    quotes: u32,
}

const CASES: [Case; 6] = [
    Case { name: "plain-100", clusters: 100, templates: 10, ask: plain, quotes: 100 },
    Case { name: "plain-100-unlike", clusters: 100, templates: 100, ask: plain, quotes: 50 },
    Case { name: "unplaced-100", clusters: 100, templates: 10, ask: unplaced, quotes: 100 },
    Case { name: "spread-100", clusters: 100, templates: 10, ask: spread, quotes: 20 },
    Case { name: "plain-1000", clusters: 1_000, templates: 10, ask: plain, quotes: 50 },
    Case { name: "plain-1000-unlike", clusters: 1_000, templates: 1_000, ask: plain, quotes: 5 },
];

/// A pod of the workload, from which pod sets are made.
struct Template {
    shape: PodShape,
    labels: Labels,
}

impl Template {
    fn pods(&self, name: &str, count: u32, cpu: i64) -> PodSet {
        let mut shape = self.shape.clone();
        shape.requests.set(model::resources::CPU, cpu);
        let labels = Labels::from([(Text::from("app"), Text::from(name))]);
        PodSet { name: name.into(), namespace: "batch".into(), shape, labels, volumes: None, count }
    }
}

fn plain(template: &Template, number: u32) -> Vec<PodSet> {
    vec![template.pods("worker", 40 + number % 41, 1_000), template.pods("driver", 1 + number % 3, 3_000)]
}

fn unplaced(template: &Template, number: u32) -> Vec<PodSet> {
    let mut sets = plain(template, number);
    sets[1].shape.node_selector.insert(Text::from("example.com/rack"), Text::from("r1"));
    sets
}

fn spread(template: &Template, number: u32) -> Vec<PodSet> {
    let mut sets = plain(template, number);
    sets[0].shape.spread.push(SpreadConstraint {
        topology_key: model::labels::ZONE.into(),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: Some(LabelSelector::new(Vec::new())),
        honor_node_affinity: true,
        honor_node_taints: false,
    });
    sets
}

pub fn report(flags: &Flags) -> Result<()> {
    let base = generate::existing_cluster(1).input()?;
    let pod = &base.pods[0];
    let template = Template {
        shape: base.shapes[pod.shape as usize].clone(),
        labels: base.label_sets[pod.labels as usize].clone(),
    };
    drop(template.labels.clone());
    println!("{}", crate::table::machine());
    println!("{}", noise());
    println!(
        "| case | clusters | fit | wall ms p50 | p99 | CPU ms of a thread p50 | p99 | decisions p50 | p99 | p99 without quotes |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in CASES.iter().filter(|case| case.name.contains(&flags.only)) {
        println!("{}", row(case, &base, &template)?);
    }
    Ok(())
}

/// The clusters of a case, those with equal NodePools beside each other.
fn fleet(case: &Case, base: &PlanningInput) -> Vec<PreparedCluster> {
    let mut rng = SeededRng::new(7);
    let settings = LaunchSettings::default();
    let mut clusters: Vec<PreparedCluster> = (0..case.clusters)
        .map(|at| {
            let mut input = base.clone();
            let template = Text::from(format!("t{}", at % case.templates));
            input
                .pools
                .iter_mut()
                .for_each(|pool| drop(pool.labels.insert("example.com/template".into(), template.clone())));
            // A fifth of the nodes lacks up to five of its twenty pods.
            for node in &mut input.nodes {
                let missing = rng.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 2, 5]);
                node.pods.truncate(node.pods.len() - missing);
            }
            PreparedCluster::new(format!("c{at:04}").into(), "111111111111".into(), input, None, &settings)
        })
        .collect();
    clusters.sort_by_key(PreparedCluster::setting_number);
    clusters
}

fn row(case: &Case, base: &PlanningInput, template: &Template) -> Result<String> {
    let mut clusters = fleet(case, base);
    let odds = CapacityOdds::default();
    let mut caches: Vec<CompileCache> = (0..THREADS).map(|_| CompileCache::default()).collect();
    let alone = decisions_during(base, || thread::sleep(Duration::from_secs(2)))?.0;
    let mut fits = 0;
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    let (during, result) = decisions_during(base, || -> Result<()> {
        for number in 0..=case.quotes {
            let sets = (case.ask)(template, number);
            quote::validate(&sets)?;
            let begun = Instant::now();
            let (quote, busiest) = quote_all(&mut clusters, &sets, &odds, &mut caches);
            let taken = begun.elapsed();
            // The first one compiles NodePools.
            if number > 0 {
                wall.push(taken);
                cpu.push(busiest);
            }
            fits = quote.clusters.iter().filter(|one| matches!(one.answer, Answer::Fits(_))).count();
        }
        Ok(())
    })?;
    result?;
    let (wall, cpu, during, alone) = (percentiles(wall), percentiles(cpu), percentiles(during), percentiles(alone));
    Ok(format!(
        "| {} | {} | {fits} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
        case.name, case.clusters, wall.0, wall.1, cpu.0, cpu.1, during.0, during.1, alone.1
    ))
}

/// The quote, and the CPU time of the thread that took most.
fn quote_all(
    clusters: &mut [PreparedCluster],
    sets: &[PodSet],
    odds: &CapacityOdds,
    caches: &mut [CompileCache],
) -> (Quote, Duration) {
    let part = clusters.len().div_ceil(THREADS);
    let ready_time =
        |_: &InstanceTypeName, _: CapacityType| ReadyTime { p50: Millis::from_secs(40), p95: Millis::from_secs(80) };
    let parts = thread::scope(|scope| {
        let quote_part = |clusters: &mut [PreparedCluster], cache: &mut CompileCache| {
            let begun = proc::thread_cpu();
            let mut context = QuoteContext::new(OddsSnapshot::new(odds, NOW), &ready_time, cache);
            let quotes: Vec<_> = clusters.iter_mut().map(|cluster| cluster.quote(sets, &mut context)).collect();
            (quotes, proc::thread_cpu().saturating_sub(begun))
        };
        let parts = clusters.chunks_mut(part).zip(caches);
        let threads: Vec<_> = parts.map(|(part, cache)| scope.spawn(move || quote_part(part, cache))).collect();
        threads.into_iter().map(|thread| thread.join().expect("quotes do not panic")).collect::<Vec<_>>()
    });
    let busiest = parts.iter().map(|(_, cpu)| *cpu).max().unwrap_or_default();
    (rank(parts.into_iter().flat_map(|(quotes, _)| quotes).collect(), NOW), busiest)
}

/// Times of the decisions that another thread makes during `work`, and what `work` returns.
fn decisions_during<T>(base: &PlanningInput, work: impl FnOnce() -> T) -> Result<(Vec<Duration>, T)> {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let decisions = scope.spawn(|| {
            let mut cache = CompileCache::default();
            let mut times = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let begun = Instant::now();
                drop(planner::plan_with(base, &mut cache));
                times.push(begun.elapsed());
                thread::sleep(BETWEEN_DECISIONS);
            }
            times
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        let times = decisions.join().map_err(|_| anyhow!("a decision panicked"))?;
        Ok((times.into_iter().skip(1).collect(), result))
    })
}

/// How much the machine disturbs a fixed piece of work on two threads: the same as a quote would be disturbed.
fn noise() -> String {
    let spin =
        || (0..20_000_000_u64).fold(1_u64, |sum, at| sum.wrapping_mul(31).wrapping_add(std::hint::black_box(at)));
    let once = || {
        let begun = Instant::now();
        thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(|| std::hint::black_box(spin())))));
        begun.elapsed()
    };
    let (p50, p99) = percentiles((0..100).map(|_| once()).collect());
    format!("noise: a fixed piece of work on {THREADS} threads takes {p50:.1} ms p50, {p99:.1} ms p99")
}

/// Milliseconds that half and 99 of 100 take no longer than.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |part: usize| times.get((times.len() * part).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
    (at(50).as_secs_f64() * 1e3, at(99).as_secs_f64() * 1e3)
}
