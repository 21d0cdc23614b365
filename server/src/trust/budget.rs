//! How much the agent of one cluster may say, on all its streams: messages and bytes refill at a steady rate, and what goes
//! beyond waits. A flood holds up nobody but its sender, and connecting again buys no second burst.

/// A bucket of messages and one of bytes; a debt is what has to be waited for. Moments are milliseconds of any clock that does
/// not go back.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    limits: Limits,
    /// Thousandths of a message.
    messages: i64,
    /// Bytes.
    bytes: i64,
    at_ms: i64,
}

/// What an agent may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Messages at once.
    pub(crate) messages_burst: i64,
    /// Messages a second.
    pub(crate) messages_per_s: i64,
    /// Bytes at once.
    pub(crate) bytes_burst: i64,
    /// Bytes a second.
    pub(crate) bytes_per_s: i64,
}

impl Default for Limits {
    /// A snapshot of 5,000 pods takes about 100 messages and 3 MB; a busy cluster sends a few messages a second. The burst is a
    /// snapshot of 25,000 pods; a larger one takes a second for each 14,000 pods beyond.
    fn default() -> Self {
        Self { messages_burst: 4_000, messages_per_s: 200, bytes_burst: 16 << 20, bytes_per_s: 8 << 20 }
    }
}

impl Budget {
    /// A full budget.
    pub(crate) fn new(limits: Limits, now_ms: i64) -> Self {
        Self { limits, messages: limits.messages_burst * 1000, bytes: limits.bytes_burst, at_ms: now_ms }
    }

    /// Takes a message of `size` bytes into account. Milliseconds to wait before the next one is read.
    pub(crate) fn spend(&mut self, size: i64, now_ms: i64) -> i64 {
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
