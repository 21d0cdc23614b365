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
use store::{Archive, Store, StoreFuture};

pub use connection::{PostgresStore, Settings};
pub use timeouts::LONGEST_OPERATION;

impl Archive for PostgresStore {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> StoreFuture<'a, Vec<StoredDecision>> {
        retry(move || self.read_decisions(filter))
    }

    fn decision(&self, number: u64) -> StoreFuture<'_, Vec<StoredDecision>> {
        retry(move || self.read_decision(number))
    }

    fn log_segment<'a>(&'a self, scope: &'a Scope, segment: u64) -> StoreFuture<'a, Option<LogSegment>> {
        retry(move || self.read_segment(scope, segment))
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> StoreFuture<'a, Option<Blob>> {
        retry(move || self.read_blob(hash))
    }
}

impl Store for PostgresStore {
    fn acquire_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> StoreFuture<'a, LeaseOutcome> {
        retry(move || self.try_acquire(scope, owner, seen, duration))
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> StoreFuture<'a, Renewal> {
        retry(move || self.renew(leases, duration))
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, ()> {
        retry(move || self.release(leases))
    }

    fn request_lease<'a>(&'a self, scope: &'a Scope, by: &'a str) -> StoreFuture<'a, ()> {
        retry(move || self.write_lease_request(scope, by))
    }

    fn cluster_identities<'a>(&'a self, cluster: &'a str, uid: &'a str) -> StoreFuture<'a, Vec<Identity>> {
        retry(move || self.read_identities(cluster, uid))
    }

    fn bind_cluster_uid<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> StoreFuture<'a, ()> {
        retry(move || self.write_identity(lease, uid))
    }

    fn claim_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, is_trusted: bool) -> StoreFuture<'a, UidClaim> {
        let nonce = guardrails::nonce();
        retry(move || self.write_uid_claim(cluster, uid, is_trusted, nonce))
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        let nonce = guardrails::nonce();
        retry(move || self.write_acceptance(cluster, uid, by, nonce))
    }

    fn forget_cluster<'a>(
        &'a self,
        cluster: &'a str,
        by: &'a str,
        leave_machines: bool,
    ) -> StoreFuture<'a, ForgetOutcome> {
        let nonce = guardrails::nonce();
        retry(move || self.free_name(cluster, by, leave_machines, nonce))
    }

    fn put_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> StoreFuture<'a, ()> {
        retry(move || self.write_extent(lease, extent))
    }

    fn record_decision<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> StoreFuture<'a, ()> {
        retry(move || self.write_entry(lease, entry))
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> StoreFuture<'a, ()> {
        retry(move || self.write_attempt(lease, intent))
    }

    fn finish_attempt<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        outcome: &'a AttemptOutcome,
    ) -> StoreFuture<'a, ()> {
        retry(move || self.end_attempt(lease, claim, attempt, outcome))
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> StoreFuture<'a, ()> {
        retry(move || self.close(lease, claims))
    }

    fn end_replacements<'a>(&'a self, lease: &'a Lease, end: &'a ReplacementsEnd) -> StoreFuture<'a, ()> {
        retry(move || self.write_replacements_end(lease, end))
    }

    fn put_costs<'a>(&'a self, lease: &'a Lease, intervals: &'a [CostInterval]) -> StoreFuture<'a, ()> {
        retry(move || self.write_costs(lease, intervals))
    }

    fn spend<'a>(&'a self, query: &'a SpendQuery) -> StoreFuture<'a, Vec<SpendRow>> {
        retry(move || self.sum_costs(query))
    }

    fn cost_intervals<'a>(&'a self, filter: &'a IntervalFilter) -> StoreFuture<'a, Vec<CostInterval>> {
        retry(move || self.read_cost_intervals(filter))
    }

    fn saving_intervals<'a>(
        &'a self,
        clusters: Option<&'a [String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreFuture<'a, Vec<(String, CostInterval)>> {
        retry(move || self.read_saving_intervals(clusters, from_ms, to_ms))
    }

    fn create_hold<'a>(&'a self, hold: &'a NewHold) -> StoreFuture<'a, HoldCreation> {
        retry(move || self.insert_hold(hold))
    }

    fn commit_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        retry(move || self.commit_hold_now(hold, version, by))
    }

    fn release_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        retry(move || self.release_hold_now(hold, version, by))
    }

    fn hold<'a>(&'a self, cluster: &'a str, id: &'a str) -> StoreFuture<'a, Option<HoldRow>> {
        retry(move || self.read_hold(cluster, id))
    }

    fn holds<'a>(&'a self, cluster: Option<&'a str>) -> StoreFuture<'a, Vec<HoldRow>> {
        retry(move || self.read_holds(cluster))
    }

    fn live_holds(&self) -> StoreFuture<'_, LiveHolds> {
        retry(move || self.read_live_holds())
    }

    fn write_hold<'a>(&'a self, lease: &'a Lease, status: &'a HoldStatusRow) -> StoreFuture<'a, ()> {
        retry(move || self.write_hold_status(lease, status))
    }

    fn recent_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<RecentAttempt>> {
        retry(move || self.read_recent_attempts(scope, within))
    }

    fn recent_moves<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<String>> {
        retry(move || self.read_recent_moves(scope, within))
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, Pruned> {
        retry(move || self.prune_all(retention))
    }

    fn change_offerings<'a>(&'a self, region: &'a str, changes: &'a [OfferingChange]) -> StoreFuture<'a, ()> {
        retry(move || self.write_offering_changes(region, changes))
    }

    fn unavailable_offerings<'a>(
        &'a self,
        region: &'a str,
        account: &'a str,
        within: Duration,
    ) -> StoreFuture<'a, Vec<OfferingRow>> {
        retry(move || self.read_unavailable_offerings(region, account, within))
    }

    fn claim_offering_probes<'a>(
        &'a self,
        region: &'a str,
        keys: &'a [OfferingKey],
        holder: &'a str,
        lease: Duration,
    ) -> StoreFuture<'a, Vec<ProbeAnswer>> {
        retry(move || self.write_probe_claims(region, keys, holder, lease))
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> StoreFuture<'a, i64> {
        let nonce = guardrails::nonce();
        retry(move || self.write_freeze(order, nonce))
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> StoreFuture<'a, bool> {
        let nonce = guardrails::nonce();
        retry(move || self.end_freeze(id, by, nonce))
    }

    fn freezes(&self) -> StoreFuture<'_, Vec<Freeze>> {
        retry(move || self.read_freezes())
    }

    fn put_listing<'a>(
        &'a self,
        lease: &'a Lease,
        ago: Duration,
        machines: &'a [ListedInstanceRow],
    ) -> StoreFuture<'a, bool> {
        // A retry adds its delay to the age of the listing.
        let begun = Instant::now();
        retry(move || self.write_listing(lease, ago + begun.elapsed(), machines))
    }

    fn latest_listing<'a>(
        &'a self,
        scope: &'a Scope,
        clusters: &'a [String],
    ) -> StoreFuture<'a, Option<StoredListing>> {
        retry(move || self.read_listing(scope, clusters))
    }

    fn put_interruptions<'a>(&'a self, scope: &'a Scope, rows: &'a [InterruptionRow]) -> StoreFuture<'a, u64> {
        retry(move || self.write_interruptions(scope, rows))
    }

    fn interruptions<'a>(
        &'a self,
        scope: &'a Scope,
        after: u64,
        within: Duration,
    ) -> StoreFuture<'a, Vec<StoredInterruption>> {
        retry(move || self.read_interruptions(scope, after, within))
    }

    fn create_browser_session<'a>(&'a self, row: &'a BrowserSessionRow) -> StoreFuture<'a, ()> {
        retry(move || self.write_browser_session(row))
    }

    fn browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, Option<BrowserSessionRow>> {
        retry(move || self.read_browser_session(id_sha256))
    }

    fn delete_browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, ()> {
        retry(move || self.remove_browser_session(id_sha256))
    }

    fn delete_browser_sessions_of<'a>(&'a self, client: &'a str, credential: &'a str) -> StoreFuture<'a, ()> {
        retry(move || self.remove_browser_sessions_of(client, credential))
    }

    fn put_launch_outcomes<'a>(&'a self, rows: &'a [OutcomeRow]) -> StoreFuture<'a, ()> {
        retry(move || self.write_launch_outcomes(rows))
    }

    fn launch_outcomes(&self, after: u64, within: Duration) -> StoreFuture<'_, Vec<StoredOutcome>> {
        retry(move || self.read_launch_outcomes(after, within))
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        let nonce = guardrails::nonce();
        retry(move || self.write_quarantine_release(cluster, by, nonce))
    }

    fn clusters(&self) -> StoreFuture<'_, Vec<String>> {
        retry(move || self.read_clusters())
    }

    fn quarantine_releases(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        retry(move || self.read_quarantine_releases())
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        let nonce = guardrails::nonce();
        retry(move || self.write_confirmation(cluster, by, nonce))
    }

    fn removal_confirmations(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        retry(move || self.read_confirmations())
    }

    fn put_counters<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> StoreFuture<'a, ()> {
        retry(move || self.write_counters(process, machines, rows))
    }

    fn remote_counters<'a>(&'a self, process: &'a str, within: Duration) -> StoreFuture<'a, RemoteCounters> {
        retry(move || self.read_remote_counters(process, within))
    }

    fn take_call_tokens<'a>(&'a self, scope: &'a Scope, request: &'a TokenRequest) -> StoreFuture<'a, TokenGrant> {
        retry(move || self.take_tokens(scope, request))
    }

    fn record_throttle<'a>(
        &'a self,
        scope: &'a Scope,
        bucket: &'a str,
        limit: Limit,
    ) -> StoreFuture<'a, ThrottledBucket> {
        retry(move || self.write_throttle(scope, bucket, limit))
    }

    fn register_replica<'a>(&'a self, row: &'a ReplicaRow) -> StoreFuture<'a, Vec<ReplicaRow>> {
        retry(move || self.write_replica(row))
    }

    fn other_replicas<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, Vec<ReplicaRow>> {
        retry(move || self.read_other_replicas(instance))
    }

    fn put_cluster_summaries<'a>(&'a self, summaries: &'a [ClusterSummaryRow]) -> StoreFuture<'a, ()> {
        retry(move || self.write_cluster_summaries(summaries))
    }

    fn cluster_summaries(&self) -> StoreFuture<'_, Vec<ClusterSummaryRow>> {
        retry(move || self.read_cluster_summaries())
    }

    fn append_audit<'a>(&'a self, entry: &'a AuditEntry) -> StoreFuture<'a, ()> {
        let nonce = guardrails::nonce();
        retry(move || self.write_audit(entry, nonce))
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreFuture<'_, Vec<AuditRow>> {
        retry(move || self.audit_rows(limit, before))
    }

    fn changes(&self) -> BoxStream<'static, Changes> {
        WatchStream::new(self.changes.clone()).boxed()
    }

    fn touch_replica<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.write_heartbeat(instance))
    }
}

#[cfg(test)]
mod tests;
