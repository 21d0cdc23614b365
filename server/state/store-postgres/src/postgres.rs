//! [`Store`] on PostgreSQL, for production. Lease expiry uses the database clock, so the clocks of
//! replicas need not agree.
//!
//! Every operation is one idempotent transaction: it locks the scope, so that the lease cannot
//! change its holder before the commit. A commit whose response was lost is therefore harmless, and
//! [`retry`] repeats operations after transient failures. The lock is an advisory lock, taken first
//! by lease acquisitions and by writes under a lease; unlike a row lock it writes nothing to the
//! WAL.
//!
//! The cost of a write is measured in WAL bytes, where each index row counts as much as the table
//! row. Rows therefore have only the indexes that their readers need, [`dictionaries`] compresses
//! rows against earlier ones, and [`leases`] that are renewed together share one term row.
//!
//! Statements are checked at compile time against the descriptions in `.sqlx/`, so that a build
//! needs no database; `.ci/queries` updates the descriptions.

mod api_budget;
mod attempt;
mod bodies;
mod browser_sessions;
mod connection;
mod conversion;
mod counters;
mod dictionaries;
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
mod retry;
mod schema;
mod signals;
mod spend;
mod timeouts;

use std::time::{Duration, Instant};

use ::api_budget::Limit;
use async_trait::async_trait;
use cost::CostInterval;
use futures::stream::{BoxStream, StreamExt};
use tokio_stream::wrappers::WatchStream;

use retry::retry;
use store::api_budget::{ThrottledBucket, TokenGrant, TokenRequest};
use store::browser_sessions::BrowserSessionRow;
use store::counters::{CounterRow, RemoteCounters};
use store::guardrails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder};
use store::holds::{HoldCaller, HoldCommand, HoldCreation, HoldRow, HoldStatusRow, LiveHolds, NewHold};
use store::identity::{ForgetOutcome, Identity, UidClaim};
use store::interruptions::{InterruptionRow, StoredInterruption};
use store::lease::{Lease, LeaseOutcome, ObservedExtent, Renewal, Scope};
use store::listing::{ListedInstanceRow, StoredListing};
use store::log::{Blob, BlobHash, DecisionFilter, Entry, LogSegment, Pruned, Retention, StoredDecision};
use store::offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer};
use store::operations::{AttemptOutcome, Intent, RecentAttempt};
use store::outcomes::{OutcomeRow, StoredOutcome};
use store::replacements::ReplacementsEnd;
use store::replicas::{ClusterSummaryRow, ReplicaRow};
use store::spend::{IntervalFilter, SpendQuery, SpendRow};
use store::{Archive, Store, StoreResult};

pub use connection::{PostgresStore, Settings};
pub use timeouts::LONGEST_OPERATION;

#[async_trait]
impl Archive for PostgresStore {
    async fn decisions(&self, filter: &DecisionFilter) -> StoreResult<Vec<StoredDecision>> {
        retry(|| self.read_decisions(filter)).await
    }

    async fn decision(&self, number: u64) -> StoreResult<Vec<StoredDecision>> {
        retry(|| self.read_decision(number)).await
    }

    async fn log_segment(&self, scope: &Scope, segment: u64) -> StoreResult<Option<LogSegment>> {
        retry(|| self.read_segment(scope, segment)).await
    }

