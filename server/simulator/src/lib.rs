//! The simulation: the real engine against a simulated cloud and simulated clusters on a virtual clock.
//!
//! Reading order: [`cluster`] (a simulated cluster; the demo runs one in each agent's process), [`script`] (what its
//! workloads do), [`simulation`] (everything together, by seed, with invariants).

pub mod cluster;
pub mod script;
pub mod simulation;

pub use cluster::SimulatedCluster;
pub use simulation::Simulation;
