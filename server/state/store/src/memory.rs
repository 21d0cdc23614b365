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

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::api_budget::Limit;
use async_trait::async_trait;
use cost::CostInterval;
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
use super::{Archive, Store, StoreResult};
use crate::clock;
use changes::ChangePublisher;
use tables::{Tables, milliseconds};

/// Time since 1970, or since the epoch of a simulation.
type Clock = dyn Fn() -> Duration + Send + Sync;

/// What a test has between a store and one of its clients: faults, delays, and checks that are left out.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// Before a call reaches the store. It does not if this fails.
    async fn before(&self, _call: &'static str) -> StoreResult<()> {
        Ok(())
    }

    /// Before the answer of a call reaches the client. It does not if this fails.
    async fn after(&self, _call: &'static str) -> StoreResult<()> {
        Ok(())
    }

    /// Changes what a call asks for: the [`Lease`] of a write, the [`SeenEpoch`], the [`TokenRequest`].
    fn change_request(&self, _request: &mut dyn Any) {}

    /// Changes the answer of a call, a [`StoreResult`].
    fn change_answer(&self, _answer: &mut dyn Any) {}

    /// A write under `lease` took effect.
    fn written(&self, _lease: &Lease) {}
}

/// The highest epoch that an agent has obeyed.
#[derive(Debug, Clone, Copy)]
pub struct SeenEpoch(pub u64);

/// A store in memory.
pub struct MemoryStore {
    shared: Arc<Shared>,
    interceptor: Option<Arc<dyn Interceptor>>,
}

struct Shared {
    clock: Box<Clock>,
    changes: ChangePublisher,
    tables: Mutex<Tables>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("tables", &self.shared.tables).finish_non_exhaustive()
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
        let (clock, changes, tables) = (Box::new(clock), ChangePublisher::default(), Mutex::default());
        Self { shared: Arc::new(Shared { clock, changes, tables }), interceptor: None }
    }

    /// The same store for a client behind `interceptor`.
    #[must_use]
    pub fn intercepted(&self, interceptor: Arc<dyn Interceptor>) -> Self {
        Self { shared: Arc::clone(&self.shared), interceptor: Some(interceptor) }
    }

    /// Deletes all rows, as the loss of a database does.
    pub fn wipe(&self) {
        *self.tables() = Tables::default();
    }

    async fn call<T: Send + 'static>(
        &self,
        call: &'static str,
        act: impl FnOnce() -> StoreResult<T> + Send,
    ) -> StoreResult<T> {
        let Some(interceptor) = &self.interceptor else { return act() };
        interceptor.before(call).await?;
        let mut answer = act();
        interceptor.change_answer(&mut answer);
        interceptor.after(call).await?;
        answer
    }

    async fn write<T: Send + 'static>(
        &self,
        call: &'static str,
        lease: &Lease,
        act: impl FnOnce(&Lease) -> StoreResult<T> + Send,
    ) -> StoreResult<T> {
        let act = || {
            let answer = act(&self.requested(lease.clone()));
            if let (Ok(_), Some(interceptor)) = (&answer, &self.interceptor) {
                interceptor.written(lease);
            }
            answer
        };
        self.call(call, act).await
    }

    fn requested<R: 'static>(&self, mut request: R) -> R {
        if let Some(interceptor) = &self.interceptor {
            interceptor.change_request(&mut request);
        }
        request
    }

    /// No code panics while it holds the lock, and every change is atomic, so a poisoned lock holds
    /// valid data.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        milliseconds((self.shared.clock)())
    }

    fn announce(&self, is_changed: bool, change: impl FnOnce(&mut Changes)) {
        if is_changed {
            self.shared.changes.publish(change);
        }
    }

    fn holds_changed<T>(&self, (changed, answer): (bool, T)) -> T {
        self.announce(changed, |changes| changes.holds += 1);
        answer
    }

    fn leases_changed(&self, changed: bool) {
        self.announce(changed, |changes| changes.leases += 1);
    }
}

