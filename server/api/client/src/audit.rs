//! `fleetwright audit`: audit log of operator commands.

use clap::Args;
use fleetwright_proto::v1;
use serde::Serialize;

use super::freezes::number;
use super::remote::{FleetClient, ServerFlags, rpc_failure};
use api_messages::to_millis;
use command::exit::{Failure, Status};
use command::rows::{Format, moment, print_rows};

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
    let rows = flags.server.ask(async |client| read(client, flags).await)?;
    print_rows(&rows, flags.output, ["ID", "AT (UTC)", "WHO", "WHAT", "SCOPE", "DETAIL"], |row| {
        let (who, what) = (row.who.clone(), row.what.clone());
        [row.id.to_string(), moment(row.at_ms), who, what, row.scope.clone(), row.detail.clone()]
    })
}

/// Reads pages until the limit is reached.
async fn read(mut client: FleetClient, flags: &AuditFlags) -> Result<Vec<Row>, Failure> {
    let limit = usize::try_from(flags.limit).unwrap_or(usize::MAX);
    let (mut rows, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListAuditEntriesRequest { page_size: 1_000, page_token };
        let page = client.list_audit_entries(request).await.map_err(rpc_failure)?.into_inner();
        let read = page.audit_entries.into_iter().map(row).filter(|row| flags.before <= 0 || row.id < flags.before);
        rows.extend(read);
        if page.next_page_token.is_empty() || rows.len() >= limit {
            rows.truncate(limit);
            return Ok(rows);
        }
        page_token = page.next_page_token;
    }
}

fn row(entry: v1::AuditEntry) -> Row {
    let v1::AuditEntry { name, create_time, operator, command, target, detail } = entry;
    let id = number(&name).parse().unwrap_or_default();
    let at_ms = create_time.as_ref().map_or(0, to_millis);
    Row { id, at_ms, who: operator, what: command, scope: target, detail }
}
