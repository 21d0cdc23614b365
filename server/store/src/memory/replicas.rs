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
        let Some(began) = self.replicas.get(instance).map(|own| own.began_ms) else { return Vec::new() };
        let lately = now.saturating_sub(milliseconds(REPLICA_TTL));
        let others = self.replicas.values().filter(|other| other.row.instance != instance);
        let mut beside: Vec<ReplicaRow> =
            others.filter(|other| other.reported_ms > began.max(lately)).map(|other| other.row.clone()).collect();
        beside.sort_by(|one, other| (&one.owner, &one.instance).cmp(&(&other.owner, &other.instance)));
        beside
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
