//! The store of demos and tests: the same behaviour, gone with the process.

mod identity;
mod leases;
mod listings;
mod log;
mod rails;
mod replicas;
mod shares;
mod undertakings;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{FutureExt, ready};
use tokio::sync::watch;

use super::lease::{Identity, Lease, LeaseAnswer, ObservedExtent, Renewal, Scope};
use super::listing::{KeptListing, ListedMachine};
use super::log::{Blob, BlobHash, DecisionFilter, Entry, LogChunk, LogSegment, Pruned, Retention, StoredDecision};
use super::rails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder, OfferingEntry};
use super::replicas::ReplicaRow;
use super::shares::{CounterRow, RemoteCounters};
use super::undertaking::{
    DisruptionEnd, DisruptionRow, InstructionEnd, InstructionRow, Intent, OpenIntent, PastAttempt, Settlement,
};
use super::{Answer, Archive, Store, StoreError, postgres};
use crate::clock;

/// Tells the time since 1970, or since the moment that a simulation calls so.
type Clock = dyn Fn() -> Duration + Send + Sync;

/// A store in memory.
pub struct MemoryStore {
    clock: Box<Clock>,
    changes: watch::Sender<Changes>,
    tables: Mutex<Tables>,
}

/// What PostgreSQL keeps in tables. Every operation is one step.
#[derive(Debug, Default)]
struct Tables {
    unfenced: bool,
    leases: BTreeMap<Scope, leases::Row>,
    extents: BTreeMap<Scope, ObservedExtent>,
    intents: BTreeMap<Scope, BTreeMap<(String, u32), undertakings::IntentRow>>,
    instructions: undertakings::Register<InstructionRow>,
    disruptions: undertakings::Register<DisruptionRow>,
    decisions: BTreeMap<Scope, Vec<StoredDecision>>,
    segments: BTreeMap<(Scope, u64), LogSegment>,
    blobs: BTreeMap<BlobHash, (Blob, i64)>,
    offerings: BTreeMap<(String, String, String, String), OfferingEntry>,
    freezes: Vec<rails::FreezeRow>,
    audit: Vec<AuditEntry>,
    listings: BTreeMap<Scope, listings::Kept>,
    releases: BTreeMap<String, u64>,
    confirmations: BTreeMap<String, u64>,
    shares: BTreeMap<(String, i64), shares::Kept>,
    replicas: BTreeMap<String, replicas::Kept>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::on(|| Duration::from_millis(clock::now().0.unsigned_abs()))
    }
}

impl MemoryStore {
    /// An empty store that goes by this machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that goes by `clock`: the time since 1970, or since the moment that a simulation calls so.
    #[must_use]
    pub fn on(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            changes: watch::Sender::new(Changes::default()),
            tables: Mutex::new(Tables::default()),
        }
    }

    /// A store that takes writes of replicas that have lost their lease. Nothing that is built on it is safe: it shows what
    /// fencing is for.
    #[must_use]
    pub fn unfenced() -> Self {
        let store = Self::new();
        store.tables().unfenced = true;
        store
    }

    /// No code panics while it holds the lock, and every change is made in one step, so a poisoned lock guards good data.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        milliseconds((self.clock)())
    }

    fn freezes_changed(&self) {
        self.changes.send_modify(|changes| changes.freezes += 1);
    }

    fn leases_changed(&self) {
        self.changes.send_modify(|changes| changes.leases += 1);
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn done<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Answer<'a, T> {
    ready(result).boxed()
}

impl Archive for MemoryStore {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> Answer<'a, Vec<StoredDecision>> {
        done(Ok(self.tables().decisions_by(filter)))
    }

    fn decision(&self, number: u64) -> Answer<'_, Vec<StoredDecision>> {
        done(Ok(self.tables().numbered(number)))
    }

    fn log_of<'a>(&'a self, scope: &'a Scope, segment: u64) -> Answer<'a, Option<LogSegment>> {
        done(Ok(self.tables().segments.get(&(scope.clone(), segment)).cloned()))
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> Answer<'a, Option<Blob>> {
        done(Ok(self.tables().blobs.get(hash).map(|(blob, _)| blob.clone())))
    }
}

impl Store for MemoryStore {
    fn take_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> Answer<'a, LeaseAnswer> {
        done(self.tables().take(scope, owner, seen, duration, self.now()))
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> Answer<'a, Renewal> {
        done(Ok(self.tables().renew(leases, duration, self.now())))
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, ()> {
        let wanted = self.tables().release(leases, self.now());
        if wanted {
            self.leases_changed();
        }
        done(Ok(()))
    }

