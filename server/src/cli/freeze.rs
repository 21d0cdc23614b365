//! `fleetwright freeze`: stops launches and voluntary removals, or the latter alone.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fleetwright_proto::v1;

use super::exit::{Failure, Status};
use super::freezes::scope_name;
use super::output;
use super::remote::{ServerFlags, moment, rpc_failure};

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
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    at_most: Option<Duration>,
}

/// What a freeze stops, if not everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// Voluntary removals: of empty, drifted and underutilized nodes. Launches go on, and so do expiry, repair,
    /// scale-down of static NodePools and deletions by hand, which are not voluntary
    Disruption,
}

/// Scope of a freeze; the fleet by default.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScopeFlags {
    /// Only this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only this NodePool of the cluster
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pool: Option<String>,
}

impl ScopeFlags {
    /// Scope as a message.
    pub fn message(self) -> v1::FreezeScope {
        let (cluster, pool) = (self.cluster.unwrap_or_default(), self.pool.unwrap_or_default());
        v1::FreezeScope { cluster_name: cluster, pool_name: pool }
    }
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: FreezeFlags) -> Result<Status, Failure> {
    let duration_ms = flags.at_most.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    let request = v1::FreezeRequest {
        scope: Some(flags.scope.message()),
        reason: flags.reason,
        duration_ms,
        only_disruption: flags.only == Some(Only::Disruption),
    };
    let freeze = flags.server.ask(async |mut client| {
        let answer = client.freeze(request).await.map_err(rpc_failure)?.into_inner();
        answer.freeze.ok_or_else(|| Failure::internal("the response of the server has no freeze"))
    })?;
    let scope = scope_name(freeze.scope.as_ref());
    let end = if freeze.until_ms > 0 { format!(" until {} UTC", moment(freeze.until_ms)) } else { String::new() };
    let only = if freeze.only_disruption { ", only disruption" } else { "" };
    output::print_text(&format!("frozen: {scope}{only}{end} (freeze {})\n", freeze.id))?;
    Ok(Status::Done)
}
