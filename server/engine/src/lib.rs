//! The decisions of Fleetwright: which machines to add, replace and remove, and why.
//!
//! Pure and synchronous. Values go in, a plan and its reasons come out; time, seed and order are arguments. The engine
//! knows no runtime, no clock, no network, no file, no cloud and no serialisation format; `clippy.toml` and the test
//! `tests/purity.rs` hold it to that.
//!
//! Reading order: [`model`] (the vocabulary), [`input`] (what a decision is made from), [`schedule`] (pending pods to
//! machines), [`plan`] (the result and its reasons); then [`cluster`] (what is believed of a live cluster), [`disrupt`] (what
//! may go) and [`control`] (when anything is decided).

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
