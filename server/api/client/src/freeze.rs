//! `fleetwright freeze`: stops launches and voluntary removals, or the latter alone.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fleetwright_proto::v1;

use super::cluster_names;
use super::freezes::{number, scope_name};
use super::remote::{ServerFlags, rpc_failure};
use api_messages::{resource_names as names, to_millis};
use command::exit::{Failure, Status};
use command::output;
use command::rows::moment;

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
pub enum Only {
    /// Voluntary removals: of empty, drifted and underutilized nodes. Launches go on, and so do expiry, repair,
    /// scale-down of static NodePools and deletions by hand, which are not voluntary
    Disruption,
}

/// Scope of a freeze; the fleet by default.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScopeFlags {
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// Only this NodePool of the cluster
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pool: Option<String>,
}

impl ScopeFlags {
    /// Name of the resource; empty for the fleet.
    pub fn target(self) -> String {
        match (self.cluster, self.pool) {
            (None, _) => String::new(),
            (Some(cluster), None) => names::cluster(&cluster),
            (Some(cluster), Some(pool)) => names::child(&cluster, "pools", &pool),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: FreezeFlags) -> Result<Status, Failure> {
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
