//! Restores the guardrail windows of a cluster from its launch rows. A process that starts with
//! empty windows would permit a full window of launches and removals after every restart.
//!
//! - Launches in the cluster: attempts begun within the window.
//! - Removals in the cluster: machines that existed and whose launch row was closed within the
//!   window, whatever removed them.
//! - Launches per pod: machines launched for a pod that still has no node in the first accepted
//!   snapshot.
//!
//! Fleet-wide counters are not restored here: the process that counted an event has published it
//! ([`fleet_counters`](super::fleet_counters)).

use super::RecentLaunch;
use crate::context::Context;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::enforcement::count_unbound_launch;
use crate::nodeclaim::NodeClaims;
use cluster::ClusterState;
use model::Timestamp;

/// Restores the guardrails from launches before the takeover; called before the cluster is
/// adopted.
pub(crate) fn restore_guardrails(
    mut past: Vec<RecentLaunch>,
    ctx: &mut Context<'_>,
    guardrails: &mut ClusterGuardrails,
    claims: &NodeClaims,
) {
    past.sort_by_key(|launch| launch.begun);
    ctx.guardrails.restore_rate_limits(&ctx.cluster, &past, &ctx.settings.guardrails, ctx.now);
    // A controller that has machines has counted the launches for each pod itself.
    if claims.is_empty() {
        guardrails.keep_recent_launches(past);
    }
}

/// Restores the launch backoff after the first accepted snapshot: pods that still wait were
/// bound to none of the launched machines.
pub(crate) fn restore_launch_backoff(ctx: &Context<'_>, guardrails: &mut ClusterGuardrails, state: &ClusterState) {
    let launches = guardrails.take_recent_launches();
    for launch in launches.iter().filter(|launch| launch.launched == Some(true)) {
        for key in &launch.pods {
            let was_there = |created: Option<Timestamp>| created.is_none_or(|created| created <= launch.begun);
            if state.pod(key).is_some_and(|pod| was_there(pod.created)) {
                count_unbound_launch(key, &launch.claim, launch.begun, ctx, guardrails, state);
            }
        }
    }
}
