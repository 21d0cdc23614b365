//! Durable state: leases, operations in flight, the decision log, freezes and the audit log.
//!
//! The [`Store`] trait has two implementations: [`memory`] for demos and tests, and the crate
//! `store-postgres` for production, whose tests run one list of behaviours against both. Stores with
//! faults are the former behind a [`memory::Interceptor`].
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

use async_trait::async_trait;
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

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// Read access to decisions and their replay data.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Newest decisions that match the filter, latest first.
    async fn decisions(&self, filter: &DecisionFilter) -> StoreResult<Vec<StoredDecision>>;

    /// Decisions with this number: one, unless two replicas used the same number for different
    /// clusters.
    async fn decision(&self, number: u64) -> StoreResult<Vec<StoredDecision>>;

    /// A log segment with its chunks, in sequence order.
    async fn log_segment(&self, scope: &Scope, segment: u64) -> StoreResult<Option<LogSegment>>;

    /// The blob with this hash.
    async fn blob(&self, hash: &BlobHash) -> StoreResult<Option<Blob>>;
}

/// The store interface, as an object, because the server selects the implementation at startup. Any operation may fail with
/// [`StoreError::Database`]; those that take a lease may fail with [`StoreError::LeaseLost`].
#[async_trait]
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
    async fn acquire_lease(
        &self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
    ) -> StoreResult<LeaseOutcome>;

    /// Extends leases from now on, all in one transaction. The result names lost leases and leases
    /// that another replica has requested.
    async fn renew_leases(&self, leases: &[Lease], duration: Duration) -> StoreResult<Renewal>;

    /// Releases leases. Releasing a lease that the caller does not hold has no effect.
    async fn release_leases(&self, leases: &[Lease]) -> StoreResult<()>;

    /// Requests the lease of `scope` for `by`. The holder learns of the request through
    /// [`Store::changes`] and its next renewal; the request ends when the lease has a new holder.
    async fn request_lease(&self, scope: &Scope, by: &str) -> StoreResult<()>;

    /// The bindings of the name `cluster` and of `uid`, for [`identity::check_identity`].
    async fn cluster_identities(&self, cluster: &str, uid: &str) -> StoreResult<Vec<Identity>>;

    /// Binds the cluster name of `lease` to `uid`, unless the name is bound already.
    ///
    /// # Errors
    /// [`StoreError::UidTaken`] when another name is bound to `uid`.
    async fn bind_cluster_uid(&self, lease: &Lease, uid: &str) -> StoreResult<()>;

    /// Frees `uid` for the name `cluster`, whose agent is authenticated, where another name is bound to it that nothing
    /// proves: no launch, no listed instance with name and UID, no observed Node or NodeClaim. Whoever may connect gets a
    /// lease, which therefore proves nothing. `is_trusted`: the operator gives it to `cluster`, whatever proves the other.
    /// The other name is [refused](identity::yielded) from then on, and the holder of its lease fenced, with an audit row in
    /// the same transaction.
    async fn claim_uid(&self, cluster: &str, uid: &str, is_trusted: bool) -> StoreResult<UidClaim>;

    /// Binds a cluster name to another UID on an operator's order, with an audit row in the same
    /// transaction. The present lease holder is fenced, its launches are closed, and the observed
    /// extent is deleted. Returns false, and writes nothing, when no replica ever held the lease of
    /// that cluster.
    ///
    /// # Errors
    /// [`StoreError::UidTaken`] when another name is bound to `uid`.
    async fn accept_uid(&self, cluster: &str, uid: &str, by: &str) -> StoreResult<bool>;

    /// Forgets a cluster on an operator's order, with an audit row in the same transaction: its
    /// name and UID are free, the present lease holder is fenced, and its launches are closed.
    /// Its decisions stay. Unless `leave_machines` is set, a cluster with open launches is kept.
    async fn forget_cluster(&self, cluster: &str, by: &str, leave_machines: bool) -> StoreResult<ForgetOutcome>;

    /// Replaces the observed object counts of a cluster. They are returned with the next lease.
    async fn put_extent(&self, lease: &Lease, extent: &ObservedExtent) -> StoreResult<()>;

    /// Writes a decision with its intents, the replacements that it begins, the holds that it gives room to, and its replay data in one
    /// transaction, before any external call is made. A repetition begins no replacement again.
    ///
    /// # Errors
    /// [`StoreError::AttemptRefused`] when another attempt of one of the launches is open.
    async fn record_decision(&self, lease: &Lease, entry: &Entry) -> StoreResult<()>;

    /// Writes the next attempt of a launch.
    ///
    /// # Errors
    /// [`StoreError::AttemptRefused`] unless the previous attempt has failed. A caller that does
    /// not know the outcome of an attempt must repeat that attempt with its own token.
    async fn begin_attempt(&self, lease: &Lease, intent: &Intent) -> StoreResult<()>;

    /// Writes the outcome of an attempt. The first outcome is kept.
    async fn finish_attempt(
        &self,
        lease: &Lease,
        claim: &str,
        attempt: u32,
        outcome: &AttemptOutcome,
    ) -> StoreResult<()>;

    /// Closes the launches of these NodeClaims, when instance and NodeClaim are gone or will never
    /// exist.
    async fn close_intents(&self, lease: &Lease, claims: &[String]) -> StoreResult<()>;

    /// Deletes the replacements that have ended, and writes how long NodePools wait. They come back with the
    /// next lease until then.
    async fn end_replacements(&self, lease: &Lease, end: &ReplacementsEnd) -> StoreResult<()>;

    /// Writes what machines have cost. An interval that is stored until a later end is left as it is.
    async fn put_costs(&self, lease: &Lease, intervals: &[CostInterval]) -> StoreResult<()>;

    /// Sums of what machines have cost, by period, cluster and group. What was written for a cluster stays when it is forgotten.
    async fn spend(&self, query: &SpendQuery) -> StoreResult<Vec<SpendRow>>;

    /// What the machines of a cluster have cost, by start and NodeClaim.
    async fn cost_intervals(&self, filter: &IntervalFilter) -> StoreResult<Vec<CostInterval>>;

    /// What the machines have cost that a decision made from `from_ms` until `to_ms` removes to save their price, and those that
    /// it launches, within a day of that time; with the name of the cluster, by cluster, start and NodeClaim, and without what it was spent on.
    async fn saving_intervals(
        &self,
        clusters: Option<&[String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreResult<Vec<(String, CostInterval)>>;

    /// Creates a hold, with an audit row in the same transaction, or finds the one that an earlier call with the same request id
    /// of the client created.
    async fn create_hold(&self, hold: &NewHold) -> StoreResult<HoldCreation>;

    /// Ends the expiry of a hold, `(cluster, id)`, by its creator or an admin, who pays for it from then on; with an audit row in
    /// the same transaction. With a `version`, a hold that has another one is left as it is.
    async fn commit_hold(&self, hold: (&str, &str), version: Option<u64>, by: &HoldCaller) -> StoreResult<HoldCommand>;

    /// Ends a hold, `(cluster, id)`, by its creator or an admin; with an audit row in the same transaction. With a `version`, a
    /// hold that has another one is left as it is.
    async fn release_hold(&self, hold: (&str, &str), version: Option<u64>, by: &HoldCaller)
    -> StoreResult<HoldCommand>;

    /// A hold of `cluster`, also one that ended less than [`holds::RETENTION_MS`] ago.
    async fn hold(&self, cluster: &str, id: &str) -> StoreResult<Option<HoldRow>>;

    /// The holds of a cluster, or of all clusters, by cluster and id; also those that ended less than [`holds::RETENTION_MS`] ago.
    async fn holds(&self, cluster: Option<&str>) -> StoreResult<Vec<HoldRow>>;

    /// The holds of all clusters that neither their holder nor the owner of the cluster has ended.
    async fn live_holds(&self) -> StoreResult<LiveHolds>;

    /// Writes what has become of a hold. One that has ended is left as it is, and a committed one is not ended.
    async fn write_hold(&self, lease: &Lease, status: &HoldStatusRow) -> StoreResult<()>;

    /// Attempts of `scope` that are open or were closed less than `within` ago, ordered by
    /// NodeClaim and attempt.
    async fn recent_attempts(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<RecentAttempt>>;

    /// What the decisions of `scope` of less than `within` ago move, oldest first: [`DecisionRow::moves`](log::DecisionRow)
    /// of each that moves anything.
    async fn recent_moves(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<String>>;

    /// Deletes rows past their retention and creates the partitions of the coming days. Any replica
    /// calls it periodically.
    async fn prune(&self, retention: &Retention) -> StoreResult<Pruned>;

    /// Writes outcomes of launches in offerings of a region, the last change of each offering. Of two exclusions the one
    /// that ends later is kept.
    async fn change_offerings(&self, region: &str, changes: &[OfferingChange]) -> StoreResult<()>;

    /// Refused offerings of a region that concern `account` and changed less than `within` ago, also those that are
    /// excluded no longer, by key.
    async fn unavailable_offerings(
        &self,
        region: &str,
        account: &str,
        within: Duration,
    ) -> StoreResult<Vec<OfferingRow>>;

    /// Gives `holder` the probes of these offerings for `lease`, each only if its exclusion has ended and no other holder
    /// has it. A holder that has it extends it. The answers are in the order of the keys.
    async fn claim_offering_probes(
        &self,
        region: &str,
        keys: &[OfferingKey],
        holder: &str,
        lease: Duration,
    ) -> StoreResult<Vec<ProbeAnswer>>;

    /// Creates a freeze, with an audit row in the same transaction. Returns the id to thaw it by.
    async fn freeze(&self, order: &FreezeOrder) -> StoreResult<i64>;

    /// Ends a freeze, with an audit row in the same transaction. Returns whether a freeze of this
    /// id ever existed.
    async fn thaw(&self, id: i64, by: &str) -> StoreResult<bool>;

    /// Freezes in force, oldest first.
    async fn freezes(&self) -> StoreResult<Vec<Freeze>>;

    /// Stores the instances that the cloud listed in the region of `lease`, `ago` after the
    /// request, for replicas that own clusters there. Instances of clusters owned by the same
    /// replica are omitted. Returns false, and writes nothing, while no other replica holds a
    /// cluster lease.
    async fn put_listing(&self, lease: &Lease, ago: Duration, machines: &[ListedInstanceRow]) -> StoreResult<bool>;

    /// The latest listing of a region, restricted to these clusters.
    async fn latest_listing(&self, scope: &Scope, clusters: &[String]) -> StoreResult<Option<StoredListing>>;

    /// Stores notices about instances of an account and region, of any owner. A notice that is stored already is
    /// left as it is. Returns how many are new.
    async fn put_interruptions(&self, scope: &Scope, rows: &[InterruptionRow]) -> StoreResult<u64>;

    /// Notices numbered above `after` that were stored less than `within` ago, by number, the first
    /// [`interruptions::INTERRUPTIONS_AT_ONCE`] of them. A notice that is stored later has a higher number than all
    /// that were returned.
    async fn interruptions(&self, scope: &Scope, after: u64, within: Duration) -> StoreResult<Vec<StoredInterruption>>;

    /// Stores outcomes of launches, of any owner. An outcome that is stored already is left as it is.
    async fn put_launch_outcomes(&self, rows: &[OutcomeRow]) -> StoreResult<()>;

    /// Outcomes numbered above `after` that were stored less than `within` ago, by number, the first
    /// [`outcomes::OUTCOMES_AT_ONCE`] of them. An outcome that is stored later has a higher number than all that were
    /// returned.
    async fn launch_outcomes(&self, after: u64, within: Duration) -> StoreResult<Vec<StoredOutcome>>;

    /// Releases the quarantine of a cluster, with an audit row in the same transaction. Returns
    /// false, and writes nothing, when no replica ever held the lease of that cluster.
    async fn release_quarantine(&self, cluster: &str, by: &str) -> StoreResult<bool>;

    /// All clusters that ever had a lease holder and are not forgotten, by name.
    async fn clusters(&self) -> StoreResult<Vec<String>>;

    /// Number of quarantine releases per cluster, by name.
    async fn quarantine_releases(&self) -> StoreResult<Vec<(String, u64)>>;

    /// Confirms the pending removals of a cluster, with an audit row in the same transaction.
    /// Returns false, and writes nothing, when no replica ever held the lease of that cluster.
    async fn confirm_removals(&self, cluster: &str, by: &str) -> StoreResult<bool>;

    /// Number of removal confirmations per cluster, by name.
    async fn removal_confirmations(&self) -> StoreResult<Vec<(String, u64)>>;

    /// Replaces the counters of `process` (one run of one replica) in these time buckets, and its
    /// number of instances. A process writes only its own counters.
    async fn put_counters(&self, process: &str, machines: i64, rows: &[CounterRow]) -> StoreResult<()>;

    /// Counters of all processes but `process` in the last `within`, summed by time bucket.
    async fn remote_counters(&self, process: &str, within: Duration) -> StoreResult<RemoteCounters>;

    /// Takes tokens of a bucket of the account and region for calls that wait at a replica ([`Bucket::grant`]). Those that
    /// still wait count in the requests of other replicas. A repetition takes tokens again.
    ///
    /// [`Bucket::grant`]: ::api_budget::Bucket::grant
    async fn take_call_tokens(&self, scope: &Scope, request: &TokenRequest) -> StoreResult<TokenGrant>;

    /// Records that the cloud throttled a call of this bucket: it is empty for all replicas, and refills more slowly.
    async fn record_throttle(&self, scope: &Scope, bucket: &str, limit: Limit) -> StoreResult<ThrottledBucket>;

    /// Stores a session of a browser. Deletes those that have expired, and the oldest of the same client above
    /// [`browser_sessions::MAX_SESSIONS_PER_CLIENT`].
    async fn create_browser_session(&self, row: &BrowserSessionRow) -> StoreResult<()>;

    /// The session with this id, also when it has expired.
    async fn browser_session(&self, id_sha256: &[u8]) -> StoreResult<Option<BrowserSessionRow>>;

    /// Deletes a session, if there is one.
    async fn delete_browser_session(&self, id_sha256: &[u8]) -> StoreResult<()>;

    /// Deletes all sessions of a client that `credential` has signed in.
    async fn delete_browser_sessions_of(&self, client: &str, credential: &str) -> StoreResult<()>;

    /// Writes the settings digest of this replica. Returns, by owner, the other live replicas: those that reported within
    /// [`replicas::REPLICA_TTL`]. One of the same owner must have reported since this one first did: it may be the previous
    /// run of this process.
    async fn register_replica(&self, row: &ReplicaRow) -> StoreResult<Vec<ReplicaRow>>;

    /// The other live replicas, as [`Store::register_replica`] returns them. Writes nothing; empty before `instance` is
    /// registered.
    async fn other_replicas(&self, instance: &str) -> StoreResult<Vec<ReplicaRow>>;

    /// Keeps the latest summary of each cluster. One whose epoch, or whose time in the same epoch, is lower than that of
    /// the stored one changes nothing.
    async fn put_cluster_summaries(&self, summaries: &[ClusterSummaryRow]) -> StoreResult<()>;

    /// Summaries of the clusters that [`Store::clusters`] names, by name. A cluster without a summary is missing.
    async fn cluster_summaries(&self) -> StoreResult<Vec<ClusterSummaryRow>>;

    /// Appends an audit entry.
    async fn append_audit(&self, entry: &AuditEntry) -> StoreResult<()>;

    /// Newest audit rows, latest first; with `before`, those with a lower id.
    async fn read_audit(&self, limit: u32, before: Option<i64>) -> StoreResult<Vec<AuditRow>>;

    /// Change counters that every replica watches: first the present ones, without delay, then new
    /// ones well under a second after a change. A slow subscriber receives only the latest. A
    /// subscriber reads the rows whose counter grew.
    fn changes(&self) -> BoxStream<'static, Changes>;

    /// Records that the replica of this instance is there, if it is registered: the store answers, and takes writes. Not
    /// repeated by itself.
    async fn touch_replica(&self, instance: &str) -> StoreResult<()>;
}
