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

use super::Guardrails;
use super::enforcement::lacks_node;
use super::settings::GuardrailSettings;
use crate::cluster_controller::{ClusterController, Context};
use model::{ClaimName, ClusterName, MicroUsd, Millis, PodKey, Timestamp};

/// How far back launch rows are read: the longest launch backoff. The other windows are shorter.
pub const RESTORE_WINDOW: Millis = Millis::from_hours(1);

/// A recent launch attempt of any process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentLaunch {
    /// NodeClaim of the attempt.
    pub claim: ClaimName,
    /// Pods that the machine was launched for.
    pub pods: Vec<PodKey>,
    /// Start of the attempt.
    pub begun: Timestamp,
    /// Whether an instance was launched; `None` while the outcome is unknown.
    pub launched: Option<bool>,
    /// When the row was closed: neither instance nor NodeClaim exists.
    pub closed: Option<Timestamp>,
}

impl Guardrails {
    /// Restores the rate limits of `cluster` from its recent launches.
    fn restore_rate_limits(
        &mut self,
        cluster: &ClusterName,
        past: &[RecentLaunch],
        settings: &GuardrailSettings,
        now: Timestamp,
    ) {
        let within = |at: Timestamp, window: Millis| now.duration_since(at) < window;
        for launch in past {
            let (claim, free) = (&launch.claim, MicroUsd(0));
            if within(launch.begun, settings.launches.window) && !self.launches.contains(cluster, claim) {
                self.launches.restore(cluster, claim, free, launch.begun);
            }
            let went = launch.closed.filter(|_| launch.launched == Some(true));
            if let Some(at) = went.filter(|at| within(*at, settings.removals.window))
                && !self.removals.contains(cluster, claim)
            {
                self.removals.restore(cluster, claim, free, at);
            }
        }
    }
}

impl ClusterController {
    /// Restores the guardrails from launches before the takeover; called before the cluster is
    /// adopted.
    pub fn restore_guardrails(&mut self, mut past: Vec<RecentLaunch>, ctx: &mut Context<'_>) {
        past.sort_by_key(|launch| launch.begun);
        ctx.guardrails.restore_rate_limits(&self.cluster, &past, &ctx.settings.guardrails, ctx.now);
        // A controller that has machines has counted the launches for each pod itself.
        if self.claims.is_empty() {
            self.guardrails.recent_launches = past;
        }
    }

    /// Restores the launch backoff after the first accepted snapshot: pods that still wait were
    /// bound to none of the launched machines.
    pub fn restore_launch_backoff(&mut self, ctx: &Context<'_>) {
        for launch in
            std::mem::take(&mut self.guardrails.recent_launches).iter().filter(|launch| launch.launched == Some(true))
        {
            for key in &launch.pods {
                let was_there = |created: Option<Timestamp>| created.is_none_or(|created| created <= launch.begun);
                let waits = |pod: &&crate::cluster::PodRecord| lacks_node(&self.state, pod) && was_there(pod.created);
                if let Some(pod) = self.state.pod(key).filter(waits) {
                    self.guardrails.launch_backoff.record(
                        &ctx.settings.guardrails.launch_backoff,
                        key,
                        &pod.uid,
                        launch.begun,
                    );
                }
            }
        }
    }
}
