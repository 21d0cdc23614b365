//! Epochs of leases.

use super::StoreError;
use super::lease::{MAX_EPOCH_JUMP, Scope};

/// The next epoch after `held`, the last issued one, and `seen`, the highest that the agent has
/// obeyed.
///
/// # Errors
/// [`StoreError::EpochTooHigh`] when no server can have issued `seen`.
pub fn next_epoch(scope: &Scope, held: u64, seen: u64) -> Result<u64, StoreError> {
    if seen.saturating_sub(held) > MAX_EPOCH_JUMP {
        return Err(StoreError::EpochTooHigh { scope: scope.clone(), seen, held });
    }
    Ok(held.max(seen).saturating_add(1))
}
