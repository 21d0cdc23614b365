//! Quarantine of an agent that reports too large a loss. An agent whose watch is broken, whose list
//! permission was revoked, or that is connected to the wrong cluster reports little or nothing;
//! accepting that would drain running nodes or launch capacity that exists.
//!
//! # The rule
//!
//! A loss is suspicious when more than [`percent`](QuarantineRule::percent) of a cluster's bound
//! pods, Nodes, NodeClaims, NodePools or running machines disappear at once, and more than may
//! always be missing. "At once" means from one snapshot to the next (the first one after a restart
//! is compared with the [`persisted_counts`](super::persisted_counts)), or one by one within
//! [`window`](QuarantineRule::window) without announcement
//! ([`unannounced_deletions`](super::unannounced_deletions)). A snapshot without any pod is also
//! suspicious while it has ready Nodes and DaemonSets.
//!
//! A rejected snapshot and all later observations are kept apart from the accepted state, no
//! decision is made in the cluster, and another snapshot is requested. A snapshot without the loss
//! ends the quarantine. A snapshot with the same loss is accepted as follows:
//!
//! | largest loss of a kind | accepted after | and second source |
//! |---|---|---|
//! | up to [`block_percent`](QuarantineRule::block_percent) | [`confirm_after`](QuarantineRule::confirm_after) | confirms it |
//! | more | [`block_for`](QuarantineRule::block_for); 0: operator only | |
//!
//! The second source must be independent of the agent. For Nodes, NodeClaims and machines it is a
//! complete cloud listing, requested since the quarantine began, in which none of the missing
//! machines runs. For pods it is DaemonSets: a complete pod list contains their pods on the ready
//! Nodes. That does not detect a list restricted to some namespaces. So a loss of pods is treated
//! like a loss above the threshold when an existing namespace has lost all its pods, or when the
//! previous pods are not known individually because the previous process persisted only their
//! number. For NodePools it is the NodeClaims of the missing ones, each of which has a deletion
//! timestamp, as garbage collection sets it when a NodePool is deleted; this holds for any
//! percentage.
//!
//! The operator releases any quarantine with `fleetwright quarantine release CLUSTER`.

mod reason;

pub use reason::{CountedKind, LossEvidence, MissingObjects, QuarantineReason, QuarantineRelease, SecondSource};

use std::collections::BTreeSet;

use super::object_counts::ObjectCounts;
use cluster::{ClusterSnapshot, ClusterState, Observation};
use model::{ClusterName, Millis, ProviderId, Timestamp};

/// Which losses are not accepted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarantineRule {
    /// Loss above this percentage of the previous count is suspicious; 0 accepts every snapshot.
    pub percent: usize,
    /// Delay before a second snapshot is requested. The loss is accepted when that snapshot matches
    /// the first and a second source confirms it.
    pub confirm_after: Millis,
    /// Nodes, NodeClaims or running machines that may always be missing.
    pub free_machines: usize,
    /// Pods that may always be missing.
    pub free_pods: usize,
    /// Objects deleted one by one within this window are counted together; 0 accepts each deletion.
    pub window: Millis,
    /// Above this percentage of a kind, a second source does not suffice to accept the loss.
    pub block_percent: usize,
    /// Such a loss is accepted after this delay; 0 waits for the operator.
    pub block_for: Millis,
}

impl Default for QuarantineRule {
    fn default() -> Self {
        Self {
            percent: 50,
            confirm_after: Millis::from_mins(1),
            free_machines: 3,
            free_pods: 20,
            window: Millis::from_mins(1),
            block_percent: 90,
            block_for: Millis::ZERO,
        }
    }
}

/// How long an operator's confirmation is valid. Two cloud listings, which detect orphaned
/// machines, are less than that apart.
pub const CONFIRMATION_TTL: Millis = Millis::from_mins(10);
/// Longest interval between requested snapshots during a long quarantine.
const MAX_RESYNC_INTERVAL: Millis = Millis::from_mins(10);
/// Delay before a snapshot is requested to confirm an apparent recovery.
const RECOVERY_CHECK_DELAY: Millis = Millis::from_secs(1);

/// A loss that is not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspectedLoss {
    pub what: MissingObjects,
    /// The largest lost percentage of a kind other than NodePools, rounded down.
    pub percent: usize,
    /// Whether machines, Nodes or NodeClaims are lost.
    pub machines: bool,
    pub pods: bool,
    pub pools: bool,
    /// Whether no second source suffices: the previous pods are not known individually, or a whole
    /// namespace is empty.
    pub unverifiable: bool,
}

