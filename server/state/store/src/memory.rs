//! [`Store`] in memory, for demos and tests: the same behaviour, lost with the process.

mod api_budget;
mod browser_sessions;
mod changes;
mod counters;
mod guardrails;
mod holds;
mod identity;
mod interruptions;
mod leases;
mod listings;
mod log;
mod offerings;
mod operations;
mod outcomes;
mod replacements;
mod replicas;
mod spend;
mod tables;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::api_budget::Limit;
use cost::CostInterval;
use futures::future::{FutureExt, ready};
use futures::stream::BoxStream;

use super::api_budget::{ThrottledBucket, TokenGrant, TokenRequest};
use super::browser_sessions::BrowserSessionRow;
use super::counters::{CounterRow, RemoteCounters};
use super::guardrails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder};
use super::holds::{HoldCaller, HoldCommand, HoldCreation, HoldRow, HoldStatusRow, LiveHolds, NewHold};
use super::identity::{ForgetOutcome, Identity, UidClaim};
use super::interruptions::{InterruptionRow, StoredInterruption};
use super::lease::{Lease, LeaseOutcome, ObservedExtent, Renewal, Scope};
use super::listing::{ListedInstanceRow, StoredListing};
use super::log::{Blob, BlobHash, DecisionFilter, Entry, LogSegment, Pruned, Retention, StoredDecision};
use super::offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer};
use super::operations::{AttemptOutcome, Intent, RecentAttempt};
use super::outcomes::{OutcomeRow, StoredOutcome};
use super::replacements::ReplacementsEnd;
use super::replicas::{ClusterSummaryRow, ReplicaRow};
use super::spend::{IntervalFilter, SpendQuery, SpendRow};
use super::{Archive, Store, StoreError, StoreFuture};
use crate::clock;
use changes::ChangePublisher;
use tables::{Tables, milliseconds};

/// Time since 1970, or since the epoch of a simulation.
type Clock = dyn Fn() -> Duration + Send + Sync;

/// A store in memory.
pub struct MemoryStore {
    clock: Box<Clock>,
    changes: ChangePublisher,
    tables: Mutex<Tables>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_clock(|| Duration::from_millis(clock::now().as_millis().unsigned_abs()))
    }
}

impl MemoryStore {
    /// An empty store on the system clock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store on `clock`: the time since 1970, or since the epoch of a simulation.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), changes: ChangePublisher::default(), tables: Mutex::default() }
    }

    /// No code panics while it holds the lock, and every change is atomic, so a poisoned lock holds
    /// valid data.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        milliseconds((self.clock)())
    }

    fn freezes_changed(&self) {
        self.changes.publish(|changes| changes.freezes += 1);
    }

    fn holds_changed<T>(&self, (changed, answer): (bool, T)) -> T {
        if changed {
            self.changes.publish(|changes| changes.holds += 1);
        }
        answer
    }

    fn leases_changed(&self) {
        self.changes.publish(|changes| changes.leases += 1);
    }
}

fn resolved<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    ready(result).boxed()
}

impl Archive for MemoryStore {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> StoreFuture<'a, Vec<StoredDecision>> {
        resolved(Ok(self.tables().filtered_decisions(filter)))
    }

    fn decision(&self, number: u64) -> StoreFuture<'_, Vec<StoredDecision>> {
        resolved(Ok(self.tables().decisions_numbered(number)))
    }

    fn log_segment<'a>(&'a self, scope: &'a Scope, segment: u64) -> StoreFuture<'a, Option<LogSegment>> {
        resolved(Ok(self.tables().segments.get(&(scope.clone(), segment)).cloned()))
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> StoreFuture<'a, Option<Blob>> {
        resolved(Ok(self.tables().blobs.get(hash).map(|(blob, _)| blob.clone())))
    }
}

impl Store for MemoryStore {
    fn acquire_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> StoreFuture<'a, LeaseOutcome> {
        resolved(self.tables().acquire(scope, owner, seen, duration, self.now()))
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> StoreFuture<'a, Renewal> {
        resolved(Ok(self.tables().renew(leases, duration, self.now())))
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, ()> {
        let wanted = self.tables().release(leases, self.now());
        if wanted {
            self.leases_changed();
        }
        resolved(Ok(()))
    }

