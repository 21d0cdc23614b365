//! Freezes, audit.

use super::super::guardrails::{AuditEntry, AuditRow, Freeze, FreezeOrder};
use super::super::lease::Scope;
use super::tables::{FreezeRow, LeaseRow, Tables};

impl Tables {
    /// Returns whether the cluster has a lease row.
    pub(super) fn release_quarantine(&mut self, cluster: &str, by: &str, now: i64) -> bool {
        if !self.leases.contains_key(&Scope::cluster(cluster)) {
            return false;
        }
        *self.releases.entry(cluster.to_owned()).or_default() += 1;
        self.audit.push(AuditEntry::release(cluster, by, now));
        true
    }

    /// Names of the clusters that are not forgotten, sorted.
    pub(super) fn clusters(&self) -> Vec<String> {
        let name_of = |(scope, _): (&Scope, &LeaseRow)| Some(scope.cluster_name()?.to_owned());
        let mut names: Vec<String> =
            self.leases.iter().filter(|(_, row)| !row.owner.is_empty()).filter_map(name_of).collect();
        names.sort();
        names
    }

    pub(super) fn confirm_removals(&mut self, cluster: &str, by: &str, now: i64) -> bool {
        if !self.leases.contains_key(&Scope::cluster(cluster)) {
            return false;
        }
        *self.confirmations.entry(cluster.to_owned()).or_default() += 1;
        self.audit.push(AuditEntry::confirmation(cluster, by, now));
        true
    }

    pub(super) fn freeze(&mut self, order: &FreezeOrder, now: i64) -> i64 {
        let id = number(self.freezes.len() + 1);
        self.freezes.push(FreezeRow { freeze: Freeze { id, since_ms: now, order: order.clone() }, thawed: false });
        self.append_audit_entry(now, &order.by, "freeze", order, order.audit_detail());
        id
    }

    pub(super) fn thaw(&mut self, id: i64, by: &str, now: i64) -> bool {
        let Some(row) = self.freezes.iter_mut().find(|row| row.freeze.id == id) else { return false };
        if !std::mem::replace(&mut row.thawed, true) {
            let order = row.freeze.order.clone();
            self.append_audit_entry(now, by, "thaw", &order, format!("freeze {id}"));
        }
        true
    }

    fn append_audit_entry(&mut self, at_ms: i64, who: &str, what: &str, order: &FreezeOrder, detail: String) {
        let (who, what, scope) = (who.to_owned(), what.to_owned(), order.scope.key());
        self.audit.push(AuditEntry { at_ms, who, what, scope, detail });
    }

    pub(super) fn active_freezes(&self, now: i64) -> Vec<Freeze> {
        let in_force = |row: &&FreezeRow| !row.thawed && row.freeze.order.until_ms.is_none_or(|until| until > now);
        self.freezes.iter().filter(in_force).map(|row| row.freeze.clone()).collect()
    }

    pub(super) fn read_audit(&self, limit: u32, before: Option<i64>) -> Vec<AuditRow> {
        let rows = self.audit.iter().enumerate().map(|(place, entry)| (number(place + 1), entry));
        let rows = rows.rev().filter(|(id, _)| before.is_none_or(|before| *id < before));
        rows.take(limit as usize).map(|(id, entry)| AuditRow { id, entry: entry.clone() }).collect()
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
