//! Pods that move when their nodes go.

use model::Pod;
use model::running::RunningPod;

/// A pod that needs a place when its node is removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovablePod<'r> {
    pub(crate) running: &'r RunningPod,
    pub(crate) pod: &'r Pod,
    /// The shape that it states, by index into the input.
    pub(crate) shape: u32,
    /// What its eviction costs, in parts of 2^27; at least 0.
    pub(crate) eviction_cost: i64,
    /// Index of the node that it runs on.
    pub(crate) home: u32,
    /// Index of the node that it is planned on.
    pub(crate) node: u32,
}
