//! `fleetwright simulate load`: many simulated clusters against a running server.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cli::exit::{Failure, Status};
use crate::cli::output;
use crate::load::{self, Plan, Report};
use crate::telemetry;

const SECONDS_A_DAY: f64 = 86_400.0;
const GB: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

/// Connect many simulated clusters to a running server, and tell what they cost it
///
/// Every cluster begins with nodes full of pods; once a minute a burst of pods comes that fits nowhere, and half a minute
/// later it goes. Latencies are the server's own, from its metrics: from the end of a batch window to the decision.
#[derive(Debug, Args)]
pub(crate) struct LoadFlags {
    /// Clusters
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// Nodes of each cluster
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Pods that run in each cluster
    #[arg(long, default_value_t = 2_000)]
    pods: usize,
    /// Pods that come to each cluster once a minute
    #[arg(long, default_value_t = 10)]
    burst: usize,
    /// Where agents connect to the server, as http://host:port
    #[arg(long, value_name = "URL")]
    target: String,
    /// Where the server's metrics are, as host:port
    #[arg(long, value_name = "ADDRESS")]
    page: SocketAddr,
    /// The server's process on this machine, for its memory and processor time
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// The server's PostgreSQL, for what it writes
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// How long the bursts go on
    #[arg(long = "for", default_value = "5m", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    lasts: Duration,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What is logged on standard error
    #[arg(long, default_value = "error", value_name = "FILTER")]
    log: String,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Json,
}

pub(crate) fn run(flags: LoadFlags) -> Result<Status, Failure> {
    telemetry::log(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let plan = Plan {
        clusters: flags.clusters,
        nodes: flags.nodes,
        pods: flags.pods,
        burst: flags.burst,
        target: flags.target,
        page: flags.page,
        server_pid: flags.server_pid,
        database_url: flags.database_url,
        lasts: flags.lasts,
        seed: flags.seed,
    };
    let report = runtime.block_on(load::run(&plan)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    match flags.output {
        Form::Table => output::print_text(&table(&plan, &report))?,
        Form::Json => output::print_text(&format!("{:#}\n", document(&plan, &report)))?,
    }
    Ok(Status::Done)
}

fn table(plan: &Plan, report: &Report) -> String {
    let mut text = format!(
        "{} clusters with {} nodes and {} pods each were taken in within {:.1} s; bursts of {} pods for {:.0} s\n\
         {} decisions to buy; beyond the batch window: median at most {} ms, 99% at most {} ms\n",
        plan.clusters,
        plan.nodes,
        plan.pods,
        report.connected.as_secs_f64(),
        plan.burst,
        report.measured.as_secs_f64(),
        report.decisions,
        report.p50_ms,
        report.p99_ms,
    );
    // Writing to a String cannot fail.
    for (who, used) in [("server", report.server), ("generator", report.generator)] {
        if let Some((bytes, busy)) = used {
            let _always = writeln!(text, "{who}: {:.0} MiB, {busy:.2} processors", bytes as f64 / MIB);
        }
    }
    if let Some((rows, bytes)) = report.written {
        let a_day = bytes * SECONDS_A_DAY / GB;
        let _always = writeln!(text, "database: {rows:.1} rows/s, {:.1} KB/s ({a_day:.1} GB a day)", bytes / 1_000.0);
    }
    let _always = writeln!(text, "{} pods of bursts wait at the end", report.waiting);
    text
}

fn document(plan: &Plan, report: &Report) -> Value {
    let used = |used: Option<(u64, f64)>| used.map(|(bytes, busy)| json!({"memoryBytes": bytes, "processors": busy}));
    json!({
        "clusters": plan.clusters,
        "nodes": plan.nodes,
        "pods": plan.pods,
        "burst": plan.burst,
        "takenInSeconds": report.connected.as_secs_f64(),
        "measuredSeconds": report.measured.as_secs_f64(),
        "decisions": report.decisions,
        "latencyMillisP50": report.p50_ms,
        "latencyMillisP99": report.p99_ms,
        "server": used(report.server),
        "generator": used(report.generator),
        "rowsPerSecond": report.written.map(|(rows, _)| rows),
        "bytesPerSecond": report.written.map(|(_, bytes)| bytes),
        "gigabytesPerDay": report.written.map(|(_, bytes)| bytes * SECONDS_A_DAY / GB),
        "podsCreated": report.pods_made,
        "burstPodsWaiting": report.waiting,
    })
}
