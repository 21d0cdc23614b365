//! The decision engine of Fleetwright: which nodes to add, replace and remove, and why.
//!
//! Pure and synchronous. Input values produce a plan and its reasons; time, seed and order are
//! arguments. The engine has no runtime, clock, network, file access, cloud client or serialization
//! format. `clippy.toml` and `tests/purity.rs` enforce this.
//!
//! Reading order: [`model`] (the vocabulary), [`input`] (what a decision is computed from),
//! [`schedule`] (pending pods to nodes), [`plan`] (the result and its reasons); then [`cluster`]
//! (the observed state of a live cluster), [`disrupt`] (which nodes may be removed) and [`control`]
//! (when a decision is made).

pub mod bound;
pub mod check;
pub mod cluster;
pub mod control;
pub mod decide;
pub mod disrupt;
pub mod explain;
pub mod input;
pub mod model;
pub mod plan;
pub mod schedule;
