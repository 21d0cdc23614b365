//! Holds, by the store's clock.

use super::super::StoreError;
use super::super::holds::{
    HoldCommand, HoldCreation, HoldQuota, HoldRow, HoldState, HoldStatusRow, LiveHolds, NewHold,
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
        let table =
            HoldTable { row, request_id: new.request_id.clone(), fingerprint: new.fingerprint.clone(), ended: None };
        let answer = HoldCreation::Created(Box::new(table.at(now)));
        self.holds.insert(new.id.clone(), table);
        self.hold_changes += 1;
        (true, answer)
    }

    /// What is left of the quota for prices.
    fn remaining_quota(&self, client: &str, quota: HoldQuota, now: i64) -> Result<Option<i64>, HoldCreation> {
        let live = || self.holds.values().filter(|one| one.row.client == client && !one.at(now).state.has_ended());
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
        (cluster, id): (&str, &str),
        version: Option<u64>,
        now: i64,
    ) -> (bool, HoldCommand) {
        self.command(cluster, id, version, now, |one, state| match state {
            HoldState::Committed => Some(false),
            HoldState::Active => {
                one.row.committed_ms = Some(now);
                Some(true)
            }
            _ => None,
        })
    }

    /// Returns whether the hold changed, with the result.
    pub(super) fn release_hold(
        &mut self,
        (cluster, id): (&str, &str),
        version: Option<u64>,
        now: i64,
    ) -> (bool, HoldCommand) {
        self.command(cluster, id, version, now, |one, state| {
            if state.has_ended() {
                return Some(false);
            }
            (one.ended, one.row.ended_ms) = (Some(HoldState::Released), Some(now));
            Some(true)
        })
    }

    fn command(
        &mut self,
        cluster: &str,
        id: &str,
        version: Option<u64>,
        now: i64,
        change: impl FnOnce(&mut HoldTable, HoldState) -> Option<bool>,
    ) -> (bool, HoldCommand) {
        let Some(one) = self.holds.get_mut(id).filter(|one| one.row.cluster == cluster) else {
            return (false, HoldCommand::Unknown);
        };
        let row = one.at(now);
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
                self.hold_changes += 1;
                (true, HoldCommand::Done(Box::new(row)))
            }
        }
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

    pub(super) fn write_hold(&mut self, lease: &Lease, status: &HoldStatusRow, now: i64) -> Result<(), StoreError> {
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
