//! Exponential backoff with jitter: each delay doubles up to a limit, and the jitter prevents
//! simultaneous retries.

use model::Millis;

/// Step after the first failure.
const FIRST_BACKOFF: Millis = Millis::new(500);
/// Longest step. A recovered cloud or agent is noticed within this time.
const MAX_BACKOFF: Millis = Millis::from_secs(30);

/// Capped exponential backoff with jitter by seed.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    seed: u64,
}

impl Backoff {
    /// A backoff whose jitter follows `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Delay of command `id` after `tries` tries: between half of the step and the whole step.
    #[must_use]
    pub fn wait(self, id: u64, tries: u32) -> Millis {
        let doublings = tries.saturating_sub(1).min(16);
        let step = (FIRST_BACKOFF * (1 << doublings)).min(MAX_BACKOFF).get();
        let half = step / 2;
        let spread = mix(self.seed ^ mix(id ^ mix(u64::from(tries)))) % u64::try_from(half + 1).unwrap_or(1);
        Millis::new(half + i64::try_from(spread).unwrap_or(0))
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_are_capped() {
        let wait = |id, tries| Backoff::new(7).wait(id, tries).get();
        for id in 0..50 {
            // Steps of 500, 1000, …, 16000, then 30000 ms; each wait is at least half of its step.
            assert!((250..=500).contains(&wait(id, 1)));
            assert!((500..=1000).contains(&wait(id, 2)));
            assert!((8_000..=16_000).contains(&wait(id, 6)));
            assert!((15_000..=30_000).contains(&wait(id, 7)));
            assert!((15_000..=30_000).contains(&wait(id, 400)));
        }
    }

    #[test]
    fn commands_are_not_retried_simultaneously() {
        let waits: std::collections::BTreeSet<Millis> = (0..20).map(|id| Backoff::new(7).wait(id, 5)).collect();
        assert!(waits.len() > 10, "20 commands wait {} different times", waits.len());
    }
}
