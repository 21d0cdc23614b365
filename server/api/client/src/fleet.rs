//! `fleetwright fleet`: what the fleet has, as lists, from any replica.

pub(super) mod cells;
mod cost;
mod explain;
mod focus;
pub(super) mod kinds;
mod listing;
pub(super) mod output_format;
mod savings;
mod spend;
mod watch;

use clap::{Args, Subcommand};

use super::cluster_names;
use super::remote::{self, ServerFlags};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;
use kinds::{Clusters, Decisions, Holds, Kind, Nodes, Offerings, Pods, Pools, Problems, Selection};
use listing::list;
use output_format::{FleetFormat, document};

/// List what the fleet has: problems, clusters, NodePools, nodes, pods that wait, decisions, refused offerings, cost
///
/// Any replica answers for the whole fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// What is wrong now, worst first, with the command for each
    Problems(ClusterListFlags),
    /// Clusters, with what blocks decisions for them
    Clusters(ListFlags),
    /// NodePools
    Pools(ClusterListFlags),
    /// Nodes, also those that Fleetwright does not manage, and machines on their way
    Nodes(ClusterListFlags),
    /// Pods that wait for a node, and why
    Pods(ClusterListFlags),
    /// Recorded decisions, latest first
    Decisions(ClusterListFlags),
    /// Capacity that clients hold, also holds that ended in the last week
    Holds(ClusterListFlags),
    /// Offerings that the cloud refused, and until when they are excluded
    Offerings(ListFlags),
    /// What the machines cost an hour
    Cost(cost::CostFlags),
    /// What the machines have cost, and what it was spent on
    Spend(spend::SpendFlags),
    /// What decisions were to save, and what they have saved a day later
    Savings(savings::SavingsFlags),
    /// What the machines have cost, as CSV in the format of FOCUS 1.2, for tools of finance
    Focus(focus::FocusFlags),
    /// Why a pod waits or where it runs, or why a node stays or went, by its resource name
    Explain(explain::ExplainFlags),
}

/// Flags of all lists.
#[derive(Debug, Args)]
pub struct ListFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Only rows that match, such as 'pool = "default" AND price_micro_usd_per_hour > 100000'
    #[arg(long, default_value = "", value_name = "FILTER", hide_default_value = true)]
    filter: String,
    /// Fields to order by, such as 'pod_count desc' [default: by name]
    #[arg(long, default_value = "", value_name = "FIELDS", hide_default_value = true)]
    order_by: String,
    /// Print this number of rows at most
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
    /// Print the rows, then those that change, until interrupted
    #[arg(long, conflicts_with_all = ["order_by", "limit"])]
    watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = FleetFormat::Table)]
    output: FleetFormat,
}

/// Flags of lists of what clusters have.
#[derive(Debug, Args)]
pub struct ClusterListFlags {
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    #[command(flatten)]
    list: ListFlags,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: FleetCommand) -> Result<Status, Failure> {
    match command {
        FleetCommand::Clusters(list) => run_list::<Clusters>(None, list),
        FleetCommand::Offerings(list) => run_list::<Offerings>(None, list),
        FleetCommand::Problems(ClusterListFlags { cluster, list }) => run_list::<Problems>(cluster, list),
        FleetCommand::Pools(ClusterListFlags { cluster, list }) => run_list::<Pools>(cluster, list),
        FleetCommand::Nodes(ClusterListFlags { cluster, list }) => run_list::<Nodes>(cluster, list),
        FleetCommand::Pods(ClusterListFlags { cluster, list }) => run_list::<Pods>(cluster, list),
        FleetCommand::Decisions(ClusterListFlags { cluster, list }) => run_list::<Decisions>(cluster, list),
        FleetCommand::Holds(ClusterListFlags { cluster, list }) => run_list::<Holds>(cluster, list),
        FleetCommand::Cost(flags) => cost::run(&flags),
        FleetCommand::Spend(flags) => spend::run(&flags),
        FleetCommand::Savings(flags) => savings::run(&flags),
        FleetCommand::Focus(flags) => focus::run(&flags),
        FleetCommand::Explain(flags) => explain::run(flags),
    }
}

fn run_list<K: Kind>(cluster: Option<String>, flags: ListFlags) -> Result<Status, Failure> {
    let ListFlags { server, filter, order_by, limit, watch, output } = flags;
    if !order_by.is_empty() && !K::IS_ORDERED {
        return Err(Failure::refused("--order-by: decisions are listed latest first; select by --filter"));
    }
    if watch && !K::IS_WATCHED {
        return Err(Failure::refused("--watch: this list has no watch; run the command again"));
    }
    let parent = names::cluster(cluster.as_deref().unwrap_or("-"));
    let selection = Selection { parent, filter, order_by, min_interval: None };
    server.ask(async |mut client| {
        let listed = list::<K>(&mut client, &selection, limit.unwrap_or(usize::MAX)).await?;
        output::print_document(&document::<K>(&listed.rows, output)?)?;
        if K::TELLS_OUTAGES {
            remote::warn_of_outages(&mut client).await;
        }
        for cluster in &listed.unreachable {
            eprintln!("warning: {cluster} is missing: no replica that answers decides for it now");
        }
        if watch {
            watch::run::<K>(client, &selection, listed.resume_token, output).await?;
        }
        let is_complete = listed.unreachable.is_empty();
        Ok(if is_complete { Status::Done } else { Status::Leftover })
    })
}

#[cfg(test)]
mod tests;
