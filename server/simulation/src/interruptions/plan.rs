//! Options of a run.

use std::time::Duration;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub clusters: usize,
    /// Instances of each cluster at the beginning; each is interrupted.
    pub nodes: usize,
    /// From the first notice to the last.
    pub within: Duration,
    /// The server is killed after half of the notices.
    pub kill: bool,
    /// Rate limits of the account, in percent of EC2's defaults.
    pub api_limit_percent: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// PostgreSQL URL; `None` starts a temporary one from this machine's binaries.
    pub database_url: Option<String>,
    /// Log filter of the server.
    pub log: String,
}

impl Plan {
    /// Instances at the beginning.
    pub(crate) fn instances(&self) -> usize {
        self.clusters * self.nodes
    }
}
