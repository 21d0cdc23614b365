//! What the rails remember of the time before this process, from the launches that were written down. A process that begins
//! with empty windows would let as much come and go after every restart as the windows allow in all of their length.
//!
//! | rail | what counts |
//! |---|---|
//! | launches in the cluster | attempts that were begun within the window |
//! | removals in the cluster | machines that were there and whose launch was closed within it: they went, whoever wanted it |
//! | attempts for a pod | machines that were launched for it, if it still has no node when the cluster shows itself |
//!
//! What counts for the whole fleet is not recalled but heard of ([`share`](super::share)): whoever saw it has told it.

use super::Guardrails;
use super::guard::lacks_node;
use super::settings::GuardrailSettings;
use crate::cluster::PodKey;
use crate::control::ClusterId;
use crate::control::cluster_controller::{ClusterController, Context};
use crate::model::{MicroUsd, Text, Timestamp};

/// How far back launches are read, in milliseconds: as long as the longest wait of a pod that machines were launched for in
/// vain. The other windows are shorter.
pub const RECALLED_MS: i64 = 3_600_000;

/// An attempt of a launch that somebody began lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentLaunch {
    /// NodeClaim.
    pub claim: Text,
    /// Pods that it was for, as `namespace/name`.
    pub pods: Vec<Text>,
    /// When it was begun.
    pub begun: Timestamp,
    /// Whether a machine came of it; `None` as long as nobody knows.
    pub launched: Option<bool>,
    /// When it was closed: neither machine nor NodeClaim is there.
    pub closed: Option<Timestamp>,
}

impl Guardrails {
    /// Takes in what was launched in `cluster` lately.
    fn recall(&mut self, cluster: &ClusterId, past: &[RecentLaunch], settings: &GuardrailSettings, now: Timestamp) {
        let within = |at: Timestamp, window_ms: i64| now.millis_since(at) < window_ms;
        for launch in past {
            let (claim, free) = (&launch.claim, MicroUsd(0));
            if within(launch.begun, settings.launches.window_ms) && !self.launches.has(cluster, claim) {
                self.launches.recall(cluster, claim, free, launch.begun);
            }
            let went = launch.closed.filter(|_| launch.launched == Some(true));
            if let Some(at) = went.filter(|at| within(*at, settings.removals.window_ms))
                && !self.removals.has(cluster, claim)
            {
                self.removals.recall(cluster, claim, free, at);
            }
        }
    }
}

impl ClusterController {
    /// What was launched here before the cluster came into this process's care. CounterSnapshot before it is taken over.
    pub fn recall(&mut self, mut past: Vec<RecentLaunch>, desk: &mut Context<'_>) {
        past.sort_by_key(|launch| launch.begun);
        desk.rails.recall(&self.cluster, &past, &desk.settings.rails, desk.now);
        // Whoever knows of machines here has counted the launches for each pod.
        if self.machines.is_empty() {
            self.rails.past = past;
        }
    }

    /// The cluster has shown itself: pods that still wait are those that machines were launched for in vain.
    pub fn recall_attempts(&mut self, desk: &Context<'_>) {
        for launch in std::mem::take(&mut self.rails.past).iter().filter(|launch| launch.launched == Some(true)) {
            for name in &launch.pods {
                let Some((namespace, name)) = name.split_once('/') else { continue };
                let key = PodKey { namespace: Text::from(namespace), name: Text::from(name) };
                let was_there = |created: Option<Timestamp>| created.is_none_or(|created| created <= launch.begun);
                let waits = |pod: &&crate::cluster::PodRecord| lacks_node(&self.state, pod) && was_there(pod.created);
                if let Some(pod) = self.state.pod(&key).filter(waits) {
                    self.rails.attempts.note(&desk.settings.rails.attempts, &key, &pod.uid, launch.begun);
                }
            }
        }
    }
}
