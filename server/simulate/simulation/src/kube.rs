//! A simulated Kubernetes cluster. The demo, the load and crash runs, and the simulation of the
//! whole system run it behind an agent.

pub mod cluster;
pub(crate) mod settled;

pub use cluster::SimulatedCluster;
