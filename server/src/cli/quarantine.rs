//! `fleetwright quarantine`: clusters whose snapshots are not believed.

use clap::{Args, Subcommand};
use fleetwright_proto::v1;

use super::exit::{Failure, Status};
use super::output;
use super::remote::{ServerFlags, refused};

/// Look after clusters whose snapshots are not believed
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    Release(ReleaseFlags),
}

/// Believe what the cluster's agent tells
#[derive(Debug, Args)]
pub(crate) struct ReleaseFlags {
    /// The cluster
    cluster: String,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) fn run(command: QuarantineCommand) -> Result<Status, Failure> {
    let QuarantineCommand::Release(ReleaseFlags { cluster, server }) = command;
    let request = v1::ReleaseQuarantineRequest { cluster_name: cluster.clone() };
    server.ask(async |mut client| client.release_quarantine(request).await.map_err(refused))?;
    output::print_text(&format!("released: what the agent of cluster {cluster} tells is believed\n"))?;
    Ok(Status::Done)
}
