//! Rate limits of EC2's API: all replicas on a database share the buckets of their account and region, and urgent calls go
//! first. [`context`] says how urgent a call is, and until when it may be sent; `queue` has the calls of this process that
//! wait for a token; `store_budget` takes the tokens.

pub mod context;
#[cfg(feature = "ec2")]
mod driver;
#[cfg(feature = "ec2")]
mod queue;
#[cfg(feature = "ec2")]
mod store_budget;

use crate::histogram::Counter;
pub use context::{CallContext, within};
#[cfg(feature = "ec2")]
pub use store_budget::StoreBudget;

/// Calls that EC2 throttled.
pub(crate) static CALLS_THROTTLED: Counter = Counter::new();

/// Calls that were given up without a token, and are made again.
pub(crate) static CALLS_GIVEN_UP: Counter = Counter::new();

/// The counters in the Prometheus text format.
pub(crate) fn render() -> String {
    let throttled = "Calls of EC2 that AWS throttled, of this process.";
    let given_up =
        "Calls of EC2 that waited too long for the rate limit of their action and are made again, of this process.";
    CALLS_THROTTLED.render("fleetwright_ec2_calls_throttled_total", throttled)
        + &CALLS_GIVEN_UP.render("fleetwright_ec2_calls_given_up_total", given_up)
}
