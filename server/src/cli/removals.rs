//! `fleetwright removals`: removals that wait, and a person's word for them.

use clap::{Args, Subcommand};
use fleetwright_proto::v1;
use serde::Serialize;

use super::exit::{Failure, Status};
use super::output;
use super::remote::{Format, ServerFlags, moment, print_rows, refused};

/// List removals that wait, with the reason and what ends the waiting; or confirm those of a cluster
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RemovalsFlags {
    #[command(subcommand)]
    command: Option<RemovalsCommand>,
    #[command(flatten)]
    server: ServerFlags,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum RemovalsCommand {
    Confirm(ConfirmFlags),
}

/// Let the removals go on that wait in a cluster at this moment
#[derive(Debug, Args)]
struct ConfirmFlags {
    /// The cluster
    cluster: String,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    cluster: String,
    node_claim: String,
    since_ms: i64,
    reason: String,
    release: String,
}

pub(crate) fn run(flags: RemovalsFlags) -> Result<Status, Failure> {
    match flags.command {
        Some(RemovalsCommand::Confirm(confirm)) => run_confirm(&confirm),
        None => list(&flags),
    }
}

fn run_confirm(flags: &ConfirmFlags) -> Result<Status, Failure> {
    let cluster = &flags.cluster;
    let request = v1::ConfirmRemovalsRequest { cluster_name: cluster.clone() };
    flags.server.ask(async |mut client| client.confirm_removals(request).await.map_err(refused))?;
    output::print_text(&format!("confirmed: the removals that wait in cluster {cluster} go on\n"))?;
    Ok(Status::Done)
}

fn list(flags: &RemovalsFlags) -> Result<Status, Failure> {
    let clusters = flags.server.ask(async |mut client| {
        Ok(client.list_clusters(v1::ListClustersRequest {}).await.map_err(refused)?.into_inner().clusters)
    })?;
    let rows: Vec<Row> = clusters.into_iter().flat_map(rows).collect();
    let headings = ["CLUSTER", "NODECLAIM", "SINCE (UTC)", "WHY", "UNTIL"];
    print_rows(&rows, flags.output, headings, |row| {
        let until = row.release.strip_prefix("until ").unwrap_or(&row.release).to_owned();
        [row.cluster.clone(), row.node_claim.clone(), moment(row.since_ms), row.reason.clone(), until]
    })
}

fn rows(cluster: v1::ClusterSummary) -> Vec<Row> {
    let name = cluster.name;
    let waiting = cluster.rails.unwrap_or_default().waiting_removals;
    let row = |removal: v1::WaitingRemoval| Row {
        cluster: name.clone(),
        node_claim: removal.node_claim,
        since_ms: removal.since_ms,
        reason: removal.reason,
        release: removal.release,
    };
    waiting.into_iter().map(row).collect()
}
