//! `fleetwright removals`: lists and confirms waiting removals.

use clap::{Args, Subcommand};
use fleetwright_proto::v1;
use serde::Serialize;

use super::cluster_names;
use super::freezes::number;
use super::remote::{FleetClient, ServerFlags, rpc_failure};
use api_messages::{resource_names as names, to_millis};
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, moment, print_rows};

/// List waiting removals with their reasons and what they wait for; or confirm those of a cluster
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RemovalsFlags {
    #[command(subcommand)]
    command: Option<RemovalsCommand>,
    #[command(flatten)]
    server: ServerFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum RemovalsCommand {
    Confirm(ConfirmFlags),
}

/// Confirm the removals that currently wait in a cluster
#[derive(Debug, Args)]
struct ConfirmFlags {
    /// Name of the cluster
    #[arg(add = cluster_names::completer())]
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

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: RemovalsFlags) -> Result<Status, Failure> {
    match flags.command {
        Some(RemovalsCommand::Confirm(confirm)) => run_confirm(&confirm),
        None => list(&flags),
    }
}

fn run_confirm(flags: &ConfirmFlags) -> Result<Status, Failure> {
    let cluster = &flags.cluster;
    let request = v1::ConfirmRemovalsRequest { name: names::cluster(cluster) };
    flags.server.ask(async |mut client| client.confirm_removals(request).await.map_err(rpc_failure))?;
    output::print_text(&format!("confirmed: the waiting removals of cluster {cluster} proceed\n"))?;
    Ok(Status::Done)
}

fn list(flags: &RemovalsFlags) -> Result<Status, Failure> {
    let clusters = flags.server.ask(async |client| clusters(client).await)?;
    let rows: Vec<Row> = clusters.into_iter().flat_map(rows).collect();
    let headings = ["CLUSTER", "NODECLAIM", "SINCE (UTC)", "WHY", "UNTIL"];
    print_rows(&rows, flags.output, headings, |row| {
        let until = row.release.strip_prefix("until ").unwrap_or(&row.release).to_owned();
        [row.cluster.clone(), row.node_claim.clone(), moment(row.since_ms), row.reason.clone(), until]
    })
}

/// Clusters with removals that wait, each with all of them: lists have the first one.
async fn clusters(mut client: FleetClient) -> Result<Vec<v1::Cluster>, Failure> {
    let mut clusters = Vec::new();
    for row in listed(&mut client).await? {
        let request = v1::GetClusterRequest { name: row.name };
        clusters.push(client.get_cluster(request).await.map_err(rpc_failure)?.into_inner());
    }
    Ok(clusters)
}

async fn listed(client: &mut FleetClient) -> Result<Vec<v1::Cluster>, Failure> {
    let filter = "guardrails.waiting_removal_count > 0".to_owned();
    let mut request = v1::ListClustersRequest { page_size: 1_000, filter, ..Default::default() };
    let mut clusters = Vec::new();
    loop {
        let page = client.list_clusters(request.clone()).await.map_err(rpc_failure)?.into_inner();
        clusters.extend(page.clusters);
        if page.next_page_token.is_empty() {
            return Ok(clusters);
        }
        request.page_token = page.next_page_token;
    }
}

fn rows(cluster: v1::Cluster) -> Vec<Row> {
    let name = number(&cluster.name).to_owned();
    let waiting = cluster.guardrails.unwrap_or_default().waiting_removals;
    let row = |removal: v1::WaitingRemoval| Row {
        cluster: name.clone(),
        node_claim: removal.node_claim,
        since_ms: removal.wait_time.as_ref().map_or(0, to_millis),
        reason: removal.reason,
        release: removal.release,
    };
    waiting.into_iter().map(row).collect()
}
