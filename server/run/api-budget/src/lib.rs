//! Rate limits of a cloud's API: token buckets of an account and region, divided among priority lanes and replicas.
//!
//! EC2 limits calls by buckets of tokens per account, region and action, whichever process calls. The replicas of one
//! database therefore share one [`Bucket`] for each of EC2's: [`Bucket::grant`] is a function of the bucket, of the calls
//! that wait at each replica, and of the time. A store applies it under the lock of the bucket's row.
//!
//! - **Lanes.** Tokens go to the most urgent lane with waiting calls. Each lower lane with waiting calls keeps a tenth of
//!   the refill ([`FLOOR_DIVISOR`]), so that none starves.
//! - **Replicas.** Within a lane, a replica leaves a token for each other replica with an older waiting call.
//! - **Learned rate.** The known limits are ceilings: an account may have less, and others call in it. A throttled call
//!   halves the rate; each granted token adds a little (additive increase, multiplicative decrease).
//!
//! Levels are millionths of a token and rates thousandths of a token per second, so that a rate is also millionths of a
//! token per millisecond, and a tenth of 2 tokens per second is a whole number in each millisecond.
//!
//! Reading order: [`limit`] (EC2's limits by action), [`waiting`] (calls that wait), [`bucket`].

pub mod bucket;
pub mod limit;
pub mod waiting;

pub use bucket::{Bucket, BucketRow, FLOOR_DIVISOR, Grant};
pub use limit::{Limit, buckets_of};
pub use waiting::{LaneQueue, Waiting};

#[cfg(test)]
mod tests;
