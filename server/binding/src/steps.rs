//! Limit on the work.

/// Number of steps that are left. A step looks at one node for one pod, or at one pair of classes
/// while their rules are read; it takes about 10 nanoseconds.
#[derive(Debug)]
pub struct Steps(u64);

impl Steps {
    /// A limit of so many steps.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self(limit)
    }

    /// Takes `count` steps; `None` if fewer are left.
    pub(crate) fn take(&mut self, count: usize) -> Option<()> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.0 = self.0.checked_sub(count)?;
        Some(())
    }

    /// Number of steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.0
    }
}
