//! `fleetwright audit`: audit log of operator commands.

use clap::Args;
use fleetwright_proto::v1;
use serde::Serialize;

use super::exit::{Failure, Status};
use super::remote::{Format, ServerFlags, moment, print_rows, rpc_failure};

/// List operator commands, latest first
#[derive(Debug, Args)]
pub struct AuditFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Maximum number of entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only entries below this number
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    before: i64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: i64,
    at_ms: i64,
    who: String,
    what: String,
    scope: String,
    detail: String,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &AuditFlags) -> Result<Status, Failure> {
    let request = v1::ListAuditRequest { limit: flags.limit, before_id: flags.before };
    let entries = flags
        .server
        .ask(async |mut client| Ok(client.list_audit(request).await.map_err(rpc_failure)?.into_inner().entries))?;
    let rows: Vec<Row> = entries.into_iter().map(row).collect();
    print_rows(&rows, flags.output, ["ID", "AT (UTC)", "WHO", "WHAT", "SCOPE", "DETAIL"], |row| {
        let (who, what) = (row.who.clone(), row.what.clone());
        [row.id.to_string(), moment(row.at_ms), who, what, row.scope.clone(), row.detail.clone()]
    })
}

fn row(entry: v1::AuditEntry) -> Row {
    let v1::AuditEntry { id, at_ms, who, what, scope, detail } = entry;
    Row { id, at_ms, who, what, scope, detail }
}
