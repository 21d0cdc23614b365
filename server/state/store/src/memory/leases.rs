//! Leases, by the store's clock.

use std::time::Duration;

use super::super::StoreResult;
use super::super::epoch::next_epoch;
use super::super::lease::{Lease, LeaseOutcome, OpenOperations, Renewal, Scope};
use super::tables::{LeaseRow, Tables, milliseconds};

impl Tables {
    pub(super) fn acquire(
        &mut self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
        now: i64,
    ) -> StoreResult<LeaseOutcome> {
        if let Some(row) = self.leases.get(scope).filter(|row| row.owner != owner && row.expires_ms > now) {
            let expires_in = Duration::from_millis((row.expires_ms - now).unsigned_abs());
            return Ok(LeaseOutcome::Held { owner: row.owner.clone(), expires_in });
        }
        let held = self.leases.get(scope).map_or(0, |row| row.epoch);
        let epoch = next_epoch(scope, held, seen)?;
        let expires_ms = now.saturating_add(milliseconds(duration));
        let uid = self.leases.remove(scope).and_then(|row| row.uid);
        self.leases
            .insert(scope.clone(), LeaseRow { owner: owner.to_owned(), epoch, expires_ms, uid, wanted_by: None });
        let (replacements, backoffs) = self.open_replacements(scope, now);
        let holds = self.live_holds(Some(scope.cluster_name().unwrap_or_default()), now);
        let (intents, extent) = (self.open_intents(scope), self.extents.get(scope).copied());
        let costs = self.running_costs(scope);
        let open = Box::new(OpenOperations { intents, extent, replacements, backoffs, holds, costs });
        Ok(LeaseOutcome::Granted { lease: Lease { scope: scope.clone(), owner: owner.to_owned(), epoch }, open })
    }

    pub(super) fn renew(&mut self, leases: &[Lease], duration: Duration, now: i64) -> Renewal {
        let mut renewal = Renewal::default();
        for lease in leases {
            match self.held_row(lease) {
                Some(row) => {
                    row.expires_ms = now.saturating_add(milliseconds(duration));
                    renewal.requested.extend(row.wanted_by.clone().map(|by| (lease.clone(), by)));
                }
                None => renewal.lost.push(lease.clone()),
            }
        }
        renewal
    }

    /// Returns whether another replica has requested one of them.
    pub(super) fn release(&mut self, leases: &[Lease], now: i64) -> bool {
        let mut wanted = false;
        for lease in leases {
            if let Some(row) = self.held_row(lease) {
                row.expires_ms = now;
                wanted |= row.wanted_by.take().is_some();
            }
        }
        wanted
    }

    /// Returns whether the row changed.
    pub(super) fn request(&mut self, scope: &Scope, by: &str) -> bool {
        let row = self.leases.get_mut(scope).filter(|row| row.owner != by && row.wanted_by.as_deref() != Some(by));
        row.map(|row| row.wanted_by = Some(by.to_owned())).is_some()
    }

    /// Whether another replica holds a cluster lease.
    pub(super) fn others_hold_clusters(&self, owner: &str, now: i64) -> bool {
        let others = |(scope, row): (&Scope, &LeaseRow)| {
            scope.cluster_name().is_some() && row.owner != owner && row.expires_ms > now
        };
        self.leases.iter().any(others)
    }

    /// Whether `owner` was the last holder of `scope`.
    pub(super) fn owns(&self, owner: &str, scope: &Scope) -> bool {
        self.leases.get(scope).is_some_and(|row| row.owner == owner)
    }

    /// Deletes clusters whose leases expired before a time; returns their number.
    pub(super) fn forget_clusters(&mut self, before: i64, now: i64) -> u64 {
        let gone = |(scope, row): (&Scope, &LeaseRow)| {
            (scope.cluster_name().is_some() && row.expires_ms < before).then(|| scope.clone())
        };
        let gone: Vec<Scope> = self.leases.iter().filter_map(gone).collect();
        for scope in &gone {
            self.leases.remove(scope);
            self.extents.remove(scope);
            self.replacements.remove(scope);
            self.summaries.remove(scope.cluster_name().unwrap_or_default());
            self.forget_open_intents(scope);
            self.forget_holds(scope, now);
        }
        gone.len() as u64
    }
}
