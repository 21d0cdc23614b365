//! Simulation: the production engine with a simulated cloud and simulated clusters on a virtual
//! clock.
//!
//! Reading order: [`cluster`] (a simulated cluster; the demo runs one in each agent process),
//! [`scenario`] (scale events of its workloads), [`simulation`] (the whole system, by seed, with
//! invariants).

pub mod cluster;
pub mod scenario;
pub mod simulation;

pub use cluster::SimulatedCluster;
pub use simulation::Simulation;
