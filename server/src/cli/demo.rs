//! `fleetwright demo`: the whole system on this machine.

use std::time::Duration;

use clap::Args;

use super::exit::{Failure, Status};
use crate::{demo, telemetry};

/// Show the whole system on this machine: a server, a simulated cloud, and simulated clusters with an agent process each
#[derive(Debug, Args)]
pub(crate) struct DemoFlags {
    /// End by itself, at the latest after so long (such as 60s), with a summary; without it the page stays until Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    at_most: Option<Duration>,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A cloud that has nothing to sell
    #[arg(long)]
    no_capacity: bool,
    /// Clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    clusters: u8,
    /// Port of the live page on 127.0.0.1; 0 lets the system choose
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// At the end, make every decision again from the decision log, and say whether it came out the same, bit for bit
    #[arg(long)]
    replay: bool,
    /// What is logged on standard error
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
    /// Where traces go, by OTLP over gRPC
    #[arg(long = "trace-collector", env = telemetry::COLLECTOR_VARIABLE, value_name = "URL")]
    collector: Option<String>,
}

pub(crate) fn run(flags: DemoFlags) -> Result<Status, Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let collector = flags.collector.as_deref();
    let _traces =
        runtime.block_on(async { telemetry::log_and_trace(&flags.log, false, collector) }).map_err(Failure::refused)?;
    let plan = demo::Plan {
        at_most: flags.at_most,
        seed: flags.seed,
        no_capacity: flags.no_capacity,
        clusters: flags.clusters,
        port: flags.port,
        log: flags.log,
        replay: flags.replay,
    };
    let well = runtime.block_on(demo::run(plan)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(if well { Status::Done } else { Status::Leftover })
}
