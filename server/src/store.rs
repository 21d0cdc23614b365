//! The memory that survives a crash: who decides for what, what was promised to the outside, what was decided and why, and
//! what people have ordered.
//!
//! A port with two twins: [`memory`] for demos and tests, [`postgres`] for production. [`conformance`] is one list of
//! behaviours that both are held to.
//!
//! Two rules hold for every write:
//!
//! - **Fenced.** What is written for a cluster names the epoch of the lease that it is written under, and is refused when
//!   that lease has passed on: a replica that was paused cannot overwrite what its successor decided.
//! - **Harmless twice.** A write whose answer was lost is repeated, by the store itself and by its callers; the second time
//!   changes nothing.
//!
//! [`opening`] chooses between them; [`own`] starts a PostgreSQL where nobody has given one; [`housekeeping`] lets go of what
//! is old; [`packed`] makes rows small that repeat each other.
//!
//! The rows: [`lease`] (ownership, and what a cluster's name stands for), [`undertaking`] (launches, instructions,
//! disruptions), [`log`] (decisions and what they are replayed from), [`listing`] (what a cloud has), [`rails`] (offerings, freezes, audit), [`shares`] (what each process saw
//! come and go), [`replicas`] (who shares the store).

pub(crate) mod housekeeping;
pub mod lease;
pub mod listing;
pub mod log;
pub mod memory;
pub(crate) mod opening;
pub mod own;
pub(crate) mod packed;
pub mod postgres;
pub mod rails;
pub mod replicas;
pub mod shares;
pub mod undertaking;

#[cfg(test)]
mod conformance;

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use lease::{FARTHEST_JUMP, Identity, Lease, LeaseAnswer, ObservedExtent, Renewal, Scope};
use listing::{KeptListing, ListedMachine};
use log::{Blob, BlobHash, DecisionFilter, Entry, LogChunk, LogSegment, Pruned, Retention, StoredDecision};
use rails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder, OfferingEntry};
use replicas::ReplicaRow;
use shares::{CounterRow, RemoteCounters};
use undertaking::{DisruptionEnd, InstructionEnd, InstructionRow, Intent, OpenIntent, PastAttempt, Settlement};

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lease has passed to somebody else; the caller must stop deciding for its scope.
    #[error(
        "the lease of {scope} at epoch {epoch} is no longer held: another replica decides for it, nothing was written"
    )]
    LeaseLost {
        /// Of what.
        scope: Scope,
        /// The epoch that the caller held.
        epoch: u64,
    },
    /// A cluster says that it has obeyed an epoch that the store cannot have given out.
    #[error(
        "the agent of {scope} says that the cluster has obeyed epoch {seen}, and the last one given out here is {held}: more than \
         {FARTHEST_JUMP} lie between them, which no change of hands explains, so the lease was not given. If a server with another \
         database decides for this cluster, stop it; then set the annotation fleetwright.dev/highest-epoch of the agent's epoch \
         Lease in the cluster (fleetwright-agent-epoch by default) to \"{held}\" and restart the agent"
    )]
    EpochTooHigh {
        /// Of what the lease was asked for.
        scope: Scope,
        /// What the agent says.
        seen: u64,
        /// The last epoch that was given out; 0 when none was.
        held: u64,
    },
    /// A launch may not be tried again.
    #[error("attempt {attempt} of launching {claim} in {scope} was not begun: {why}; nothing was written")]
    AttemptRefused {
        /// Of which cluster.
        scope: Scope,
        /// The NodeClaim.
        claim: String,
        /// The attempt that was to begin.
        attempt: u32,
        /// Why not.
        why: String,
    },
    /// The name of a cluster belongs to another one.
    #[error(
        "the name {cluster} belongs to the cluster with UID {known}, which replica {owner} decided for last, and this one has UID \
         {shown:?}; give one of them another name, or, if this cluster was built in place of that one, run `fleetwright clusters \
         accept-uid {cluster} {shown}`"
    )]
    NameTaken {
        /// The name.
        cluster: String,
        /// UID of the cluster that has it.
        known: String,
        /// The replica that decided for it last.
        owner: String,
        /// UID of the cluster whose agent asked.
        shown: String,
    },
    /// The database failed.
    #[error("the store could not {what}: {source}")]
    Database {
        /// What was tried.
        what: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
    /// A server that was asked in place of the database failed.
    #[error("the server could not {what}: {why}")]
    Server {
        /// What was tried.
        what: &'static str,
        /// What it said.
        why: String,
    },
    /// A server that was asked in place of the database does not answer this caller.
    #[error("the server did not {what}: {why}")]
    Denied {
        /// What was tried.
        what: &'static str,
        /// What it said.
        why: String,
    },
    /// The schema could not be brought up to date.
    #[error("the store could not bring its schema up to date: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The schema is older than the program, and the program was told not to change it.
    #[error(
        "the schema of the store is at version {found} and this program needs {needed}: start it once with store.migrate = true, \
         or have the files in migrations/ applied, then start again"
    )]
    SchemaTooOld {
        /// Its version.
        found: i64,
        /// The version that this program was built with.
        needed: i64,
    },
    /// A later program has changed the schema so that this one cannot use it.
    #[error(
        "the schema of the store is at version {found} and serves programs from version {oldest} on; this program knows versions \
         up to {known}: run the newer release"
    )]
    SchemaTooNew {
        /// Its version.
        found: i64,
        /// The oldest program that it serves.
        oldest: i64,
        /// The version that this program was built with.
        known: i64,
    },
    /// A row says what no program of ours writes.
    #[error("the store could not {what}: it read {found:?}, which this program cannot understand")]
    Unreadable {
        /// What was tried.
        what: &'static str,
        /// What was found.
        found: String,
    },
}

