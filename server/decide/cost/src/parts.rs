//! An amount by cause.

use std::ops::AddAssign;

use crate::CostCause;

/// An amount by cause: micro-dollars per hour of a price, micro-dollars of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct CostParts([i64; CostCause::ALL.len()]);

impl CostParts {
    /// All of `amount` for one cause.
    #[must_use]
    pub fn of(cause: CostCause, amount: i64) -> Self {
        let mut parts = Self::default();
        parts.add(cause, amount);
        parts
    }

    #[must_use]
    pub fn get(&self, cause: CostCause) -> i64 {
        self.0[cause as usize]
    }

    /// Adds to the amount of a cause; saturates.
    pub fn add(&mut self, cause: CostCause, amount: i64) {
        let part = &mut self.0[cause as usize];
        *part = part.saturating_add(amount);
    }

    #[must_use]
    pub fn total(&self) -> i64 {
        self.0.iter().fold(0, |sum: i64, part| sum.saturating_add(*part))
    }

    /// Amounts in the order of the causes.
    pub fn iter(&self) -> impl Iterator<Item = (CostCause, i64)> + '_ {
        CostCause::ALL.into_iter().map(|cause| (cause, self.get(cause)))
    }
}

impl AddAssign for CostParts {
    fn add_assign(&mut self, other: Self) {
        other.iter().for_each(|(cause, amount)| self.add(cause, amount));
    }
}
