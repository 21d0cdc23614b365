//! `fleetwright freezes`: lists freezes.

use clap::Args;
use fleetwright_proto::v1;
use serde::Serialize;

use super::exit::{Failure, Status};
use super::remote::{Format, ServerFlags, moment, print_rows, rpc_failure};

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
        Ok(client.list_freezes(v1::ListFreezesRequest {}).await.map_err(rpc_failure)?.into_inner().freezes)
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
    let scope = scope_name(freeze.scope.as_ref());
    let v1::FreezeScope { cluster_name, pool_name } = freeze.scope.unwrap_or_default();
    Row {
        id: freeze.id,
        scope,
        cluster: cluster_name,
        pool: pool_name,
        only_disruption: freeze.only_disruption,
        by: freeze.frozen_by,
        reason: freeze.reason,
        since_ms: freeze.since_ms,
        until_ms: Some(freeze.until_ms).filter(|until| *until > 0),
    }
}

/// `fleet`, `cluster/<name>` or `pool/<cluster>/<pool>`.
pub fn scope_name(scope: Option<&v1::FreezeScope>) -> String {
    match scope.map(|scope| (scope.cluster_name.as_str(), scope.pool_name.as_str())) {
        None | Some(("", _)) => "fleet".to_owned(),
        Some((cluster, "")) => format!("cluster/{cluster}"),
        Some((cluster, pool)) => format!("pool/{cluster}/{pool}"),
    }
}
