//! `fleetwright simulated-agent`: one simulated cluster and its agent, started by `demo` as a process of its own.

use std::path::PathBuf;

use agent::config::Credentials;
use clap::Args;

use super::exit::{Failure, Status};
use crate::{demo, telemetry};

/// One simulated cluster and its agent
#[derive(Debug, Args)]
pub(crate) struct SimulatedAgentFlags {
    /// The server, as http://host:port
    #[arg(long)]
    server: String,
    /// Name of the cluster
    #[arg(long)]
    cluster_name: String,
    /// Seed of everything that chance decides
    #[arg(long)]
    seed: u64,
    /// Begin the script again when it has ended
    #[arg(long)]
    repeat: bool,
    /// Certificates (PEM) of the authorities that may vouch for an https server
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// File with the token that shows which cluster it speaks for
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// What is logged
    #[arg(long)]
    log: String,
}

pub(crate) fn run(flags: SimulatedAgentFlags) -> Result<Status, Failure> {
    telemetry::log(&flags.log, false).map_err(Failure::refused)?;
    let credentials = Credentials { ca_file: flags.ca_file, token_file: flags.token_file, ..Credentials::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime
        .block_on(demo::simulated_agent((flags.server, credentials), flags.cluster_name, flags.seed, flags.repeat))
        .map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(Status::Done)
}
