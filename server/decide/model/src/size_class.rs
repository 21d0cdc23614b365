//! Classes of how many instances a launch asks for.

/// How many instances a launch asks for: 1, 2 to 4, 5 to 16, or 17 and more. Capacity for one instance says little about
/// capacity for twenty, so a refusal holds for its class and larger ones, and a success for its class and smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u32);

impl SizeClass {
    /// Launches of one instance: all launches today.
    pub const ONE: Self = Self(1);

    /// All classes, the smallest first.
    pub const ALL: [Self; 4] = [Self::ONE, Self(2), Self(5), Self(17)];

    /// The class of a launch that asks for `count` instances.
    #[must_use]
    pub fn of(count: u32) -> Self {
        Self::ALL.into_iter().rev().find(|class| class.0 <= count).unwrap_or(Self::ONE)
    }

    /// Smallest number of instances of the class.
    #[must_use]
    pub fn smallest(self) -> u32 {
        self.0
    }

    /// Largest number of instances of the class.
    #[must_use]
    pub fn largest(self) -> u32 {
        let larger = Self::ALL.into_iter().find(|class| *class > self);
        larger.map_or(u32::MAX, |class| class.0 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_instances_is_in_one_class() {
        let class = |count| SizeClass::of(count).smallest();
        assert_eq!([0, 1, 2, 4, 5, 16, 17, 1_000].map(class), [1, 1, 2, 2, 5, 5, 17, 17]);
        assert_eq!(SizeClass::ALL.map(SizeClass::largest), [1, 4, 16, u32::MAX]);
    }
}
