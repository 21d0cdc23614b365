//! The hands on a real cluster: the agent's port on a Kubernetes API server.
//!
//! Reading order: [`connect`] (how it is reached), [`leader`] (which replica works), [`watch`] and [`seen`] (what is there, and what
//! of it leaves the cluster), [`picture`] (what the server is told), [`obey`] (what is done, and how it is made good when it is cut
//! short), [`hints`] (what kube-scheduler is told), [`epoch`] (what a restarted agent must not forget), [`cluster`] (all of it behind
//! [`agent::Cluster`]), [`program`] (the program around it). How objects and moments are spelled is in [`fields`] and [`moment`].
//!
//! Nothing is decided here. Where two ways lead on, the instruction says which, or Kubernetes and Karpenter do, whose rules are
//! named beside the constants. The README has the table of every request that is made, which is the role that the agent needs.

pub mod api;
mod autoscaler;
pub mod cluster;
pub mod conditions;
pub mod connect;
pub mod epoch;
pub mod error;
mod fields;
pub mod hints;
pub mod leader;
mod moment;
pub mod obey;
pub mod picture;
mod probe;
pub mod program;
pub mod resource;
pub mod seen;
pub mod watch;

pub use cluster::Kubernetes;
