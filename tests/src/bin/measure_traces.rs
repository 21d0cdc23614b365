//! Measures what tracing costs the server, by pairs of runs of `fleetwright-sim simulate load`: one without a collector, one with
//! a collector in this process.
//!
//! ```text
//! cargo run --release -p e2e --bin measure_traces -- --pairs 5 --clusters 200 --nodes 50 --pods 1000 --for 2m
//! ```
//!
//! The server searches no better plans meanwhile: a search uses the processor time that it is allowed, and two runs with
//! searches differ by more than tracing costs.
//!
//! All arguments but `--pairs` and `--program` are those of `simulate load`, which needs PostgreSQL. The program is
//! `fleetwright-e2e` beside this one unless `--program` names another. The order within a pair alternates. Printed are the
//! processors that the server used in each run, their ratio for each pair, the median and range of the ratios, and how many
//! spans of each name were received.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use e2e::Collector;
use serde_json::Value;

struct Arguments {
    pairs: usize,
    program: PathBuf,
    load: Vec<String>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let program = std::env::current_exe()?.with_file_name("fleetwright-e2e-sim");
    let mut read = Arguments { pairs: 3, program, load: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--pairs" => read.pairs = words.next().context("--pairs requires a number")?.parse()?,
            "--program" => read.program = words.next().context("--program requires a path")?.into(),
            _ => read.load.push(word),
        }
    }
    ensure!(read.pairs > 0, "--pairs is at least 1");
    Ok(read)
}

/// Processors that the server uses in a run, with traces for `collector` if given.
fn processors(arguments: &Arguments, collector: Option<&str>) -> anyhow::Result<f64> {
    let mut command = Command::new(&arguments.program);
    command.args(["simulate", "load", "--steady", "--output", "json"]).args(&arguments.load);
    command.env("FLEETWRIGHT_CONTROL_SEARCH_CPU", "0");
    command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env_remove("OTEL_TRACES_SAMPLER").stderr(Stdio::inherit());
    if let Some(collector) = collector {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
    }
    let ended = command.output().with_context(|| format!("cannot run {}", arguments.program.display()))?;
    let report: Value = serde_json::from_slice(&ended.stdout).context("simulate load printed no JSON")?;
    ensure!(ended.status.success(), "simulate load failed: {report}");
    report["steady"]["servers"]["processors"].as_f64().context("the report has no usage of the server")
}

fn median(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(low, high)
}

fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (collector, address) = runtime.block_on(Collector::start())?;
    let mut ratios = Vec::new();
    for pair in 1..=arguments.pairs {
        let before = collector.spans().len();
        let first_without = pair % 2 == 1;
        let mut used = [0.0, 0.0];
        for traced in if first_without { [false, true] } else { [true, false] } {
            used[usize::from(traced)] = processors(&arguments, traced.then_some(&*address))?;
        }
        let [without, with] = used;
        let spans = collector.spans().len() - before;
        ensure!(spans > 0, "the collector received no span");
        let ratio = with / without;
        println!(
            "pair {pair}: {without:.3} processors without, {with:.3} with traces, ratio {ratio:.3}, {spans} spans"
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    println!("median {:.3}, range {least:.3} to {most:.3}", median(&ratios));
    let mut names = BTreeMap::<(String, String), usize>::new();
    for received in collector.spans() {
        *names.entry((received.service, received.span.name)).or_default() += 1;
    }
    let mut names: Vec<_> = names.into_iter().map(|(name, count)| (count, name)).collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.iter().for_each(|(count, (service, name))| println!("{count:>8} {service} {name}"));
    Ok(())
}
