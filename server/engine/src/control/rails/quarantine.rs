//! Snapshots that lost too much. An agent whose watch has broken, or that speaks for the wrong cluster, shows a cluster
//! with little or nothing in it; believing it would drain what runs or buy what is there.
//!
//! A snapshot like that is kept beside what is believed, with everything that is told after it, and nothing is decided. A
//! second snapshot is asked for after a while: when it agrees with the first, it is believed; when it agrees with what was
//! believed before, all is well; otherwise waiting begins anew.

use super::settings::QuarantineRule;
use crate::cluster::{ClusterSnapshot, ClusterState, Observation};
use crate::model::{Text, Timestamp};

/// How much there is in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Nodes.
    pub nodes: usize,
    /// NodeClaims.
    pub claims: usize,
    /// NodePools.
    pub pools: usize,
    /// Pods.
    pub pods: usize,
    /// Machines of ours that run: of a snapshot, those that it shows.
    pub machines: usize,
}

impl Extent {
    /// Of what is believed, with `machines` known to run.
    #[must_use]
    pub fn believed(state: &ClusterState, machines: usize) -> Self {
        let claims = state.claims().filter(|claim| state.has_seen_claim(&claim.name)).count();
        Self { nodes: state.nodes().count(), claims, pools: state.pools().count(), pods: state.pod_count(), machines }
    }

    /// Of a snapshot that shows `machines` of those known to run.
    #[must_use]
    pub fn shown(snapshot: &ClusterSnapshot, machines: usize) -> Self {
        Self {
            nodes: snapshot.nodes.len(),
            claims: snapshot.claims.len(),
            pools: snapshot.pools.len(),
            pods: snapshot.pods.len(),
            machines,
        }
    }
}

/// What `shown` lacks of `believed` that it should not, in a sentence.
#[must_use]
pub fn suspicion(rule: &QuarantineRule, believed: Extent, shown: Extent) -> Option<Text> {
    if rule.percent == 0 {
        return None;
    }
    let kinds = [
        ("machines that run", believed.machines, shown.machines, rule.free_machines),
        ("nodes", believed.nodes, shown.nodes, rule.free_machines),
        ("NodeClaims", believed.claims, shown.claims, rule.free_machines),
        ("NodePools", believed.pools, shown.pools, 1),
        ("pods", believed.pods, shown.pods, rule.free_pods),
    ];
    let missing = kinds.into_iter().find_map(|(kind, had, has, free)| {
        let lost = had.saturating_sub(has);
        (lost > free && lost * 100 > rule.percent * had).then(|| format!("lacks {lost} of {had} {kind}"))
    });
    let empty = |e: Extent| e.nodes == 0 && e.pods == 0;
    let emptied =
        (empty(shown) && !empty(believed)).then(|| "shows neither nodes nor pods, where there were some".to_owned());
    let bare = (shown.pools == 0 && believed.pools > 0).then(|| "shows no NodePool, where there were some".to_owned());
    let what = missing.or(emptied).or(bare)?;
    Some(Text::from(format!("the agent's snapshot {what}: nothing is decided until another one agrees")))
}

/// A cluster whose snapshot is not believed.
#[derive(Debug)]
pub struct Quarantine {
    /// Since when snapshots have been telling this.
    pub since: Timestamp,
    /// Why.
    pub reason: Text,
    /// When the next snapshot is asked for.
    pub ask_at: Timestamp,
    /// How much the snapshot shows.
    shown: Extent,
    /// What the agent tells, not believed.
    hearsay: Box<ClusterState>,
}

impl Quarantine {
    /// Begins with this snapshot.
    #[must_use]
    pub fn begin(
        rule: &QuarantineRule,
        reason: Text,
        snapshot: Box<ClusterSnapshot>,
        shown: Extent,
        now: Timestamp,
    ) -> Self {
        let mut hearsay = Box::new(ClusterState::default());
        hearsay.apply(Observation::Snapshot(snapshot), now);
        Self { since: now, reason, ask_at: Timestamp(now.0.saturating_add(rule.confirm_ms)), shown, hearsay }
    }

    /// Takes in what is told after the snapshot.
    pub fn hear(&mut self, observation: Observation, now: Timestamp) {
        self.hearsay.apply(observation, now);
    }

    /// Whether a further snapshot tells the same.
    #[must_use]
    pub fn agrees(&self, rule: &QuarantineRule, shown: Extent) -> bool {
        suspicion(rule, self.shown, shown).is_none() && suspicion(rule, shown, self.shown).is_none()
    }

    /// Whether enough time has passed for agreement to count.
    #[must_use]
    pub fn has_waited(&self, rule: &QuarantineRule, now: Timestamp) -> bool {
        now.millis_since(self.since) >= rule.confirm_ms
    }

    /// What the agent tells, as a snapshot.
    #[must_use]
    pub fn into_snapshot(self) -> ClusterSnapshot {
        self.hearsay.to_snapshot()
    }
}
