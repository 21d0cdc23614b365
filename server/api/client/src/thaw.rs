//! `fleetwright thaw`: ends freezes by number or by scope.

use clap::Args;
use fleetwright_proto::v1;

use super::freeze::ScopeFlags;
use super::freezes::{number, scope_name};
use super::remote::{FleetClient, ServerFlags, rpc_failure};
use command::exit::{Failure, Status};
use command::output;

/// End freezes: those of exactly this scope (default: the fleet), or one by its number
#[derive(Debug, Args)]
pub struct ThawFlags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    scope: ScopeFlags,
    /// Number of a freeze, whatever its scope
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["cluster", "pool"])]
    id: Option<i64>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: ThawFlags) -> Result<Status, Failure> {
    let (target, id) = (flags.scope.target(), flags.id);
    let thawed = flags.server.ask(async |client| thaw(client, target, id).await)?;
    if thawed.is_empty() {
        output::print_text("no freeze has this scope; `fleetwright freezes` lists all freezes\n")?;
        return Ok(Status::Leftover);
    }
    let lines: Vec<String> = thawed.iter().map(|line| format!("thawed: {line}\n")).collect();
    output::print_text(&lines.concat())?;
    Ok(Status::Done)
}

async fn thaw(mut client: FleetClient, target: String, id: Option<i64>) -> Result<Vec<String>, Failure> {
    if let Some(id) = id {
        client.delete_freeze(v1::DeleteFreezeRequest { name: format!("freezes/{id}") }).await.map_err(rpc_failure)?;
        return Ok(vec![format!("freeze {id}")]);
    }
    let all = client
        .list_freezes(v1::ListFreezesRequest { page_size: 1_000, ..Default::default() })
        .await
        .map_err(rpc_failure)?
        .into_inner()
        .freezes;
    let mut thawed = Vec::new();
    for freeze in all.into_iter().filter(|freeze| freeze.target == target) {
        thawed.push(format!("{} (freeze {})", scope_name(&freeze.target), number(&freeze.name)));
        client.delete_freeze(v1::DeleteFreezeRequest { name: freeze.name }).await.map_err(rpc_failure)?;
    }
    Ok(thawed)
}
