//! Seeded random numbers as a tree: each decision has its own node, so that an added decision
//! changes no other.

/// One node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Root of a seed's tree.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6a09_e667_f3bc_c908))
    }

    /// Child node of a named decision.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        Self(name.bytes().fold(self.0, |state, byte| mix(state ^ u64::from(byte))))
    }

    /// Child node of the `number`th decision.
    #[must_use]
    pub fn child_number(self, number: u64) -> Self {
        Self(mix(self.0 ^ mix(number)))
    }

    /// Random value of the node.
    #[must_use]
    pub fn value(self) -> u64 {
        mix(self.0)
    }

    /// True with a probability of `percent`.
    #[must_use]
    pub fn percent(self, percent: u32) -> bool {
        self.value() % 100 < u64::from(percent)
    }

    /// A number from `range.0` to `range.1`, both included; `range.0` when the range is empty.
    #[must_use]
    pub fn between(self, range: (i64, i64)) -> i64 {
        let width = u64::try_from(range.1.saturating_sub(range.0)).unwrap_or(0).saturating_add(1);
        range.0.saturating_add(i64::try_from(self.value() % width).unwrap_or(0))
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
