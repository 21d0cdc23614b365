//! The hands: one cluster's side of the conversation with the server.
//!
//! The agent tells what it sees and does what it is told. It never chooses: no rule about nodes, pods or money lives here,
//! and no quantity is computed.
//!
//! Reading order: [`port`] (what a cluster must be able to do for us), [`link`] (the conversation, without I/O), [`intern`]
//! (how what many pods share is sent once), [`run`] (the task that connects the three with a network), [`config`];
//! [`in_full`] tells an error with everything beneath it. The port's implementation for real clusters, and the program, are in
//! `agent/kubernetes`, so that who only simulates clusters builds neither.

mod causes;
pub mod config;
mod credentials;
pub mod intern;
pub mod link;
pub mod port;
pub mod run;

pub use causes::in_full;
pub use port::{Cluster, ClusterError, Done, Identity, Observed, Seen};
pub use run::{RunError, Target, asked_to_stop, run};
