//! What machines cost, and what it is spent on: pods that run, or one of eight causes of waste.
//!
//! All amounts are integers, and parts always add up to the whole, to the micro-dollar: [`split`] divides the price of a node by
//! what its pods request, [`charge`] is what an interval of time costs at a price, [`divide`] divides that amount as a price
//! is split, and [`CostLedger`] adds up what observed machines cost over time, and [`savings`]
//! compares what a decision was to save with what it has saved. Long runs of the simulation compare it with the
//! bill of the cloud.
//!
//! Decides nothing, and knows no cluster: what a node is used for is told by the caller ([`NodeUse`]).

mod cause;
mod charge;
mod interval;
mod ledger;
mod node_use;
mod parts;
mod savings;

pub use cause::CostCause;
pub use charge::{charge, divide};
pub use interval::{CostInterval, CostedMachine, MovedShare, SavingDecision};
pub use ledger::{CostLedger, ObservedMachine};
pub use node_use::{NodePhase, NodeUse, ResourceUse, split};
pub use parts::CostParts;
pub use savings::{SAVINGS_WINDOW, Saving, savings};
