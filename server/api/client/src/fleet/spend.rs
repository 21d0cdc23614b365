//! `fleetwright fleet spend`: what the machines have cost.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fleetwright_proto::v1;
use prost_types::Timestamp;

use super::cells::day_and_time;
use super::cost::{GroupBy, WASTE_TITLES, amount_cells};
use super::output_format::{self, FleetFormat};
use crate::cluster_names;
use crate::remote::{ServerFlags, rpc_failure};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;
use store::clock;

/// Flags of `fleet spend`.
#[derive(Debug, Args)]
pub struct SpendFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// The time until now, such as 6h or 30d; of more than a week ago only whole days (UTC) are known
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = command::duration::parse_duration_flag)]
    since: Duration,
    /// Sums for each hour or day (UTC)
    #[arg(long, value_enum, value_name = "PERIOD")]
    per: Option<Period>,
    /// What to sum by
    #[arg(long, value_enum, default_value_t = GroupBy::Cluster)]
    by: GroupBy,
    /// Groups at most, those that cost most; the rest is one sum
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    groups: i32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = FleetFormat::Table)]
    output: FleetFormat,
}

/// Periods that are summed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Period {
    Hour,
    Day,
}

pub(super) fn run(flags: &SpendFlags) -> Result<Status, Failure> {
    let period = match flags.per {
        None => v1::SpendPeriod::Unspecified,
        Some(Period::Hour) => v1::SpendPeriod::Hour,
        Some(Period::Day) => v1::SpendPeriod::Day,
    };
    let request = v1::ComputeSpendRequest {
        parent: flags.cluster.as_deref().map(names::cluster).unwrap_or_default(),
        start_time: Some(ago(flags.since)),
        end_time: None,
        period: period.into(),
        group_by: flags.by.group().into(),
        max_groups: flags.groups,
    };
    let spend = flags
        .server
        .ask(async |mut client| Ok(client.compute_spend(request).await.map_err(rpc_failure)?.into_inner()))?;
    output::print_document(&spend_document(&spend, flags.per.is_some(), flags.output)?)?;
    Ok(Status::Done)
}

/// The time `duration` before now.
pub(super) fn ago(duration: Duration) -> Timestamp {
    let before = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    api_messages::from_millis(clock::now().as_millis().saturating_sub(before))
}

/// The spend in a format; with `has_periods` each sum with its period.
pub(super) fn spend_document(
    spend: &v1::ComputeSpendResponse,
    has_periods: bool,
    format: FleetFormat,
) -> Result<String, Failure> {
    match format {
        FleetFormat::Table | FleetFormat::Wide => {
            let is_wide = format == FleetFormat::Wide;
            let row = |period: Option<String>, group: &str, seconds: i64, amount: i64, parts: &v1::CostBreakdown| {
                let mut row: Vec<String> = period.into_iter().collect();
                row.extend([group.to_owned(), format!("{:.1}", seconds as f64 / 3_600.0)]);
                row.extend(amount_cells(amount, parts, is_wide));
                row
            };
            let others = format!("{} others", spend.other_group_count);
            let mut rows: Vec<Vec<String>> = spend
                .sums
                .iter()
                .map(|sum| {
                    let period = has_periods.then(|| sum.start_time.as_ref().map(day_and_time).unwrap_or_default());
                    let group = if sum.group.is_empty() && spend.other_group_count > 0 { &others } else { &sum.group };
                    row(period, group, sum.machine_seconds, sum.amount_micro_usd, &sum.breakdown.unwrap_or_default())
                })
                .collect();
            let whole = spend.breakdown.unwrap_or_default();
            let period = has_periods.then(String::new);
            rows.push(row(period, "total", spend.machine_seconds, spend.amount_micro_usd, &whole));
            let mut titles = if has_periods { vec!["FROM (UTC)"] } else { Vec::new() };
            titles.extend(["GROUP", "MACHINE HOURS", "$", "USEFUL", "WASTE", "MOST OF IT"]);
            if is_wide {
                titles.extend(WASTE_TITLES);
            }
            Ok(output_format::table(&titles, &rows))
        }
        FleetFormat::Name => Ok(spend.sums.iter().map(|sum| format!("{}\n", sum.group)).collect()),
        FleetFormat::Json | FleetFormat::Yaml => {
            output_format::serialized(&output_format::value("fleetwright.v1.ComputeSpendResponse", spend)?, format)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(hour: i64, group: &str, useful: i64, blocked: i64) -> v1::SpendSum {
        v1::SpendSum {
            start_time: Some(api_messages::from_millis(1_767_225_600_000 + hour * 3_600_000)),
            group: group.to_owned(),
            amount_micro_usd: useful + blocked,
            machine_seconds: 5_400,
            breakdown: Some(v1::CostBreakdown { useful, blocked, ..Default::default() }),
        }
    }

    #[test]
    fn a_report_ends_with_its_total_and_names_the_others() {
        let spend = v1::ComputeSpendResponse {
            sums: vec![
                sum(0, "clusters/a", 600_000, 400_000),
                sum(0, "", 100_000, 0),
                sum(1, "clusters/a", 50_000, 50_000),
            ],
            amount_micro_usd: 1_200_000,
            machine_seconds: 16_200,
            breakdown: Some(v1::CostBreakdown { useful: 750_000, blocked: 450_000, ..Default::default() }),
            other_group_count: 3,
            ..Default::default()
        };
        let expected = "\
FROM (UTC)        GROUP       MACHINE HOURS  $       USEFUL  WASTE   MOST OF IT
2026-01-01 00:00  clusters/a  1.5            1.0000  60 %    0.4000  blocked 40 %
2026-01-01 00:00  3 others    1.5            0.1000  100 %   0.0000
2026-01-01 01:00  clusters/a  1.5            0.1000  50 %    0.0500  blocked 50 %
                  total       4.5            1.2000  63 %    0.4500  blocked 38 %
";
        assert_eq!(spend_document(&spend, true, FleetFormat::Table).unwrap(), expected);
        let whole = spend_document(&spend, false, FleetFormat::Wide).unwrap();
        assert!(whole.starts_with("GROUP ") && whole.contains("UNEXPLAINED"), "{whole}");
    }
}
