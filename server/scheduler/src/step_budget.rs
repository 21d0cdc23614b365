//! The work bound of one plan in elementary steps: evaluating one node for one constraint of a
//! class, narrowing options by one requirement, evaluating one instance type. Steps are counted and
//! not timed, so that equal inputs give equal plans on every machine.

use std::cell::Cell;

/// Steps that are left.
#[derive(Debug)]
pub(super) struct StepBudget {
    left: Cell<Option<u64>>,
}

impl StepBudget {
    /// A budget of `bound` steps; unlimited with 0.
    pub(super) fn new(bound: u64) -> Self {
        Self { left: Cell::new((bound > 0).then_some(bound)) }
    }

    /// Consumes `count` steps.
    pub(super) fn consume(&self, count: usize) {
        if let Some(left) = self.left.get() {
            self.left.set(Some(left.saturating_sub(count as u64)));
        }
    }

    /// Whether no step is left.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.get() == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::StepBudget;

    #[test]
    fn a_budget_is_exhausted_after_its_bound_and_never_without_one() {
        let budget = StepBudget::new(3);
        budget.consume(2);
        assert!(!budget.is_exhausted());
        budget.consume(2);
        assert!(budget.is_exhausted());
        let unbounded = StepBudget::new(0);
        unbounded.consume(usize::MAX);
        assert!(!unbounded.is_exhausted());
    }
}
