//! `fleetwright fleet savings`: what decisions were to save, and what they have saved a day later.

use std::time::Duration;

use clap::Args;
use fleetwright_proto::v1;

use super::cells::{day_and_time, usd};
use super::cost::percent;
use super::output_format::{self, FleetFormat};
use super::spend::ago;
use crate::cluster_names;
use crate::remote::{ServerFlags, rpc_failure};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::output;

/// Flags of `fleet savings`.
#[derive(Debug, Args)]
pub struct SavingsFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// Decisions of the time until now, such as 2d; 31 days at most
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = command::duration::parse_duration_flag)]
    since: Duration,
    /// Decisions to print at most; sums are of all
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: i32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = FleetFormat::Table)]
    output: FleetFormat,
}

pub(super) fn run(flags: &SavingsFlags) -> Result<Status, Failure> {
    let request = v1::ComputeSavingsRequest {
        parent: flags.cluster.as_deref().map(names::cluster).unwrap_or_default(),
        start_time: Some(ago(flags.since)),
        end_time: None,
        max_decisions: flags.limit,
    };
    let savings = flags
        .server
        .ask(async |mut client| Ok(client.compute_savings(request).await.map_err(rpc_failure)?.into_inner()))?;
    output::print_document(&document(&savings, flags.output)?)?;
    Ok(Status::Done)
}

/// A state as printed.
fn state(state: v1::SavingState) -> &'static str {
    match state {
        v1::SavingState::Unspecified => "",
        v1::SavingState::Pending => "pending",
        v1::SavingState::Realised => "realised",
        v1::SavingState::Overtaken => "overtaken",
    }
}

fn document(savings: &v1::ComputeSavingsResponse, format: FleetFormat) -> Result<String, Failure> {
    match format {
        FleetFormat::Table | FleetFormat::Wide => Ok(table(savings)),
        FleetFormat::Name => Ok(savings.savings.iter().map(|one| format!("{}\n", one.decision)).collect()),
        FleetFormat::Json | FleetFormat::Yaml => {
            output_format::serialized(&output_format::value("fleetwright.v1.ComputeSavingsResponse", savings)?, format)
        }
    }
}

/// What machines of later decisions have cost for pods that it moved; empty without any.
fn bought_later(one: &v1::Saving) -> String {
    if one.bought_later_count == 0 { String::new() } else { usd(one.bought_later_micro_usd) }
}

fn table(savings: &v1::ComputeSavingsResponse) -> String {
    let realised = |of: v1::SavingState, amount: i64, predicted: i64| match of {
        v1::SavingState::Pending => [String::new(), String::new()],
        _ => [usd(amount), percent(amount, predicted)],
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in &savings.savings {
        let mut row = vec![
            one.decision.clone(),
            one.decide_time.as_ref().map(day_and_time).unwrap_or_default(),
            state(one.state()).to_owned(),
            one.removed_count.to_string(),
            one.launched_count.to_string(),
            usd(one.predicted_micro_usd),
            bought_later(one),
        ];
        row.extend(realised(one.state(), one.realised_micro_usd, one.predicted_micro_usd));
        rows.push(row);
    }
    for sum in &savings.sums {
        let (decisions, name) = (sum.decision_count, state(sum.state()));
        let mut row = vec![format!("all {decisions}"), String::new(), name.to_owned(), String::new(), String::new()];
        row.extend([usd(sum.predicted_micro_usd), String::new()]);
        row.extend(realised(sum.state(), sum.realised_micro_usd, sum.predicted_micro_usd));
        rows.push(row);
    }
    if rows.is_empty() {
        return "no decision has removed machines to save their price\n".to_owned();
    }
    let titles = [
        "DECISION",
        "MADE (UTC)",
        "STATE",
        "REMOVED",
        "LAUNCHED",
        "PREDICTED $/DAY",
        "BOUGHT LATER $",
        "REALISED $/DAY",
        "OF IT",
    ];
    output_format::table(&titles, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_followed_by_the_sums_of_each_state() {
        let decision = |number, state: v1::SavingState, realised| v1::Saving {
            decision: format!("clusters/a/decisions/{number}"),
            decide_time: Some(api_messages::from_millis(1_767_225_600_000)),
            state: state.into(),
            removed_count: 2,
            launched_count: 1,
            removed_micro_usd: 4_608_000,
            predicted_micro_usd: 2_304_000,
            realised_micro_usd: realised,
            bought_later_count: i32::from(number == 5),
            bought_later_micro_usd: 1_008_000,
        };
        let sum = |state: v1::SavingState, decision_count, realised| v1::SavingSum {
            state: state.into(),
            decision_count,
            removed_micro_usd: 9_216_000,
            predicted_micro_usd: 4_608_000,
            realised_micro_usd: realised,
        };
        let savings = v1::ComputeSavingsResponse {
            savings: vec![decision(5, v1::SavingState::Realised, 1_152_000), decision(6, v1::SavingState::Pending, 0)],
            sums: vec![sum(v1::SavingState::Pending, 2, 0), sum(v1::SavingState::Overtaken, 3, -460_800)],
            ..Default::default()
        };
        let expected = "\
DECISION                MADE (UTC)        STATE      REMOVED  LAUNCHED  PREDICTED $/DAY  BOUGHT LATER $  REALISED $/DAY  OF IT
clusters/a/decisions/5  2026-01-01 00:00  realised   2        1         2.3040           1.0080          1.1520          50 %
clusters/a/decisions/6  2026-01-01 00:00  pending    2        1         2.3040
all 2                                     pending                       4.6080
all 3                                     overtaken                     4.6080                           -0.4608         -10 %
";
        assert_eq!(table(&savings), expected);
        assert!(table(&v1::ComputeSavingsResponse::default()).starts_with("no decision"));
    }
}
