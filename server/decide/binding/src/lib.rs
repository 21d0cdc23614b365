//! What a launch ends at when kube-scheduler binds its pods by its default scores, without hints.
//!
//! A plan says on which node each pod fits. Without `status.nominatedNodeName` kube-scheduler does
//! not know it: by default it prefers the emptiest node, so that small pods may take the room that
//! was planned for a large one, and another node is launched for that one. [`realise`] carries a
//! plan out in a given [`Order`] of events. The cost at its end is the realised cost of the plan.
//!
//! The simulation has the filters of kube-scheduler that `verifier` judges plans by, and the scores
//! of its default profile (v1.37). Reading order: `launch` (nodes join, pods are bound, the rest is
//! planned again), `queue` (order of events), `cluster` with its `filter` and `score` (one pod),
//! `rules` (constraints of a class of pods, read once for each of the `node_classes`), `scores`
//! (formulas), `tallies` (pods by domain), `hosts` (use of a node). [`ClusterSnapshot`] has the same filters
//! for pods that leave a node that is removed.
//!
//! Simplifications:
//! - Nodes launch as their first option in their first zone, and stay, empty or not.
//! - A node pays the surplus credits of the pods that it was planned for.
//! - Pods that the plan does not place take no part, and no pod is preempted.
//! - Default requests of `LeastAllocated` are per pod, not per container.
//! - The pods of a controller, which are spread by default, are those of equal labels in a
//!   namespace: the planning input has neither the selectors of controllers nor Services.
//! - Nodes are examined in the order in which they joined, not in turn by zone.

mod classes;
mod cluster;
mod hosts;
mod launch;
mod launched;
mod node_classes;
mod queue;
mod random;
mod rules;
mod scores;
mod snapshot;
mod steps;
mod tallies;
#[cfg(test)]
mod tests;

pub use launch::{Realised, realise};
pub use launched::{bound as bound_pod, node as launched_node};
pub use queue::{Joining, Order};
pub use snapshot::ClusterSnapshot;
pub use steps::Steps;
