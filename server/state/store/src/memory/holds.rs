//! Holds, by the store's clock.

use super::super::StoreResult;
use super::super::guardrails::{AuditEntry, HoldAudit};
use super::super::holds::{
    HoldCaller, HoldCommand, HoldCreation, HoldQuota, HoldRow, HoldState, HoldStatusRow, LiveHolds, NewHold,
};
use super::super::lease::{Lease, Scope};
use super::tables::{HoldTable, Tables};

impl HoldTable {
    /// The row as it is at `now`.
    fn at(&self, now: i64) -> HoldRow {
        let left_ms = self.row.expires_ms - now;
        let ended = self.ended.map(|end| match end {
            HoldState::Released => "released",
            HoldState::Expired => "expired",
            _ => "failed",
        });
        let state = HoldState::of(ended, self.row.committed_ms.is_some(), self.row.status.ready, left_ms);
        HoldRow { state, left_ms, ..self.row.clone() }
    }

    /// Whose quota it counts against.
    fn payer(&self) -> &str {
        self.committed_by.as_deref().unwrap_or(&self.row.client)
    }

    /// What it counts with against a quota.
    fn price(&self) -> i64 {
        let price: i64 = self.row.status.places.iter().map(|place| place.price).sum();
        if self.row.status.ready { price } else { price.max(self.row.max_price.unwrap_or(0)) }
    }
}

impl Tables {
    /// Returns whether a hold was created now, with the result.
    pub(super) fn create_hold(&mut self, new: &NewHold, now: i64) -> (bool, HoldCreation) {
        if !self.leases.contains_key(&Scope::cluster(&new.cluster)) {
            return (false, HoldCreation::UnknownCluster);
        }
        let is_request = |one: &&HoldTable| one.row.client == new.client && one.request_id == new.request_id;
        if let Some(one) = self.holds.values().find(is_request) {
            let is_same = one.fingerprint == new.fingerprint;
            let answer =
                if is_same { HoldCreation::Created(Box::new(one.at(now))) } else { HoldCreation::OtherRequest };
            return (false, answer);
        }
        let max_price = match self.remaining_quota(&new.client, new.quota, now) {
            Ok(left) => [new.max_price, left].into_iter().flatten().min(),
            Err(refused) => return (false, refused),
        };
        let row = HoldRow {
            id: new.id.clone(),
            cluster: new.cluster.clone(),
            client: new.client.clone(),
            pod_sets: new.pod_sets.clone(),
            pods: new.pods.clone(),
            dedicated: new.dedicated,
            max_price,
            state: HoldState::Pending,
            created_ms: now,
            expires_ms: now + new.ttl_ms,
            left_ms: new.ttl_ms,
            committed_ms: None,
            ended_ms: None,
            status: HoldStatusRow { id: new.id.clone(), ..HoldStatusRow::default() },
            version: 1,
        };
        let (request_id, fingerprint) = (new.request_id.clone(), new.fingerprint.clone());
        let table = HoldTable { row, request_id, fingerprint, committed_by: None, ended: None };
        self.audit_hold(HoldAudit::Created, &table.row, &new.client, now);
        let answer = HoldCreation::Created(Box::new(table.at(now)));
        self.holds.insert(new.id.clone(), table);
        self.hold_changes += 1;
        (true, answer)
    }

    /// What is left of the quota for prices.
    fn remaining_quota(&self, client: &str, quota: HoldQuota, now: i64) -> Result<Option<i64>, HoldCreation> {
        let live = || self.holds.values().filter(|one| one.payer() == client && !one.at(now).state.has_ended());
        let count = u32::try_from(live().count()).unwrap_or(u32::MAX);
        if quota.holds.is_some_and(|most| count >= most) {
            return Err(HoldCreation::TooManyHolds(count));
        }
        let held: i64 = live().map(HoldTable::price).sum();
        match quota.price.map(|most| most - held) {
            Some(left) if left <= 0 => Err(HoldCreation::TooExpensive(held)),
            left => Ok(left),
        }
    }

    /// Returns whether the hold changed, with the result.
    pub(super) fn commit_hold(
        &mut self,
        hold: (&str, &str),
        version: Option<u64>,
        by: &HoldCaller,
        now: i64,
    ) -> (bool, HoldCommand) {
        if let Some(refused) = self.beyond_quota_of(hold, by, now) {
            return (false, refused);
        }
        self.command((HoldAudit::Committed, hold), version, by, now, |one, state| match state {
            HoldState::Committed => Some(false),
            HoldState::Active => {
                (one.row.committed_ms, one.committed_by) = (Some(now), Some(by.name.clone()));
                Some(true)
            }
            _ => None,
        })
    }

    /// Why `by` cannot pay for a hold that another client created.
    fn beyond_quota_of(&self, (cluster, id): (&str, &str), by: &HoldCaller, now: i64) -> Option<HoldCommand> {
        let one = self.holds.get(id).filter(|one| one.row.cluster == cluster)?;
        let is_other = one.row.client != by.name && one.at(now).state == HoldState::Active;
        if !is_other || !by.is_admin {
            return None;
        }
        match self.remaining_quota(&by.name, by.quota, now) {
            Ok(Some(left)) if left < one.price() => {
                Some(HoldCommand::TooExpensive(by.quota.price.unwrap_or(0) - left + one.price()))
            }
            Ok(_) => None,
            Err(HoldCreation::TooManyHolds(count)) => Some(HoldCommand::TooManyHolds(count)),
            Err(HoldCreation::TooExpensive(held)) => Some(HoldCommand::TooExpensive(held + one.price())),
            Err(_) => None,
        }
    }

