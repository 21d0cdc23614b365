//! `fleetwright forget`: removes a cluster from the fleet.

use clap::Args;
use fleetwright_proto::v1;

use super::cluster_names;
use super::remote::{ServerFlags, rpc_failure};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;

/// Forget a cluster that is gone: free its name and its UID
///
/// Stop the cluster's agent first. The decisions of the cluster stay in the history.
#[derive(Debug, Args)]
pub struct ForgetFlags {
    /// Name of the cluster
    #[arg(add = cluster_names::completer())]
    cluster: String,
    /// Forget the cluster although machines that were launched for it exist; they continue to run
    #[arg(long)]
    leave_machines: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: ForgetFlags) -> Result<Status, Failure> {
    let ForgetFlags { cluster, leave_machines, server } = flags;
    let request = v1::ForgetClusterRequest { name: names::cluster(&cluster), leave_machines };
    server.ask(async |mut client| client.forget_cluster(request).await.map_err(rpc_failure))?;
    output::print_text(&format!("forgotten: the fleet has no cluster {cluster} any more\n"))?;
    Ok(Status::Done)
}