    async fn blob(&self, hash: &BlobHash) -> StoreResult<Option<Blob>> {
        retry(|| self.read_blob(hash)).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn acquire_lease(
        &self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
    ) -> StoreResult<LeaseOutcome> {
        retry(|| self.try_acquire(scope, owner, seen, duration)).await
    }

    async fn renew_leases(&self, leases: &[Lease], duration: Duration) -> StoreResult<Renewal> {
        retry(|| self.renew(leases, duration)).await
    }

    async fn release_leases(&self, leases: &[Lease]) -> StoreResult<()> {
        retry(|| self.release(leases)).await
    }

    async fn request_lease(&self, scope: &Scope, by: &str) -> StoreResult<()> {
        retry(|| self.write_lease_request(scope, by)).await
    }

    async fn cluster_identities(&self, cluster: &str, uid: &str) -> StoreResult<Vec<Identity>> {
        retry(|| self.read_identities(cluster, uid)).await
    }

    async fn bind_cluster_uid(&self, lease: &Lease, uid: &str) -> StoreResult<()> {
        retry(|| self.write_identity(lease, uid)).await
    }

    async fn claim_uid(&self, cluster: &str, uid: &str, is_trusted: bool) -> StoreResult<UidClaim> {
        let nonce = guardrails::nonce();
        retry(|| self.write_uid_claim(cluster, uid, is_trusted, nonce)).await
    }

    async fn accept_uid(&self, cluster: &str, uid: &str, by: &str) -> StoreResult<bool> {
        let nonce = guardrails::nonce();
        retry(|| self.write_acceptance(cluster, uid, by, nonce)).await
    }

    async fn forget_cluster(&self, cluster: &str, by: &str, leave_machines: bool) -> StoreResult<ForgetOutcome> {
        let nonce = guardrails::nonce();
        retry(|| self.free_name(cluster, by, leave_machines, nonce)).await
    }

    async fn put_extent(&self, lease: &Lease, extent: &ObservedExtent) -> StoreResult<()> {
        retry(|| self.write_extent(lease, extent)).await
    }

    async fn record_decision(&self, lease: &Lease, entry: &Entry) -> StoreResult<()> {
        retry(|| self.write_entry(lease, entry)).await
    }

    async fn begin_attempt(&self, lease: &Lease, intent: &Intent) -> StoreResult<()> {
        retry(|| self.write_attempt(lease, intent)).await
    }

    async fn finish_attempt(
        &self,
        lease: &Lease,
        claim: &str,
        attempt: u32,
        outcome: &AttemptOutcome,
    ) -> StoreResult<()> {
        retry(|| self.end_attempt(lease, claim, attempt, outcome)).await
    }

    async fn close_intents(&self, lease: &Lease, claims: &[String]) -> StoreResult<()> {
        retry(|| self.close(lease, claims)).await
    }

    async fn end_replacements(&self, lease: &Lease, end: &ReplacementsEnd) -> StoreResult<()> {
        retry(|| self.write_replacements_end(lease, end)).await
    }

    async fn put_costs(&self, lease: &Lease, intervals: &[CostInterval]) -> StoreResult<()> {
        retry(|| self.write_costs(lease, intervals)).await
    }

    async fn spend(&self, query: &SpendQuery) -> StoreResult<Vec<SpendRow>> {
        retry(|| self.sum_costs(query)).await
    }

    async fn cost_intervals(&self, filter: &IntervalFilter) -> StoreResult<Vec<CostInterval>> {
        retry(|| self.read_cost_intervals(filter)).await
    }

    async fn saving_intervals(
        &self,
        clusters: Option<&[String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreResult<Vec<(String, CostInterval)>> {
        retry(|| self.read_saving_intervals(clusters, from_ms, to_ms)).await
    }

    async fn create_hold(&self, hold: &NewHold) -> StoreResult<HoldCreation> {
        retry(|| self.insert_hold(hold)).await
    }

    async fn commit_hold(&self, hold: (&str, &str), version: Option<u64>, by: &HoldCaller) -> StoreResult<HoldCommand> {
        retry(|| self.commit_hold_now(hold, version, by)).await
    }

    async fn release_hold(
        &self,
        hold: (&str, &str),
        version: Option<u64>,
        by: &HoldCaller,
    ) -> StoreResult<HoldCommand> {
        retry(|| self.release_hold_now(hold, version, by)).await
    }

    async fn hold(&self, cluster: &str, id: &str) -> StoreResult<Option<HoldRow>> {
        retry(|| self.read_hold(cluster, id)).await
    }

    async fn holds(&self, cluster: Option<&str>) -> StoreResult<Vec<HoldRow>> {
        retry(|| self.read_holds(cluster)).await
    }

    async fn live_holds(&self) -> StoreResult<LiveHolds> {
        retry(|| self.read_live_holds()).await
    }

    async fn write_hold(&self, lease: &Lease, status: &HoldStatusRow) -> StoreResult<()> {
        retry(|| self.write_hold_status(lease, status)).await
    }

    async fn recent_attempts(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<RecentAttempt>> {
        retry(|| self.read_recent_attempts(scope, within)).await
    }

    async fn recent_moves(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<String>> {
        retry(|| self.read_recent_moves(scope, within)).await
    }

    async fn prune(&self, retention: &Retention) -> StoreResult<Pruned> {
        retry(|| self.prune_all(retention)).await
    }

    async fn change_offerings(&self, region: &str, changes: &[OfferingChange]) -> StoreResult<()> {
        retry(|| self.write_offering_changes(region, changes)).await
    }

    async fn unavailable_offerings(
        &self,
        region: &str,
        account: &str,
        within: Duration,
    ) -> StoreResult<Vec<OfferingRow>> {
        retry(|| self.read_unavailable_offerings(region, account, within)).await
    }

    async fn claim_offering_probes(
        &self,
        region: &str,
        keys: &[OfferingKey],
        holder: &str,
        lease: Duration,
    ) -> StoreResult<Vec<ProbeAnswer>> {
        retry(|| self.write_probe_claims(region, keys, holder, lease)).await
    }

    async fn freeze(&self, order: &FreezeOrder) -> StoreResult<i64> {
        let nonce = guardrails::nonce();
        retry(|| self.write_freeze(order, nonce)).await
    }

    async fn thaw(&self, id: i64, by: &str) -> StoreResult<bool> {
        let nonce = guardrails::nonce();
        retry(|| self.end_freeze(id, by, nonce)).await
    }

    async fn freezes(&self) -> StoreResult<Vec<Freeze>> {
        retry(|| self.read_freezes()).await
    }

    async fn put_listing(&self, lease: &Lease, ago: Duration, machines: &[ListedInstanceRow]) -> StoreResult<bool> {
        // A retry adds its delay to the age of the listing.
        let begun = Instant::now();
        retry(|| self.write_listing(lease, ago + begun.elapsed(), machines)).await
    }

    async fn latest_listing(&self, scope: &Scope, clusters: &[String]) -> StoreResult<Option<StoredListing>> {
        retry(|| self.read_listing(scope, clusters)).await
    }

    async fn put_interruptions(&self, scope: &Scope, rows: &[InterruptionRow]) -> StoreResult<u64> {
        retry(|| self.write_interruptions(scope, rows)).await
    }

    async fn interruptions(&self, scope: &Scope, after: u64, within: Duration) -> StoreResult<Vec<StoredInterruption>> {
        retry(|| self.read_interruptions(scope, after, within)).await
    }

    async fn create_browser_session(&self, row: &BrowserSessionRow) -> StoreResult<()> {
        retry(|| self.write_browser_session(row)).await
    }

    async fn browser_session(&self, id_sha256: &[u8]) -> StoreResult<Option<BrowserSessionRow>> {
        retry(|| self.read_browser_session(id_sha256)).await
    }

    async fn delete_browser_session(&self, id_sha256: &[u8]) -> StoreResult<()> {
        retry(|| self.remove_browser_session(id_sha256)).await
    }

    async fn delete_browser_sessions_of(&self, client: &str, credential: &str) -> StoreResult<()> {
        retry(|| self.remove_browser_sessions_of(client, credential)).await
    }

    async fn put_launch_outcomes(&self, rows: &[OutcomeRow]) -> StoreResult<()> {
        retry(|| self.write_launch_outcomes(rows)).await
    }

    async fn launch_outcomes(&self, after: u64, within: Duration) -> StoreResult<Vec<StoredOutcome>> {
        retry(|| self.read_launch_outcomes(after, within)).await
    }

    async fn release_quarantine(&self, cluster: &str, by: &str) -> StoreResult<bool> {
        let nonce = guardrails::nonce();
        retry(|| self.write_quarantine_release(cluster, by, nonce)).await
    }

    async fn clusters(&self) -> StoreResult<Vec<String>> {
        retry(|| self.read_clusters()).await
    }

    async fn quarantine_releases(&self) -> StoreResult<Vec<(String, u64)>> {
        retry(|| self.read_quarantine_releases()).await
    }

    async fn confirm_removals(&self, cluster: &str, by: &str) -> StoreResult<bool> {
        let nonce = guardrails::nonce();
        retry(|| self.write_confirmation(cluster, by, nonce)).await
    }

    async fn removal_confirmations(&self) -> StoreResult<Vec<(String, u64)>> {
        retry(|| self.read_confirmations()).await
    }

    async fn put_counters(&self, process: &str, machines: i64, rows: &[CounterRow]) -> StoreResult<()> {
        retry(|| self.write_counters(process, machines, rows)).await
    }

    async fn remote_counters(&self, process: &str, within: Duration) -> StoreResult<RemoteCounters> {
        retry(|| self.read_remote_counters(process, within)).await
    }

    async fn take_call_tokens(&self, scope: &Scope, request: &TokenRequest) -> StoreResult<TokenGrant> {
        retry(|| self.take_tokens(scope, request)).await
    }

    async fn record_throttle(&self, scope: &Scope, bucket: &str, limit: Limit) -> StoreResult<ThrottledBucket> {
        retry(|| self.write_throttle(scope, bucket, limit)).await
    }

    async fn register_replica(&self, row: &ReplicaRow) -> StoreResult<Vec<ReplicaRow>> {
        retry(|| self.write_replica(row)).await
    }

    async fn other_replicas(&self, instance: &str) -> StoreResult<Vec<ReplicaRow>> {
        retry(|| self.read_other_replicas(instance)).await
    }

    async fn put_cluster_summaries(&self, summaries: &[ClusterSummaryRow]) -> StoreResult<()> {
        retry(|| self.write_cluster_summaries(summaries)).await
    }

    async fn cluster_summaries(&self) -> StoreResult<Vec<ClusterSummaryRow>> {
        retry(|| self.read_cluster_summaries()).await
    }

    async fn append_audit(&self, entry: &AuditEntry) -> StoreResult<()> {
        let nonce = guardrails::nonce();
        retry(|| self.write_audit(entry, nonce)).await
    }

    async fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreResult<Vec<AuditRow>> {
        retry(|| self.audit_rows(limit, before)).await
    }

    fn changes(&self) -> BoxStream<'static, Changes> {
        WatchStream::new(self.changes.clone()).boxed()
    }

    async fn touch_replica(&self, instance: &str) -> StoreResult<()> {
        self.write_heartbeat(instance).await
    }
}

#[cfg(test)]
mod tests;
