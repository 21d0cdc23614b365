//! Options of a demo, and the region of its cloud.

use std::time::Duration;

use clap::Args;

use crate::cloud_interface::CloudInterface;

pub(crate) const REGION: &str = "us-east-1";

/// Run the whole system on this host: a server, a simulated cloud, and simulated clusters with an
/// agent process each
#[derive(Debug, Args)]
pub struct Plan {
    /// Stop after this time at the latest (such as 60s), with a summary; without it, run until
    /// Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    pub at_most: Option<Duration>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Simulate a cloud without capacity
    #[arg(long)]
    pub no_capacity: bool,
    /// How the server reaches the cloud. With ec2, notices of interruptions come through EventBridge and SQS
    #[arg(long, value_enum, default_value_t)]
    pub cloud: CloudInterface,
    /// Number of clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub clusters: u8,
    /// Port of the dashboard on 127.0.0.1; 0 lets the operating system choose
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// At the end, replay every decision from the decision log and compare bit for bit
    #[arg(long)]
    pub replay: bool,
    /// Log filter for standard error
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    pub log: String,
    /// OTLP/gRPC endpoint for traces
    #[arg(long = "trace-collector", env = telemetry::COLLECTOR_VARIABLE, value_name = "URL")]
    pub collector: Option<String>,
}
