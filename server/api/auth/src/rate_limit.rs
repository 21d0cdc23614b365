//! Rate limit of one cluster's agent over all its streams: token buckets for messages and bytes.
//! Excess delays only its sender, and reconnecting grants no second burst.

/// A bucket of messages and one of bytes; a negative balance is a delay. Times are milliseconds of
/// any monotonic clock.
#[derive(Debug, Clone)]
pub struct TokenBuckets {
    limits: RateLimits,
    /// Balance in thousandths of a message.
    messages: i64,
    /// Balance in bytes.
    bytes: i64,
    at_ms: i64,
}

#[derive(Debug, Clone, Copy)]
pub struct RateLimits {
    pub(crate) messages_burst: i64,
    /// Messages per second.
    pub(crate) messages_per_s: i64,
    pub(crate) bytes_burst: i64,
    /// Bytes per second.
    pub(crate) bytes_per_s: i64,
}

impl Default for RateLimits {
    /// A snapshot of 5,000 pods takes about 100 messages and 3 MB; a busy cluster sends a few
    /// messages a second. The burst covers a snapshot of 25,000 pods; a larger one takes a second
    /// for each 14,000 pods beyond.
    fn default() -> Self {
        Self { messages_burst: 4_000, messages_per_s: 200, bytes_burst: 16 << 20, bytes_per_s: 8 << 20 }
    }
}

impl TokenBuckets {
    pub fn new(limits: RateLimits, now_ms: i64) -> Self {
        Self { limits, messages: limits.messages_burst * 1000, bytes: limits.bytes_burst, at_ms: now_ms }
    }

    /// Charges a message of `size` bytes; returns the milliseconds to wait before the next one is
    /// read.
    pub fn charge(&mut self, size: i64, now_ms: i64) -> i64 {
        let passed = now_ms.saturating_sub(self.at_ms).max(0);
        self.at_ms = self.at_ms.max(now_ms);
        let (messages_per_ms, bytes_per_ms) =
            (self.limits.messages_per_s.max(1), (self.limits.bytes_per_s / 1000).max(1));
        let refilled = |had: i64, rate: i64, most: i64| had.saturating_add(passed.saturating_mul(rate)).min(most);
        self.messages = refilled(self.messages, messages_per_ms, self.limits.messages_burst * 1000) - 1000;
        self.bytes = refilled(self.bytes, bytes_per_ms, self.limits.bytes_burst).saturating_sub(size);
        let wait = |balance: i64, rate: i64| (-balance).max(0).unsigned_abs().div_ceil(rate.unsigned_abs());
        let wait = wait(self.messages, messages_per_ms).max(wait(self.bytes, bytes_per_ms));
        i64::try_from(wait).unwrap_or(i64::MAX)
    }
}
