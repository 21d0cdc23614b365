//! Cluster identity and observed object counts.

use super::super::StoreResult;
use super::super::guardrails::AuditEntry;
use super::super::identity::{ForgetOutcome, Identity, UidClaim, check_identity, yielded};
use super::super::lease::{Lease, ObservedExtent, Scope};
use super::tables::{LeaseRow, Tables};

impl Tables {
    pub(super) fn put_extent(&mut self, lease: &Lease, extent: &ObservedExtent) -> StoreResult<()> {
        self.check_lease(lease)?;
        self.extents.insert(lease.scope.clone(), *extent);
        Ok(())
    }

    pub(super) fn identities(&self, cluster: &str, uid: &str) -> Vec<Identity> {
        let bindings = self.leases.iter().filter_map(|(scope, row)| {
            let (name, bound) = (scope.cluster_name()?, row.uid.as_deref()?);
            let identity = || Identity { cluster: name.to_owned(), uid: bound.to_owned(), owner: row.owner.clone() };
            (name == cluster || bound == uid).then(identity)
        });
        bindings.collect()
    }

    pub(super) fn bind_cluster_uid(&mut self, lease: &Lease, uid: &str) -> StoreResult<()> {
        self.check_lease(lease)?;
        let cluster = lease.scope.cluster_name().unwrap_or_default();
        let bound = self.identities(cluster, uid);
        if bound.iter().all(|identity| identity.cluster != cluster) {
            check_identity(cluster, uid, &bound)?;
        }
        if let Some(row) = self.leases.get_mut(&lease.scope) {
            row.uid.get_or_insert_with(|| uid.to_owned());
        }
        Ok(())
    }

    pub(super) fn claim_uid(&mut self, cluster: &str, uid: &str, is_trusted: bool, now: i64) -> UidClaim {
        let Some(other) = self.identities("", uid).into_iter().find(|bound| bound.cluster != cluster) else {
            return UidClaim::Free;
        };
        let scope = Scope::cluster(&other.cluster);
        if !is_trusted && self.is_proven(&other) {
            return UidClaim::Proven { known: other.cluster };
        }
        if let Some(row) = self.leases.get_mut(&scope) {
            row.uid = Some(yielded(uid));
            row.epoch += 1;
            row.expires_ms = now;
        }
        self.audit.push(AuditEntry::yielded(&other.cluster, uid, cluster, is_trusted, now));
        UidClaim::Yielded { from: other.cluster }
    }

    /// Whether anything but its lease says that the name has the UID.
    fn is_proven(&self, bound: &Identity) -> bool {
        let scope = Scope::cluster(&bound.cluster);
        let has_objects = self.extents.get(&scope).is_some_and(|extent| extent.nodes > 0 || extent.claims > 0);
        let mut listed = self.listings.values().flat_map(|listing| &listing.machines);
        let is_listed = listed.any(|row| row.cluster == bound.cluster && row.cluster_uid == bound.uid);
        has_objects || is_listed || self.intents.get(&scope).is_some_and(|intents| !intents.is_empty())
    }

    /// Returns whether the cluster has a lease row, and whether its UID changed.
    pub(super) fn accept_uid(&mut self, cluster: &str, uid: &str, by: &str, now: i64) -> StoreResult<(bool, bool)> {
        let scope = Scope::cluster(cluster);
        let others: Vec<Identity> =
            self.identities("", uid).into_iter().filter(|identity| identity.cluster != cluster).collect();
        let Some(row) = self.leases.get_mut(&scope) else { return Ok((false, false)) };
        if row.uid.as_deref() == Some(uid) {
            return Ok((true, false));
        }
        check_identity(cluster, uid, &others)?;
        let before = row.uid.replace(uid.to_owned());
        row.epoch += 1;
        row.expires_ms = now;
        self.extents.remove(&scope);
        self.replacements.remove(&scope);
        self.forget_holds(&scope, now);
        self.close_all_intents(&scope, now);
        self.audit.push(AuditEntry::acceptance(cluster, before.as_deref(), uid, by, now));
        Ok((true, true))
    }

    pub(super) fn forget_cluster(&mut self, cluster: &str, by: &str, leave_machines: bool, now: i64) -> ForgetOutcome {
        let scope = Scope::cluster(cluster);
        let open = self.open_intents(&scope).len() as u64;
        let Some(row) = self.leases.get_mut(&scope).filter(|row| !row.owner.is_empty()) else {
            return ForgetOutcome::Unknown;
        };
        if open > 0 && !leave_machines {
            return ForgetOutcome::HasOpenLaunches(open);
        }
        // The row stays, so that the next epoch is above the one of the fenced holder.
        *row = LeaseRow { owner: String::new(), epoch: row.epoch + 1, expires_ms: now, uid: None, wanted_by: None };
        self.extents.remove(&scope);
        self.replacements.remove(&scope);
        self.forget_holds(&scope, now);
        self.close_all_intents(&scope, now);
        self.audit.push(AuditEntry::forgotten(cluster, open, by, now));
        ForgetOutcome::Forgotten
    }
}
