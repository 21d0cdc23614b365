//! The probability that a launch gets the capacity that it asks for, learned from the outcomes of earlier launches.
//!
//! [`CapacityOdds::record`] takes the outcome of a launch in a capacity pool: so many instances asked for, so many
//! launched. [`CapacityOdds::odds`] gives the probability for a launch to come, with the number of outcomes that it is
//! made of. Time is an argument; the same calls in the same order give the same values.
//!
//! How a probability is made, in three steps:
//!
//! 1. **Evidence.** Outcomes of a capacity pool count for its [size classes](model::SizeClass) and lose half their weight
//!    in [`HALF_LIFE`]. [`CapacityOdds::posterior`] is the mean of a Beta distribution over these counts alone.
//! 2. **Pooling.** What the counts of one pool leave open is filled from its own outcomes of the last hours, from what
//!    its zone and its instance family do at the moment compared with what they usually do, and from the whole fleet.
//! 3. **Recalibration.** The estimator records what it would have said before each outcome, and what happened. Where
//!    those differ, statements are corrected, so that of all launches that are given 70 %, about 70 % succeed,
//!    whatever the process behind the capacity is.
//!
//! [`CapacityOdds::order_odds`] is the probability that several launches with alternatives all succeed.
//!
//! Reading order: [`capacity_pool`], `tally` (decayed counts), `history` (counts by size class), `scope` (what counts are
//! about), [`recalibration`], [`estimator`], [`order`], [`snapshot`].

pub mod capacity_pool;
pub mod estimator;
mod history;
pub mod order;
pub mod recalibration;
pub mod scope;
pub mod snapshot;
pub mod tally;

pub use capacity_pool::CapacityPool;
pub use estimator::{CapacityOdds, HALF_LIFE, MAX_SCOPES, Odds};
pub use order::{LaunchRequest, OddsSnapshot};
pub use scope::{Extent, Scope};
pub use snapshot::{HistoryRow, RecalibrationRow, Snapshot};
pub use tally::Tally;

#[cfg(test)]
mod tests;
