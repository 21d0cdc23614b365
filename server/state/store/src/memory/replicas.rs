//! Heartbeats of replicas.

use super::super::replicas::{ClusterSummaryRow, REPLICA_TTL, ReplicaRow};
use super::tables::{HeartbeatRow, Tables, milliseconds};

impl Tables {
    pub(super) fn register_replica(&mut self, row: &ReplicaRow, now: i64) -> Vec<ReplicaRow> {
        let kept = HeartbeatRow { row: row.clone(), began_ms: now, reported_ms: now };
        let own = self.replicas.entry(row.instance.clone()).or_insert(kept);
        (own.row, own.reported_ms) = (row.clone(), now);
        self.other_replicas(&row.instance, now)
    }

    pub(super) fn other_replicas(&self, instance: &str, now: i64) -> Vec<ReplicaRow> {
        let Some(own) = self.replicas.get(instance) else { return Vec::new() };
        let lately = now.saturating_sub(milliseconds(REPLICA_TTL));
        // A row of the same owner from before may be that of the previous run.
        let lives = |other: &&HeartbeatRow| {
            let is_another = other.row.owner != own.row.owner || other.reported_ms > own.began_ms;
            other.row.instance != instance && other.reported_ms > lately && is_another
        };
        let mut beside: Vec<ReplicaRow> = self.replicas.values().filter(lives).map(|other| other.row.clone()).collect();
        beside.sort_by(|one, other| (&one.owner, &one.instance).cmp(&(&other.owner, &other.instance)));
        beside
    }

    pub(super) fn touch_replica(&mut self, instance: &str, now: i64) {
        if let Some(own) = self.replicas.get_mut(instance) {
            own.reported_ms = now;
        }
    }

    pub(super) fn put_cluster_summaries(&mut self, summaries: &[ClusterSummaryRow]) {
        for summary in summaries {
            let kept = self.summaries.get(&summary.cluster).map(|kept| (kept.epoch, kept.observed_ms));
            if kept.is_none_or(|kept| kept <= (summary.epoch, summary.observed_ms)) {
                self.summaries.insert(summary.cluster.clone(), summary.clone());
            }
        }
    }

    pub(super) fn cluster_summaries(&self) -> Vec<ClusterSummaryRow> {
        self.clusters().iter().filter_map(|cluster| self.summaries.get(cluster).cloned()).collect()
    }

    pub(super) fn prune_replicas(&mut self, before: i64) {
        self.replicas.retain(|_, kept| kept.reported_ms >= before);
    }
}
