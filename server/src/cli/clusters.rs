//! `fleetwright clusters`: which cluster has a name.

use clap::{Args, Subcommand};
use fleetwright_proto::v1;

use super::exit::{Failure, Status};
use super::output;
use super::remote::{ServerFlags, refused};

/// Look after the clusters that the server knows
#[derive(Debug, Subcommand)]
pub(crate) enum ClustersCommand {
    AcceptUid(AcceptUidFlags),
}

/// Give a cluster's name to the cluster of another UID, which was built in its place
///
/// What was under way for the former cluster is closed. Machines of it that still run are reported and never touched.
#[derive(Debug, Args)]
pub(crate) struct AcceptUidFlags {
    /// The cluster's name
    cluster: String,
    /// UID of the cluster that has the name from now on (that of its namespace kube-system)
    uid: String,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) fn run(command: ClustersCommand) -> Result<Status, Failure> {
    let ClustersCommand::AcceptUid(AcceptUidFlags { cluster, uid, server }) = command;
    let request = v1::AcceptClusterUidRequest { cluster_name: cluster.clone(), cluster_uid: uid.clone() };
    server.ask(async |mut client| client.accept_cluster_uid(request).await.map_err(refused))?;
    output::print_text(&format!("accepted: the name {cluster} belongs to the cluster with UID {uid}\n"))?;
    Ok(Status::Done)
}
