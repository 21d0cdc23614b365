//! Leases, by the store's clock.

use std::time::Duration;

use super::super::StoreError;
use super::super::lease::{Lease, LeaseAnswer, Open, Renewal, Scope, next_epoch};
use super::{Tables, milliseconds};

/// A lease as it is kept.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) owner: String,
    pub(super) epoch: u64,
    pub(super) expires_ms: i64,
    /// UID of the cluster that has the name.
    pub(super) uid: Option<String>,
    wanted_by: Option<String>,
}

impl Tables {
    pub(super) fn take(
        &mut self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
        now: i64,
    ) -> Result<LeaseAnswer, StoreError> {
        if let Some(row) = self.leases.get(scope).filter(|row| row.owner != owner && row.expires_ms > now) {
            let expires_in = Duration::from_millis((row.expires_ms - now).unsigned_abs());
            return Ok(LeaseAnswer::Held { owner: row.owner.clone(), expires_in });
        }
        let held = self.leases.get(scope).map_or(0, |row| row.epoch);
        let epoch = if self.unfenced { held.max(seen).saturating_add(1) } else { next_epoch(scope, held, seen)? };
        let expires_ms = now.saturating_add(milliseconds(duration));
        let uid = self.leases.remove(scope).and_then(|row| row.uid);
        self.leases.insert(scope.clone(), Row { owner: owner.to_owned(), epoch, expires_ms, uid, wanted_by: None });
        let open = Open {
            intents: self.open_intents(scope),
            instructions: self.instructions.open(scope),
            disruptions: self.disruptions.open(scope),
            extent: self.extents.get(scope).copied(),
        };
        Ok(LeaseAnswer::Granted { lease: Lease { scope: scope.clone(), owner: owner.to_owned(), epoch }, open })
    }

    pub(super) fn renew(&mut self, leases: &[Lease], duration: Duration, now: i64) -> Renewal {
        let mut renewal = Renewal::default();
        for lease in leases {
            match self.row(lease) {
                Some(row) => {
                    row.expires_ms = now.saturating_add(milliseconds(duration));
                    renewal.wanted.extend(row.wanted_by.clone().map(|by| (lease.clone(), by)));
                }
                None => renewal.lost.push(lease.clone()),
            }
        }
        renewal
    }

    /// Answers whether somebody waits for one of them.
    pub(super) fn release(&mut self, leases: &[Lease], now: i64) -> bool {
        let mut wanted = false;
        for lease in leases {
            if let Some(row) = self.row(lease) {
                row.expires_ms = now;
                wanted |= row.wanted_by.take().is_some();
            }
        }
        wanted
    }

    /// Answers whether this is news.
    pub(super) fn ask(&mut self, scope: &Scope, by: &str) -> bool {
        let row = self.leases.get_mut(scope).filter(|row| row.owner != by && row.wanted_by.as_deref() != Some(by));
        row.map(|row| row.wanted_by = Some(by.to_owned())).is_some()
    }

    /// Whether anybody else decides for a cluster.
    pub(super) fn others_decide(&self, owner: &str, now: i64) -> bool {
        let others =
            |(scope, row): (&Scope, &Row)| scope.cluster_name().is_some() && row.owner != owner && row.expires_ms > now;
        self.leases.iter().any(others)
    }

    /// Whether `owner` was the last to be given the lease of `scope`.
    pub(super) fn owns(&self, owner: &str, scope: &Scope) -> bool {
        self.leases.get(scope).is_some_and(|row| row.owner == owner)
    }

    /// Forgets clusters whose leases have run out before a moment; answers how many.
    pub(super) fn forget_clusters(&mut self, before: i64) -> u64 {
        let gone = |(scope, row): (&Scope, &Row)| {
            (scope.cluster_name().is_some() && row.expires_ms < before).then(|| scope.clone())
        };
        let gone: Vec<Scope> = self.leases.iter().filter_map(gone).collect();
        for scope in &gone {
            self.leases.remove(scope);
            self.extents.remove(scope);
            self.forget_open_intents(scope);
            self.instructions.forget(scope);
            self.disruptions.forget(scope);
        }
        gone.len() as u64
    }

    fn row(&mut self, lease: &Lease) -> Option<&mut Row> {
        self.leases.get_mut(&lease.scope).filter(|row| row.owner == lease.owner && row.epoch == lease.epoch)
    }

    /// The condition of every write.
    pub(super) fn held(&mut self, lease: &Lease) -> Result<(), StoreError> {
        if self.unfenced || self.row(lease).is_some() {
            return Ok(());
        }
        Err(StoreError::LeaseLost { scope: lease.scope.clone(), epoch: lease.epoch })
    }
}
