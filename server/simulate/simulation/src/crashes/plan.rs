//! Options of a crash run.

use crate::cloud_interface::CloudInterface;

#[derive(Debug, Clone)]
pub struct Plan {
    pub times: u32,
    pub seed: u64,
    /// PostgreSQL URL; `None` starts a temporary one from this machine's binaries, which is
    /// restarted under load as well.
    pub database_url: Option<String>,
    pub clusters: u8,
    pub cloud: CloudInterface,
    pub without_tokens: bool,
    /// The server runs no garbage collection.
    pub without_collection: bool,
    /// Kills between two cuts of the database's connections; 0 for never.
    pub cut_every: u32,
    pub log: String,
}
