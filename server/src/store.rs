//! The memory that survives a crash: who decides for a cluster, what was decided, and which launches are under way.
//!
//! A port with two twins: [`memory`] for demos and single runs, [`postgres`] for production. [`conformance`] is one list
//! of behaviours that both are held to.
//!
//! Every write names the epoch of the lease that it is made under, and is refused when that lease has passed on: a
//! replica that was paused cannot overwrite what its successor decided.

pub mod memory;
pub mod postgres;

#[cfg(test)]
mod conformance;

use std::time::Duration;

use futures::future::BoxFuture;

/// The right to decide for a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The cluster.
    pub cluster: String,
    /// The replica that holds it.
    pub owner: String,
    /// Grows with every change of hands, from 1.
    pub epoch: u64,
}

/// Answer to a replica that wants a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It is yours, at this epoch, with these launches under way.
    Granted {
        /// The lease.
        lease: Lease,
        /// Launches that were intended and not settled, by claim.
        open: Vec<Intent>,
    },
    /// Somebody else holds it and it has not expired.
    Held {
        /// The holder.
        owner: String,
    },
}

/// A launch that is about to be tried: written before the cloud is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Name of the NodeClaim, unique in its cluster.
    pub claim: String,
    /// The client token of the attempt: the cloud answers a repeated token with the first call's result.
    pub token: String,
    /// The exact request as text; a retry sends the same.
    pub request: String,
}

/// A decision that changed something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// One sentence for people.
    pub summary: String,
    /// The plan and its reasons as text.
    pub report: String,
}

/// A decision as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// Grows with time, unique in the store.
    pub id: i64,
    /// The epoch it was made under.
    pub epoch: u64,
    /// What was decided.
    pub decision: DecisionRecord,
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lease has passed to somebody else; the caller must stop deciding for the cluster.
    #[error(
        "the lease of cluster {cluster} at epoch {epoch} is no longer held: another replica decides for it, nothing was written"
    )]
    LeaseLost {
        /// The cluster.
        cluster: String,
        /// The epoch that the caller held.
        epoch: u64,
    },
    /// The database failed.
    #[error("the store could not {what}: {source}")]
    Database {
        /// What was tried.
        what: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
    /// The schema could not be brought up to date.
    #[error("the store could not bring its schema up to date: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
}

/// The port. Futures are boxed, so that the server chooses its twin when it starts.
pub trait Store: Send + Sync {
    /// Takes the lease of `cluster` for `owner`, when nobody holds it, when it has expired, or when `owner` has it already
    /// (a restart under the same name). Each time the epoch grows, and it is above `seen`, the highest that the cluster has
    /// ever obeyed: a store that was lost does not make its cluster deaf. Open intents come back with it, read in the same
    /// transaction.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    fn take_lease<'a>(
        &'a self,
        cluster: &'a str,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> BoxFuture<'a, Result<LeaseAnswer, StoreError>>;

    /// Prolongs a lease from this moment on.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when it has passed on, [`StoreError::Database`].
    fn renew_lease<'a>(&'a self, lease: &'a Lease, duration: Duration) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Gives a lease back. Giving back what one does not hold is harmless.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    fn release_lease<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Writes a decision and the launches that it intends, all or nothing. An intent that is there already, with the same
    /// token, stays as it is: writing twice is harmless.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::Database`].
    fn record<'a>(
        &'a self,
        lease: &'a Lease,
        decision: &'a DecisionRecord,
        intents: &'a [Intent],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Writes how a launch ended. The first outcome stays.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::Database`].
    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        outcome: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Launches of `cluster` that are not settled, by claim.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    fn open_intents<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Vec<Intent>, StoreError>>;

    /// The last decisions for `cluster`, latest first.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    fn decisions<'a>(&'a self, cluster: &'a str, limit: u32) -> BoxFuture<'a, Result<Vec<StoredDecision>, StoreError>>;

    /// Whether the store answers.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}
