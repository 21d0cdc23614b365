//! Limit on the work.

/// Number of steps that are left. A step looks at one node for one pod, or at one pair of classes
/// while their rules are read; it takes 20 nanoseconds.
#[derive(Debug)]
pub struct Steps {
    left: u64,
    pace: Pace,
}

/// The pods that wait for nodes, and the steps for them.
#[derive(Debug, Default)]
struct Pace {
    /// Steps that were left when the first node joined.
    beginning: u64,
    waiting: usize,
    bound: usize,
}

impl Steps {
    /// A limit of so many steps.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { left: limit, pace: Pace::default() }
    }

    /// Takes `count` steps; `None` if fewer are left.
    pub(crate) fn take(&mut self, count: usize) -> Option<()> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(count)?;
        Some(())
    }

    /// Begins to bind `waiting` pods to nodes that join.
    pub(crate) fn begin(&mut self, waiting: usize) {
        self.pace = Pace { beginning: self.left, waiting, bound: 0 };
    }

    /// Counts a pod that was bound or fits nowhere yet. `None` if the pods need more steps than there are: a
    /// quarter of them is taken, and less than an eighth of the pods are bound. The steps for one pod grow at
    /// most with the pods that wait: with an eighth of those bound, 1 − (7/8)² = 23 % are taken.
    pub(crate) fn count_pod(&mut self, is_bound: bool) -> Option<()> {
        let pace = &mut self.pace;
        pace.bound += usize::from(is_bound);
        let is_behind = self.left < pace.beginning - pace.beginning / 4 && 8 * pace.bound < pace.waiting;
        (!is_behind).then_some(())
    }

    /// Number of steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}
