//! Why a store operation failed.

use super::lease::{MAX_EPOCH_JUMP, Scope};

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another replica holds the lease; the caller must stop deciding for its scope.
    #[error("the lease of {scope} at epoch {epoch} was lost to another replica; nothing was written")]
    LeaseLost {
        /// Scope of the lost lease.
        scope: Scope,
        /// The epoch that the caller held.
        epoch: u64,
    },
    /// An agent reported an epoch that the store cannot have issued.
    #[error(
        "the agent of {scope} reports epoch {seen}, but the last one issued by this store is {held}: the difference exceeds \
         {MAX_EPOCH_JUMP}, so the lease was not granted. If a server with another \
         database controls this cluster, stop it; then set the annotation fleetwright.dev/highest-epoch of the agent's epoch \
         Lease in the cluster (fleetwright-agent-epoch by default) to \"{held}\" and restart the agent"
    )]
    EpochTooHigh {
        /// Scope of the requested lease.
        scope: Scope,
        /// Epoch that the agent reported.
        seen: u64,
        /// Last epoch that the store issued; 0 when it issued none.
        held: u64,
    },
    /// The attempt of a launch is not allowed to begin.
    #[error("attempt {attempt} of launching {claim} in {scope} was not begun: {why}; nothing was written")]
    AttemptRefused {
        /// Scope of the launch.
        scope: Scope,
        /// The NodeClaim.
        claim: String,
        /// The attempt that was to begin.
        attempt: u32,
        /// Reason of the refusal.
        why: String,
    },
    /// The cluster name is bound to another cluster UID.
    #[error(
        "the name {cluster} belongs to the cluster with UID {known}, last held by replica {owner}, but this cluster has UID \
         {shown:?}; rename one of them, or, if this cluster replaces that one, run `fleetwright clusters \
         accept-uid {cluster} {shown}`"
    )]
    NameTaken {
        /// The name.
        cluster: String,
        /// UID that the name is bound to.
        known: String,
        /// Last lease holder of the bound cluster.
        owner: String,
        /// UID that the agent reported.
        shown: String,
    },
    /// The cluster UID is bound to another name.
    #[error(
        "the cluster with UID {uid} is known as {known}, and its agent reports the name {cluster}; if it is {cluster}, write \
         cluster-uid = \"{uid}\" into the entry of {cluster} in the trust file (auth.file), or run `fleetwright forget {known}`; \
         if it is {known}, set cluster.name = \"{known}\" in the agent's settings"
    )]
    UidTaken {
        /// The name that the agent reported.
        cluster: String,
        /// The name that the UID is bound to.
        known: String,
        /// The UID.
        uid: String,
    },
    /// No connection to the database could be opened.
    #[error("cannot connect to {target}: {why}; {remedy}")]
    Connection {
        /// Address, database and user, without the password.
        target: String,
        /// Cause of the failure.
        why: String,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// The database failed.
    #[error("the store could not {what}: {cause}")]
    Database {
        /// Operation, as a verb phrase for the error text.
        what: &'static str,
        /// Error of the database driver. It is not the source of this error, whose text contains it:
        /// a chain of sources would repeat it.
        cause: DriverError,
    },
    /// A remote Fleetwright server, used instead of a database, failed.
    #[error("the server could not {what}: {why}")]
    Server {
        /// Operation, as a verb phrase for the error text.
        what: &'static str,
        /// Error text of the remote server.
        why: String,
    },
    /// A remote Fleetwright server denied the request.
    #[error("the server did not {what}: {why}")]
    Denied {
        /// Operation, as a verb phrase for the error text.
        what: &'static str,
        /// Error text of the remote server.
        why: String,
    },
    /// A migration failed.
    #[error("the store could not migrate its schema: {0}")]
    Migration(DriverError),
    /// The schema is older than the program, and `store.migrate` is false.
    #[error(
        "the schema of the store is at version {found} and this program needs {needed}: start it once with store.migrate = true, \
         or have the files in migrations/ applied, then start again"
    )]
    SchemaTooOld {
        /// Schema version of the database.
        found: i64,
        /// Newest schema version that this program contains.
        needed: i64,
    },
    /// The schema was migrated by a newer release that dropped compatibility with this one.
    #[error(
        "the schema of the store is at version {found} and serves programs from version {oldest} on; this program knows versions \
         up to {known}: run the newer release"
    )]
    SchemaTooNew {
        /// Schema version of the database.
        found: i64,
        /// Oldest program version that the schema supports.
        oldest: i64,
        /// Newest schema version that this program contains.
        known: i64,
    },
    /// A row holds a value that no release writes.
    #[error("the store could not {what}: it read {found:?}, which this program cannot understand")]
    Unreadable {
        /// Operation, as a verb phrase for the error text.
        what: &'static str,
        /// The unreadable value.
        found: String,
    },
}

/// Error of a database driver. Its type is private to the store that uses the driver.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;
