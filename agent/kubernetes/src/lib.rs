//! The agent's port on a Kubernetes API server.
//!
//! Reading order: [`connect`] (client and identity), [`api_access`] and `facts` (what new nodes need to join), [`leader`] (leader election), [`watch`] and
//! [`records`] (which objects are watched, and which fields leave the cluster), [`object_cache`]
//! (what is sent to the server), [`actions`] (execution of instructions, restartable at any point),
//! [`nomination`] (`status.nominatedNodeName` for kube-scheduler), [`epoch`] (the stored epoch),
//! [`cluster`] (the implementation of [`agent::Cluster`]), [`entrypoint`] (the program). [`fields`]
//! and [`timestamps`] convert values.
//!
//! Nothing is decided here. Where two behaviours are possible, the instruction selects one, or
//! Kubernetes and Karpenter do, whose rules are cited at the constants. The README lists every
//! request, which is the role that the agent needs.

pub mod actions;
pub mod api;
pub mod api_access;
mod autoscaler;
pub mod cluster;
pub mod conditions;
pub mod connect;
pub mod entrypoint;
pub mod epoch;
pub mod error;
mod facts;
mod fields;
pub mod leader;
mod lease_access;
pub mod nomination;
pub mod object_cache;
mod probe;
pub mod records;
pub mod resource;
mod timestamps;
pub mod watch;

pub use cluster::Kubernetes;
