//! A compact set of small integers.

use smallvec::SmallVec;

/// A set of indices below a fixed size. The operands of an operation have equal sizes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct BitSet(SmallVec<[u64; 2]>);

impl BitSet {
    /// No index below `size`.
    pub(super) fn empty(size: usize) -> Self {
        Self(SmallVec::from_elem(0, size.div_ceil(64)))
    }

    /// Every index below `size`.
    pub(super) fn full(size: usize) -> Self {
        let mut words = SmallVec::from_elem(u64::MAX, size.div_ceil(64));
        if let Some(last) = words.last_mut().filter(|_| !size.is_multiple_of(64)) {
            *last = (1 << (size % 64)) - 1;
        }
        Self(words)
    }

    pub(super) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(super) fn intersect(&mut self, other: &Self) {
        for (word, theirs) in self.0.iter_mut().zip(&other.0) {
            *word &= theirs;
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.intersect(other);
        result
    }

    /// The contained indices, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_the_inserted_indices() {
        let mut set = BitSet::empty(130);
        for at in [0, 63, 64, 129] {
            set.insert(at);
        }
        set.remove(63);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 129]);
        assert!(set.overlaps(&BitSet::full(130)) && !BitSet::empty(130).overlaps(&set));
        for size in [0, 1, 63, 64, 65, 128] {
            assert!(BitSet::full(size).iter().eq(0..size), "all of {size}");
        }
    }
}
