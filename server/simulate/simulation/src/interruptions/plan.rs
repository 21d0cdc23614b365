//! Options of a run.

use std::time::Duration;

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
    pub seed: u64,
    /// PostgreSQL URL; `None` starts a temporary one from this machine's binaries.
    pub database_url: Option<String>,
    pub log: String,
}

impl Plan {
    pub(crate) fn instances(&self) -> usize {
        self.clusters * self.nodes
    }
}
