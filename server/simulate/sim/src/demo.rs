//! `fleetwright-sim demo`: the whole system on one host.

use std::time::Duration;

use clap::Args;

use server::cli::exit::{Failure, Status};
use server::{clouds, telemetry};
use simulation::demo;

use crate::cloud_flag::CloudFlag;

/// Run the whole system on this host: a server, a simulated cloud, and simulated clusters with an
/// agent process each
#[derive(Debug, Args)]
pub(crate) struct DemoFlags {
    /// Stop after this time at the latest (such as 60s), with a summary; without it, run until
    /// Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = server::config::parse_duration_flag)]
    at_most: Option<Duration>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate a cloud without capacity
    #[arg(long)]
    no_capacity: bool,
    /// How the server reaches the cloud. With ec2, notices of interruptions come through EventBridge and SQS
    #[arg(long, value_enum, default_value_t = CloudFlag::Simulated)]
    cloud: CloudFlag,
    /// Number of clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    clusters: u8,
    /// Port of the dashboard on 127.0.0.1; 0 lets the operating system choose
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// At the end, replay every decision from the decision log and compare bit for bit
    #[arg(long)]
    replay: bool,
    /// Log filter for standard error
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
    /// OTLP/gRPC endpoint for traces
    #[arg(long = "trace-collector", env = telemetry::COLLECTOR_VARIABLE, value_name = "URL")]
    collector: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: DemoFlags) -> Result<Status, Failure> {
    if flags.cloud == CloudFlag::Ec2 {
        clouds::simulated_account::check("--cloud ec2").map_err(Failure::refused)?;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let collector = flags.collector.as_deref();
    let _traces = runtime
        .block_on(async { telemetry::init_logging_and_tracing(&flags.log, false, collector, "demo") })
        .map_err(Failure::refused)?;
    let plan = demo::Plan {
        at_most: flags.at_most,
        seed: flags.seed,
        no_capacity: flags.no_capacity,
        cloud: flags.cloud.into(),
        clusters: flags.clusters,
        port: flags.port,
        log: flags.log,
        replay: flags.replay,
    };
    let well = runtime.block_on(demo::run(plan)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(if well { Status::Done } else { Status::Leftover })
}
