//! `fleetwright fleet cost`: what the machines cost an hour.

use clap::{Args, ValueEnum};
use fleetwright_proto::v1;

use super::cells::usd;
use super::output_format::{self, FleetFormat};
use crate::cluster_names;
use crate::remote::{ServerFlags, rpc_failure};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;

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
pub(super) enum GroupBy {
    Cluster,
    Pool,
    CapacityType,
    InstanceType,
    Zone,
}

impl GroupBy {
    /// The group as the API names it.
    pub(super) fn group(self) -> v1::CostGroup {
        match self {
            Self::Cluster => v1::CostGroup::Cluster,
            Self::Pool => v1::CostGroup::Pool,
            Self::CapacityType => v1::CostGroup::CapacityType,
            Self::InstanceType => v1::CostGroup::InstanceType,
            Self::Zone => v1::CostGroup::Zone,
        }
    }
}

pub(super) fn run(flags: &CostFlags) -> Result<Status, Failure> {
    let parent = flags.cluster.as_deref().map(names::cluster).unwrap_or_default();
    let request = v1::ComputeCostRequest { parent, group_by: flags.by.group().into() };
    let cost = flags
        .server
        .ask(async |mut client| Ok(client.compute_cost(request).await.map_err(rpc_failure)?.into_inner()))?;
    output::print_document(&cost_document(&cost, flags.output)?)?;
    for cluster in &cost.unreachable {
        eprintln!("warning: the machines of {cluster} are missing: no replica that answers decides for it now");
    }
    Ok(if cost.unreachable.is_empty() { Status::Done } else { Status::Leftover })
}

pub(super) fn cost_document(cost: &v1::ComputeCostResponse, format: FleetFormat) -> Result<String, Failure> {
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
            output_format::serialized(&output_format::value("fleetwright.v1.ComputeCostResponse", cost)?, format)
        }
    }
}

/// Causes of waste, as in [`waste`].
pub(super) const WASTE_TITLES: [&str; 8] =
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
    let mut row = vec![sum.group.clone(), sum.machine_count.to_string()];
    row.extend(amount_cells(sum.price_micro_usd_per_hour, &sum.breakdown.unwrap_or_default(), is_wide));
    row
}

/// An amount in micro-dollars and what it is spent on: the amount, the useful share, the waste, the greatest cause of it, and with
/// `is_wide` all causes.
pub(super) fn amount_cells(amount: i64, parts: &v1::CostBreakdown, is_wide: bool) -> Vec<String> {
    let waste = waste(parts);
    // Of equal amounts the first cause.
    let most = waste.iter().rev().max_by_key(|(_, amount)| *amount).filter(|(_, amount)| *amount > 0);
    let percent = |part: i64| percent(part, amount);
    let mut cells = vec![
        usd(amount),
        percent(parts.useful),
        usd(waste.iter().map(|(_, amount)| amount).sum()),
        most.map(|(cause, amount)| format!("{} {}", cause.to_lowercase(), percent(*amount))).unwrap_or_default(),
    ];
    if is_wide {
        cells.extend(waste.iter().map(|(_, amount)| usd(*amount)));
    }
    cells
}

/// The share of a whole; empty if there is none.
pub(super) fn percent(part: i64, whole: i64) -> String {
    match i128::from(whole) {
        whole if whole > 0 => format!("{} %", (i128::from(part) * 100 + whole / 2).div_euclid(whole)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_ends_with_its_total() {
        let sum = |group: &str, price, machine_count, breakdown| v1::CostSum {
            group: group.to_owned(),
            price_micro_usd_per_hour: price,
            machine_count,
            breakdown,
        };
        let parts = v1::CostBreakdown { useful: 600_000, daemonsets: 50_000, blocked: 350_050, ..Default::default() };
        let sums = vec![sum("spot", 1_000_050, 9, Some(parts)), sum("on-demand", 49, 1, None)];
        let cost = v1::ComputeCostResponse {
            sums,
            price_micro_usd_per_hour: 1_000_099,
            machine_count: 10,
            breakdown: Some(parts),
            unreachable: Vec::new(),
        };
        let expected = "\
GROUP      MACHINES  $/HOUR  USEFUL  WASTE   MOST OF IT
spot       9         1.0001  60 %    0.4001  blocked 35 %
on-demand  1         0.0000  0 %     0.0000
total      10        1.0001  60 %    0.4001  blocked 35 %
";
        assert_eq!(cost_document(&cost, FleetFormat::Table).unwrap(), expected);
        let wide = cost_document(&cost, FleetFormat::Wide).unwrap();
        let spot: Vec<&str> = wide.lines().nth(1).unwrap().split_whitespace().rev().take(4).collect();
        assert_eq!(spot, ["0.0000", "0.0000", "0.3501", "0.0000"], "unexplained, no savings, blocked, fragmentation");
    }
}
