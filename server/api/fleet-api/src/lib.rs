//! The API for clients: `FleetService` ([`fleet`]) and `CapacityService` ([`capacity`]), and what they answer from.
//!
//! Control loops publish [`views`] and answer [`questions`]; what this replica depends on reports to [`conditions`].

pub mod background_runtime;
pub mod capacity;
pub mod conditions;
pub mod fleet;
pub mod questions;
pub mod views;
