//! Nodes that a graceful method may remove, and the counts of their NodePools that budgets apply
//! to.

use std::collections::{BTreeMap, BTreeSet};

use super::method::DisruptionView;
use super::selection::{MachineNames, PoolFacts, PoolNodes, Protection, Protections, allowance_in_cluster};
use cluster::{ClaimRecord, ClusterState, NodeRecord, PoolRecord, Replacement, Target};
use model::disruption_policy::DisruptionReason;
use model::removal::ClusterBudget;
use model::{BudgetLimit, NodeName, PoolName, Text, Timestamp};

/// An initialized Node of a managed NodePool that is not terminating. No pod is assigned to it, unless
/// it is being replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'v> {
    pub node: &'v NodeRecord,
    pub claim: &'v ClaimRecord,
    pub pool: &'v PoolRecord,
}

impl Candidate<'_> {
    /// Whether the Node or one of its pods blocks voluntary disruption at `now`.
    pub fn is_protected(&self, state: &ClusterState, now: Timestamp) -> bool {
        self.node.blocks_disruption(now) || state.pods_on(&self.node.name).any(|pod| pod.blocks_disruption(now))
    }

    /// What protects the Node and its pods from voluntary disruption.
    pub fn protections(&self, state: &ClusterState) -> Protections {
        protections_of(self.node, state)
    }

    pub fn names(&self) -> MachineNames {
        MachineNames { claim: self.claim.name.clone(), node: self.node.name.clone(), pool: self.pool.pool.name.clone() }
    }

    /// Whether a pod that consolidation has moved, and does not move again yet, came to it after `since`.
    pub fn has_moved_pod(&self, since: Timestamp, view: &DisruptionView<'_>) -> bool {
        let mut moved = view.state.moved_pods_on(&self.node.name, view.move_interval, view.now);
        moved.any(|(pod, _)| pod.created.is_none_or(|created| created > since))
    }
}

/// What protects the Node and its pods from voluntary disruption.
pub(super) fn protections_of(node: &NodeRecord, state: &ClusterState) -> Protections {
    let of_node =
        node.do_not_disrupt.map(|lasts| Protection { of: node.name.as_text().clone(), lasts, from: node.created });
    let stays = state.pods_on(&node.name).filter(|pod| !pod.is_terminal() && !pod.terminating);
    let of_pods = stays.filter_map(|pod| {
        let lasts = pod.do_not_disrupt?;
        Some(Protection { of: Text::from(pod.key.to_string()), lasts, from: pod.started })
    });
    Protections { node: of_node, pods: of_pods.collect() }
}

#[derive(Debug, Default)]
pub(crate) struct Candidates<'v> {
    /// By name of the Node.
    candidates: Vec<Candidate<'v>>,
    /// Nodes that are being replaced, by name.
    replaced: Vec<Candidate<'v>>,
    pools: BTreeMap<&'v PoolName, PoolNodes>,
    /// Replacements of each NodePool that are under way or have led to a removal.
    begun: BTreeMap<&'v PoolName, Vec<Replacement>>,
    cluster_limit: Option<BudgetLimit>,
}

impl<'v> Candidates<'v> {
    /// The candidates in `view`. A node whose removal is decided and not durable counts as
    /// terminating.
    pub fn collect(view: &DisruptionView<'v>) -> Self {
        let state = view.state;
        let assigned = assigned_nodes(state);
        let mut found = Self { cluster_limit: view.max_unavailable_nodes, ..Self::default() };
        for node in state.nodes().filter(|node| node.is_initialized()) {
            let Some(claim) = state.claim_of_node(node).filter(|claim| claim.ours) else { continue };
            let Some(pool) = state.pool(&claim.pool).filter(|pool| state.unmanaged_reason(pool).is_none()) else {
                continue;
            };
            let terminating = state.is_node_terminating(&node.name) || view.being_removed.contains(&claim.name);
            let is_replaced = state.replacement_of(&claim.name).is_some() || view.being_replaced.contains(&claim.name);
            let nodes = found.pools.entry(&claim.pool).or_default();
            nodes.total += 1;
            nodes.unavailable += usize::from(terminating || is_replaced || !node.ready);
            found.begun.entry(&claim.pool).or_default().extend(state.replacement_or_removal_of(&claim.name));
            nodes.not_ready += usize::from(!terminating && !is_replaced && !node.ready);
            if !terminating && is_replaced {
                found.replaced.push(Candidate { node, claim, pool });
            } else if !terminating && !assigned.contains(&node.name) {
                found.candidates.push(Candidate { node, claim, pool });
            }
        }
        found
    }

