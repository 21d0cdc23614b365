//! The agent: one cluster's side of the stream with the server.
//!
//! The agent reports the cluster's objects and executes instructions. It decides nothing: it has no
//! rule about nodes, pods or prices and computes no quantity.
//!
//! Reading order: [`port`] (the interface to a cluster), [`link`] (the protocol, without I/O),
//! [`intern`] (contents that many pods share, sent once), [`run`] (the task that connects the three
//! to the network), [`disconnect`] (why a connection ended, and the remedy), [`config`];
//! [`error_chain`] formats an error with its causes. The port's
//! implementation for real clusters and the program are in `agent/kubernetes`, so that simulations
//! build neither.

pub mod config;
mod credentials;
mod disconnect;
mod error_chain;
pub mod intern;
pub mod link;
mod pending_changes;
pub mod port;
pub mod run;
#[cfg(test)]
mod temporary_file;

pub use error_chain::error_chain;
pub use port::{Cluster, ClusterError, Done, Identity, ListWatch, Record};
pub use run::{RunError, Target, run, shutdown_signal};
