//! Heartbeats of replicas.

use super::super::replicas::{REPLICA_TTL, ReplicaRow};
use super::tables::{HeartbeatRow, Tables, milliseconds};

impl Tables {
    pub(super) fn register_replica(&mut self, row: &ReplicaRow, now: i64) -> Vec<ReplicaRow> {
        let kept = HeartbeatRow { row: row.clone(), began_ms: now, reported_ms: now };
        let own = self.replicas.entry(row.instance.clone()).or_insert(kept);
        (own.row, own.reported_ms) = (row.clone(), now);
        let began = own.began_ms;
        let lately = now.saturating_sub(milliseconds(REPLICA_TTL));
        let others = self.replicas.values().filter(|other| other.row.instance != row.instance);
        let mut beside: Vec<ReplicaRow> =
            others.filter(|other| other.reported_ms > began.max(lately)).map(|other| other.row.clone()).collect();
        beside.sort_by(|one, other| (&one.owner, &one.instance).cmp(&(&other.owner, &other.instance)));
        beside
    }

    pub(super) fn prune_replicas(&mut self, before: i64) {
        self.replicas.retain(|_, kept| kept.reported_ms >= before);
    }
}
