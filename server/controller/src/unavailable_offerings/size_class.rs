//! Classes of how many instances a launch asks for.

/// Smallest number of instances of each class: 1, 2 to 4, 5 to 16, 17 and more.
const LOWER_BOUNDS: [u32; 4] = [1, 2, 5, 17];

/// How many instances a launch asks for. Capacity for one instance says little about capacity for twenty, so a refusal
/// holds for its class and larger ones, and a success for its class and smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeClass(u32);

impl SizeClass {
    /// Launches of one instance: all launches today.
    pub const ONE: Self = Self(1);

    /// The class of a launch that asks for `count` instances.
    #[must_use]
    pub fn of(count: u32) -> Self {
        let bounds = LOWER_BOUNDS.iter().rev().find(|bound| **bound <= count);
        Self(*bounds.unwrap_or(&LOWER_BOUNDS[0]))
    }

    /// Smallest number of instances of the class.
    #[must_use]
    pub fn smallest(self) -> u32 {
        self.0
    }
}
