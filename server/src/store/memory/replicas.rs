//! Which servers share the store.

use super::super::replicas::{ReplicaRow, TOLD_WITHIN};
use super::{Tables, milliseconds};

/// A server as it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    row: ReplicaRow,
    began_ms: i64,
    told_ms: i64,
}

impl Tables {
    pub(super) fn tell_replica(&mut self, row: &ReplicaRow, now: i64) -> Vec<ReplicaRow> {
        let kept = Kept { row: row.clone(), began_ms: now, told_ms: now };
        let own = self.replicas.entry(row.instance.clone()).or_insert(kept);
        (own.row, own.told_ms) = (row.clone(), now);
        let began = own.began_ms;
        let lately = now.saturating_sub(milliseconds(TOLD_WITHIN));
        let others = self.replicas.values().filter(|other| other.row.instance != row.instance);
        let mut beside: Vec<ReplicaRow> =
            others.filter(|other| other.told_ms > began.max(lately)).map(|other| other.row.clone()).collect();
        beside.sort_by(|one, other| (&one.owner, &one.instance).cmp(&(&other.owner, &other.instance)));
        beside
    }

    pub(super) fn prune_replicas(&mut self, before: i64) {
        self.replicas.retain(|_, kept| kept.told_ms >= before);
    }
}
