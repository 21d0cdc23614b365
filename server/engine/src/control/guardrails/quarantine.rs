//! What an agent tells that lost too much. An agent whose watch has broken, that may not list what it listed before, or that
//! speaks for the wrong cluster, shows a cluster with little or nothing in it; believing it would drain what runs or buy what
//! is there.
//!
//! # The rule
//!
//! A loss is **doubted** when more than [`percent`](QuarantineRule::percent) of the bound pods, Nodes, NodeClaims or NodePools of a
//! cluster, or of its machines that run, are gone at once, and more of them than may always be missing. "At once" is from one
//! snapshot to the next (the first one after a restart is compared with what was written down, [`extents`](super::extents)), or
//! within [`window_ms`](QuarantineRule::window_ms) one by one, if nothing announced it ([`losses`](super::losses)). A snapshot
//! without a single pod is doubted as well while it has ready Nodes and DaemonSets.
//!
//! What is doubted is kept beside what is believed, with everything that is told after it, and nothing is decided in the
//! cluster. A snapshot is asked for. One that lacks nothing ends the quarantine. One that lacks the same is believed when
//!
//! | lost of any kind | it is believed after | and a second witness |
//! |---|---|---|
//! | up to [`hold_percent`](QuarantineRule::hold_percent) | [`confirm_ms`](QuarantineRule::confirm_ms) | agrees |
//! | more | [`hold_ms`](QuarantineRule::hold_ms); 0: a person's word alone | |
//!
//! The agent cannot be its own witness. The second one is, for Nodes, NodeClaims and machines, a complete listing of the cloud,
//! asked for since: none of the machines that the snapshot lacks runs. For pods it is DaemonSets: a list of pods that is whole
//! has their pods on the ready Nodes. That does not show a list that is confined to some namespaces; so pods are held as if
//! more were lost when a namespace that is there has lost all of its own, or when it is not known which pods there were: a
//! former process wrote down no more than how many. For NodePools it is the NodeClaims of those that are missing: each is
//! being deleted, as garbage collection does when a person deletes a NodePool; this holds for any share.
//!
//! A person releases a quarantine with `fleetwright quarantine release CLUSTER`, whatever is lacking.

use std::collections::BTreeSet;

use super::settings::QuarantineRule;
use crate::cluster::{ClusterSnapshot, ClusterState, Observation};
use crate::control::ClusterId;
use crate::model::{Text, Timestamp};

/// For so long a person's word holds, in milliseconds: two listings of the cloud, which show what nobody has, are less than
/// that apart.
pub const VOUCHED_MS: i64 = 10 * 60_000;
/// A cluster that shows for long what is not believed is asked for snapshots at most this far apart, in milliseconds.
const SELDOM_MS: i64 = 10 * 60_000;
/// What seems to be whole again is confirmed by a snapshot after so long, in milliseconds.
const SOON_MS: i64 = 1_000;

/// How much there is in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Nodes.
    pub nodes: usize,
    /// NodeClaims.
    pub claims: usize,
    /// NodePools.
    pub pools: usize,
    /// Pods that have a Node, have not ended and are not terminating, and are no DaemonSet's and not static. A list that is
    /// confined to namespaces loses all of them and, where Nodes have many DaemonSets, less than half of all pods.
    pub pods: usize,
    /// Such pods without a Node. They can hide no loss of those that have one, but stand for them as far as they are more than
    /// before: a Deployment of the strategy `Recreate` has its new pods there first.
    pub pending: usize,
    /// Machines of ours that run: of a snapshot, those that it shows.
    pub machines: usize,
}

impl Extent {
    /// Of what is believed, with `machines` known to run.
    #[must_use]
    pub fn believed(state: &ClusterState, machines: usize) -> Self {
        let (nodes, claims, pools) = state.counts();
        let (pods, pending) = state.workload_pods();
        Self { nodes, claims, pools, pods, pending, machines }
    }

    /// Of a snapshot that shows `machines` of those known to run.
    #[must_use]
    pub fn shown(snapshot: &ClusterSnapshot, machines: usize) -> Self {
        Self {
            nodes: snapshot.nodes.len(),
            claims: snapshot.claims.len(),
            pools: snapshot.pools.len(),
            pods: snapshot.pods.iter().filter(|pod| pod.is_bound_workload()).count(),
            pending: snapshot.pods.iter().filter(|pod| pod.is_pending_workload()).count(),
            machines,
        }
    }

    /// The larger of the two, kind by kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, usize::max)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, usize::saturating_add)
    }

    /// What is left without `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.each(other, usize::saturating_sub)
    }

    fn each(self, other: Self, join: impl Fn(usize, usize) -> usize) -> Self {
        Self {
            nodes: join(self.nodes, other.nodes),
            claims: join(self.claims, other.claims),
            pools: join(self.pools, other.pools),
            pods: join(self.pods, other.pods),
            pending: join(self.pending, other.pending),
            machines: join(self.machines, other.machines),
        }
    }
}

