//! `fleetwright freezes`: lists freezes.

use clap::Args;
use fleetwright_proto::v1;
use serde::Serialize;

use super::remote::{ServerFlags, rpc_failure};
use api_messages::to_millis;
use command::exit::{Failure, Status};
use command::rows::{Format, moment, print_rows};

/// List freezes
#[derive(Debug, Args)]
pub struct FreezesFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: i64,
    scope: String,
    cluster: String,
    pool: String,
    only_disruption: bool,
    by: String,
    reason: String,
    since_ms: i64,
    until_ms: Option<i64>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &FreezesFlags) -> Result<Status, Failure> {
    let freezes = flags.server.ask(async |mut client| {
        Ok(client
            .list_freezes(v1::ListFreezesRequest { page_size: 1_000, ..Default::default() })
            .await
            .map_err(rpc_failure)?
            .into_inner()
            .freezes)
    })?;
    let rows: Vec<Row> = freezes.into_iter().map(row).collect();
    let headings = ["ID", "SCOPE", "STOPS", "BY", "SINCE (UTC)", "UNTIL (UTC)", "REASON"];
    print_rows(&rows, flags.output, headings, |row| {
        let until = row.until_ms.map_or_else(|| "until thawed".to_owned(), moment);
        let stops = if row.only_disruption { "disruption" } else { "launches, removals" }.to_owned();
        let (scope, by) = (row.scope.clone(), row.by.clone());
        [row.id.to_string(), scope, stops, by, moment(row.since_ms), until, row.reason.clone()]
    })
}

fn row(freeze: v1::Freeze) -> Row {
    let mut ids = freeze.target.split('/').skip(1).step_by(2).map(str::to_owned);
    Row {
        id: number(&freeze.name).parse().unwrap_or_default(),
        scope: scope_name(&freeze.target),
        cluster: ids.next().unwrap_or_default(),
        pool: ids.next().unwrap_or_default(),
        only_disruption: freeze.only_disruption,
        by: freeze.creator,
        reason: freeze.reason,
        since_ms: freeze.create_time.as_ref().map_or(0, to_millis),
        until_ms: freeze.expire_time.as_ref().map(to_millis),
    }
}

/// The last part of a name: `freezes/7`.
pub(super) fn number(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// `fleet`, `cluster/<name>` or `pool/<cluster>/<pool>`.
pub(super) fn scope_name(target: &str) -> String {
    match target.split('/').collect::<Vec<_>>()[..] {
        [_, cluster] => format!("cluster/{cluster}"),
        [_, cluster, _, pool] => format!("pool/{cluster}/{pool}"),
        _ => "fleet".to_owned(),
    }
}
