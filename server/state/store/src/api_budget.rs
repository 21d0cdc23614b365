//! Rate limits of the cloud's API, shared by the replicas of an account and region.

use std::time::Duration;

use ::api_budget::{Bucket, Limit, Waiting};
use model::{Millis, PriorityLane, Timestamp};

const LANES: usize = PriorityLane::ALL.len();

/// Calls of one lane that wait at a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitingCalls {
    /// Number of calls.
    pub count: u32,
    /// How long the oldest of them waits.
    pub age: Duration,
}

/// What a replica asks of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// Name of the bucket in its account and region.
    pub bucket: String,
    /// Its known limit.
    pub limit: Limit,
    /// The run of the replica.
    pub process: String,
    /// All calls that wait at the replica, in the order of [`PriorityLane::ALL`].
    pub waiting: [WaitingCalls; LANES],
    /// How long other replicas count those that get no token, unless the replica asks again.
    pub expires_in: Duration,
}

/// What the replica gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGrant {
    /// Tokens by lane, in the order of [`PriorityLane::ALL`].
    pub tokens: [u32; LANES],
    /// When to ask again; `None` when nothing waits any more.
    pub ask_again: Option<Duration>,
    /// Learned rate, in thousandths of a token per second.
    pub rate: i64,
}

/// What a throttled call did to a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThrottledBucket {
    /// Learned rate from now on, in thousandths of a token per second.
    pub rate: i64,
    /// Whether it was halved. An answer to a call that was sent before the last halving halves nothing.
    pub is_halved: bool,
}

impl TokenRequest {
    /// The calls that wait at the replica, at `now` of the store's clock.
    #[must_use]
    pub fn waiting_at(&self, now: Timestamp) -> Waiting {
        let mut waiting = Waiting::default();
        for (lane, calls) in PriorityLane::ALL.into_iter().zip(self.waiting) {
            let age = i64::try_from(calls.age.as_millis()).unwrap_or(i64::MAX);
            waiting = waiting.with(lane, calls.count, now - Millis::new(age));
        }
        waiting
    }

    /// Takes tokens from `bucket` while calls of `others` wait as well. Returns what the replica gets, and its calls that
    /// still wait.
    pub fn take_from(&self, bucket: &mut Bucket, others: &[Waiting], now: Timestamp) -> (TokenGrant, Waiting) {
        let mine = self.waiting_at(now);
        let grant = bucket.grant(self.limit, &mine, others, now);
        let ask_again = grant.ask_again.map(|wait| Duration::from_millis(wait.get().unsigned_abs()));
        let left = mine.less(&grant.tokens);
        (TokenGrant { tokens: grant.tokens, ask_again, rate: bucket.row().rate }, left)
    }
}
