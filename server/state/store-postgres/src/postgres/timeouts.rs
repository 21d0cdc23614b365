//! Time limits of operations.

use std::time::Duration;

/// Timeout for getting a connection from the pool.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Total time of retries. After it the caller decides.
pub(super) const RETRY_BUDGET: Duration = Duration::from_secs(5);

/// `statement_timeout` of every session.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum duration of an operation of the store: retries, then an attempt that waits for a connection
/// and for a statement. A client that waits longer gets the error of the store.
pub const LONGEST_OPERATION: Duration = RETRY_BUDGET.saturating_add(ACQUIRE_TIMEOUT).saturating_add(STATEMENT_TIMEOUT);
