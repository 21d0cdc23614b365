//! The default scores of kube-scheduler (v1.37), each from 0 to 100, and their weights
//! (`scheduler/apis/config/v1/default_plugins.go`). ImageLocality is left out: a new node has no
//! images, and the planning input has none either.

pub(crate) mod normalise;
pub(crate) mod resources;
pub(crate) mod spread;
#[cfg(test)]
mod tests;

/// The highest score of a plugin.
pub(crate) const MAX: i64 = 100;

pub(crate) const TAINT_TOLERATION: i64 = 3;
pub(crate) const NODE_AFFINITY: i64 = 2;
pub(crate) const POD_TOPOLOGY_SPREAD: i64 = 2;
pub(crate) const INTER_POD_AFFINITY: i64 = 2;
/// Weight that a required pod affinity term of a bound pod has (`hardPodAffinityWeight`).
pub(crate) const HARD_POD_AFFINITY: i64 = 1;