/// The suspicious loss from `observed` to `shown`, if there is one.
#[must_use]
pub fn detect_loss(rule: &QuarantineRule, observed: ObjectCounts, shown: ObjectCounts) -> Option<SuspectedLoss> {
    if rule.percent == 0 {
        return None;
    }
    // Ordered by weight: the first suspicious kind is named in the reason.
    let kinds = [
        (CountedKind::Machines, observed.machines, shown.machines, rule.free_machines),
        (CountedKind::Nodes, observed.nodes, shown.nodes, rule.free_machines),
        (CountedKind::Claims, observed.claims, shown.claims, rule.free_machines),
        (CountedKind::Pools, observed.pools, shown.pools, 1),
        (CountedKind::Pods, observed.pods, shown.pods + shown.pending.saturating_sub(observed.pending), rule.free_pods),
    ];
    let lacks = kinds.map(|(kind, had, has, free)| {
        let lost = had.saturating_sub(has);
        (lost > free && lost * 100 > rule.percent * had).then_some((kind, lost, had))
    });
    let empty = |e: ObjectCounts| e.nodes == 0 && e.pods + e.pending == 0;
    let emptied = empty(shown) && !empty(observed);
    let bare = shown.pools == 0 && observed.pools > 0;
    let [machines, nodes, claims, pools, pods] = &lacks;
    let first = lacks.iter().flatten().next();
    let what = first
        .map(|(kind, lost, of)| MissingObjects::Share { kind: *kind, lost: *lost, of: *of })
        .or_else(|| emptied.then_some(MissingObjects::NodesAndPods))
        .or_else(|| bare.then_some(MissingObjects::Pools))?;
    let share = |lack: &Option<(CountedKind, usize, usize)>| lack.map_or(0, |(_, lost, had)| lost * 100 / had);
    let shares = [machines, nodes, claims, pods].map(share);
    let percent = if emptied { 100 } else { shares.into_iter().max().unwrap_or(0) };
    Some(SuspectedLoss {
        what,
        percent,
        machines: emptied || [machines, nodes, claims].into_iter().any(Option::is_some),
        pods: emptied || pods.is_some(),
        pools: bare || pools.is_some(),
        unverifiable: false,
    })
}

/// A suspicious loss in a snapshot with ready Nodes and DaemonSets but no pods, whatever the
/// previous state.
#[must_use]
pub fn detect_missing_pods(rule: &QuarantineRule, snapshot: &ClusterSnapshot) -> Option<SuspectedLoss> {
    let ready = snapshot.nodes.iter().filter(|node| node.is_initialized() && node.ready).count();
    let odd = rule.percent > 0 && ready > 0 && !snapshot.daemons.is_empty() && snapshot.pods.is_empty();
    odd.then_some(SuspectedLoss {
        what: MissingObjects::PodsOfReadyNodes { nodes: ready },
        percent: 100,
        machines: false,
        pods: true,
        pools: false,
        unverifiable: false,
    })
}

impl SuspectedLoss {
    /// Why the cluster is in quarantine, and what ends it.
    #[must_use]
    pub fn quarantine_reason(
        &self,
        rule: &QuarantineRule,
        cluster: &ClusterName,
        evidence: LossEvidence,
    ) -> QuarantineReason {
        let release = match (self.needs_operator(rule), rule.block_for) {
            (true, Millis::ZERO) => QuarantineRelease::Operator,
            (true, block) => QuarantineRelease::AfterMinutes(block.as_mins()),
            (false, _) => {
                QuarantineRelease::Confirmed { after_s: rule.confirm_after.as_secs(), source: self.second_source() }
            }
        };
        QuarantineReason { cluster: cluster.clone(), evidence, what: self.what, release }
    }

    /// Whether only time or the operator ends the quarantine.
    fn needs_operator(&self, rule: &QuarantineRule) -> bool {
        self.percent > rule.block_percent || self.unverifiable
    }

    fn second_source(&self) -> SecondSource {
        match (self.machines, self.pods) {
            (true, _) => SecondSource::Listing,
            (false, true) => SecondSource::DaemonPods,
            (false, false) => SecondSource::DeletedClaims,
        }
    }
}

#[derive(Debug)]
pub struct Quarantine {
    since: Timestamp,
    /// Why it began, and what ends it.
    reason: QuarantineReason,
    /// When the next snapshot is requested.
    resync_at: Timestamp,
    loss: SuspectedLoss,
    /// Number of snapshots requested so far.
    resyncs: u32,
    /// Object counts of the rejected snapshot.
    reported_counts: ObjectCounts,
    /// State that the agent reports, not accepted.
    reported: Box<ClusterState>,
    /// Running machines in the first complete cloud listing since the start, by provider id.
    running_instances: Option<BTreeSet<ProviderId>>,
}

