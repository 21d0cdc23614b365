//! The work bound of one plan in elementary steps: evaluating one node for one constraint of a
//! class, narrowing options by one requirement, evaluating one instance type. Steps are counted and
//! not timed, so that equal inputs give equal plans on every machine.

use std::cell::Cell;

use model::Stop;

#[derive(Debug)]
pub(super) struct StepBudget {
    bound: u64,
    left: Cell<Option<u64>>,
    /// Steps that are kept for later work.
    reserved: Cell<u64>,
    stop: Stop,
}

/// Steps after which it is asked again whether the work is still needed, as a power of two: some milliseconds.
const STEPS_PER_QUESTION: u32 = 16;

impl StepBudget {
    /// A budget of `bound` steps; unlimited with 0.
    pub(super) fn new(bound: u64) -> Self {
        Self { bound, left: Cell::new((bound > 0).then_some(bound)), reserved: Cell::new(0), stop: Stop::never() }
    }

    /// The budget, which is exhausted early once `stop` is due. One without a bound does not ask.
    pub(super) fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Consumes `count` steps.
    pub(super) fn consume(&self, count: usize) {
        if let Some(left) = self.left.get() {
            let rest = left.saturating_sub(count as u64);
            let asks = left >> STEPS_PER_QUESTION != rest >> STEPS_PER_QUESTION;
            self.left.set(Some(if asks && self.stop.is_due() { 0 } else { rest }));
        }
    }

    /// Steps consumed; 0 without a bound.
    pub(super) fn used(&self) -> u64 {
        self.left.get().map_or(0, |left| self.bound - left)
    }

    /// Runs `work` with a part of the steps that are left.
    pub(super) fn with_percent<T>(&self, percent: u64, work: impl FnOnce() -> T) -> T {
        let before = self.reserved.get();
        let free = self.left.get().map_or(0, |left| left.saturating_sub(before));
        self.reserved.set(before + free - free / 100 * percent);
        let result = work();
        self.reserved.set(before);
        result
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.left.get().is_some_and(|left| left <= self.reserved.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_budget_is_exhausted_early_once_nobody_needs_the_work() {
        let budget = StepBudget::new(1 << 20).until(Stop::when(|| true));
        budget.consume(1);
        assert!(budget.is_exhausted(), "the first step crosses a multiple of 65,536");
        let needed = StepBudget::new(1 << 20).until(Stop::when(|| false));
        needed.consume((1 << 20) - 1);
        assert!(!needed.is_exhausted());
    }

    #[test]
    fn work_with_a_part_of_the_steps_leaves_the_others() {
        let budget = StepBudget::new(1_000);
        budget.consume(500);
        budget.with_percent(60, || {
            budget.consume(299);
            assert!(!budget.is_exhausted());
            budget.consume(1);
            assert!(budget.is_exhausted());
        });
        assert!(!budget.is_exhausted());
        assert_eq!(budget.used(), 800);
    }
}
