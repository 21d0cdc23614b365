//! Cluster identity and observed object counts.

use super::super::StoreError;
use super::super::guardrails::AuditEntry;
use super::super::lease::{Identity, Lease, ObservedExtent, Scope};
use super::tables::Tables;

impl Tables {
    pub(super) fn put_extent(&mut self, lease: &Lease, extent: &ObservedExtent) -> Result<(), StoreError> {
        self.check_lease(lease)?;
        self.extents.insert(lease.scope.clone(), *extent);
        Ok(())
    }

    pub(super) fn identity(&self, cluster: &str) -> Option<Identity> {
        let row = self.leases.get(&Scope::cluster(cluster))?;
        Some(Identity { uid: row.uid.clone()?, owner: row.owner.clone() })
    }

    pub(super) fn bind_cluster_uid(&mut self, lease: &Lease, uid: &str) -> Result<(), StoreError> {
        self.check_lease(lease)?;
        if let Some(row) = self.leases.get_mut(&lease.scope) {
            row.uid.get_or_insert_with(|| uid.to_owned());
        }
        Ok(())
    }

    /// Returns whether the cluster has a lease row, and whether its UID changed.
    pub(super) fn accept_uid(&mut self, cluster: &str, uid: &str, by: &str, now: i64) -> (bool, bool) {
        let scope = Scope::cluster(cluster);
        let Some(row) = self.leases.get_mut(&scope) else { return (false, false) };
        if row.uid.as_deref() == Some(uid) {
            return (true, false);
        }
        let before = row.uid.replace(uid.to_owned());
        row.epoch += 1;
        row.expires_ms = now;
        self.extents.remove(&scope);
        self.close_all_intents(&scope, now);
        self.audit.push(AuditEntry::acceptance(cluster, before.as_deref(), uid, by, now));
        (true, true)
    }
}