impl Quarantine {
    /// Starts a quarantine with the rejected state. The next snapshot is requested at `resync_at`.
    #[must_use]
    pub fn begin(
        loss: SuspectedLoss,
        reason: QuarantineReason,
        (reported, shown): (Box<ClusterState>, ObjectCounts),
        resync_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        Self {
            since: now,
            reason,
            resync_at,
            loss,
            resyncs: 0,
            reported_counts: shown,
            reported,
            running_instances: None,
        }
    }

    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Why it began, and what ends it.
    #[must_use]
    pub fn reason(&self) -> &QuarantineReason {
        &self.reason
    }

    /// When the next snapshot is requested.
    #[must_use]
    pub fn next_resync(&self) -> Timestamp {
        self.resync_at
    }

    /// Cluster state built from one snapshot.
    #[must_use]
    pub fn state_of_snapshot(snapshot: Box<ClusterSnapshot>, now: Timestamp) -> Box<ClusterState> {
        let mut reported = Box::new(ClusterState::default());
        reported.apply(Observation::Snapshot(snapshot), now);
        reported
    }

    /// Continues the earlier quarantine `first` of the same loss.
    #[must_use]
    pub fn continue_from(self, first: Self, now: Timestamp) -> Self {
        let Self { since, resyncs, running_instances, .. } = first;
        Self { since, resyncs, running_instances, resync_at: first.resync_at.max(now), ..self }
    }

    /// Applies an observation to the reported state. Once nothing of `observed` is missing any
    /// more, a snapshot is requested soon.
    pub fn apply_observation(
        &mut self,
        rule: &QuarantineRule,
        observation: Observation,
        observed: ObjectCounts,
        now: Timestamp,
    ) {
        self.reported.apply(observation, now);
        let counts = ObjectCounts::of_state(&self.reported, observed.machines);
        if detect_loss(rule, observed, counts).is_none() {
            self.resync_at = self.resync_at.min(now + RECOVERY_CHECK_DELAY);
        }
    }

    /// Records a complete cloud listing that was requested at `requested_at`.
    pub fn record_listing(&mut self, requested_at: Timestamp, running: BTreeSet<ProviderId>) {
        if requested_at >= self.since && self.running_instances.is_none() {
            self.running_instances = Some(running);
        }
    }

    /// Records a requested snapshot and schedules the next one with a longer interval.
    pub fn schedule_resync(&mut self, rule: &QuarantineRule, now: Timestamp) {
        let first = rule.confirm_after.max(Millis::from_secs(1));
        // The second request keeps the first interval, because its snapshot may confirm the first
        // one.
        let doublings = self.resyncs.saturating_sub(1).min(16);
        let wait = (first * (1 << doublings)).min(MAX_RESYNC_INTERVAL.max(first));
        self.resyncs = self.resyncs.saturating_add(1);
        self.resync_at = now + wait;
    }

    /// Whether another snapshot reports the same loss.
    #[must_use]
    pub fn matches_counts(&self, rule: &QuarantineRule, shown: ObjectCounts) -> bool {
        detect_loss(rule, self.reported_counts, shown).is_none()
            && detect_loss(rule, shown, self.reported_counts).is_none()
    }

    /// Whether a snapshot with the same loss may be accepted now. `known` are the managed machines
    /// that ran: provider id, and whether the machine had a Node.
    #[must_use]
    pub fn can_accept(&self, rule: &QuarantineRule, known: &[(ProviderId, bool)], now: Timestamp) -> bool {
        let waited = now.duration_since(self.since);
        if self.loss.needs_operator(rule) {
            return rule.block_for > Millis::ZERO && waited >= rule.block_for;
        }
        waited >= rule.confirm_after && self.is_corroborated(rule, known)
    }

    fn is_corroborated(&self, rule: &QuarantineRule, known: &[(ProviderId, bool)]) -> bool {
        (!self.loss.machines || self.are_machines_gone(known))
            && (!self.loss.pods || self.reported.shows_daemon_pods(rule.percent))
            && (!self.loss.pools || self.are_pools_deleted())
    }

    /// Whether the cloud lists none of the machines that lost their NodeClaim or Node.
    fn are_machines_gone(&self, known: &[(ProviderId, bool)]) -> bool {
        let Some(listed) = &self.running_instances else { return false };
        let shown = |id: &ProviderId, had_node: bool| {
            let claim = self.reported.claims().any(|claim| claim.provider_id == *id);
            claim && (!had_node || self.reported.node_of_machine(id).is_some())
        };
        known.iter().all(|(id, had_node)| !listed.contains(id) || shown(id, *had_node))
    }

    /// Whether every NodeClaim of a missing NodePool has a deletion timestamp.
    fn are_pools_deleted(&self) -> bool {
        self.reported.claims().all(|claim| claim.deleting || self.reported.pool(&claim.pool).is_some())
    }

    #[must_use]
    pub fn reported(&self) -> &ClusterState {
        &self.reported
    }

    /// The reported state as a snapshot.
    #[must_use]
    pub fn into_snapshot(self) -> ClusterSnapshot {
        self.reported.to_snapshot()
    }
}