    /// Returns whether the hold changed, with the result.
    pub(super) fn release_hold(
        &mut self,
        hold: (&str, &str),
        version: Option<u64>,
        by: &HoldCaller,
        now: i64,
    ) -> (bool, HoldCommand) {
        self.command((HoldAudit::Released, hold), version, by, now, |one, state| {
            if state.has_ended() {
                return Some(false);
            }
            (one.ended, one.row.ended_ms) = (Some(HoldState::Released), Some(now));
            Some(true)
        })
    }

    fn command(
        &mut self,
        (command, (cluster, id)): (HoldAudit, (&str, &str)),
        version: Option<u64>,
        by: &HoldCaller,
        now: i64,
        change: impl FnOnce(&mut HoldTable, HoldState) -> Option<bool>,
    ) -> (bool, HoldCommand) {
        let Some(one) = self.holds.get_mut(id).filter(|one| one.row.cluster == cluster) else {
            return (false, HoldCommand::Unknown);
        };
        let row = one.at(now);
        if !by.may_change_hold_of(&row.client) {
            return (false, HoldCommand::OtherClient(Box::new(row)));
        }
        let is_other = version.is_some_and(|version| version != row.version);
        let mut next = one.clone();
        match change(&mut next, row.state) {
            Some(false) => (false, HoldCommand::Done(Box::new(row))),
            _ if is_other => (false, HoldCommand::OtherVersion(Box::new(row))),
            None => (false, HoldCommand::Refused(Box::new(row))),
            Some(true) => {
                next.row.version += 1;
                *one = next;
                let row = one.at(now);
                self.audit_hold(command, &row, &by.name, now);
                self.hold_changes += 1;
                (true, HoldCommand::Done(Box::new(row)))
            }
        }
    }

    fn audit_hold(&mut self, command: HoldAudit, row: &HoldRow, by: &str, now: i64) {
        self.audit.push(AuditEntry::hold(command, (&row.cluster, &row.id, &row.client), by, now));
    }

    pub(super) fn hold(&self, cluster: &str, id: &str, now: i64) -> Option<HoldRow> {
        self.holds.get(id).filter(|one| one.row.cluster == cluster).map(|one| one.at(now))
    }

    pub(super) fn all_holds(&self, cluster: Option<&str>, now: i64) -> Vec<HoldRow> {
        let wanted = self.holds.values().filter(|one| cluster.is_none_or(|cluster| one.row.cluster == cluster));
        let mut rows: Vec<HoldRow> = wanted.map(|one| one.at(now)).collect();
        rows.sort_by(|a, b| (&a.cluster, &a.id).cmp(&(&b.cluster, &b.id)));
        rows
    }

    /// Those that the owner of the cluster has not ended, expired ones included.
    pub(super) fn live_holds(&self, cluster: Option<&str>, now: i64) -> LiveHolds {
        let mut holds = self.all_holds(cluster, now);
        holds.retain(|row| self.holds.get(&row.id).is_some_and(|one| one.ended.is_none()));
        LiveHolds { read: self.hold_changes, holds }
    }

    pub(super) fn write_hold(&mut self, lease: &Lease, status: &HoldStatusRow, now: i64) -> StoreResult<()> {
        self.check_lease(lease)?;
        self.put_hold_status(&lease.scope, status, now);
        Ok(())
    }

    /// A hold that has ended, and the end of a committed one, are left as they are.
    pub(super) fn put_hold_status(&mut self, scope: &Scope, status: &HoldStatusRow, now: i64) {
        let Some(one) = self.holds.get_mut(&status.id).filter(|one| Scope::cluster(&one.row.cluster) == *scope) else {
            return;
        };
        if one.ended.is_some() || (status.end.is_some() && one.row.committed_ms.is_some()) {
            return;
        }
        one.row.status = status.clone();
        if status.end.is_some() {
            (one.ended, one.row.ended_ms) = (status.end, Some(now));
        }
        one.row.version += 1;
    }

    /// Ends the holds of a cluster whose name is free again.
    pub(super) fn forget_holds(&mut self, scope: &Scope, now: i64) {
        let live =
            self.holds.values_mut().filter(|one| Scope::cluster(&one.row.cluster) == *scope && one.ended.is_none());
        for one in live {
            (one.ended, one.row.ended_ms) = (Some(HoldState::Failed), Some(now));
            one.row.status.message = super::super::holds::CLUSTER_FORGOTTEN.to_owned();
            one.row.version += 1;
            self.hold_changes += 1;
        }
    }

    /// Deletes holds that ended before `before`.
    pub(super) fn prune_holds(&mut self, before: i64) {
        self.holds.retain(|_, one| match one.row.committed_ms {
            None => one.row.ended_ms.unwrap_or(one.row.expires_ms) >= before,
            Some(_) => one.row.ended_ms.is_none_or(|ended| ended >= before),
        });
    }
}
