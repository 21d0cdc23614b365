//! Delay before the next connection.

/// First wait, in milliseconds: a server that stops has released its leases by then, and another
/// server acquires them.
const FIRST_MS: u64 = 250;
/// Longest wait, in milliseconds. Other servers reject an agent whose server was killed until that
/// server's leases have expired, and the agent waits at most this long beyond that; a fleet of a
/// thousand agents sends a hundred Hellos a second meanwhile.
const LONGEST_MS: u64 = 10_000;

/// Exponential backoff with jitter of up to a half, so that the agents of a fleet whose server
/// restarted do not reconnect at the same time.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    first_ms: u64,
    longest_ms: u64,
    state: u64,
}

impl Backoff {
    /// Waits that depend on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_longest(LONGEST_MS, seed)
    }

    /// The same with another longest wait, in milliseconds.
    #[must_use]
    pub fn with_longest(longest_ms: u64, seed: u64) -> Self {
        Self::between(FIRST_MS, longest_ms, seed)
    }

    /// The same with another first and another longest wait, in milliseconds.
    #[must_use]
    pub fn between(first_ms: u64, longest_ms: u64, seed: u64) -> Self {
        Self { failures: 0, first_ms, longest_ms, state: seed }
    }

    /// Resets the backoff after a stable connection: the next failure waits the first interval.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure, in milliseconds.
    pub fn next_wait_ms(&mut self) -> u64 {
        let full = self.first_ms.saturating_mul(1 << self.failures.min(16)).min(self.longest_ms);
        self.failures = self.failures.saturating_add(1);
        full - self.next_random() % (full / 2 + 1)
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): one word of state, well mixed from any seed.
    fn next_random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_cut_by_no_more_than_half() {
        let mut backoff = Backoff::new(7);
        // 250 × 2^6 = 16,000 is the first to exceed the longest wait.
        for full in [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            let wait = backoff.next_wait_ms();
            assert!((full / 2..=full).contains(&wait), "{wait} for {full}");
        }
        backoff.reset();
        assert!(backoff.next_wait_ms() <= 250);
    }

    #[test]
    fn agents_with_different_seeds_wait_differently() {
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..8).map(|_| backoff.next_wait_ms()).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
