//! Options of a run.

use clap::Args;

use crate::cloud_interface::CloudInterface;
use crate::processes::RunOptions;

/// Kill server processes during launches, on a real PostgreSQL, and look for leaked and duplicate
/// instances
///
/// A simulated cloud with slow calls runs as a separate process; the load of simulated clusters
/// goes up and down. Each server is killed with SIGKILL between the intent and the call, the call
/// and its response, or the response and its record. After the load has stopped, each cluster loses
/// a NodeClaim, deleted while no server runs. Exit status 1 means that, by the ledgers of cloud and
/// clusters, an instance was leaked or launched twice, a NodeClaim has no instance, or pods do not
/// run at the end. A temporary PostgreSQL is restarted under load as well.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Number of kills
    #[arg(long, default_value_t = 200)]
    pub times: u32,
    /// Number of simulated clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub clusters: u8,
    /// Drop every database connection after this many kills; 0 for never
    #[arg(long, default_value_t = 10, value_name = "KILLS")]
    pub cut_every: u32,
    /// How servers reach the cloud
    #[arg(long, value_enum, default_value_t)]
    pub cloud: CloudInterface,
    /// Ignore client tokens in the cloud, to verify that duplicates are detected
    #[arg(long)]
    pub without_tokens: bool,
    /// Disable garbage collection in the server, to verify that leaks are detected
    #[arg(long)]
    pub without_collection: bool,
    #[command(flatten)]
    pub options: RunOptions,
}
