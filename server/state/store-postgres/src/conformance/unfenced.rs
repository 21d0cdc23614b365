//! A store without what the suite must detect: it takes writes under expired epochs, grants a lease whatever epoch an
//! agent reports, and has one lane for all calls of the cloud's API.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_budget::Limit;
use cost::CostInterval;
use futures::future::FutureExt;
use futures::stream::BoxStream;

use store::api_budget::{ThrottledBucket, TokenGrant, TokenRequest, WaitingCalls};
use store::browser_sessions::BrowserSessionRow;
use store::counters::{CounterRow, RemoteCounters};
use store::guardrails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder};
use store::holds::{HoldCaller, HoldCommand, HoldCreation, HoldRow, HoldStatusRow, LiveHolds, NewHold};
use store::identity::{ForgetOutcome, Identity, UidClaim};
use store::interruptions::{InterruptionRow, StoredInterruption};
use store::lease::{Lease, LeaseOutcome, ObservedExtent, Renewal, Scope};
use store::listing::{ListedInstanceRow, StoredListing};
use store::log::{Blob, BlobHash, DecisionFilter, Entry, LogSegment, Pruned, Retention, StoredDecision};
use store::memory::MemoryStore;
use store::offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer};
use store::operations::{AttemptOutcome, Intent, RecentAttempt};
use store::outcomes::{OutcomeRow, StoredOutcome};
use store::replacements::ReplacementsEnd;
use store::replicas::{ClusterSummaryRow, ReplicaRow};
use store::spend::{IntervalFilter, SpendQuery, SpendRow};
use store::{Archive, Store, StoreError, StoreFuture};

/// A store in memory without fencing.
pub(super) struct UnfencedStore {
    store: MemoryStore,
    /// The last granted lease of each scope, by the scope's key.
    granted: Mutex<BTreeMap<String, Lease>>,
}

impl UnfencedStore {
    pub(super) fn new() -> Self {
        Self { store: MemoryStore::new(), granted: Mutex::default() }
    }

    /// The present lease in place of `lease`.
    fn present_lease(&self, lease: &Lease) -> Lease {
        self.granted().get(&lease.scope.key()).unwrap_or(lease).clone()
    }

    fn granted(&self) -> MutexGuard<'_, BTreeMap<String, Lease>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for UnfencedStore {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> StoreFuture<'a, Vec<StoredDecision>> {
        self.store.decisions(filter)
    }

    fn decision(&self, number: u64) -> StoreFuture<'_, Vec<StoredDecision>> {
        self.store.decision(number)
    }

    fn log_segment<'a>(&'a self, scope: &'a Scope, segment: u64) -> StoreFuture<'a, Option<LogSegment>> {
        self.store.log_segment(scope, segment)
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> StoreFuture<'a, Option<Blob>> {
        self.store.blob(hash)
    }
}

impl Store for UnfencedStore {
    fn acquire_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> StoreFuture<'a, LeaseOutcome> {
        async move {
            let mut answer = self.store.acquire_lease(scope, owner, seen, duration).await;
            if matches!(answer, Err(StoreError::EpochTooHigh { .. })) {
                answer = self.store.acquire_lease(scope, owner, 0, duration).await;
            }
            if let Ok(LeaseOutcome::Granted { lease, .. }) = &answer {
                self.granted().insert(lease.scope.key(), lease.clone());
            }
            answer
        }
        .boxed()
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> StoreFuture<'a, Renewal> {
        self.store.renew_leases(leases, duration)
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, ()> {
        self.store.release_leases(leases)
    }