/// A loss that is doubted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// What is lost, as `lacks 30 of 30 bound pods`.
    pub what: String,
    /// The largest share that is lost of a kind, NodePools apart, in percent, rounded down.
    pub percent: usize,
    /// Machines, Nodes or NodeClaims are among it.
    pub machines: bool,
    /// Pods are among it.
    pub pods: bool,
    /// NodePools are among it.
    pub pools: bool,
    /// Whether no witness will do: what was there before is not known well enough, or a whole namespace is empty.
    pub lasting: bool,
}

/// What `shown` lacks of `believed` that it should not.
#[must_use]
pub fn suspicion(rule: &QuarantineRule, believed: Extent, shown: Extent) -> Option<Doubt> {
    if rule.percent == 0 {
        return None;
    }
    let kinds = [
        ("machines that run", believed.machines, shown.machines, rule.free_machines),
        ("nodes", believed.nodes, shown.nodes, rule.free_machines),
        ("NodeClaims", believed.claims, shown.claims, rule.free_machines),
        ("NodePools", believed.pools, shown.pools, 1),
        ("bound pods", believed.pods, shown.pods + shown.pending.saturating_sub(believed.pending), rule.free_pods),
    ];
    let lacks = kinds.map(|(kind, had, has, free)| {
        let lost = had.saturating_sub(has);
        (lost > free && lost * 100 > rule.percent * had).then(|| (format!("lacks {lost} of {had} {kind}"), lost, had))
    });
    let empty = |e: Extent| e.nodes == 0 && e.pods + e.pending == 0;
    let emptied = empty(shown) && !empty(believed);
    let bare = shown.pools == 0 && believed.pools > 0;
    let [machines, nodes, claims, pools, pods] = &lacks;
    let first = lacks.iter().flatten().map(|(what, ..)| what.clone()).next();
    let what = first
        .or_else(|| emptied.then(|| "shows neither nodes nor pods, where there were some".to_owned()))
        .or_else(|| bare.then(|| "shows no NodePool, where there were some".to_owned()))?;
    let share = |lack: &Option<(String, usize, usize)>| lack.as_ref().map_or(0, |(_, lost, had)| lost * 100 / had);
    let shares = [machines, nodes, claims, pods].map(share);
    let percent = if emptied { 100 } else { shares.into_iter().max().unwrap_or(0) };
    Some(Doubt {
        what,
        percent,
        machines: emptied || [machines, nodes, claims].into_iter().any(Option::is_some),
        pods: emptied || pods.is_some(),
        pools: bare || pools.is_some(),
        lasting: false,
    })
}

/// A snapshot with ready Nodes and DaemonSets, and without a single pod, is doubted whatever was there before.
#[must_use]
pub fn podless(rule: &QuarantineRule, snapshot: &ClusterSnapshot) -> Option<Doubt> {
    let ready = snapshot.nodes.iter().filter(|node| node.is_initialized() && node.ready).count();
    let odd = rule.percent > 0 && ready > 0 && !snapshot.daemons.is_empty() && snapshot.pods.is_empty();
    odd.then(|| Doubt {
        what: format!("shows {ready} ready nodes and DaemonSets, and not one pod"),
        percent: 100,
        machines: false,
        pods: true,
        pools: false,
        lasting: false,
    })
}

impl Doubt {
    /// Why the cluster is in quarantine, what ends it, and how a person does.
    #[must_use]
    pub fn sentence(&self, rule: &QuarantineRule, cluster: &ClusterId, told: &str) -> Text {
        let ends = match (self.is_held(rule), rule.hold_ms) {
            (true, 0) => "until a person releases it".to_owned(),
            (true, hold) => format!("for {} min, or until a person releases it", hold / 60_000),
            (false, _) => format!(
                "until another snapshot agrees after {} s and {} does, or a person releases it",
                rule.confirm_ms / 1_000,
                self.witness()
            ),
        };
        let what = &self.what;
        Text::from(format!("{told} {what}: nothing is decided {ends} (fleetwright quarantine release {cluster})"))
    }

    /// Whether time or a person alone ends it.
    fn is_held(&self, rule: &QuarantineRule) -> bool {
        self.percent > rule.hold_percent || (self.lasting && rule.second_witness)
    }

    fn witness(&self) -> &'static str {
        match (self.machines, self.pods) {
            (true, _) => "the cloud's listing",
            (false, true) => "what it shows of DaemonSets",
            (false, false) => "the deletion of their NodeClaims",
        }
    }
}

/// A cluster whose agent is not believed.
#[derive(Debug)]
pub struct Quarantine {
    /// Since when it has been telling this.
    pub since: Timestamp,
    /// Why.
    pub reason: Text,
    /// When the next snapshot is asked for.
    pub ask_at: Timestamp,
    /// What is lost.
    pub doubt: Doubt,
    /// Snapshots that were asked for.
    asked: u32,
    /// How much is shown.
    shown: Extent,
    /// What the agent tells, not believed.
    hearsay: Box<ClusterState>,
    /// Machines that run by the first complete listing since; by provider id.
    listed: Option<BTreeSet<Text>>,
}

