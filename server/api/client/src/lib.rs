//! Commands that ask a running server: one module per subject, and [`remote`], which connects.

pub mod archive;
pub mod audit;
pub mod cluster_names;
pub mod clusters;
pub mod fleet;
pub mod forget;
pub mod freezes;
pub mod hold;
mod pod_flags;
pub mod quarantine;
pub mod quote;
pub mod remote;
pub mod removals;
pub mod top;
pub mod why;
