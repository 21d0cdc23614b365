//! The hosts that a spread constraint counts: those admitted by its inclusion policies and carrying
//! all hard topology keys of the pod (kube-scheduler counts only nodes with every topology key of
//! the hard constraints).

use std::collections::BTreeSet;

use super::super::launch::{Certainty, Launch, Launches};
use super::super::node_fit::{RequiredNodeAffinity, cordon_taint, tolerates_node};
use model::input::PlanningInput;
use model::taints::first_untolerated;
use model::{Node, NodeStage, PodShape, SpreadConstraint, Taint, Toleration};

/// When the placements of a plan are judged, with respect to nodes that are being deleted.
#[derive(Debug, Clone, Copy)]
pub(super) enum LeavingNodes<'l> {
    /// After they are gone.
    Gone,
    /// While they are drained: kube-scheduler counts them as members of their domains. Those of `later` have no taint yet.
    There { later: &'l BTreeSet<u32> },
}

#[derive(Debug)]
pub struct HostFilter<'a> {
    /// Required labels: the hard topology keys of the pod.
    keys: Vec<&'a str>,
    /// Node selector and node affinity, if honoured.
    node_affinity: Option<RequiredNodeAffinity<'a>>,
    /// Tolerations checked against the taints of the host, if honoured.
    tolerations: Option<&'a [Toleration]>,
}

/// The topology keys of the hard spread constraints of a pod, sorted and unique.
pub(super) fn hard_keys(shape: &PodShape) -> Vec<&str> {
    let hard = shape.spread.iter().filter(|constraint| constraint.hard);
    let mut keys: Vec<&str> = hard.map(|constraint| constraint.topology_key.as_ref()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Whether the pod may exclude a node by node selector or node affinity.
pub(super) fn is_selective(shape: &PodShape) -> bool {
    !(shape.node_selector.is_empty() && shape.node_affinity.is_empty())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is not counted.
    No,
    /// Depends on the outcome of the launch.
    Depends,
    /// It is counted.
    Yes,
    /// Its pods count, but the host makes no domain: it is being deleted.
    PodsOnly,
}

impl<'a> HostFilter<'a> {
    /// The filter of a hard spread constraint of a pod of `shape`.
    #[must_use]
    pub fn of(shape: &'a PodShape, constraint: &SpreadConstraint) -> Self {
        let honoured = constraint.honor_node_affinity && is_selective(shape);
        Self {
            keys: hard_keys(shape),
            node_affinity: honoured.then(|| RequiredNodeAffinity::of(shape)),
            tolerations: constraint.honor_node_taints.then_some(shape.tolerations.as_slice()),
        }
    }

    /// The admission of each host, once the nodes that are being deleted are gone: the nodes of the input, then
    /// the planned nodes for pods.
    #[must_use]
    pub fn admissions(&self, input: &PlanningInput, launches: &Launches<'_>) -> Vec<Admission> {
        self.admissions_with(input, launches, LeavingNodes::Gone)
    }

    pub(super) fn admissions_with(
        &self,
        input: &PlanningInput,
        launches: &Launches<'_>,
        leaving: LeavingNodes<'_>,
    ) -> Vec<Admission> {
        let cordon = cordon_taint();
        let of_launch: Vec<Admission> = launches.list.iter().map(|launch| self.on_launch(launch)).collect();
        let nodes = (0..).zip(&input.nodes).map(|node| self.on_node(node, &cordon, leaving));
        let new = launches.of_node.iter();
        nodes.chain(new.map(|launch| launch.map_or(Admission::No, |launch| of_launch[launch as usize]))).collect()
    }

    /// The values of `key` on the outcomes of `launch` that the filter admits.
    pub(super) fn admitted_values<'l>(&self, launch: &Launch<'l>, key: &str) -> Vec<&'l str> {
        let node_affinity = self.node_affinity.as_ref();
        launch.values_where(key, |outcome| {
            node_affinity
                .is_none_or(|node_affinity| node_affinity.matches_outcome(launch, outcome, Certainty::Possible))
        })
    }

    fn on_node(&self, (at, node): (u32, &Node), cordon: &Taint, leaving: LeavingNodes<'_>) -> Admission {
        let admitted = self.keys.iter().all(|key| node.labels.contains_key(*key))
            && self.node_affinity.as_ref().is_none_or(|node_affinity| node_affinity.matches_node(node))
            && self.tolerations.is_none_or(|tolerations| tolerates_node(node, tolerations, cordon));
        match (admitted, node.stage, leaving) {
            (false, _, _) => Admission::No,
            (true, NodeStage::Deleting, LeavingNodes::Gone) => Admission::PodsOnly,
            (true, NodeStage::Deleting, LeavingNodes::There { later })
                if !later.contains(&at) && !self.tolerates_drain() =>
            {
                Admission::No
            }
            (true, _, _) => Admission::Yes,
        }
    }

    /// Whether a node with the taint of a drain counts.
    fn tolerates_drain(&self) -> bool {
        self.tolerations.is_none_or(|tolerations| first_untolerated(&[Taint::of_drain()], tolerations).is_none())
    }

    fn on_launch(&self, launch: &Launch<'_>) -> Admission {
        let barred = |tolerations| first_untolerated(&launch.pool.taints, tolerations).is_some();
        if self.tolerations.is_some_and(barred) || launch.outcomes.is_empty() {
            return Admission::No;
        }
        let keys: Vec<_> = self.keys.iter().map(|key| launch.values(key)).collect();
        let lacks = |sometimes: bool| {
            keys.iter()
                .any(|values| if sometimes { values.contains(&None) } else { values.iter().all(Option::is_none) })
        };
        let possible = |node_affinity: &RequiredNodeAffinity<'_>| {
            launch.outcomes.iter().any(|o| node_affinity.matches_outcome(launch, o, Certainty::Possible))
        };
        let node_affinity = self.node_affinity.as_ref();
        if lacks(false) || !node_affinity.is_none_or(possible) {
            Admission::No
        } else if lacks(true) || !node_affinity.is_none_or(|node_affinity| node_affinity.always_matches(launch)) {
            Admission::Depends
        } else {
            Admission::Yes
        }
    }
}
