//! Disruption of a running cluster: which nodes are removed or replaced, and what holds the others.
//!
//! Reading order: [`drift`] (whether a node still matches its NodePool).

pub mod drift;
