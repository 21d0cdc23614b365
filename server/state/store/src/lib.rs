//! Durable state: leases, operations in flight, the decision log, freezes and the audit log.
//!
//! The [`Store`] trait has two implementations: [`memory`] for demos and tests, and the crate
//! `store-postgres` for production, whose tests run one list of behaviours against both.
//!
//! Two rules hold for every write:
//!
//! - **Fenced.** A write for a cluster carries the epoch of the lease that it is written under, and
//!   is refused once that lease has another holder: a replica that was paused cannot overwrite the
//!   decisions of its successor.
//! - **Idempotent.** A write whose response was lost is repeated, by the store itself and by its
//!   callers; the second execution changes nothing.
//!
//! [`compression`] shrinks rows that repeat each other.
//!
//! Row types: [`lease`] (ownership), [`identity`] (names and UIDs of clusters), [`operations`] (launches), [`log`]
//! (decisions and their replay data), [`replacements`] (replacements under way), [`holds`] (room for pods to come), [`listing`] (instances that a cloud
//! listed), [`interruptions`] (notices about instances), [`offerings`] (offerings that the cloud refused), [`outcomes`] (what became of launches), [`guardrails`]
//! (freezes, audit), [`counters`] (launches and removals per process), [`mod@api_budget`] (rate limits of the cloud's
//! API), [`replicas`]
//! (processes on the same store), [`spend`] (what machines have cost), [`browser_sessions`] (who is signed in to the dashboard). [`epoch`] numbers the acquisitions of a lease.

#![warn(missing_docs)]

pub mod api_budget;
pub mod browser_sessions;
pub mod clock;
pub mod compression;
pub mod counters;
pub mod epoch;
mod error;
pub mod guardrails;
pub mod holds;
pub mod identity;
pub mod interruptions;
pub mod lease;
pub mod listing;
pub mod log;
pub mod memory;
pub mod offerings;
pub mod operations;
pub mod outcomes;
pub mod replacements;
pub mod replicas;
pub mod spend;

pub use error::{DriverError, StoreError};

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use ::api_budget::Limit;
use api_budget::{ThrottledBucket, TokenGrant, TokenRequest};
use browser_sessions::BrowserSessionRow;
use cost::CostInterval;
use counters::{CounterRow, RemoteCounters};
use guardrails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder};
use holds::{HoldCaller, HoldCommand, HoldCreation, HoldRow, HoldStatusRow, LiveHolds, NewHold};
use identity::{ForgetOutcome, Identity, UidClaim};
use interruptions::{InterruptionRow, StoredInterruption};
use lease::{Lease, LeaseOutcome, ObservedExtent, Renewal, Scope};
use listing::{ListedInstanceRow, StoredListing};
use log::{Blob, BlobHash, DecisionFilter, Entry, LogSegment, Pruned, Retention, StoredDecision};
use offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer};
use operations::{AttemptOutcome, Intent, RecentAttempt};
use outcomes::{OutcomeRow, StoredOutcome};
use replacements::ReplacementsEnd;
use replicas::{ClusterSummaryRow, ReplicaRow};
use spend::{IntervalFilter, SpendQuery, SpendRow};

/// Boxed future of a store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Read access to decisions and their replay data.
pub trait Archive: Send + Sync {
    /// Newest decisions that match the filter, latest first.
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> StoreFuture<'a, Vec<StoredDecision>>;

    /// Decisions with this number: one, unless two replicas used the same number for different
    /// clusters.
    fn decision(&self, number: u64) -> StoreFuture<'_, Vec<StoredDecision>>;

    /// A log segment with its chunks, in sequence order.
    fn log_segment<'a>(&'a self, scope: &'a Scope, segment: u64) -> StoreFuture<'a, Option<LogSegment>>;

    /// The blob with this hash.
    fn blob<'a>(&'a self, hash: &'a BlobHash) -> StoreFuture<'a, Option<Blob>>;
}

