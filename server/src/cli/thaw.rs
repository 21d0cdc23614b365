//! `fleetwright thaw`: ends freezes by number or by scope.

use clap::Args;
use fleetwright_proto::v1;

use super::exit::{Failure, Status};
use super::freeze::ScopeFlags;
use super::freezes::scope_name;
use super::output;
use super::remote::{FleetClient, ServerFlags, rpc_failure};

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
    let (scope, id) = (flags.scope.message(), flags.id);
    let thawed = flags.server.ask(async |client| thaw(client, scope, id).await)?;
    if thawed.is_empty() {
        output::print_text("no freeze has this scope; `fleetwright freezes` lists all freezes\n")?;
        return Ok(Status::Leftover);
    }
    let lines: Vec<String> = thawed.iter().map(|line| format!("thawed: {line}\n")).collect();
    output::print_text(&lines.concat())?;
    Ok(Status::Done)
}

async fn thaw(mut client: FleetClient, scope: v1::FreezeScope, id: Option<i64>) -> Result<Vec<String>, Failure> {
    if let Some(id) = id {
        client.thaw(v1::ThawRequest { id }).await.map_err(rpc_failure)?;
        return Ok(vec![format!("freeze {id}")]);
    }
    let all = client.list_freezes(v1::ListFreezesRequest {}).await.map_err(rpc_failure)?.into_inner().freezes;
    let mut thawed = Vec::new();
    for freeze in all.into_iter().filter(|freeze| freeze.scope.clone().unwrap_or_default() == scope) {
        client.thaw(v1::ThawRequest { id: freeze.id }).await.map_err(rpc_failure)?;
        thawed.push(format!("{} (freeze {})", scope_name(freeze.scope.as_ref()), freeze.id));
    }
    Ok(thawed)
}
