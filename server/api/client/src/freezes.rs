//! `fleetwright freeze`, `freezes` and `thaw`: stops launches and voluntary removals, or the latter alone, until they are thawed.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fleetwright_proto::v1;
use serde::Serialize;

use super::cluster_names;
use super::remote::{FleetClient, ServerFlags, rpc_failure};
use api_messages::{resource_names as names, to_millis};
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, moment, print_rows};

/// Freeze the fleet, list freezes, and end them
#[derive(Debug, Subcommand)]
pub enum FreezesCommand {
    Freeze(FreezeFlags),
    Thaw(ThawFlags),
    Freezes(FreezesFlags),
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: FreezesCommand) -> Result<Status, Failure> {
    match command {
        FreezesCommand::Freeze(flags) => freeze(flags),
        FreezesCommand::Thaw(flags) => thaw(flags),
        FreezesCommand::Freezes(flags) => list(&flags),
    }
}

/// Stop launches and voluntary removals in the fleet, a cluster or a NodePool, on every replica
///
/// Interruptions are handled under every freeze.
#[derive(Debug, Args)]
pub struct FreezeFlags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    scope: ScopeFlags,
    /// What to stop [default: launches and removals]
    #[arg(long, value_enum, value_name = "WHAT")]
    only: Option<Only>,
    /// Reason, shown to other operators
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Expire after this time (such as 2h or 1d); without it, `fleetwright thaw` ends the freeze
    #[arg(long = "for", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    at_most: Option<Duration>,
}

/// What a freeze stops, if not everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Voluntary removals: of empty, drifted and underutilized nodes. Launches go on, and so do expiry, repair,
    /// scale-down of static NodePools and deletions by hand, which are not voluntary
    Disruption,
}

/// Scope of a freeze; the fleet by default.
#[derive(Debug, Clone, Args)]
struct ScopeFlags {
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// Only this NodePool of the cluster
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pool: Option<String>,
}

impl ScopeFlags {
    /// Name of the resource; empty for the fleet.
    fn target(self) -> String {
        match (self.cluster, self.pool) {
            (None, _) => String::new(),
            (Some(cluster), None) => names::cluster(&cluster),
            (Some(cluster), Some(pool)) => names::child(&cluster, "pools", &pool),
        }
    }
}

fn freeze(flags: FreezeFlags) -> Result<Status, Failure> {
    let asked = v1::Freeze {
        target: flags.scope.target(),
        reason: flags.reason,
        ttl: flags.at_most.and_then(|wait| wait.try_into().ok()),
        only_disruption: flags.only == Some(Only::Disruption),
        ..v1::Freeze::default()
    };
    let request = v1::CreateFreezeRequest { freeze: Some(asked) };
    let freeze = flags
        .server
        .ask(async |mut client| Ok(client.create_freeze(request).await.map_err(rpc_failure)?.into_inner()))?;
    let scope = scope_name(&freeze.target);
    let end = freeze.expire_time.map(|time| format!(" until {} UTC", moment(to_millis(&time)))).unwrap_or_default();
    let only = if freeze.only_disruption { ", only disruption" } else { "" };
    output::print_text(&format!("frozen: {scope}{only}{end} (freeze {})\n", number(&freeze.name)))?;
    Ok(Status::Done)
}

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

fn thaw(flags: ThawFlags) -> Result<Status, Failure> {
    let (target, id) = (flags.scope.target(), flags.id);
    let thawed = flags.server.ask(async |client| delete(client, target, id).await)?;
    if thawed.is_empty() {
        output::print_text("no freeze has this scope; `fleetwright freezes` lists all freezes\n")?;
        return Ok(Status::Leftover);
    }
    let lines: Vec<String> = thawed.iter().map(|line| format!("thawed: {line}\n")).collect();
    output::print_text(&lines.concat())?;
    Ok(Status::Done)
}

async fn delete(mut client: FleetClient, target: String, id: Option<i64>) -> Result<Vec<String>, Failure> {
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

fn list(flags: &FreezesFlags) -> Result<Status, Failure> {
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