    fn request_lease<'a>(&'a self, scope: &'a Scope, by: &'a str) -> StoreFuture<'a, ()> {
        let asked = self.tables().request(scope, by);
        if asked {
            self.leases_changed();
        }
        resolved(Ok(()))
    }

    fn cluster_identities<'a>(&'a self, cluster: &'a str, uid: &'a str) -> StoreFuture<'a, Vec<Identity>> {
        resolved(Ok(self.tables().identities(cluster, uid)))
    }

    fn bind_cluster_uid<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> StoreFuture<'a, ()> {
        resolved(self.tables().bind_cluster_uid(lease, uid))
    }

    fn claim_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, is_trusted: bool) -> StoreFuture<'a, UidClaim> {
        let claim = self.tables().claim_uid(cluster, uid, is_trusted, self.now());
        if matches!(claim, UidClaim::Yielded { .. }) {
            self.leases_changed();
        }
        resolved(Ok(claim))
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        let accepted = self.tables().accept_uid(cluster, uid, by, self.now());
        if matches!(accepted, Ok((_, true))) {
            self.leases_changed();
        }
        resolved(accepted.map(|(known, _)| known))
    }

    fn forget_cluster<'a>(
        &'a self,
        cluster: &'a str,
        by: &'a str,
        leave_machines: bool,
    ) -> StoreFuture<'a, ForgetOutcome> {
        let outcome = self.tables().forget_cluster(cluster, by, leave_machines, self.now());
        if outcome == ForgetOutcome::Forgotten {
            self.leases_changed();
        }
        resolved(Ok(outcome))
    }

    fn put_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> StoreFuture<'a, ()> {
        resolved(self.tables().put_extent(lease, extent))
    }

    fn record_decision<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> StoreFuture<'a, ()> {
        resolved(self.tables().record_decision(lease, entry, self.now()))
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> StoreFuture<'a, ()> {
        resolved(self.tables().begin_attempt(lease, intent, self.now()))
    }

    fn finish_attempt<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        outcome: &'a AttemptOutcome,
    ) -> StoreFuture<'a, ()> {
        resolved(self.tables().finish_attempt(lease, claim, attempt, outcome))
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> StoreFuture<'a, ()> {
        resolved(self.tables().close_intents(lease, claims, self.now()))
    }

    fn end_replacements<'a>(&'a self, lease: &'a Lease, end: &'a ReplacementsEnd) -> StoreFuture<'a, ()> {
        resolved(self.tables().end_replacements(lease, end, self.now()))
    }

    fn put_costs<'a>(&'a self, lease: &'a Lease, intervals: &'a [CostInterval]) -> StoreFuture<'a, ()> {
        resolved(self.tables().put_costs(lease, intervals))
    }

    fn spend<'a>(&'a self, query: &'a SpendQuery) -> StoreFuture<'a, Vec<SpendRow>> {
        resolved(Ok(self.tables().spend(query)))
    }

    fn cost_intervals<'a>(&'a self, filter: &'a IntervalFilter) -> StoreFuture<'a, Vec<CostInterval>> {
        resolved(Ok(self.tables().cost_intervals(filter)))
    }

    fn saving_intervals<'a>(
        &'a self,
        clusters: Option<&'a [String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreFuture<'a, Vec<(String, CostInterval)>> {
        resolved(Ok(self.tables().saving_intervals(clusters, from_ms, to_ms)))
    }

    fn create_hold<'a>(&'a self, hold: &'a NewHold) -> StoreFuture<'a, HoldCreation> {
        let answer = self.tables().create_hold(hold, self.now());
        resolved(Ok(self.holds_changed(answer)))
    }

    fn commit_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        let answer = self.tables().commit_hold(hold, version, by, self.now());
        resolved(Ok(self.holds_changed(answer)))
    }

    fn release_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        let answer = self.tables().release_hold(hold, version, by, self.now());
        resolved(Ok(self.holds_changed(answer)))
    }

    fn hold<'a>(&'a self, cluster: &'a str, id: &'a str) -> StoreFuture<'a, Option<HoldRow>> {
        resolved(Ok(self.tables().hold(cluster, id, self.now())))
    }

    fn holds<'a>(&'a self, cluster: Option<&'a str>) -> StoreFuture<'a, Vec<HoldRow>> {
        resolved(Ok(self.tables().all_holds(cluster, self.now())))
    }

    fn live_holds(&self) -> StoreFuture<'_, LiveHolds> {
        resolved(Ok(self.tables().live_holds(None, self.now())))
    }

    fn write_hold<'a>(&'a self, lease: &'a Lease, status: &'a HoldStatusRow) -> StoreFuture<'a, ()> {
        resolved(self.tables().write_hold(lease, status, self.now()))
    }

    fn recent_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<RecentAttempt>> {
        resolved(Ok(self.tables().recent_attempts(scope, milliseconds(within), self.now())))
    }

    fn recent_moves<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<String>> {
        resolved(Ok(self.tables().recent_moves(scope, milliseconds(within), self.now())))
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, Pruned> {
        resolved(Ok(self.tables().prune(retention, self.now())))
    }

    fn change_offerings<'a>(&'a self, region: &'a str, changes: &'a [OfferingChange]) -> StoreFuture<'a, ()> {
        let changed = self.tables().change_offerings(region, changes, self.now());
        if changed {
            self.changes.publish(|changes| changes.offerings += 1);
        }
        resolved(Ok(()))
    }

    fn unavailable_offerings<'a>(
        &'a self,
        region: &'a str,
        account: &'a str,
        within: Duration,
    ) -> StoreFuture<'a, Vec<OfferingRow>> {
        resolved(Ok(self.tables().unavailable_offerings(region, account, milliseconds(within), self.now())))
    }

    fn claim_offering_probes<'a>(
        &'a self,
        region: &'a str,
        keys: &'a [OfferingKey],
        holder: &'a str,
        lease: Duration,
    ) -> StoreFuture<'a, Vec<ProbeAnswer>> {
        resolved(Ok(self.tables().claim_probes(region, keys, holder, milliseconds(lease), self.now())))
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> StoreFuture<'a, i64> {
        let id = self.tables().freeze(order, self.now());
        self.freezes_changed();
        resolved(Ok(id))
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> StoreFuture<'a, bool> {
        let found = self.tables().thaw(id, by, self.now());
        if found {
            self.freezes_changed();
        }
        resolved(Ok(found))
    }

    fn freezes(&self) -> StoreFuture<'_, Vec<Freeze>> {
        resolved(Ok(self.tables().active_freezes(self.now())))
    }

    fn put_listing<'a>(
        &'a self,
        lease: &'a Lease,
        ago: Duration,
        machines: &'a [ListedInstanceRow],
    ) -> StoreFuture<'a, bool> {
        resolved(self.tables().put_listing(lease, ago, machines, self.now()))
    }

    fn latest_listing<'a>(
        &'a self,
        scope: &'a Scope,
        clusters: &'a [String],
    ) -> StoreFuture<'a, Option<StoredListing>> {
        resolved(Ok(self.tables().latest_listing(scope, clusters, self.now())))
    }

    fn put_interruptions<'a>(&'a self, scope: &'a Scope, rows: &'a [InterruptionRow]) -> StoreFuture<'a, u64> {
        resolved(Ok(self.tables().put_interruptions(scope, rows, self.now())))
    }

    fn interruptions<'a>(
        &'a self,
        scope: &'a Scope,
        after: u64,
        within: Duration,
    ) -> StoreFuture<'a, Vec<StoredInterruption>> {
        resolved(Ok(self.tables().interruptions_after(scope, after, within, self.now())))
    }

    fn create_browser_session<'a>(&'a self, row: &'a BrowserSessionRow) -> StoreFuture<'a, ()> {
        let now = self.now();
        self.tables().browser_sessions.create(row, now);
        resolved(Ok(()))
    }

    fn browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, Option<BrowserSessionRow>> {
        resolved(Ok(self.tables().browser_sessions.find(id_sha256)))
    }

    fn delete_browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, ()> {
        self.tables().browser_sessions.delete(id_sha256);
        resolved(Ok(()))
    }

    fn delete_browser_sessions_of<'a>(&'a self, client: &'a str, credential: &'a str) -> StoreFuture<'a, ()> {
        self.tables().browser_sessions.delete_of(client, credential);
        resolved(Ok(()))
    }

    fn put_launch_outcomes<'a>(&'a self, rows: &'a [OutcomeRow]) -> StoreFuture<'a, ()> {
        let now = self.now();
        self.tables().outcomes.put(rows, now);
        resolved(Ok(()))
    }

    fn launch_outcomes(&self, after: u64, within: Duration) -> StoreFuture<'_, Vec<StoredOutcome>> {
        let now = self.now();
        resolved(Ok(self.tables().outcomes.after(after, within, now)))
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        let released = self.tables().release_quarantine(cluster, by, self.now());
        if released {
            self.changes.publish(|changes| changes.releases += 1);
        }
        resolved(Ok(released))
    }

    fn clusters(&self) -> StoreFuture<'_, Vec<String>> {
        resolved(Ok(self.tables().clusters()))
    }

    fn quarantine_releases(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        let tables = self.tables();
        resolved(Ok(tables.releases.iter().map(|(cluster, number)| (cluster.clone(), *number)).collect()))
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        let confirmed = self.tables().confirm_removals(cluster, by, self.now());
        if confirmed {
            self.changes.publish(|changes| changes.releases += 1);
        }
        resolved(Ok(confirmed))
    }

    fn removal_confirmations(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        let tables = self.tables();
        resolved(Ok(tables.confirmations.iter().map(|(cluster, number)| (cluster.clone(), *number)).collect()))
    }

    fn put_counters<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> StoreFuture<'a, ()> {
        self.tables().put_counters(process, machines, rows, self.now());
        resolved(Ok(()))
    }

    fn remote_counters<'a>(&'a self, process: &'a str, within: Duration) -> StoreFuture<'a, RemoteCounters> {
        resolved(Ok(self.tables().remote_counters(process, milliseconds(within), self.now())))
    }

    fn take_call_tokens<'a>(&'a self, scope: &'a Scope, request: &'a TokenRequest) -> StoreFuture<'a, TokenGrant> {
        resolved(Ok(self.tables().take_call_tokens(scope, request, self.now())))
    }

    fn record_throttle<'a>(
        &'a self,
        scope: &'a Scope,
        bucket: &'a str,
        limit: Limit,
    ) -> StoreFuture<'a, ThrottledBucket> {
        resolved(Ok(self.tables().record_throttle(scope, bucket, limit, self.now())))
    }

    fn register_replica<'a>(&'a self, row: &'a ReplicaRow) -> StoreFuture<'a, Vec<ReplicaRow>> {
        resolved(Ok(self.tables().register_replica(row, self.now())))
    }

    fn other_replicas<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, Vec<ReplicaRow>> {
        resolved(Ok(self.tables().other_replicas(instance, self.now())))
    }

    fn put_cluster_summaries<'a>(&'a self, summaries: &'a [ClusterSummaryRow]) -> StoreFuture<'a, ()> {
        self.tables().put_cluster_summaries(summaries);
        resolved(Ok(()))
    }

    fn cluster_summaries(&self) -> StoreFuture<'_, Vec<ClusterSummaryRow>> {
        resolved(Ok(self.tables().cluster_summaries()))
    }

    fn append_audit<'a>(&'a self, entry: &'a AuditEntry) -> StoreFuture<'a, ()> {
        self.tables().audit.push(entry.clone());
        resolved(Ok(()))
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreFuture<'_, Vec<AuditRow>> {
        resolved(Ok(self.tables().read_audit(limit, before)))
    }

    fn changes(&self) -> BoxStream<'static, Changes> {
        self.changes.subscribe()
    }

    fn touch_replica<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        self.tables().touch_replica(instance, self.now());
        resolved(Ok(()))
    }
}
