//! Options of a run.

use clap::Args;

use crate::processes::RunOptions;

/// Hold capacity on two servers that are killed all the while, and check that no hold and no machine is lost or doubled
///
/// A simulated cloud, a PostgreSQL and two servers run as processes. Clients create holds through either server and repeat
/// their requests with the same id; a third of the holds is forgotten, a quarter released, the others are committed and, but
/// for a few, released. Exit status 1 means that a hold was lost, doubled or alive past its end, that a client was told two
/// things, or that cloud and clusters at the end have other machines than the holds that are kept.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Number of holds at least
    #[arg(long, default_value_t = 1_000)]
    pub holds: usize,
    /// Number of kills, alternately of the two servers
    #[arg(long, default_value_t = 200)]
    pub kills: usize,
    /// Number of simulated clusters, half of them with each server
    #[arg(long, default_value_t = 6)]
    pub clusters: u8,
    /// Have clients repeat their requests without request ids: the run must fail
    #[arg(long)]
    pub without_request_ids: bool,
    #[command(flatten)]
    pub options: RunOptions,
}
