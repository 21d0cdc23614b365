//! Whether a plan of disruption still holds: what it reads of the nodes that it removes or moves pods to is as
//! it was, and the budgets still admit all removals.

use std::collections::BTreeSet;

use super::budgets::apply_budgets;
use super::candidates::{Candidate, Candidates};
use super::evictions::is_drain_blocked;
use super::method::DisruptionView;
use crate::Removal;
use model::disruption_plan::DisruptionPlan;
use model::disruption_policy::DisruptionReason;
use model::input::PlanningInput;
use model::running::{Consolidatable, RunningCluster, RunningNode};
use model::{ClaimName, Labels, Node, NodeName, NodeStage, PodKey, PodShape, Timestamp};

/// What a plan of disruption is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'f> {
    pub input: &'f PlanningInput,
    pub running: &'f RunningCluster,
}

impl<'f> Facts<'f> {
    fn node(&self, name: &NodeName) -> Option<(&'f Node, &'f RunningNode)> {
        let at = self.input.nodes.binary_search_by(|node| node.name.cmp(name)).ok()?;
        Some((&self.input.nodes[at], self.running.nodes.get(at)?))
    }

    /// The pods on a node, with what planning reads of them.
    fn pods(&self, node: &'f Node) -> Vec<(PodKey, &'f PodShape, &'f Labels, bool)> {
        let pod = |pod: &'f model::BoundPod| {
            let key = PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() };
            let shape = &self.input.shapes[pod.shape as usize];
            (key, shape, &self.input.label_sets[pod.labels as usize], pod.terminating)
        };
        node.pods.iter().map(pod).collect()
    }
}

/// Whether `planned`, which was made from `before` and removes `removals`, does not hold any more.
pub(super) fn is_outdated(
    before: Facts<'_>,
    now: Facts<'_>,
    planned: &DisruptionPlan,
    removals: &[Removal],
    view: &DisruptionView<'_>,
) -> bool {
    let destinations = planned.plan.placements.iter().map(|(_, node)| &planned.input.nodes[*node as usize].name);
    let touched: BTreeSet<&NodeName> = destinations.clone().chain(removals.iter().map(|one| &one.node)).collect();
    let is_place = |name: &NodeName| now.node(name).is_some_and(|(node, _)| node.stage == NodeStage::Initialized);
    !destinations.clone().all(is_place)
        || !touched.into_iter().all(|name| is_same_node(before, now, name))
        || !removals.iter().all(|removal| is_still_removable(before, now, &removal.node, view.now))
        || !are_moves_complete(planned, removals, view)
        || !are_admitted(removals, view)
}

fn is_same_node(before: Facts<'_>, now: Facts<'_>, name: &NodeName) -> bool {
    let (Some((old, _)), Some((new, _))) = (before.node(name), now.node(name)) else { return false };
    let same = |one: &Node, other: &Node| {
        one.pool == other.pool
            && one.labels == other.labels
            && one.taints == other.taints
            && one.unschedulable == other.unschedulable
            && one.allocatable == other.allocatable
            && one.stage == other.stage
            && one.attach_limits == other.attach_limits
    };
    same(old, new) && before.pods(old) == now.pods(new)
}

/// Whether nothing protects the node that did not when the plan was made.
fn is_still_removable(before: Facts<'_>, now: Facts<'_>, name: &NodeName, at: Timestamp) -> bool {
    let (Some((_, old)), Some((_, new))) = (before.node(name), now.node(name)) else { return false };
    let is_consolidatable = new.claim.as_ref().is_some_and(|claim| match claim.consolidatable {
        Consolidatable::From(from) => from <= at,
        Consolidatable::Never => false,
    });
    let facts = |node: &'_ RunningNode| node.pods.iter().map(|pod| pod.facts.clone()).collect::<Vec<_>>();
    let is_unprotected = old.do_not_disrupt == new.do_not_disrupt && new.recent_move.is_none();
    is_consolidatable && is_unprotected && facts(old) == facts(new)
}

/// Whether the plan has a place for each pod that leaves a removed node.
fn are_moves_complete(planned: &DisruptionPlan, removals: &[Removal], view: &DisruptionView<'_>) -> bool {
    let moved: BTreeSet<PodKey> = planned.input.pods.iter().map(model::Pod::key).collect();
    let mut leaving = removals.iter().flat_map(|removal| view.state.pods_to_move_from(&removal.node, view.now));
    leaving.all(|pod| moved.contains(&pod.key)) && planned.plan.unschedulable.is_empty()
}

/// Whether each removed machine is a candidate that nothing protects, and the budgets admit all of them.
fn are_admitted(removals: &[Removal], view: &DisruptionView<'_>) -> bool {
    let candidates = Candidates::collect(view);
    let removed: BTreeSet<&ClaimName> = removals.iter().map(|removal| &removal.claim).collect();
    let selected: Vec<Candidate<'_>> =
        candidates.iter().filter(|candidate| removed.contains(&candidate.claim.name)).copied().collect();
    let is_free = |one: &Candidate<'_>| !one.is_protected(view.state, view.now) && !is_drain_blocked(one, view);
    selected.len() == removed.len()
        && selected.iter().all(is_free)
        && apply_budgets(&candidates, &selected, DisruptionReason::Underutilized, view.now).held.is_empty()
}
