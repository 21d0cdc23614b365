//! `fleetwright clusters`: assignment of cluster names.

use clap::{Args, Subcommand};
use fleetwright_proto::v1;

use super::cluster_names;
use super::remote::{ServerFlags, rpc_failure};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;

/// Assign the names of clusters; `fleetwright fleet clusters` lists them
#[derive(Debug, Subcommand)]
pub enum ClustersCommand {
    AcceptUid(AcceptUidFlags),
}

/// Assign a cluster's name to a rebuilt cluster with another UID
///
/// Unfinished operations of the former cluster are closed. Its remaining instances are reported and
/// never terminated.
#[derive(Debug, Args)]
pub struct AcceptUidFlags {
    /// Name of the cluster
    #[arg(add = cluster_names::completer())]
    cluster: String,
    /// UID of the new cluster (of its namespace kube-system)
    uid: String,
    #[command(flatten)]
    server: ServerFlags,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: ClustersCommand) -> Result<Status, Failure> {
    let ClustersCommand::AcceptUid(AcceptUidFlags { cluster, uid, server }) = command;
    let request = v1::AcceptClusterUidRequest { name: names::cluster(&cluster), uid: uid.clone() };
    server.ask(async |mut client| client.accept_cluster_uid(request).await.map_err(rpc_failure))?;
    output::print_text(&format!("accepted: the name {cluster} belongs to the cluster with UID {uid}\n"))?;
    Ok(Status::Done)
}