    /// The candidates, by name of the Node.
    pub fn iter(&self) -> impl Iterator<Item = &Candidate<'v>> {
        self.candidates.iter()
    }

    /// Nodes that are being replaced for `reason`, by name. They are no candidates of other methods.
    pub fn replaced_for(
        &self,
        reason: DisruptionReason,
        view: &DisruptionView<'v>,
    ) -> impl Iterator<Item = &Candidate<'v>> {
        let begun = move |claim: &ClaimRecord| view.state.replacement_of(&claim.name);
        self.replaced.iter().filter(move |one| begun(one.claim).is_some_and(|begun| begun.reason == reason))
    }

    /// When the replacements in `pool` for other reasons than `reason` began, those whose removal has begun included.
    pub(super) fn begun_for_others(&self, pool: &PoolName, reason: DisruptionReason) -> Vec<Timestamp> {
        let begun = self.begun.get(pool).into_iter().flatten();
        begun.filter(|begun| begun.reason != reason).map(|begun| begun.since).collect()
    }

    /// Counts of the initialized Nodes of a NodePool.
    pub(crate) fn nodes_of(&self, pool: &PoolName) -> PoolNodes {
        self.pools.get(pool).copied().unwrap_or_default()
    }

    /// The NodePools of `machines` as their budgets are applied.
    pub(super) fn pools_of<'m>(
        &self,
        machines: impl IntoIterator<Item = &'m Candidate<'v>>,
    ) -> BTreeMap<PoolName, PoolFacts>
    where
        'v: 'm,
    {
        let mut pools = BTreeMap::new();
        for Candidate { pool, .. } in machines {
            let name = &pool.pool.name;
            if !pools.contains_key(name) {
                let (policy, replicas) = (pool.disruption.clone(), pool.pool.replicas);
                pools.insert(name.clone(), PoolFacts { policy, replicas, nodes: self.nodes_of(name) });
            }
        }
        pools
    }

    /// The budget of the cluster with the nodes of all pools; `None` has no limit.
    pub(super) fn cluster_budget(&self) -> Option<ClusterBudget> {
        let none = ClusterBudget { limit: self.cluster_limit?, total: 0, unavailable: 0, not_ready: 0 };
        Some(self.pools.values().fold(none, |sum, pool| ClusterBudget {
            total: sum.total + pool.total,
            unavailable: sum.unavailable + pool.unavailable,
            not_ready: sum.not_ready + pool.not_ready,
            ..sum
        }))
    }

    /// How many further nodes of all pools together the budget of the cluster allows to be removed for `reason`.
    pub(crate) fn cluster_allowance(&self, reason: DisruptionReason) -> usize {
        allowance_in_cluster(self.cluster_budget().as_ref(), reason)
    }
}

/// Nodes that a plan assigned pods to, that kube-scheduler nominated for a pod, or that have room booked by a hold.
fn assigned_nodes(state: &ClusterState) -> BTreeSet<NodeName> {
    let name = |target: &Target| match target {
        Target::Node(node) => Some(node.clone()),
        Target::Claim(claim) => state.node_of_claim(claim).map(|node| node.name.clone()),
    };
    let nominated = state.nominated_pods().filter_map(|pod| state.nominated_node(pod).cloned());
    state.assignments().targets().filter_map(name).chain(nominated).chain(state.held_nodes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{initialized_cluster, key, node, observe, pod, pool, text};
    use cluster::{Object, PodRecord};
    use model::ClaimName;

    fn names<'v>(view: &DisruptionView<'v>) -> Vec<&'v str> {
        Candidates::collect(view).iter().map(|candidate| candidate.claim.name.as_ref()).collect()
    }

    fn counts(view: &DisruptionView<'_>) -> (usize, usize) {
        let nodes = Candidates::collect(view).nodes_of(&text("p"));
        (nodes.total, nodes.unavailable)
    }

    #[test]
    fn assigned_nominated_and_leaving_nodes_are_no_candidates_and_count_for_their_pool() {
        let mut state = initialized_cluster(pool(), &["m0", "m1", "m2", "m3", "m4"]);
        state.assign_pod(key("a"), Target::Claim(text("m0")), None);
        let nominated = PodRecord { nominated: Some(text("n-m1")), ..pod("b", 10) };
        observe(&mut state, 0, [Object::Pod(nominated)]);
        state.mark_for_deletion(&text("m2"));
        let now = Timestamp::from_millis(1_000);
        assert_eq!(names(&DisruptionView::of(&state, now)), ["m3", "m4"]);
        assert_eq!(counts(&DisruptionView::of(&state, now)), (5, 1), "m2 leaves");
        let view = DisruptionView {
            being_removed: BTreeSet::from([ClaimName::from("m3")]),
            ..DisruptionView::of(&state, now)
        };
        assert_eq!((names(&view), counts(&view)), (vec!["m4"], (5, 2)));
        let view = DisruptionView {
            being_replaced: BTreeSet::from([ClaimName::from("m3")]),
            ..DisruptionView::of(&state, now)
        };
        assert_eq!((names(&view), counts(&view)), (vec!["m4"], (5, 2)), "an earlier method of the pass replaces m3");
    }

    #[test]
    fn a_node_that_is_not_ready_is_a_candidate_and_unavailable() {
        let mut state = initialized_cluster(pool(), &["m0"]);
        observe(&mut state, 0, [Object::Node(NodeRecord { ready: false, ..node("m0") })]);
        let view = DisruptionView::of(&state, Timestamp::from_millis(1_000));
        assert_eq!((names(&view), counts(&view)), (vec!["m0"], (1, 1)));
    }
}
