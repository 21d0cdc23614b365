//! Emptiness: removes Nodes that have only DaemonSet pods (Karpenter: emptiness).
//!
//! A Node is removed when it is initialized, no pod is assigned to it, no pod blocks its
//! disruption, its NodePool's `consolidateAfter` has passed since the last pod event, and the
//! pool's budgets allow it, under each consolidation policy. One whose DaemonSet pods a PodDisruptionBudget keeps from
//! eviction stays: its drain would not end.

use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::selection::{EmptyMachine, EmptyMachines, SelectionFacts, SelectionInput};
use cluster::{ClusterState, PodRecord};
use model::removal::RemovalReason;

#[derive(Debug)]
pub(crate) struct Emptiness;

impl Method for Emptiness {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Empty
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let candidates = Candidates::collect(view);
        let is_found = |candidate: &&Candidate<'_>| {
            is_empty(candidate, view.state) && view.state.drain_blockers(&candidate.node.name, view.now).is_empty()
        };
        let empty = || candidates.iter().filter(is_found);
        let machine = |candidate: &Candidate<'_>| EmptyMachine {
            machine: candidate.names(),
            protections: candidate.protections(view.state),
            last_pod_event: view.state.last_pod_event(&candidate.node.name),
        };
        let facts = EmptyMachines {
            machines: empty().map(machine).collect(),
            pools: candidates.pools_of(empty()),
            cluster: candidates.cluster_budget(),
        };
        self.input(view, SelectionFacts::Empty(facts))
    }
}

fn is_empty(candidate: &Candidate<'_>, state: &ClusterState) -> bool {
    !state.pods_on(&candidate.node.name).any(PodRecord::is_reschedulable)
}

#[cfg(test)]
mod tests;
