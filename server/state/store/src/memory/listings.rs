//! Instance listings, shared by the lister with the other replicas.

use std::time::Duration;

use super::super::StoreResult;
use super::super::lease::{Lease, Scope};
use super::super::listing::{ListedInstanceRow, StoredListing};
use super::tables::{ListingRow, Tables, milliseconds};

impl Tables {
    pub(super) fn put_listing(
        &mut self,
        lease: &Lease,
        ago: Duration,
        machines: &[ListedInstanceRow],
        now: i64,
    ) -> StoreResult<bool> {
        self.check_lease(lease)?;
        if !self.others_hold_clusters(&lease.owner, now) {
            return Ok(false);
        }
        let own = |machine: &&ListedInstanceRow| self.owns(&lease.owner, &Scope::cluster(&machine.cluster));
        let mut machines: Vec<ListedInstanceRow> = machines.iter().filter(|machine| !own(machine)).cloned().collect();
        machines.sort();
        let number = self.listings.get(&lease.scope).map_or(1, |kept| kept.number + 1);
        self.listings.insert(lease.scope.clone(), ListingRow { number, asked_ms: now - milliseconds(ago), machines });
        Ok(true)
    }

    pub(super) fn latest_listing(&self, scope: &Scope, clusters: &[String], now: i64) -> Option<StoredListing> {
        let kept = self.listings.get(scope)?;
        let machines = kept.machines.iter().filter(|machine| clusters.contains(&machine.cluster)).cloned().collect();
        let age = Duration::from_millis((now - kept.asked_ms).max(0).unsigned_abs());
        Some(StoredListing { number: kept.number, age, machines })
    }
}