impl Quarantine {
    /// Begins with what the agent tells. The next snapshot is asked for at `ask_at`.
    #[must_use]
    pub fn begin(
        doubt: Doubt,
        reason: Text,
        (hearsay, shown): (Box<ClusterState>, Extent),
        ask_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        Self { since: now, reason, ask_at, doubt, asked: 0, shown, hearsay, listed: None }
    }

    /// What one snapshot tells.
    #[must_use]
    pub fn hearsay_of(snapshot: Box<ClusterSnapshot>, now: Timestamp) -> Box<ClusterState> {
        let mut hearsay = Box::new(ClusterState::default());
        hearsay.apply(Observation::Snapshot(snapshot), now);
        hearsay
    }

    /// Goes on from an earlier one that told the same.
    #[must_use]
    pub fn after(self, first: Self, now: Timestamp) -> Self {
        let Self { since, asked, listed, .. } = first;
        Self { since, asked, listed, ask_at: first.ask_at.max(now), ..self }
    }

    /// Takes in what is told after the snapshot. When nothing is lacking any more of what is `believed`, a snapshot is due soon.
    pub fn hear(&mut self, rule: &QuarantineRule, observation: Observation, believed: Extent, now: Timestamp) {
        self.hearsay.apply(observation, now);
        let told = Extent::believed(&self.hearsay, believed.machines);
        if suspicion(rule, believed, told).is_none() {
            self.ask_at = self.ask_at.min(Timestamp(now.0.saturating_add(SOON_MS)));
        }
    }

    /// A complete listing of the cloud that was asked for at `asked` shows that these machines run.
    pub fn hear_listing(&mut self, asked: Timestamp, running: BTreeSet<Text>) {
        if asked >= self.since && self.listed.is_none() {
            self.listed = Some(running);
        }
    }

    /// A snapshot is asked for; the next one is due later each time.
    pub fn ask(&mut self, rule: &QuarantineRule, now: Timestamp) {
        let first = rule.confirm_ms.max(1_000);
        // The second is the one that may confirm the first.
        let doublings = self.asked.saturating_sub(1).min(16);
        let wait = first.saturating_mul(1 << doublings).min(SELDOM_MS.max(first));
        self.asked = self.asked.saturating_add(1);
        self.ask_at = Timestamp(now.0.saturating_add(wait));
    }

    /// Whether a further snapshot tells the same.
    #[must_use]
    pub fn agrees(&self, rule: &QuarantineRule, shown: Extent) -> bool {
        suspicion(rule, self.shown, shown).is_none() && suspicion(rule, shown, self.shown).is_none()
    }

    /// Whether a snapshot that tells the same may be believed by now. `known` are machines of ours that ran: provider id, and
    /// whether its Node was there.
    #[must_use]
    pub fn may_end(&self, rule: &QuarantineRule, known: &[(Text, bool)], now: Timestamp) -> bool {
        let waited = now.millis_since(self.since);
        if self.doubt.is_held(rule) {
            return rule.hold_ms > 0 && waited >= rule.hold_ms;
        }
        waited >= rule.confirm_ms && (!rule.second_witness || self.is_witnessed(rule, known))
    }

    fn is_witnessed(&self, rule: &QuarantineRule, known: &[(Text, bool)]) -> bool {
        (!self.doubt.machines || self.are_machines_gone(known))
            && (!self.doubt.pods || self.hearsay.shows_daemon_pods(rule.percent))
            && (!self.doubt.pools || self.are_pools_deleted())
    }

    /// The cloud lists none of the machines that lack their NodeClaim, or the Node that they had.
    fn are_machines_gone(&self, known: &[(Text, bool)]) -> bool {
        let Some(listed) = &self.listed else { return false };
        let shown = |id: &Text, had_node: bool| {
            let claim = self.hearsay.claims().any(|claim| claim.provider_id == *id);
            claim && (!had_node || self.hearsay.node_of_machine(id).is_some())
        };
        known.iter().all(|(id, had_node)| !listed.contains(id) || shown(id, *had_node))
    }

    /// NodeClaims of NodePools that are not shown are all being deleted.
    fn are_pools_deleted(&self) -> bool {
        self.hearsay.claims().all(|claim| claim.deleting || self.hearsay.pool(&claim.pool).is_some())
    }

    /// What the agent tells.
    #[must_use]
    pub fn hearsay(&self) -> &ClusterState {
        &self.hearsay
    }

    /// What the agent tells, as a snapshot.
    #[must_use]
    pub fn into_snapshot(self) -> ClusterSnapshot {
        self.hearsay.to_snapshot()
    }
}
