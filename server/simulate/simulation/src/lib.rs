//! Simulated clusters, clouds and faults around the real programs. Only `fleetwright-sim` and tests depend on this crate.
//!
//! Reading order: [`kube`] (a simulated cluster), [`deterministic`] (the whole system under faults
//! on a virtual clock, by seed), [`simulated_cloud`] (the simulated cloud as a process), [`demo`]
//! (the whole system on one host), [`crashes`] (server processes killed during launches), [`load`]
//! (many clusters at once), [`holds`] (holds of capacity on servers that are killed), [`interruptions`] (spot interruption notices for many clusters); [`processes`] starts
//! server and cloud processes for the latter four, and `fleet` their clusters.

mod cloud_interface;
pub mod crashes;
pub mod demo;
pub mod deterministic;
mod fleet;
pub mod holds;
pub mod interruptions;
pub mod kube;
mod ledgers;
pub mod load;
pub mod measured;
mod pod_template;
pub mod processes;
pub mod simulated_cloud;

pub use cloud_interface::CloudInterface;
