//! Whether a computation is still needed.

use std::fmt;
use std::sync::Arc;

/// Tells a computation that nobody needs its result any more. It is asked between steps; what was computed until then is
/// dropped, so that it changes no result.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// The result is needed however long it takes.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// The result is not needed once `is_due` returns true.
    #[must_use]
    pub fn when(is_due: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_due)))
    }

    /// Whether the result is not needed any more.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.as_ref().is_some_and(|is_due| is_due())
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.0.is_some()).finish()
    }
}
