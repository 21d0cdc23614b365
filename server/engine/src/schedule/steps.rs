//! The bound on the work of one plan, counted in elementary steps: the look at one machine for one constraint of a class of pods, the
//! narrowing of options by one requirement, the look at one kind of machine to buy. Counted and not timed, so that the same
//! input gives the same plan on every machine.

use std::cell::Cell;

/// Steps that are left.
#[derive(Debug)]
pub(super) struct Steps {
    left: Cell<Option<u64>>,
}

impl Steps {
    /// So many steps; any number with 0.
    pub(super) fn new(bound: u64) -> Self {
        Self { left: Cell::new((bound > 0).then_some(bound)) }
    }

    /// Takes so many.
    pub(super) fn take(&self, count: usize) {
        if let Some(left) = self.left.get() {
            self.left.set(Some(left.saturating_sub(count as u64)));
        }
    }

    /// Whether none are left.
    pub(super) fn are_spent(&self) -> bool {
        self.left.get() == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn steps_are_spent_when_as_many_were_taken_and_never_without_a_bound() {
        let steps = Steps::new(3);
        steps.take(2);
        assert!(!steps.are_spent());
        steps.take(2);
        assert!(steps.are_spent());
        let unbounded = Steps::new(0);
        unbounded.take(usize::MAX);
        assert!(!unbounded.are_spent());
    }
}