/// The store interface. Futures are boxed so that the server can select the implementation at
/// startup. Any operation may fail with [`StoreError::Database`]; those that take a lease may fail
/// with [`StoreError::LeaseLost`].
pub trait Store: Archive {
    /// Acquires the lease of `scope` for `owner` when it is free, expired or released, or when
    /// `owner` holds it already (restart under the same name). Each acquisition raises the epoch,
    /// above `seen`, the highest epoch that the agent has obeyed: after the loss of a database the
    /// agent still accepts the new epoch. The open operations are read in the transaction that
    /// raises the epoch.
    ///
    /// # Errors
    /// [`StoreError::EpochTooHigh`] when `seen` exceeds the last issued epoch by more than
    /// [`lease::MAX_EPOCH_JUMP`].
    fn acquire_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> StoreFuture<'a, LeaseOutcome>;

    /// Extends leases from now on, all in one transaction. The result names lost leases and leases
    /// that another replica has requested.
    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> StoreFuture<'a, Renewal>;

    /// Releases leases. Releasing a lease that the caller does not hold has no effect.
    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, ()>;

    /// Requests the lease of `scope` for `by`. The holder learns of the request through
    /// [`Store::changes`] and its next renewal; the request ends when the lease has a new holder.
    fn request_lease<'a>(&'a self, scope: &'a Scope, by: &'a str) -> StoreFuture<'a, ()>;

    /// The bindings of the name `cluster` and of `uid`, for [`identity::check_identity`].
    fn cluster_identities<'a>(&'a self, cluster: &'a str, uid: &'a str) -> StoreFuture<'a, Vec<Identity>>;

    /// Binds the cluster name of `lease` to `uid`, unless the name is bound already.
    ///
    /// # Errors
    /// [`StoreError::UidTaken`] when another name is bound to `uid`.
    fn bind_cluster_uid<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> StoreFuture<'a, ()>;

    /// Frees `uid` for the name `cluster`, whose agent is authenticated, where another name is bound to it that nothing
    /// proves: no launch, no listed instance with name and UID, no observed Node or NodeClaim. Whoever may connect gets a
    /// lease, which therefore proves nothing. `is_trusted`: the operator gives it to `cluster`, whatever proves the other.
    /// The other name is [refused](identity::yielded) from then on, and the holder of its lease fenced, with an audit row in
    /// the same transaction.
    fn claim_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, is_trusted: bool) -> StoreFuture<'a, UidClaim>;

    /// Binds a cluster name to another UID on an operator's order, with an audit row in the same
    /// transaction. The present lease holder is fenced, its launches are closed, and the observed
    /// extent is deleted. Returns false, and writes nothing, when no replica ever held the lease of
    /// that cluster.
    ///
    /// # Errors
    /// [`StoreError::UidTaken`] when another name is bound to `uid`.
    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> StoreFuture<'a, bool>;

    /// Forgets a cluster on an operator's order, with an audit row in the same transaction: its
    /// name and UID are free, the present lease holder is fenced, and its launches are closed.
    /// Its decisions stay. Unless `leave_machines` is set, a cluster with open launches is kept.
    fn forget_cluster<'a>(
        &'a self,
        cluster: &'a str,
        by: &'a str,
        leave_machines: bool,
    ) -> StoreFuture<'a, ForgetOutcome>;

    /// Replaces the observed object counts of a cluster. They are returned with the next lease.
    fn put_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> StoreFuture<'a, ()>;

    /// Writes a decision with its intents, the replacements that it begins, the holds that it gives room to, and its replay data in one
    /// transaction, before any external call is made. A repetition begins no replacement again.
    ///
    /// # Errors
    /// [`StoreError::AttemptRefused`] when another attempt of one of the launches is open.
    fn record_decision<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> StoreFuture<'a, ()>;

    /// Writes the next attempt of a launch.
    ///
    /// # Errors
    /// [`StoreError::AttemptRefused`] unless the previous attempt has failed. A caller that does
    /// not know the outcome of an attempt must repeat that attempt with its own token.
    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> StoreFuture<'a, ()>;

    /// Writes the outcome of an attempt. The first outcome is kept.
    fn finish_attempt<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        outcome: &'a AttemptOutcome,
    ) -> StoreFuture<'a, ()>;

    /// Closes the launches of these NodeClaims, when instance and NodeClaim are gone or will never
    /// exist.
    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> StoreFuture<'a, ()>;

    /// Deletes the replacements that have ended, and writes how long NodePools wait. They come back with the
    /// next lease until then.
    fn end_replacements<'a>(&'a self, lease: &'a Lease, end: &'a ReplacementsEnd) -> StoreFuture<'a, ()>;

    /// Writes what machines have cost. An interval that is stored until a later end is left as it is.
    fn put_costs<'a>(&'a self, lease: &'a Lease, intervals: &'a [CostInterval]) -> StoreFuture<'a, ()>;

    /// Sums of what machines have cost, by period, cluster and group. What was written for a cluster stays when it is forgotten.
    fn spend<'a>(&'a self, query: &'a SpendQuery) -> StoreFuture<'a, Vec<SpendRow>>;

    /// What the machines of a cluster have cost, by start and NodeClaim.
    fn cost_intervals<'a>(&'a self, filter: &'a IntervalFilter) -> StoreFuture<'a, Vec<CostInterval>>;

    /// What the machines have cost that a decision made from `from_ms` until `to_ms` removes to save their price, and those that
    /// it launches, within a day of that time; with the name of the cluster, by cluster, start and NodeClaim, and without what it was spent on.
    fn saving_intervals<'a>(
        &'a self,
        clusters: Option<&'a [String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreFuture<'a, Vec<(String, CostInterval)>>;

    /// Creates a hold, with an audit row in the same transaction, or finds the one that an earlier call with the same request id
    /// of the client created.
    fn create_hold<'a>(&'a self, hold: &'a NewHold) -> StoreFuture<'a, HoldCreation>;

    /// Ends the expiry of a hold, `(cluster, id)`, by its creator or an admin, who pays for it from then on; with an audit row in
    /// the same transaction. With a `version`, a hold that has another one is left as it is.
    fn commit_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand>;

    /// Ends a hold, `(cluster, id)`, by its creator or an admin; with an audit row in the same transaction. With a `version`, a
    /// hold that has another one is left as it is.
    fn release_hold<'a>(
        &'a self,
        hold: (&'a str, &'a str),
        version: Option<u64>,
        by: &'a HoldCaller,
    ) -> StoreFuture<'a, HoldCommand>;

    /// A hold of `cluster`, also one that ended less than [`holds::RETENTION_MS`] ago.
    fn hold<'a>(&'a self, cluster: &'a str, id: &'a str) -> StoreFuture<'a, Option<HoldRow>>;

    /// The holds of a cluster, or of all clusters, by cluster and id; also those that ended less than [`holds::RETENTION_MS`] ago.
    fn holds<'a>(&'a self, cluster: Option<&'a str>) -> StoreFuture<'a, Vec<HoldRow>>;

    /// The holds of all clusters that neither their holder nor the owner of the cluster has ended.
    fn live_holds(&self) -> StoreFuture<'_, LiveHolds>;

    /// Writes what has become of a hold. One that has ended is left as it is, and a committed one is not ended.
    fn write_hold<'a>(&'a self, lease: &'a Lease, status: &'a HoldStatusRow) -> StoreFuture<'a, ()>;

    /// Attempts of `scope` that are open or were closed less than `within` ago, ordered by
    /// NodeClaim and attempt.
    fn recent_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<RecentAttempt>>;

    /// What the decisions of `scope` of less than `within` ago move, oldest first: [`DecisionRow::moves`](log::DecisionRow)
    /// of each that moves anything.
    fn recent_moves<'a>(&'a self, scope: &'a Scope, within: Duration) -> StoreFuture<'a, Vec<String>>;

    /// Deletes rows past their retention and creates the partitions of the coming days. Any replica
    /// calls it periodically.
    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, Pruned>;

    /// Writes outcomes of launches in offerings of a region, the last change of each offering. Of two exclusions the one
    /// that ends later is kept.
    fn change_offerings<'a>(&'a self, region: &'a str, changes: &'a [OfferingChange]) -> StoreFuture<'a, ()>;

    /// Refused offerings of a region that concern `account` and changed less than `within` ago, also those that are
    /// excluded no longer, by key.
    fn unavailable_offerings<'a>(
        &'a self,
        region: &'a str,
        account: &'a str,
        within: Duration,
    ) -> StoreFuture<'a, Vec<OfferingRow>>;

    /// Gives `holder` the probes of these offerings for `lease`, each only if its exclusion has ended and no other holder
    /// has it. A holder that has it extends it. The answers are in the order of the keys.
    fn claim_offering_probes<'a>(
        &'a self,
        region: &'a str,
        keys: &'a [OfferingKey],
        holder: &'a str,
        lease: Duration,
    ) -> StoreFuture<'a, Vec<ProbeAnswer>>;

    /// Creates a freeze, with an audit row in the same transaction. Returns the id to thaw it by.
    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> StoreFuture<'a, i64>;

    /// Ends a freeze, with an audit row in the same transaction. Returns whether a freeze of this
    /// id ever existed.
    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> StoreFuture<'a, bool>;

    /// Freezes in force, oldest first.
    fn freezes(&self) -> StoreFuture<'_, Vec<Freeze>>;

    /// Stores the instances that the cloud listed in the region of `lease`, `ago` after the
    /// request, for replicas that own clusters there. Instances of clusters owned by the same
    /// replica are omitted. Returns false, and writes nothing, while no other replica holds a
    /// cluster lease.
    fn put_listing<'a>(
        &'a self,
        lease: &'a Lease,
        ago: Duration,
        machines: &'a [ListedInstanceRow],
    ) -> StoreFuture<'a, bool>;

    /// The latest listing of a region, restricted to these clusters.
    fn latest_listing<'a>(&'a self, scope: &'a Scope, clusters: &'a [String])
    -> StoreFuture<'a, Option<StoredListing>>;

    /// Stores notices about instances of an account and region, of any owner. A notice that is stored already is
    /// left as it is. Returns how many are new.
    fn put_interruptions<'a>(&'a self, scope: &'a Scope, rows: &'a [InterruptionRow]) -> StoreFuture<'a, u64>;

    /// Notices numbered above `after` that were stored less than `within` ago, by number, the first
    /// [`interruptions::INTERRUPTIONS_AT_ONCE`] of them. A notice that is stored later has a higher number than all
    /// that were returned.
    fn interruptions<'a>(
        &'a self,
        scope: &'a Scope,
        after: u64,
        within: Duration,
    ) -> StoreFuture<'a, Vec<StoredInterruption>>;

    /// Stores outcomes of launches, of any owner. An outcome that is stored already is left as it is.
    fn put_launch_outcomes<'a>(&'a self, rows: &'a [OutcomeRow]) -> StoreFuture<'a, ()>;

    /// Outcomes numbered above `after` that were stored less than `within` ago, by number, the first
    /// [`outcomes::OUTCOMES_AT_ONCE`] of them. An outcome that is stored later has a higher number than all that were
    /// returned.
    fn launch_outcomes(&self, after: u64, within: Duration) -> StoreFuture<'_, Vec<StoredOutcome>>;

    /// Releases the quarantine of a cluster, with an audit row in the same transaction. Returns
    /// false, and writes nothing, when no replica ever held the lease of that cluster.
    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool>;

    /// All clusters that ever had a lease holder and are not forgotten, by name.
    fn clusters(&self) -> StoreFuture<'_, Vec<String>>;

    /// Number of quarantine releases per cluster, by name.
    fn quarantine_releases(&self) -> StoreFuture<'_, Vec<(String, u64)>>;

    /// Confirms the pending removals of a cluster, with an audit row in the same transaction.
    /// Returns false, and writes nothing, when no replica ever held the lease of that cluster.
    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> StoreFuture<'a, bool>;

    /// Number of removal confirmations per cluster, by name.
    fn removal_confirmations(&self) -> StoreFuture<'_, Vec<(String, u64)>>;

    /// Replaces the counters of `process` (one run of one replica) in these time buckets, and its
    /// number of instances. A process writes only its own counters.
    fn put_counters<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> StoreFuture<'a, ()>;

    /// Counters of all processes but `process` in the last `within`, summed by time bucket.
    fn remote_counters<'a>(&'a self, process: &'a str, within: Duration) -> StoreFuture<'a, RemoteCounters>;

    /// Takes tokens of a bucket of the account and region for calls that wait at a replica ([`Bucket::grant`]). Those that
    /// still wait count in the requests of other replicas. A repetition takes tokens again.
    ///
    /// [`Bucket::grant`]: ::api_budget::Bucket::grant
    fn take_call_tokens<'a>(&'a self, scope: &'a Scope, request: &'a TokenRequest) -> StoreFuture<'a, TokenGrant>;

    /// Records that the cloud throttled a call of this bucket: it is empty for all replicas, and refills more slowly.
    fn record_throttle<'a>(
        &'a self,
        scope: &'a Scope,
        bucket: &'a str,
        limit: Limit,
    ) -> StoreFuture<'a, ThrottledBucket>;

    /// Stores a session of a browser. Deletes those that have expired, and the oldest of the same client above
    /// [`browser_sessions::MAX_SESSIONS_PER_CLIENT`].
    fn create_browser_session<'a>(&'a self, row: &'a BrowserSessionRow) -> StoreFuture<'a, ()>;

    /// The session with this id, also when it has expired.
    fn browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, Option<BrowserSessionRow>>;

    /// Deletes a session, if there is one.
    fn delete_browser_session<'a>(&'a self, id_sha256: &'a [u8]) -> StoreFuture<'a, ()>;

    /// Deletes all sessions of a client that `credential` has signed in.
    fn delete_browser_sessions_of<'a>(&'a self, client: &'a str, credential: &'a str) -> StoreFuture<'a, ()>;

    /// Writes the settings digest of this replica. Returns, by owner, the other live replicas: those that reported within
    /// [`replicas::REPLICA_TTL`]. One of the same owner must have reported since this one first did: it may be the previous
    /// run of this process.
    fn register_replica<'a>(&'a self, row: &'a ReplicaRow) -> StoreFuture<'a, Vec<ReplicaRow>>;

    /// The other live replicas, as [`Store::register_replica`] returns them. Writes nothing; empty before `instance` is
    /// registered.
    fn other_replicas<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, Vec<ReplicaRow>>;

    /// Keeps the latest summary of each cluster. One whose epoch, or whose time in the same epoch, is lower than that of
    /// the stored one changes nothing.
    fn put_cluster_summaries<'a>(&'a self, summaries: &'a [ClusterSummaryRow]) -> StoreFuture<'a, ()>;

    /// Summaries of the clusters that [`Store::clusters`] names, by name. A cluster without a summary is missing.
    fn cluster_summaries(&self) -> StoreFuture<'_, Vec<ClusterSummaryRow>>;

    /// Appends an audit entry.
    fn append_audit<'a>(&'a self, entry: &'a AuditEntry) -> StoreFuture<'a, ()>;

    /// Newest audit rows, latest first; with `before`, those with a lower id.
    fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreFuture<'_, Vec<AuditRow>>;

    /// Change counters that every replica watches: first the present ones, without delay, then new
    /// ones well under a second after a change. A slow subscriber receives only the latest. A
    /// subscriber reads the rows whose counter grew.
    fn changes(&self) -> BoxStream<'static, Changes>;

    /// Records that the replica of this instance is there, if it is registered: the store answers, and takes writes. Not
    /// repeated by itself.
    fn touch_replica<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()>;
}
