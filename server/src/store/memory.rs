//! The store of demos and single runs: the same behaviour, gone with the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt, ready};

use super::{DecisionRecord, Intent, Lease, LeaseAnswer, Store, StoreError, StoredDecision};

/// Decisions that are kept for each cluster: enough for the page, bounded for a server that runs for months.
const DECISIONS_KEPT: usize = 1000;

/// A store in memory.
pub struct MemoryStore {
    tables: Mutex<Tables>,
    clock: Clock,
}

/// Time since some moment; leases run out by it.
type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

#[derive(Debug, Default)]
struct Tables {
    leases: BTreeMap<String, LeaseRow>,
    intents: BTreeMap<(String, String), IntentRow>,
    decisions: BTreeMap<String, Vec<StoredDecision>>,
    last_decision: i64,
}

#[derive(Debug)]
struct LeaseRow {
    owner: String,
    epoch: u64,
    /// By the store's own clock.
    expires: Duration,
}

#[derive(Debug)]
struct IntentRow {
    intent: Intent,
    outcome: Option<String>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let started = Instant::now();
        Self::on(move || started.elapsed())
    }

    /// An empty store whose leases run out by `clock`: the time since a moment that never changes.
    #[must_use]
    pub fn on(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { tables: Mutex::default(), clock: Box::new(clock) }
    }

    fn now(&self) -> Duration {
        (self.clock)()
    }

    /// No code panics while it holds the lock, and every change is made in one step, so a poisoned lock guards good data.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn take(&mut self, cluster: &str, owner: &str, seen: u64, duration: Duration, now: Duration) -> LeaseAnswer {
        let mut epoch = seen + 1;
        if let Some(row) = self.leases.get(cluster) {
            if row.owner != owner && row.expires > now {
                return LeaseAnswer::Held { owner: row.owner.clone() };
            }
            epoch = row.epoch.max(seen) + 1;
        }
        self.leases.insert(cluster.to_owned(), LeaseRow { owner: owner.to_owned(), epoch, expires: now + duration });
        let lease = Lease { cluster: cluster.to_owned(), owner: owner.to_owned(), epoch };
        LeaseAnswer::Granted { lease, open: self.open(cluster) }
    }

    fn held(&mut self, lease: &Lease) -> Result<&mut LeaseRow, StoreError> {
        let lost = || StoreError::LeaseLost { cluster: lease.cluster.clone(), epoch: lease.epoch };
        let row = self.leases.get_mut(&lease.cluster).ok_or_else(lost)?;
        if row.owner == lease.owner && row.epoch == lease.epoch { Ok(row) } else { Err(lost()) }
    }

    fn record(&mut self, lease: &Lease, decision: &DecisionRecord, intents: &[Intent]) -> Result<(), StoreError> {
        self.held(lease)?;
        for intent in intents {
            let key = (lease.cluster.clone(), intent.claim.clone());
            self.intents.entry(key).or_insert_with(|| IntentRow { intent: intent.clone(), outcome: None });
        }
        self.last_decision += 1;
        let stored = StoredDecision { id: self.last_decision, epoch: lease.epoch, decision: decision.clone() };
        let kept = self.decisions.entry(lease.cluster.clone()).or_default();
        kept.push(stored);
        if kept.len() > DECISIONS_KEPT {
            kept.remove(0);
        }
        Ok(())
    }

    fn settle(&mut self, lease: &Lease, claim: &str, outcome: &str) -> Result<(), StoreError> {
        self.held(lease)?;
        if let Some(row) = self.intents.get_mut(&(lease.cluster.clone(), claim.to_owned())) {
            row.outcome.get_or_insert_with(|| outcome.to_owned());
        }
        Ok(())
    }

    fn open(&self, cluster: &str) -> Vec<Intent> {
        let of_cluster = self.intents.iter().filter(|((owner, _), row)| owner == cluster && row.outcome.is_none());
        of_cluster.map(|(_, row)| row.intent.clone()).collect()
    }
}

impl Store for MemoryStore {
    fn take_lease<'a>(
        &'a self,
        cluster: &'a str,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> BoxFuture<'a, Result<LeaseAnswer, StoreError>> {
        ready(Ok(self.tables().take(cluster, owner, seen, duration, self.now()))).boxed()
    }

    fn renew_lease<'a>(&'a self, lease: &'a Lease, duration: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        let renewed = self.tables().held(lease).map(|row| row.expires = self.now() + duration);
        ready(renewed).boxed()
    }

    fn release_lease<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        if let Ok(row) = self.tables().held(lease) {
            row.expires = self.now();
        }
        ready(Ok(())).boxed()
    }

    fn record<'a>(
        &'a self,
        lease: &'a Lease,
        decision: &'a DecisionRecord,
        intents: &'a [Intent],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.tables().record(lease, decision, intents)).boxed()
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        outcome: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.tables().settle(lease, claim, outcome)).boxed()
    }

    fn open_intents<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Vec<Intent>, StoreError>> {
        ready(Ok(self.tables().open(cluster))).boxed()
    }

    fn decisions<'a>(&'a self, cluster: &'a str, limit: u32) -> BoxFuture<'a, Result<Vec<StoredDecision>, StoreError>> {
        let tables = self.tables();
        let kept = tables.decisions.get(cluster).map_or(&[][..], Vec::as_slice);
        ready(Ok(kept.iter().rev().take(limit as usize).cloned().collect())).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }
}