    fn request_lease<'a>(&'a self, scope: &'a Scope, by: &'a str) -> StoreFuture<'a, ()> {
        self.store.request_lease(scope, by)
    }

    fn cluster_identities<'a>(&'a self, cluster: &'a str, uid: &'a str) -> StoreFuture<'a, Vec<Identity>> {
        self.store.cluster_identities(cluster, uid)
    }

    fn bind_cluster_uid<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> StoreFuture<'a, ()> {
        async move { self.store.bind_cluster_uid(&self.present_lease(lease), uid).await }.boxed()
    }

    fn claim_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, is_trusted: bool) -> StoreFuture<'a, UidClaim> {
        self.store.claim_uid(cluster, uid, is_trusted)
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        self.store.accept_uid(cluster, uid, by)
    }

    fn forget_cluster<'a>(
        &'a self,
        cluster: &'a str,
        by: &'a str,
        leave_machines: bool,
    ) -> StoreFuture<'a, ForgetOutcome> {
        self.store.forget_cluster(cluster, by, leave_machines)
    }

    fn put_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> StoreFuture<'a, ()> {
        async move { self.store.put_extent(&self.present_lease(lease), extent).await }.boxed()
    }

    fn record_decision<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> StoreFuture<'a, ()> {
        async move { self.store.record_decision(&self.present_lease(lease), entry).await }.boxed()
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> StoreFuture<'a, ()> {
        async move { self.store.begin_attempt(&self.present_lease(lease), intent).await }.boxed()
    }

    fn finish_attempt<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        outcome: &'a AttemptOutcome,
    ) -> StoreFuture<'a, ()> {
        async move { self.store.finish_attempt(&self.present_lease(lease), claim, attempt, outcome).await }.boxed()
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> StoreFuture<'a, ()> {
        async move { self.store.close_intents(&self.present_lease(lease), claims).await }.boxed()
    }

    fn end_replacements<'a>(&'a self, lease: &'a Lease, end: &'a ReplacementsEnd) -> StoreFuture<'a, ()> {
        async move { self.store.end_replacements(&self.present_lease(lease), end).await }.boxed()
    }

    fn put_costs<'a>(&'a self, lease: &'a Lease, intervals: &'a [CostInterval]) -> StoreFuture<'a, ()> {
        async move { self.store.put_costs(&self.present_lease(lease), intervals).await }.boxed()
    }

    fn spend<'a>(&'a self, query: &'a SpendQuery) -> StoreFuture<'a, Vec<SpendRow>> {
        self.store.spend(query)
    }

    fn cost_intervals<'a>(&'a self, filter: &'a IntervalFilter) -> StoreFuture<'a, Vec<CostInterval>> {
        self.store.cost_intervals(filter)
    }

    fn saving_intervals<'a>(
        &'a self,
        clusters: Option<&'a [String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreFuture<'a, Vec<(String, CostInterval)>> {
        self.store.saving_intervals(clusters, from_ms, to_ms)
    }

    fn create_hold<'a>(&'a self, hold: &'a NewHold) -> StoreFuture<'a, HoldCreation> {
        self.store.create_hold(hold)
    }

    fn commit_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        self.store.commit_hold(hold, version, by)
    }

    fn release_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        self.store.release_hold(hold, version, by)
    }

    fn hold<'a>(&'a self, cluster: &'a str, id: &'a str) -> StoreFuture<'a, Option<HoldRow>> {
        self.store.hold(cluster, id)
    }

    fn holds<'a>(&'a self, cluster: Option<&'a str>) -> StoreFuture<'a, Vec<HoldRow>> {
        self.store.holds(cluster)
    }

    fn live_holds(&self) -> StoreFuture<'_, LiveHolds> {
        self.store.live_holds()
    }

    fn write_hold<'a>(&'a self, lease: &'a Lease, status: &'a HoldStatusRow) -> StoreFuture<'a, ()> {
        async move { self.store.write_hold(&self.present_lease(lease), status).await }.boxed()
    }

    fn recent_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<RecentAttempt>> {
        self.store.recent_attempts(scope, within)
    }

    fn recent_moves<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<String>> {
        self.store.recent_moves(scope, within)
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, Pruned> {
        self.store.prune(retention)
    }

    fn change_offerings<'a>(&'a self, region: &'a str, changes: &'a [OfferingChange]) -> StoreFuture<'a, ()> {
        self.store.change_offerings(region, changes)
    }

    fn unavailable_offerings<'a>(
        &'a self,
        region: &'a str,
        account: &'a str,
        within: Duration,
    ) -> StoreFuture<'a, Vec<OfferingRow>> {
        self.store.unavailable_offerings(region, account, within)
    }

    fn claim_offering_probes<'a>(
        &'a self,
        region: &'a str,
        keys: &'a [OfferingKey],
        holder: &'a str,
        lease: Duration,
    ) -> StoreFuture<'a, Vec<ProbeAnswer>> {
        self.store.claim_offering_probes(region, keys, holder, lease)
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> StoreFuture<'a, i64> {
        self.store.freeze(order)
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> StoreFuture<'a, bool> {
        self.store.thaw(id, by)
    }

    fn freezes(&self) -> StoreFuture<'_, Vec<Freeze>> {
        self.store.freezes()
    }

    fn put_listing<'a>(
        &'a self,
        lease: &'a Lease,
        ago: Duration,
        machines: &'a [ListedInstanceRow],
    ) -> StoreFuture<'a, bool> {
        async move { self.store.put_listing(&self.present_lease(lease), ago, machines).await }.boxed()
    }

    fn latest_listing<'a>(
        &'a self,
        scope: &'a Scope,
        clusters: &'a [String],
    ) -> StoreFuture<'a, Option<StoredListing>> {
        self.store.latest_listing(scope, clusters)
    }

    fn put_interruptions<'a>(&'a self, scope: &'a Scope, rows: &'a [InterruptionRow]) -> StoreFuture<'a, u64> {
        self.store.put_interruptions(scope, rows)
    }

    fn interruptions<'a>(
        &'a self,
        scope: &'a Scope,
        after: u64,
        within: Duration,
    ) -> StoreFuture<'a, Vec<StoredInterruption>> {
        self.store.interruptions(scope, after, within)
    }

    fn create_browser_session<'a>(&'a self, row: &'a BrowserSessionRow) -> StoreFuture<'a, ()> {
        self.store.create_browser_session(row)
    }

    fn browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, Option<BrowserSessionRow>> {
        self.store.browser_session(id_sha256)
    }

    fn delete_browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, ()> {
        self.store.delete_browser_session(id_sha256)
    }

    fn delete_browser_sessions_of<'a>(&'a self, client: &'a str, credential: &'a str) -> StoreFuture<'a, ()> {
        self.store.delete_browser_sessions_of(client, credential)
    }

    fn put_launch_outcomes<'a>(&'a self, rows: &'a [OutcomeRow]) -> StoreFuture<'a, ()> {
        self.store.put_launch_outcomes(rows)
    }

    fn launch_outcomes(&self, after: u64, within: Duration) -> StoreFuture<'_, Vec<StoredOutcome>> {
        self.store.launch_outcomes(after, within)
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        self.store.release_quarantine(cluster, by)
    }

    fn clusters(&self) -> StoreFuture<'_, Vec<String>> {
        self.store.clusters()
    }

    fn quarantine_releases(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        self.store.quarantine_releases()
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        self.store.confirm_removals(cluster, by)
    }

    fn removal_confirmations(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        self.store.removal_confirmations()
    }

    fn put_counters<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> StoreFuture<'a, ()> {
        self.store.put_counters(process, machines, rows)
    }

    fn remote_counters<'a>(&'a self, process: &'a str, within: Duration) -> StoreFuture<'a, RemoteCounters> {
        self.store.remote_counters(process, within)
    }

    fn take_call_tokens<'a>(&'a self, scope: &'a Scope, request: &'a TokenRequest) -> StoreFuture<'a, TokenGrant> {
        async move {
            let count = request.waiting.iter().map(|calls| calls.count).sum();
            let age = request.waiting.iter().map(|calls| calls.age).max().unwrap_or_default();
            let mut waiting = [WaitingCalls::default(); 4];
            waiting[0] = WaitingCalls { count, age };
            let merged = TokenRequest { waiting, ..request.clone() };
            let grant = self.store.take_call_tokens(scope, &merged).await?;
            let mut left = grant.tokens.iter().sum::<u32>();
            let tokens = request.waiting.map(|calls| {
                let given = calls.count.min(left);
                left -= given;
                given
            });
            Ok(TokenGrant { tokens, ..grant })
        }
        .boxed()
    }

    fn record_throttle<'a>(
        &'a self,
        scope: &'a Scope,
        bucket: &'a str,
        limit: Limit,
    ) -> StoreFuture<'a, ThrottledBucket> {
        self.store.record_throttle(scope, bucket, limit)
    }

    fn register_replica<'a>(&'a self, row: &'a ReplicaRow) -> StoreFuture<'a, Vec<ReplicaRow>> {
        self.store.register_replica(row)
    }

    fn other_replicas<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, Vec<ReplicaRow>> {
        self.store.other_replicas(instance)
    }

    fn put_cluster_summaries<'a>(&'a self, summaries: &'a [ClusterSummaryRow]) -> StoreFuture<'a, ()> {
        self.store.put_cluster_summaries(summaries)
    }

    fn cluster_summaries(&self) -> StoreFuture<'_, Vec<ClusterSummaryRow>> {
        self.store.cluster_summaries()
    }

    fn append_audit<'a>(&'a self, entry: &'a AuditEntry) -> StoreFuture<'a, ()> {
        self.store.append_audit(entry)
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreFuture<'_, Vec<AuditRow>> {
        self.store.read_audit(limit, before)
    }

    fn changes(&self) -> BoxStream<'static, Changes> {
        self.store.changes()
    }

    fn touch_replica<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        self.store.touch_replica(instance)
    }
}