    fn ask_for<'a>(&'a self, scope: &'a Scope, by: &'a str) -> Answer<'a, ()> {
        let asked = self.tables().ask(scope, by);
        if asked {
            self.leases_changed();
        }
        done(Ok(()))
    }

    fn cluster_identity<'a>(&'a self, cluster: &'a str) -> Answer<'a, Option<Identity>> {
        done(Ok(self.tables().identity(cluster)))
    }

    fn keep_identity<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> Answer<'a, ()> {
        done(self.tables().keep_identity(lease, uid))
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> Answer<'a, bool> {
        let (known, news) = self.tables().accept_uid(cluster, uid, by, self.now());
        if news {
            self.leases_changed();
        }
        done(Ok(known))
    }

    fn keep_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> Answer<'a, ()> {
        done(self.tables().keep_extent(lease, extent))
    }

    fn record<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> Answer<'a, ()> {
        done(self.tables().record(lease, entry, self.now()))
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> Answer<'a, ()> {
        done(self.tables().begin_attempt(lease, intent, self.now()))
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        settlement: &'a Settlement,
    ) -> Answer<'a, ()> {
        done(self.tables().settle(lease, claim, attempt, settlement))
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> Answer<'a, ()> {
        done(self.tables().close(lease, claims, self.now()))
    }

    fn open_intents<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Vec<OpenIntent>> {
        done(Ok(self.tables().open_intents(scope)))
    }

    fn past_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> Answer<'a, Vec<PastAttempt>> {
        done(Ok(self.tables().past_attempts(scope, milliseconds(within), self.now())))
    }

    fn write_instructions<'a>(&'a self, lease: &'a Lease, rows: &'a [InstructionRow]) -> Answer<'a, ()> {
        done(self.tables().instruct(lease, rows))
    }

    fn end_instructions<'a>(&'a self, lease: &'a Lease, ends: &'a [InstructionEnd]) -> Answer<'a, ()> {
        let ends = ends.iter().map(|end| end.id).collect::<Vec<_>>();
        done(self.tables().end_instructions(lease, &ends, self.now()))
    }

    fn end_disruptions<'a>(&'a self, lease: &'a Lease, ends: &'a [DisruptionEnd]) -> Answer<'a, ()> {
        let ends = ends.iter().map(|end| end.id).collect::<Vec<_>>();
        done(self.tables().end_disruptions(lease, &ends, self.now()))
    }

    fn append_log<'a>(&'a self, lease: &'a Lease, chunks: &'a [LogChunk]) -> Answer<'a, ()> {
        done(self.tables().append(lease, chunks))
    }

    fn put_blobs<'a>(&'a self, blobs: &'a [Blob]) -> Answer<'a, ()> {
        self.tables().put_blobs(blobs, self.now());
        done(Ok(()))
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> Answer<'a, Pruned> {
        done(Ok(self.tables().prune(retention, self.now())))
    }

    fn remember_offerings<'a>(&'a self, region: &'a str, entries: &'a [OfferingEntry]) -> Answer<'a, ()> {
        let news = self.tables().remember(region, entries);
        if news {
            self.changes.send_modify(|changes| changes.offerings += 1);
        }
        done(Ok(()))
    }

    fn recall_offerings<'a>(&'a self, region: &'a str) -> Answer<'a, Vec<OfferingEntry>> {
        done(Ok(self.tables().recall(region, self.now())))
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> Answer<'a, i64> {
        let id = self.tables().freeze(order, self.now());
        self.freezes_changed();
        done(Ok(id))
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> Answer<'a, bool> {
        let found = self.tables().thaw(id, by, self.now());
        if found {
            self.freezes_changed();
        }
        done(Ok(found))
    }

    fn freezes(&self) -> Answer<'_, Vec<Freeze>> {
        done(Ok(self.tables().frozen(self.now())))
    }

    fn keep_listing<'a>(&'a self, lease: &'a Lease, ago: Duration, machines: &'a [ListedMachine]) -> Answer<'a, bool> {
        done(self.tables().keep_listing(lease, ago, machines, self.now()))
    }

    fn last_listing<'a>(&'a self, scope: &'a Scope, clusters: &'a [String]) -> Answer<'a, Option<KeptListing>> {
        done(Ok(self.tables().last_listing(scope, clusters, self.now())))
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool> {
        let released = self.tables().vouch(cluster, by, self.now());
        if released {
            self.changes.send_modify(|changes| changes.releases += 1);
        }
        done(Ok(released))
    }

    fn clusters(&self) -> Answer<'_, Vec<String>> {
        done(Ok(self.tables().clusters()))
    }

    fn quarantine_releases(&self) -> Answer<'_, Vec<(String, u64)>> {
        let tables = self.tables();
        done(Ok(tables.releases.iter().map(|(cluster, number)| (cluster.clone(), *number)).collect()))
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool> {
        let confirmed = self.tables().confirm(cluster, by, self.now());
        if confirmed {
            self.changes.send_modify(|changes| changes.releases += 1);
        }
        done(Ok(confirmed))
    }

    fn removal_confirmations(&self) -> Answer<'_, Vec<(String, u64)>> {
        let tables = self.tables();
        done(Ok(tables.confirmations.iter().map(|(cluster, number)| (cluster.clone(), *number)).collect()))
    }

    fn tell_shares<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> Answer<'a, ()> {
        self.tables().tell_shares(process, machines, rows, self.now());
        done(Ok(()))
    }

    fn shares_elsewhere<'a>(&'a self, process: &'a str, within: Duration) -> Answer<'a, RemoteCounters> {
        done(Ok(self.tables().shares_elsewhere(process, milliseconds(within), self.now())))
    }

    fn tell_replica<'a>(&'a self, row: &'a ReplicaRow) -> Answer<'a, Vec<ReplicaRow>> {
        done(Ok(self.tables().tell_replica(row, self.now())))
    }

    fn audit<'a>(&'a self, entry: &'a AuditEntry) -> Answer<'a, ()> {
        self.tables().audit.push(entry.clone());
        done(Ok(()))
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> Answer<'_, Vec<AuditRow>> {
        done(Ok(self.tables().read_audit(limit, before)))
    }

    fn changes(&self) -> watch::Receiver<Changes> {
        self.changes.subscribe()
    }

    fn ping(&self) -> Answer<'_, ()> {
        done(Ok(()))
    }

    fn schema_version(&self) -> Answer<'_, i64> {
        done(Ok(postgres::newest_schema()))
    }
}
