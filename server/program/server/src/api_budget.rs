//! Rate limits of EC2's API: all replicas on a database share the buckets of their account and region, and urgent calls go
//! first. [`context`] says how urgent a call is, and until when it may be sent; `queue` has the calls of this process that
//! wait for a token; `store_budget` takes the tokens.

mod call_counts;
pub mod context;
#[cfg(feature = "ec2")]
mod driver;
#[cfg(feature = "ec2")]
mod queue;
#[cfg(feature = "ec2")]
mod store_budget;

pub(crate) use call_counts::CALLS;
pub use context::{CallContext, within};
#[cfg(feature = "ec2")]
pub use store_budget::StoreBudget;
