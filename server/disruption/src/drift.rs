//! Drift: a node that does not match its NodePool or NodeClass any more.
//!
//! The rules are those of the crate `drift`, which the controller uses too.

pub use drift::{Drift, DriftClaim, DriftPool, DriftReason, HASH_VERSION, NodePoolTemplate, VersionedHash, detect};
