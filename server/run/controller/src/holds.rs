//! Capacity holds: room in a cluster that is booked for pods that do not exist yet.
//!
//! A hold is a row of the store. [`Event::HoldsChanged`](crate::Event::HoldsChanged) brings all live holds of the cluster; a
//! hold that is missing from it has ended. [`Holds`] plans what has no room yet, all of it or nothing, with the planner
//! that plans pods: at most one plan is in progress in a cluster, of pods or of a hold. The places of its pods are recorded
//! with the decision that launches for them, so that the next owner of the cluster knows both or neither.
//!
//! The observed state has the places as [bookings](cluster::Bookings): planning counts them as pods on their nodes,
//! and no voluntary disruption selects these nodes. A pod with the label [`HOLD`] takes the place of a booked pod
//! of its namespace that requests no less; for any other pod on the nodes of a hold the hold is given other room.
//!
//! Reading order: [`hold`] (values), [`ledger`] (the part), `planning` (requests and answers), `reconcile` (what follows from
//! the state of the cluster), `strangers` (what pods are told that have no place in a hold).

pub(crate) mod bookings;
pub mod hold;
pub(crate) mod ledger;
mod planning;
mod reconcile;
pub(crate) mod strangers;

pub use cluster::{HOLD, HoldId};
pub use hold::{CapacityHold, HeldPods, HoldCounts, HoldEnd, HoldKind, HoldPlace, HoldStatus};
pub(crate) use ledger::Holds;
