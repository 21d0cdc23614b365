//! Options of a run.

use std::time::Duration;

use clap::Args;

use crate::processes::RunOptions;

/// Interrupt the spot instances of many clusters through EventBridge and SQS, and kill the server meanwhile
///
/// A simulated EC2, a PostgreSQL and a server run as processes; every cluster begins with full spot instances. Each
/// instance gets a notice, a tenth of the messages is delivered twice, and the server is killed with SIGKILL after half
/// of the notices. Exit status 1 means that a notice was not stored exactly once, a Node was not tainted, a pod does
/// not run at the end, or an instance was leaked or launched twice. Needs a build with EC2.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Number of simulated clusters
    #[arg(long, default_value_t = 1_000)]
    pub clusters: usize,
    /// Interrupted instances of each cluster
    #[arg(long, default_value_t = 5)]
    pub nodes: usize,
    /// Time from the first notice to the last
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    pub within: Duration,
    /// Do not kill the server
    #[arg(long)]
    pub without_kill: bool,
    /// Rate limits of the account in percent of EC2's defaults, by which replacements are launched five a second at most,
    /// and two a second after the first thousand
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    pub api_limit_percent: u32,
    #[command(flatten)]
    pub options: RunOptions,
}

impl Plan {
    pub(super) fn instances(&self) -> usize {
        self.clusters * self.nodes
    }
}
