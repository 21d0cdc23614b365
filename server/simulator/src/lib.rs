//! The rehearsal: the real engine against a simulated cloud and simulated clusters on a virtual clock.
//!
//! Reading order: [`cluster`] (a simulated cluster; the demo runs one in each agent's process).

pub mod cluster;

pub use cluster::SimulatedCluster;
