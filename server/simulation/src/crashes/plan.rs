//! Options of a crash run.

use crate::cloud_interface::CloudInterface;

/// Options of a crash run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of kills.
    pub times: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// PostgreSQL URL; `None` starts a temporary one from this machine's binaries, which is
    /// restarted under load as well.
    pub database_url: Option<String>,
    pub clusters: u8,
    pub cloud: CloudInterface,
    /// The cloud ignores client tokens.
    pub without_tokens: bool,
    /// The server runs no garbage collection.
    pub without_collection: bool,
    /// Kills between two cuts of the database's connections; 0 for never.
    pub cut_every: u32,
    /// Log filter of the server.
    pub log: String,
}
