//! Listings of a cloud's machines, from the one replica that asks to all others.

use std::time::Duration;

use super::super::StoreError;
use super::super::lease::{Lease, Scope};
use super::super::listing::{KeptListing, ListedMachine};
use super::{Tables, milliseconds};

/// A listing as it is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    number: u64,
    asked_ms: i64,
    machines: Vec<ListedMachine>,
}

impl Tables {
    pub(super) fn keep_listing(
        &mut self,
        lease: &Lease,
        ago: Duration,
        machines: &[ListedMachine],
        now: i64,
    ) -> Result<bool, StoreError> {
        self.held(lease)?;
        if !self.others_decide(&lease.owner, now) {
            return Ok(false);
        }
        let own = |machine: &&ListedMachine| self.owns(&lease.owner, &Scope::cluster(&machine.cluster));
        let mut machines: Vec<ListedMachine> = machines.iter().filter(|machine| !own(machine)).cloned().collect();
        machines.sort();
        let number = self.listings.get(&lease.scope).map_or(1, |kept| kept.number + 1);
        self.listings.insert(lease.scope.clone(), Kept { number, asked_ms: now - milliseconds(ago), machines });
        Ok(true)
    }

    pub(super) fn last_listing(&self, scope: &Scope, clusters: &[String], now: i64) -> Option<KeptListing> {
        let kept = self.listings.get(scope)?;
        let machines = kept.machines.iter().filter(|machine| clusters.contains(&machine.cluster)).cloned().collect();
        let age = Duration::from_millis((now - kept.asked_ms).max(0).unsigned_abs());
        Some(KeptListing { number: kept.number, age, machines })
    }
}
