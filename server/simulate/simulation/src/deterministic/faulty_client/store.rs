//! The store, through one process's faulty client.

use std::time::Duration;

use api_budget::Limit;
use cost::CostInterval;
use futures::future::FutureExt;
use futures::stream::BoxStream;
use model::ClusterName;

use super::FaultyClient;
use crate::deterministic::environment::LeaseOwner;
use crate::deterministic::guard::Guard;
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

impl Archive for FaultyClient {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> StoreFuture<'a, Vec<StoredDecision>> {
        self.call_store("read decisions", move |store| store.decisions(filter))
    }

    fn decision(&self, number: u64) -> StoreFuture<'_, Vec<StoredDecision>> {
        self.call_store("read a decision", move |store| store.decision(number))
    }

    fn log_segment<'a>(&'a self, scope: &'a Scope, segment: u64) -> StoreFuture<'a, Option<LogSegment>> {
        self.call_store("read the log", move |store| store.log_segment(scope, segment))
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> StoreFuture<'a, Option<Blob>> {
        self.call_store("read blob", move |store| store.blob(hash))
    }
}

impl Store for FaultyClient {
    fn acquire_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> StoreFuture<'a, LeaseOutcome> {
        self.call_store("take a lease", move |store| {
            async move {
                let mut answer = store.acquire_lease(scope, owner, seen, duration).await;
                if let (Ok(LeaseOutcome::Granted { open, .. }), Some(Guard::Recovery)) = (&mut answer, self.off) {
                    open.intents.clear();
                }
                // The records stand in for plans that know of machines in flight.
                let forgets = matches!(self.off, Some(Guard::Replacements | Guard::InFlight));
                if let (Ok(LeaseOutcome::Granted { open, .. }), true) = (&mut answer, forgets) {
                    open.replacements.clear();
                }
                if let (Ok(LeaseOutcome::Granted { lease, .. }), Some(cluster)) = (&answer, scope.cluster_name()) {
                    let held = LeaseOwner { by: self.process_id, epoch: lease.epoch };
                    self.environment.ledger().held.insert(ClusterName::from(cluster), held);
                }
                answer
            }
            .boxed()
        })
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> StoreFuture<'a, Renewal> {
        self.call_store("renew leases", move |store| store.renew_leases(leases, duration))
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, ()> {
        self.call_store("release leases", move |store| store.release_leases(leases))
    }