/// What the store answers, when it has.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// What was decided, and everything that it takes to decide the same again; read, never written.
pub trait Archive: Send + Sync {
    /// The last decisions that pass the filter, latest first.
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> Answer<'a, Vec<StoredDecision>>;

    /// The decisions of this number: one, unless two replicas have counted alike for different clusters.
    fn decision(&self, number: u64) -> Answer<'_, Vec<StoredDecision>>;

    /// A segment of the log with all its chunks, in order.
    fn log_of<'a>(&'a self, scope: &'a Scope, segment: u64) -> Answer<'a, Option<LogSegment>>;

    /// The content of a hash.
    fn blob<'a>(&'a self, hash: &'a BlobHash) -> Answer<'a, Option<Blob>>;
}

/// The port. Futures are boxed, so that the server chooses its twin when it starts. Any operation may end in
/// [`StoreError::Database`]; those that take a lease may end in [`StoreError::LeaseLost`].
pub trait Store: Archive {
    /// Takes the lease of `scope` for `owner`, when nobody holds it, when it has expired or was released, or when `owner` has
    /// it already (a restart under the same name). Each time the epoch grows, and it is above `seen`, the highest that the
    /// cluster has ever obeyed: a store that was lost does not make its cluster deaf. What is open comes back with it, read
    /// in the transaction that raises the epoch.
    ///
    /// # Errors
    /// [`StoreError::EpochTooHigh`] when `seen` lies further ahead than changes of hands explain.
    fn take_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> Answer<'a, LeaseAnswer>;

    /// Prolongs leases from this moment on, all in one step. Those that have passed on are named in the answer, as are those
    /// that another replica has asked for.
    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> Answer<'a, Renewal>;

    /// Gives leases back. Giving back what one does not hold is harmless.
    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, ()>;

