//! `fleetwright quarantine`: quarantined clusters.

use clap::{Args, Subcommand};
use fleetwright_proto::v1;

use super::cluster_names;
use super::remote::{ServerFlags, rpc_failure};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;

/// Manage quarantined clusters
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    Release(ReleaseFlags),
}

/// Release a cluster from quarantine: accept its agent's snapshot
#[derive(Debug, Args)]
pub struct ReleaseFlags {
    /// Name of the cluster
    #[arg(add = cluster_names::completer())]
    cluster: String,
    #[command(flatten)]
    server: ServerFlags,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: QuarantineCommand) -> Result<Status, Failure> {
    let QuarantineCommand::Release(ReleaseFlags { cluster, server }) = command;
    let request = v1::ReleaseQuarantineRequest { name: names::cluster(&cluster) };
    server.ask(async |mut client| client.release_quarantine(request).await.map_err(rpc_failure))?;
    output::print_text(&format!("released: cluster {cluster} is no longer quarantined\n"))?;
    Ok(Status::Done)
}