    fn request_lease<'a>(&'a self, scope: &'a Scope, by: &'a str) -> StoreFuture<'a, ()> {
        self.call_store("request lease", move |store| store.request_lease(scope, by))
    }

    fn cluster_identities<'a>(&'a self, cluster: &'a str, uid: &'a str) -> StoreFuture<'a, Vec<Identity>> {
        self.call_store("read cluster identity", move |store| store.cluster_identities(cluster, uid))
    }

    fn bind_cluster_uid<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> StoreFuture<'a, ()> {
        self.call_store("bind cluster UID", move |store| {
            async move { self.check_write(lease, store.bind_cluster_uid(&self.presented_lease(lease), uid).await) }
                .boxed()
        })
    }

    fn claim_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, is_trusted: bool) -> StoreFuture<'a, UidClaim> {
        self.call_store("claim the UID of a cluster", move |store| store.claim_uid(cluster, uid, is_trusted))
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        self.call_store("accept the UID of a cluster", move |store| store.accept_uid(cluster, uid, by))
    }

    fn forget_cluster<'a>(
        &'a self,
        cluster: &'a str,
        by: &'a str,
        leave_machines: bool,
    ) -> StoreFuture<'a, ForgetOutcome> {
        self.call_store("forget a cluster", move |store| store.forget_cluster(cluster, by, leave_machines))
    }

    fn put_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> StoreFuture<'a, ()> {
        self.call_store("write object counts", move |store| {
            async move {
                if self.off == Some(Guard::Extents) {
                    return Ok(());
                }
                self.check_write(lease, store.put_extent(&self.presented_lease(lease), extent).await)
            }
            .boxed()
        })
    }

    fn record_decision<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> StoreFuture<'a, ()> {
        self.call_store("record a decision", move |store| {
            async move { self.check_write(lease, store.record_decision(&self.presented_lease(lease), entry).await) }
                .boxed()
        })
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> StoreFuture<'a, ()> {
        self.call_store("begin an attempt", move |store| {
            async move { self.check_write(lease, store.begin_attempt(&self.presented_lease(lease), intent).await) }
                .boxed()
        })
    }

    fn finish_attempt<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        settlement: &'a AttemptOutcome,
    ) -> StoreFuture<'a, ()> {
        self.call_store("settle a launch", move |store| {
            async move {
                self.check_write(
                    lease,
                    store.finish_attempt(&self.presented_lease(lease), claim, attempt, settlement).await,
                )
            }
            .boxed()
        })
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> StoreFuture<'a, ()> {
        self.call_store("close launches", move |store| {
            async move { self.check_write(lease, store.close_intents(&self.presented_lease(lease), claims).await) }
                .boxed()
        })
    }

    fn end_replacements<'a>(&'a self, lease: &'a Lease, end: &'a ReplacementsEnd) -> StoreFuture<'a, ()> {
        self.call_store("end replacements", move |store| {
            async move { self.check_write(lease, store.end_replacements(&self.presented_lease(lease), end).await) }
                .boxed()
        })
    }

    fn put_costs<'a>(&'a self, lease: &'a Lease, intervals: &'a [CostInterval]) -> StoreFuture<'a, ()> {
        self.call_store("write costs", move |store| {
            async move { self.check_write(lease, store.put_costs(&self.presented_lease(lease), intervals).await) }
                .boxed()
        })
    }

    fn spend<'a>(&'a self, query: &'a SpendQuery) -> StoreFuture<'a, Vec<SpendRow>> {
        self.call_store("read costs", move |store| store.spend(query))
    }

    fn cost_intervals<'a>(&'a self, filter: &'a IntervalFilter) -> StoreFuture<'a, Vec<CostInterval>> {
        self.call_store("read costs", move |store| store.cost_intervals(filter))
    }

    fn saving_intervals<'a>(
        &'a self,
        clusters: Option<&'a [String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreFuture<'a, Vec<(String, CostInterval)>> {
        self.call_store("read savings", move |store| store.saving_intervals(clusters, from_ms, to_ms))
    }

    fn create_hold<'a>(&'a self, hold: &'a NewHold) -> StoreFuture<'a, HoldCreation> {
        self.call_store("create a hold", move |store| store.create_hold(hold))
    }

    fn commit_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        self.call_store("commit a hold", move |store| store.commit_hold(hold, version, by))
    }

    fn release_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand> {
        self.call_store("release a hold", move |store| store.release_hold(hold, version, by))
    }

    fn hold<'a>(&'a self, cluster: &'a str, id: &'a str) -> StoreFuture<'a, Option<HoldRow>> {
        self.call_store("read a hold", move |store| store.hold(cluster, id))
    }

    fn holds<'a>(&'a self, cluster: Option<&'a str>) -> StoreFuture<'a, Vec<HoldRow>> {
        self.call_store("read holds", move |store| store.holds(cluster))
    }

    fn live_holds(&self) -> StoreFuture<'_, LiveHolds> {
        self.call_store("read live holds", |store| store.live_holds())
    }

    fn write_hold<'a>(&'a self, lease: &'a Lease, status: &'a HoldStatusRow) -> StoreFuture<'a, ()> {
        self.call_store("write a hold", move |store| store.write_hold(lease, status))
    }

    fn recent_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<RecentAttempt>> {
        self.call_store("read past launches", move |store| store.recent_attempts(scope, within))
    }

    fn recent_moves<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<String>> {
        self.call_store("read recent moves", move |store| store.recent_moves(scope, within))
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, Pruned> {
        self.call_store("prune old rows", move |store| store.prune(retention))
    }

    fn change_offerings<'a>(&'a self, region: &'a str, changes: &'a [OfferingChange]) -> StoreFuture<'a, ()> {
        self.call_store("write outcomes of offerings", move |store| store.change_offerings(region, changes))
    }

    fn unavailable_offerings<'a>(
        &'a self,
        region: &'a str,
        account: &'a str,
        within: Duration,
    ) -> StoreFuture<'a, Vec<OfferingRow>> {
        self.call_store("read unavailable offerings", move |store| store.unavailable_offerings(region, account, within))
    }

    fn claim_offering_probes<'a>(
        &'a self,
        region: &'a str,
        keys: &'a [OfferingKey],
        holder: &'a str,
        lease: Duration,
    ) -> StoreFuture<'a, Vec<ProbeAnswer>> {
        self.call_store("claim probes", move |store| store.claim_offering_probes(region, keys, holder, lease))
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> StoreFuture<'a, i64> {
        self.call_store("freeze", move |store| store.freeze(order))
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> StoreFuture<'a, bool> {
        self.call_store("thaw", move |store| store.thaw(id, by))
    }

    fn freezes(&self) -> StoreFuture<'_, Vec<Freeze>> {
        self.call_store("read freezes", |store| store.freezes())
    }

    fn put_listing<'a>(
        &'a self,
        lease: &'a Lease,
        ago: Duration,
        machines: &'a [ListedInstanceRow],
    ) -> StoreFuture<'a, bool> {
        self.call_store("write listing", move |store| store.put_listing(lease, ago, machines))
    }

    fn latest_listing<'a>(
        &'a self,
        scope: &'a Scope,
        clusters: &'a [String],
    ) -> StoreFuture<'a, Option<StoredListing>> {
        self.call_store("read a listing", move |store| store.latest_listing(scope, clusters))
    }

    fn put_interruptions<'a>(&'a self, scope: &'a Scope, rows: &'a [InterruptionRow]) -> StoreFuture<'a, u64> {
        self.call_store("write interruptions", move |store| store.put_interruptions(scope, rows))
    }

    fn interruptions<'a>(
        &'a self,
        scope: &'a Scope,
        after: u64,
        within: Duration,
    ) -> StoreFuture<'a, Vec<StoredInterruption>> {
        self.call_store("read interruptions", move |store| store.interruptions(scope, after, within))
    }

    fn create_browser_session<'a>(&'a self, row: &'a BrowserSessionRow) -> StoreFuture<'a, ()> {
        self.call_store("store a browser session", move |store| store.create_browser_session(row))
    }

    fn browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, Option<BrowserSessionRow>> {
        self.call_store("read a browser session", move |store| store.browser_session(id_sha256))
    }

    fn delete_browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, ()> {
        self.call_store("delete a browser session", move |store| store.delete_browser_session(id_sha256))
    }

    fn delete_browser_sessions_of<'a>(&'a self, client: &'a str, credential: &'a str) -> StoreFuture<'a, ()> {
        self.call_store("delete the browser sessions of a client", move |store| {
            store.delete_browser_sessions_of(client, credential)
        })
    }

    fn put_launch_outcomes<'a>(&'a self, rows: &'a [OutcomeRow]) -> StoreFuture<'a, ()> {
        self.call_store("write outcomes of launches", move |store| store.put_launch_outcomes(rows))
    }

    fn launch_outcomes(&self, after: u64, within: Duration) -> StoreFuture<'_, Vec<StoredOutcome>> {
        self.call_store("read outcomes of launches", move |store| store.launch_outcomes(after, within))
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        self.call_store("release a quarantine", move |store| store.release_quarantine(cluster, by))
    }

    fn clusters(&self) -> StoreFuture<'_, Vec<String>> {
        self.call_store("read clusters", |store| store.clusters())
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool> {
        self.call_store("confirm removals", move |store| store.confirm_removals(cluster, by))
    }

    fn removal_confirmations(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        self.call_store("read confirmations", |store| store.removal_confirmations())
    }

    fn quarantine_releases(&self) -> StoreFuture<'_, Vec<(String, u64)>> {
        self.call_store("read releases", |store| store.quarantine_releases())
    }

    fn put_counters<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> StoreFuture<'a, ()> {
        self.call_store("write counters", move |store| store.put_counters(process, machines, rows))
    }

    fn remote_counters<'a>(&'a self, process: &'a str, within: Duration) -> StoreFuture<'a, RemoteCounters> {
        self.call_store("read remote counters", move |store| {
            async move {
                let remote = store.remote_counters(process, within).await;
                if self.off == Some(Guard::RemoteCounters) { Ok(RemoteCounters::default()) } else { remote }
            }
            .boxed()
        })
    }

    fn take_call_tokens<'a>(&'a self, scope: &'a Scope, request: &'a TokenRequest) -> StoreFuture<'a, TokenGrant> {
        self.call_store("take tokens of the API budget", move |store| store.take_call_tokens(scope, request))
    }

    fn record_throttle<'a>(
        &'a self,
        scope: &'a Scope,
        bucket: &'a str,
        limit: Limit,
    ) -> StoreFuture<'a, ThrottledBucket> {
        self.call_store("record a throttled call", move |store| store.record_throttle(scope, bucket, limit))
    }

    fn register_replica<'a>(&'a self, row: &'a ReplicaRow) -> StoreFuture<'a, Vec<ReplicaRow>> {
        self.call_store("register replica", move |store| store.register_replica(row))
    }

    fn other_replicas<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, Vec<ReplicaRow>> {
        self.call_store("read replicas", move |store| store.other_replicas(instance))
    }

    fn put_cluster_summaries<'a>(&'a self, summaries: &'a [ClusterSummaryRow]) -> StoreFuture<'a, ()> {
        self.call_store("write cluster summaries", move |store| store.put_cluster_summaries(summaries))
    }

    fn cluster_summaries(&self) -> StoreFuture<'_, Vec<ClusterSummaryRow>> {
        self.call_store("read cluster summaries", |store| store.cluster_summaries())
    }

    fn append_audit<'a>(&'a self, entry: &'a AuditEntry) -> StoreFuture<'a, ()> {
        self.call_store("write an audit line", move |store| store.append_audit(entry))
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreFuture<'_, Vec<AuditRow>> {
        self.call_store("read the audit", move |store| store.read_audit(limit, before))
    }

    fn changes(&self) -> BoxStream<'static, Changes> {
        self.environment.store().changes()
    }

    fn touch_replica<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        self.call_store("touch replica", move |store| store.touch_replica(instance))
    }
}
