//! `fleetwright fleet`: what the fleet has, as lists, from any replica.

pub(super) mod cells;
mod explain;
pub(super) mod kinds;
mod listing;
pub(super) mod output_format;
mod watch;

use clap::{Args, Subcommand, ValueEnum};
use fleetwright_proto::v1;

use super::cluster_names;
use super::exit::{Failure, Status};
use super::output;
use super::remote::{ServerFlags, rpc_failure};
use crate::fleet::resource_names as names;
use cells::usd;
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
    Cost(CostFlags),
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

/// Flags of `fleet cost`.
#[derive(Debug, Args)]
pub struct CostFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// What to sum by
    #[arg(long, value_enum, default_value_t = GroupBy::Cluster)]
    by: GroupBy,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = FleetFormat::Table)]
    output: FleetFormat,
}

/// What costs are summed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroupBy {
    Cluster,
    Pool,
    CapacityType,
    InstanceType,
    Zone,
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
        FleetCommand::Cost(flags) => run_cost(&flags),
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

fn run_cost(flags: &CostFlags) -> Result<Status, Failure> {
    let group_by = match flags.by {
        GroupBy::Cluster => v1::CostGroup::Cluster,
        GroupBy::Pool => v1::CostGroup::Pool,
        GroupBy::CapacityType => v1::CostGroup::CapacityType,
        GroupBy::InstanceType => v1::CostGroup::InstanceType,
        GroupBy::Zone => v1::CostGroup::Zone,
    };
    let parent = flags.cluster.as_deref().map(names::cluster).unwrap_or_default();
    let request = v1::GetCostRequest { parent, group_by: group_by.into() };
    let cost =
        flags.server.ask(async |mut client| Ok(client.get_cost(request).await.map_err(rpc_failure)?.into_inner()))?;
    output::print_document(&cost_document(&cost, flags.output)?)?;
    for cluster in &cost.unreachable {
        eprintln!("warning: the machines of {cluster} are missing: no replica that answers decides for it now");
    }
    Ok(if cost.unreachable.is_empty() { Status::Done } else { Status::Leftover })
}

fn cost_document(cost: &v1::Cost, format: FleetFormat) -> Result<String, Failure> {
    match format {
        FleetFormat::Table | FleetFormat::Wide => {
            let total = v1::CostSum {
                group: "total".to_owned(),
                price_micro_usd_per_hour: cost.price_micro_usd_per_hour,
                machine_count: cost.machine_count,
                breakdown: cost.breakdown,
            };
            let sums = cost.sums.iter().chain([&total]);
            let rows: Vec<Vec<String>> = sums.map(|sum| cost_row(sum, format == FleetFormat::Wide)).collect();
            let mut titles = vec!["GROUP", "MACHINES", "$/HOUR", "USEFUL", "WASTE", "MOST OF IT"];
            if format == FleetFormat::Wide {
                titles.extend(WASTE_TITLES);
            }
            Ok(output_format::table(&titles, &rows))
        }
        FleetFormat::Name => Ok(cost.sums.iter().map(|sum| format!("{}\n", sum.group)).collect()),
        FleetFormat::Json | FleetFormat::Yaml => {
            output_format::serialized(&output_format::value("fleetwright.v1.Cost", cost)?, format)
        }
    }
}

/// Causes of waste, as in [`waste`].
const WASTE_TITLES: [&str; 8] =
    ["BOOTING", "DRAINING", "HOLD", "DAEMONSETS", "FRAGMENTATION", "BLOCKED", "NO-SAVINGS", "UNEXPLAINED"];

/// Causes and amounts in micro-dollars per hour.
fn waste(parts: &v1::CostBreakdown) -> [(&'static str, i64); 8] {
    let amounts = [
        parts.booting,
        parts.draining,
        parts.hold,
        parts.daemonsets,
        parts.fragmentation,
        parts.blocked,
        parts.no_savings,
        parts.unexplained,
    ];
    std::array::from_fn(|index| (WASTE_TITLES[index], amounts[index]))
}

fn cost_row(sum: &v1::CostSum, is_wide: bool) -> Vec<String> {
    let parts = sum.breakdown.unwrap_or_default();
    let waste = waste(&parts);
    // Of equal amounts the first cause.
    let most = waste.iter().rev().max_by_key(|(_, amount)| *amount).filter(|(_, amount)| *amount > 0);
    let percent = |amount: i64| match sum.price_micro_usd_per_hour {
        price if price > 0 => format!("{} %", (i128::from(amount) * 100 + i128::from(price) / 2) / i128::from(price)),
        _ => String::new(),
    };
    let mut row = vec![
        sum.group.clone(),
        sum.machine_count.to_string(),
        usd(sum.price_micro_usd_per_hour),
        percent(parts.useful),
        usd(waste.iter().map(|(_, amount)| amount).sum()),
        most.map(|(cause, amount)| format!("{} {}", cause.to_lowercase(), percent(*amount))).unwrap_or_default(),
    ];
    if is_wide {
        row.extend(waste.iter().map(|(_, amount)| usd(*amount)));
    }
    row
}

#[cfg(test)]
mod tests;
