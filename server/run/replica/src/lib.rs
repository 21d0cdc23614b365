//! The decision logic of one server process, without I/O: an [`Input`] and its time go in,
//! [`Output`]s come out. The control loop adds tasks and sockets; the simulation adds a virtual
//! clock and several replicas.
//!
//! The controller decides; the executor orders and retries commands. This crate decides which
//! lease covers which call, and whether and when an agent is accepted ([`admission`],
//! [`handover_wait`]).
//!
//! Reading order: [`Coordinator`] (leases and agents), [`OwnedCluster`] (one cluster), [`Replica`]
//! (both on one thread).

mod admission;
mod call;
mod cloud_poll;
mod coordinator;
pub mod counter_sync;
mod events;
pub mod fence;
mod handover_wait;
pub mod holds;
mod input;
pub mod intents;
pub mod interruptions;
pub mod moves;
pub mod offerings;
mod output;
mod owned_cluster;
pub mod region;
pub mod replacements;
mod replica;

pub use self::admission::ADMISSION_LIMIT;
pub use self::call::{Call, CounterUpdate};
pub use self::coordinator::{Coordinator, Step};
pub use self::input::{Input, ListingError};
pub use self::output::Output;
pub use self::owned_cluster::{ClusterInput, ClusterSettings, OwnedCluster};
pub use self::replica::Replica;
