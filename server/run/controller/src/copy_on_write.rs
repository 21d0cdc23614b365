//! A value with snapshots: taking one costs nothing, and the first change after it copies the value if the
//! snapshot is still there.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value whose snapshots never change.
#[derive(Debug, Default)]
pub(crate) struct CopyOnWrite<T>(Arc<T>);

impl<T> CopyOnWrite<T> {
    /// The value as it is now.
    pub fn snapshot(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }
}

impl<T> From<T> for CopyOnWrite<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_after_a_snapshot_leaves_the_snapshot_as_it_was() {
        let mut numbers = CopyOnWrite::from(vec![1]);
        let before = numbers.snapshot();
        numbers.push(2);
        assert_eq!((before.as_slice(), numbers.as_slice()), ([1].as_slice(), [1, 2].as_slice()));
    }
}
