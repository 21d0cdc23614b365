//! `fleetwright-sim simulated-agent`: one simulated cluster with its agent, started by `demo` as a
//! process.

use std::path::PathBuf;

use agent::config::Credentials;
use clap::Args;

use command::exit::{Failure, Status};
use simulation::demo;

/// One simulated cluster and its agent
#[derive(Debug, Args)]
pub(crate) struct SimulatedAgentFlags {
    /// Address of the server, as http://host:port
    #[arg(long)]
    server: String,
    /// Name of the cluster
    #[arg(long)]
    cluster_name: String,
    /// Random seed
    #[arg(long)]
    seed: u64,
    /// Restart the script when it has ended
    #[arg(long)]
    repeat: bool,
    /// Certificate authorities (PEM) of an https server
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// File with the token of the cluster's agent
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Log filter
    #[arg(long)]
    log: String,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: SimulatedAgentFlags) -> Result<Status, Failure> {
    telemetry::init_logging(&flags.log, false).map_err(Failure::refused)?;
    let credentials = Credentials { ca_file: flags.ca_file, token_file: flags.token_file, ..Credentials::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime
        .block_on(demo::simulated_agent((flags.server, credentials), flags.cluster_name, flags.seed, flags.repeat))
        .map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(Status::Done)
}