    /// Tells whoever holds `scope` that `by` would like to have it. The holder learns of it by [`Store::changes`] and at its
    /// next renewal; the wish ends when the lease changes hands.
    fn ask_for<'a>(&'a self, scope: &'a Scope, by: &'a str) -> Answer<'a, ()>;

    /// Which cluster has this name, if any was ever decided for under it.
    fn cluster_identity<'a>(&'a self, cluster: &'a str) -> Answer<'a, Option<Identity>>;

    /// Gives the name of a lease's cluster to the cluster of this UID, unless another one has it.
    fn keep_identity<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> Answer<'a, ()>;

    /// A person gives the name of a cluster to the cluster of another UID, with a row of audit in the same transaction. Whoever
    /// decides for the former one does no more, its launches are closed, and what was seen of it is forgotten. Answers whether
    /// anybody has ever decided for a cluster of that name; otherwise nothing is written.
    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> Answer<'a, bool>;

    /// Writes how much there is in a cluster, in place of what was written before. It comes back with the lease.
    fn keep_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> Answer<'a, ()>;

    /// Writes a decision and everything that follows from it, all or nothing: what was promised is known before anybody
    /// outside hears of it.
    ///
    /// # Errors
    /// [`StoreError::AttemptRefused`] when another attempt of one of the launches is alive.
    fn record<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> Answer<'a, ()>;

    /// Writes the next attempt of a launch.
    ///
    /// # Errors
    /// [`StoreError::AttemptRefused`] unless the attempt before it has failed: whoever does not know how an attempt ended
    /// must repeat it, with its own token.
    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> Answer<'a, ()>;

    /// Writes how an attempt ended. The first outcome stays.
    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        settlement: &'a Settlement,
    ) -> Answer<'a, ()>;

    /// Ends the launches of these claims for good, when machine and claim are gone or will never be.
    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> Answer<'a, ()>;

    /// Launches of `scope` that are not closed, by claim.
    fn open_intents<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Vec<OpenIntent>>;

    /// Attempts of `scope` that are not closed, or were closed less than `within` ago; by claim and attempt.
    fn past_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> Answer<'a, Vec<PastAttempt>>;

    /// Writes instructions before they are sent. One that is there already stays as it is.
    fn write_instructions<'a>(&'a self, lease: &'a Lease, rows: &'a [InstructionRow]) -> Answer<'a, ()>;

    /// Writes how instructions ended. The first outcome stays.
    fn end_instructions<'a>(&'a self, lease: &'a Lease, ends: &'a [InstructionEnd]) -> Answer<'a, ()>;

    /// Writes how disruptions ended. The first outcome stays.
    fn end_disruptions<'a>(&'a self, lease: &'a Lease, ends: &'a [DisruptionEnd]) -> Answer<'a, ()>;

    /// Writes events of the log. A chunk that is there already stays as it is.
    fn append_log<'a>(&'a self, lease: &'a Lease, chunks: &'a [LogChunk]) -> Answer<'a, ()>;

    /// Keeps contents by hash; what is there already is noted as used today.
    fn put_blobs<'a>(&'a self, blobs: &'a [Blob]) -> Answer<'a, ()>;

    /// Lets go of what is older than it must be kept, and makes room for the days to come. Called now and then by any
    /// replica.
    fn prune<'a>(&'a self, retention: &'a Retention) -> Answer<'a, Pruned>;

    /// Remembers that offerings of a region are not to be had; the later end of two wins.
    fn remember_offerings<'a>(&'a self, region: &'a str, entries: &'a [OfferingEntry]) -> Answer<'a, ()>;

    /// Offerings of a region that are still not to be had.
    fn recall_offerings<'a>(&'a self, region: &'a str) -> Answer<'a, Vec<OfferingEntry>>;

    /// Freezes, with a row of audit in the same transaction. Answers the number that thaws it.
    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> Answer<'a, i64>;

    /// Ends a freeze, with a row of audit in the same transaction. Answers whether there ever was one of this number.
    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> Answer<'a, bool>;

    /// What is frozen at this moment, oldest first.
    fn freezes(&self) -> Answer<'_, Vec<Freeze>>;

    /// Keeps what the cloud of the region of `lease` was seen to have, `ago` after it was asked, for replicas that decide for
    /// clusters there and did not ask. Machines of clusters whose lease has the same owner are left out. Answers whether
    /// anything was kept: nothing is while nobody else decides for any cluster.
    fn keep_listing<'a>(&'a self, lease: &'a Lease, ago: Duration, machines: &'a [ListedMachine]) -> Answer<'a, bool>;

    /// The last listing of a region, as far as it is about these clusters.
    fn last_listing<'a>(&'a self, scope: &'a Scope, clusters: &'a [String]) -> Answer<'a, Option<KeptListing>>;

    /// Has the agent of a cluster believed by whichever replica decides for it, with a row of audit in the same transaction.
    /// Answers whether anybody has ever decided for that cluster; otherwise nothing is written.
    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool>;

    /// Every cluster that a replica has ever decided for, by name.
    fn clusters(&self) -> Answer<'_, Vec<String>>;

    /// How often people have vouched for the agents of which clusters, by name.
    fn quarantine_releases(&self) -> Answer<'_, Vec<(String, u64)>>;

    /// Confirms the removals that wait in a cluster, for whichever replica decides for it, with a row of audit in the same
    /// transaction. Answers whether anybody has ever decided for that cluster; otherwise nothing is written.
    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool>;

    /// How often people have confirmed removals in which clusters, by name.
    fn removal_confirmations(&self) -> Answer<'_, Vec<(String, u64)>>;

    /// Keeps what `process` (one life of one replica) saw in these parts of time, whole, in place of what was kept of them, and
    /// how many machines its clusters have. It tells what it saw itself, under whatever leases, and nobody else writes that.
    fn tell_shares<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> Answer<'a, ()>;

    /// What all processes but `process` saw in the last `within`, summed up by parts of time.
    fn shares_elsewhere<'a>(&'a self, process: &'a str, within: Duration) -> Answer<'a, RemoteCounters>;

    /// Tells what a server runs by. Answers, by owner, which others live beside it: those that have told something lately
    /// ([`replicas::TOLD_WITHIN`]) and since this one told something for the first time.
    fn tell_replica<'a>(&'a self, row: &'a ReplicaRow) -> Answer<'a, Vec<ReplicaRow>>;

    /// Adds a line to the record of what people did.
    fn audit<'a>(&'a self, entry: &'a AuditEntry) -> Answer<'a, ()>;

    /// The last lines of that record, latest first; with `before`, those with a lower number.
    fn read_audit(&self, limit: u32, before: Option<i64>) -> Answer<'_, Vec<AuditRow>>;

    /// Changes that every replica must hear of, whichever made them: a new value well under a second after the change.
    /// Whoever sees a number grow reads what it stands for.
    fn changes(&self) -> watch::Receiver<Changes>;

    /// Whether the store answers.
    fn ping(&self) -> Answer<'_, ()>;

    /// The version of the store's schema: the number of the newest migration.
    fn schema_version(&self) -> Answer<'_, i64>;
}
