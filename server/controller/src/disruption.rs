//! Selection of nodes to remove.
//!
//! Functions here read the observed state and select machines; the controller records the decision,
//! checks it again when it is durable, and executes it.
//!
//! Reading order: [`empty`] (nodes without pods other than DaemonSet pods).

pub mod empty;

pub use empty::{EmptyNodes, empty_nodes};
