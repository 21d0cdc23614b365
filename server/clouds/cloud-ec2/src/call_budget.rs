//! Tokens for calls of EC2: each is taken from the rate limit of its action before the call is sent.
//!
//! [`CallBudget`] is the port: a server shares the limits with its replicas and has calls of a higher priority lane go
//! first; [`LocalBudget`] is for commands. The client of EC2 takes the tokens in its HTTP connector, below the SDK's
//! operations, so that no call and no page can be sent without one. Only EC2 has such buckets; the calls of other services
//! are rarer, and their callers wait after a throttled one.

mod client;
mod local;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub(crate) use client::BudgetedClient;
pub use local::LocalBudget;

pub type BudgetFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where calls of EC2 get their tokens.
pub trait CallBudget: Send + Sync + fmt::Debug {
    /// Waits until a call of `action` may be sent, such as `CreateFleet`. A wait that is dropped takes no token.
    ///
    /// # Errors
    /// [`NotSent`] when the call must not be sent any more.
    fn admit<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, Result<(), NotSent>>;

    /// Records that EC2 throttled a call of `action`.
    fn record_throttle<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, ()>;
}

/// Why a call was not sent. Nothing was done; it may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// There was no token in time.
    #[error(
        "the server's own limit of API calls had no token for this call in time, so it was not sent; it is sent again. \
         If this lasts, ask AWS for a higher request rate in this account and region"
    )]
    NoToken,
    /// The lease of the cluster may have run out while the call waited.
    #[error("the cluster's lease may have run out while the call waited for its rate limit, so it was not sent")]
    LeaseExpired,
}