#[async_trait]
impl Archive for MemoryStore {
    async fn decisions(&self, filter: &DecisionFilter) -> StoreResult<Vec<StoredDecision>> {
        self.call("read decisions", || Ok(self.tables().filtered_decisions(filter))).await
    }

    async fn decision(&self, number: u64) -> StoreResult<Vec<StoredDecision>> {
        self.call("read a decision", || Ok(self.tables().decisions_numbered(number))).await
    }

    async fn log_segment(&self, scope: &Scope, segment: u64) -> StoreResult<Option<LogSegment>> {
        self.call("read the log", || Ok(self.tables().segments.get(&(scope.clone(), segment)).cloned())).await
    }

    async fn blob(&self, hash: &BlobHash) -> StoreResult<Option<Blob>> {
        self.call("read blob", || Ok(self.tables().blobs.get(hash).map(|(blob, _)| blob.clone()))).await
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn acquire_lease(
        &self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
    ) -> StoreResult<LeaseOutcome> {
        self.call("take a lease", || {
            let SeenEpoch(seen) = self.requested(SeenEpoch(seen));
            self.tables().acquire(scope, owner, seen, duration, self.now())
        })
        .await
    }

    async fn renew_leases(&self, leases: &[Lease], duration: Duration) -> StoreResult<Renewal> {
        self.call("renew leases", || Ok(self.tables().renew(leases, duration, self.now()))).await
    }

    async fn release_leases(&self, leases: &[Lease]) -> StoreResult<()> {
        self.call("release leases", || {
            let wanted = self.tables().release(leases, self.now());
            self.leases_changed(wanted);
            Ok(())
        })
        .await
    }

    async fn request_lease(&self, scope: &Scope, by: &str) -> StoreResult<()> {
        self.call("request lease", || {
            let asked = self.tables().request(scope, by);
            self.leases_changed(asked);
            Ok(())
        })
        .await
    }

    async fn cluster_identities(&self, cluster: &str, uid: &str) -> StoreResult<Vec<Identity>> {
        self.call("read cluster identity", || Ok(self.tables().identities(cluster, uid))).await
    }

    async fn bind_cluster_uid(&self, lease: &Lease, uid: &str) -> StoreResult<()> {
        self.write("bind cluster UID", lease, |lease| self.tables().bind_cluster_uid(lease, uid)).await
    }

    async fn claim_uid(&self, cluster: &str, uid: &str, is_trusted: bool) -> StoreResult<UidClaim> {
        self.call("claim the UID of a cluster", || {
            let claim = self.tables().claim_uid(cluster, uid, is_trusted, self.now());
            self.leases_changed(matches!(claim, UidClaim::Yielded { .. }));
            Ok(claim)
        })
        .await
    }

    async fn accept_uid(&self, cluster: &str, uid: &str, by: &str) -> StoreResult<bool> {
        self.call("accept the UID of a cluster", || {
            let accepted = self.tables().accept_uid(cluster, uid, by, self.now());
            self.leases_changed(matches!(accepted, Ok((_, true))));
            accepted.map(|(known, _)| known)
        })
        .await
    }

    async fn forget_cluster(&self, cluster: &str, by: &str, leave_machines: bool) -> StoreResult<ForgetOutcome> {
        self.call("forget a cluster", || {
            let outcome = self.tables().forget_cluster(cluster, by, leave_machines, self.now());
            self.leases_changed(outcome == ForgetOutcome::Forgotten);
            Ok(outcome)
        })
        .await
    }

    async fn put_extent(&self, lease: &Lease, extent: &ObservedExtent) -> StoreResult<()> {
        self.write("write object counts", lease, |lease| self.tables().put_extent(lease, extent)).await
    }

    async fn record_decision(&self, lease: &Lease, entry: &Entry) -> StoreResult<()> {
        self.write("record a decision", lease, |lease| self.tables().record_decision(lease, entry, self.now())).await
    }

    async fn begin_attempt(&self, lease: &Lease, intent: &Intent) -> StoreResult<()> {
        self.write("begin an attempt", lease, |lease| self.tables().begin_attempt(lease, intent, self.now())).await
    }

    async fn finish_attempt(
        &self,
        lease: &Lease,
        claim: &str,
        attempt: u32,
        outcome: &AttemptOutcome,
    ) -> StoreResult<()> {
        self.write("settle a launch", lease, |lease| self.tables().finish_attempt(lease, claim, attempt, outcome)).await
    }

    async fn close_intents(&self, lease: &Lease, claims: &[String]) -> StoreResult<()> {
        self.write("close launches", lease, |lease| self.tables().close_intents(lease, claims, self.now())).await
    }

    async fn end_replacements(&self, lease: &Lease, end: &ReplacementsEnd) -> StoreResult<()> {
        self.write("end replacements", lease, |lease| self.tables().end_replacements(lease, end, self.now())).await
    }

    async fn put_costs(&self, lease: &Lease, intervals: &[CostInterval]) -> StoreResult<()> {
        self.write("write costs", lease, |lease| self.tables().put_costs(lease, intervals)).await
    }

    async fn spend(&self, query: &SpendQuery) -> StoreResult<Vec<SpendRow>> {
        self.call("read costs", || Ok(self.tables().spend(query))).await
    }

    async fn cost_intervals(&self, filter: &IntervalFilter) -> StoreResult<Vec<CostInterval>> {
        self.call("read costs", || Ok(self.tables().cost_intervals(filter))).await
    }

    async fn saving_intervals(
        &self,
        clusters: Option<&[String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreResult<Vec<(String, CostInterval)>> {
        self.call("read savings", || Ok(self.tables().saving_intervals(clusters, from_ms, to_ms))).await
    }

    async fn create_hold(&self, hold: &NewHold) -> StoreResult<HoldCreation> {
        self.call("create a hold", || Ok(self.holds_changed(self.tables().create_hold(hold, self.now())))).await
    }

    async fn commit_hold(&self, hold: (&str, &str), version: Option<u64>, by: &HoldCaller) -> StoreResult<HoldCommand> {
        self.call("commit a hold", || Ok(self.holds_changed(self.tables().commit_hold(hold, version, by, self.now()))))
            .await
    }

    async fn release_hold(
        &self,
        hold: (&str, &str),
        version: Option<u64>,
        by: &HoldCaller,
    ) -> StoreResult<HoldCommand> {
        self.call("release a hold", || {
            Ok(self.holds_changed(self.tables().release_hold(hold, version, by, self.now())))
        })
        .await
    }

    async fn hold(&self, cluster: &str, id: &str) -> StoreResult<Option<HoldRow>> {
        self.call("read a hold", || Ok(self.tables().hold(cluster, id, self.now()))).await
    }

    async fn holds(&self, cluster: Option<&str>) -> StoreResult<Vec<HoldRow>> {
        self.call("read holds", || Ok(self.tables().all_holds(cluster, self.now()))).await
    }

    async fn live_holds(&self) -> StoreResult<LiveHolds> {
        self.call("read live holds", || Ok(self.tables().live_holds(None, self.now()))).await
    }

    async fn write_hold(&self, lease: &Lease, status: &HoldStatusRow) -> StoreResult<()> {
        self.write("write a hold", lease, |lease| self.tables().write_hold(lease, status, self.now())).await
    }

    async fn recent_attempts(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<RecentAttempt>> {
        self.call("read past launches", || Ok(self.tables().recent_attempts(scope, milliseconds(within), self.now())))
            .await
    }

    async fn recent_moves(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<String>> {
        self.call("read recent moves", || Ok(self.tables().recent_moves(scope, milliseconds(within), self.now()))).await
    }

    async fn prune(&self, retention: &Retention) -> StoreResult<Pruned> {
        self.call("prune old rows", || Ok(self.tables().prune(retention, self.now()))).await
    }

    async fn change_offerings(&self, region: &str, changes: &[OfferingChange]) -> StoreResult<()> {
        self.call("write outcomes of offerings", || {
            let changed = self.tables().change_offerings(region, changes, self.now());
            self.announce(changed, |changes| changes.offerings += 1);
            Ok(())
        })
        .await
    }

    async fn unavailable_offerings(
        &self,
        region: &str,
        account: &str,
        within: Duration,
    ) -> StoreResult<Vec<OfferingRow>> {
        self.call("read unavailable offerings", || {
            Ok(self.tables().unavailable_offerings(region, account, milliseconds(within), self.now()))
        })
        .await
    }

    async fn claim_offering_probes(
        &self,
        region: &str,
        keys: &[OfferingKey],
        holder: &str,
        lease: Duration,
    ) -> StoreResult<Vec<ProbeAnswer>> {
        self.call("claim probes", || {
            Ok(self.tables().claim_probes(region, keys, holder, milliseconds(lease), self.now()))
        })
        .await
    }

    async fn freeze(&self, order: &FreezeOrder) -> StoreResult<i64> {
        self.call("freeze", || {
            let id = self.tables().freeze(order, self.now());
            self.announce(true, |changes| changes.freezes += 1);
            Ok(id)
        })
        .await
    }

    async fn thaw(&self, id: i64, by: &str) -> StoreResult<bool> {
        self.call("thaw", || {
            let found = self.tables().thaw(id, by, self.now());
            self.announce(found, |changes| changes.freezes += 1);
            Ok(found)
        })
        .await
    }

    async fn freezes(&self) -> StoreResult<Vec<Freeze>> {
        self.call("read freezes", || Ok(self.tables().active_freezes(self.now()))).await
    }

    async fn put_listing(&self, lease: &Lease, ago: Duration, machines: &[ListedInstanceRow]) -> StoreResult<bool> {
        self.write("write listing", lease, |lease| self.tables().put_listing(lease, ago, machines, self.now())).await
    }

    async fn latest_listing(&self, scope: &Scope, clusters: &[String]) -> StoreResult<Option<StoredListing>> {
        self.call("read a listing", || Ok(self.tables().latest_listing(scope, clusters, self.now()))).await
    }

    async fn put_interruptions(&self, scope: &Scope, rows: &[InterruptionRow]) -> StoreResult<u64> {
        self.call("write interruptions", || Ok(self.tables().put_interruptions(scope, rows, self.now()))).await
    }

    async fn interruptions(&self, scope: &Scope, after: u64, within: Duration) -> StoreResult<Vec<StoredInterruption>> {
        self.call("read interruptions", || Ok(self.tables().interruptions_after(scope, after, within, self.now())))
            .await
    }

    async fn create_browser_session(&self, row: &BrowserSessionRow) -> StoreResult<()> {
        self.call("store a browser session", || {
            let now = self.now();
            self.tables().browser_sessions.create(row, now);
            Ok(())
        })
        .await
    }

    async fn browser_session(&self, id_sha256: &[u8]) -> StoreResult<Option<BrowserSessionRow>> {
        self.call("read a browser session", || Ok(self.tables().browser_sessions.find(id_sha256))).await
    }

    async fn delete_browser_session(&self, id_sha256: &[u8]) -> StoreResult<()> {
        self.call("delete a browser session", || {
            self.tables().browser_sessions.delete(id_sha256);
            Ok(())
        })
        .await
    }

    async fn delete_browser_sessions_of(&self, client: &str, credential: &str) -> StoreResult<()> {
        self.call("delete the browser sessions of a client", || {
            self.tables().browser_sessions.delete_of(client, credential);
            Ok(())
        })
        .await
    }

    async fn put_launch_outcomes(&self, rows: &[OutcomeRow]) -> StoreResult<()> {
        self.call("write outcomes of launches", || {
            let now = self.now();
            self.tables().outcomes.put(rows, now);
            Ok(())
        })
        .await
    }

    async fn launch_outcomes(&self, after: u64, within: Duration) -> StoreResult<Vec<StoredOutcome>> {
        self.call("read outcomes of launches", || {
            let now = self.now();
            Ok(self.tables().outcomes.after(after, within, now))
        })
        .await
    }

    async fn release_quarantine(&self, cluster: &str, by: &str) -> StoreResult<bool> {
        self.call("release a quarantine", || {
            let released = self.tables().release_quarantine(cluster, by, self.now());
            self.announce(released, |changes| changes.releases += 1);
            Ok(released)
        })
        .await
    }

    async fn clusters(&self) -> StoreResult<Vec<String>> {
        self.call("read clusters", || Ok(self.tables().clusters())).await
    }

    async fn quarantine_releases(&self) -> StoreResult<Vec<(String, u64)>> {
        self.call("read releases", || {
            let tables = self.tables();
            Ok(tables.releases.iter().map(|(cluster, number)| (cluster.clone(), *number)).collect())
        })
        .await
    }

    async fn confirm_removals(&self, cluster: &str, by: &str) -> StoreResult<bool> {
        self.call("confirm removals", || {
            let confirmed = self.tables().confirm_removals(cluster, by, self.now());
            self.announce(confirmed, |changes| changes.releases += 1);
            Ok(confirmed)
        })
        .await
    }

    async fn removal_confirmations(&self) -> StoreResult<Vec<(String, u64)>> {
        self.call("read confirmations", || {
            let tables = self.tables();
            Ok(tables.confirmations.iter().map(|(cluster, number)| (cluster.clone(), *number)).collect())
        })
        .await
    }

    async fn put_counters(&self, process: &str, machines: i64, rows: &[CounterRow]) -> StoreResult<()> {
        self.call("write counters", || {
            self.tables().put_counters(process, machines, rows, self.now());
            Ok(())
        })
        .await
    }

    async fn remote_counters(&self, process: &str, within: Duration) -> StoreResult<RemoteCounters> {
        self.call("read remote counters", || {
            Ok(self.tables().remote_counters(process, milliseconds(within), self.now()))
        })
        .await
    }

    async fn take_call_tokens(&self, scope: &Scope, request: &TokenRequest) -> StoreResult<TokenGrant> {
        self.call("take tokens of the API budget", || {
            Ok(self.tables().take_call_tokens(scope, &self.requested(request.clone()), self.now()))
        })
        .await
    }

    async fn record_throttle(&self, scope: &Scope, bucket: &str, limit: Limit) -> StoreResult<ThrottledBucket> {
        self.call("record a throttled call", || Ok(self.tables().record_throttle(scope, bucket, limit, self.now())))
            .await
    }

    async fn register_replica(&self, row: &ReplicaRow) -> StoreResult<Vec<ReplicaRow>> {
        self.call("register replica", || Ok(self.tables().register_replica(row, self.now()))).await
    }

    async fn other_replicas(&self, instance: &str) -> StoreResult<Vec<ReplicaRow>> {
        self.call("read replicas", || Ok(self.tables().other_replicas(instance, self.now()))).await
    }

    async fn put_cluster_summaries(&self, summaries: &[ClusterSummaryRow]) -> StoreResult<()> {
        self.call("write cluster summaries", || {
            self.tables().put_cluster_summaries(summaries);
            Ok(())
        })
        .await
    }

    async fn cluster_summaries(&self) -> StoreResult<Vec<ClusterSummaryRow>> {
        self.call("read cluster summaries", || Ok(self.tables().cluster_summaries())).await
    }

    async fn append_audit(&self, entry: &AuditEntry) -> StoreResult<()> {
        self.call("write an audit line", || {
            self.tables().audit.push(entry.clone());
            Ok(())
        })
        .await
    }

    async fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreResult<Vec<AuditRow>> {
        self.call("read the audit", || Ok(self.tables().read_audit(limit, before))).await
    }

    fn changes(&self) -> BoxStream<'static, Changes> {
        self.shared.changes.subscribe()
    }

    async fn touch_replica(&self, instance: &str) -> StoreResult<()> {
        self.call("touch replica", || {
            self.tables().touch_replica(instance, self.now());
            Ok(())
        })
        .await
    }
}
