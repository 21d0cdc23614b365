//! The plan in progress for a cluster: its assumptions, and the check of what still holds when the
//! plan arrives.
//!
//! A plan is computed from the state at the time of the request. Pods that were deleted, bound or
//! changed since are dropped from it. A machine is not launched if its NodePool has changed, was
//! frozen, has no available offering or has reached its limits; a pod is not assigned to a node
//! that is terminating. Dropped parts are planned again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LaunchView;
use crate::guardrails::BackedOffPods;
use crate::order;
use cluster::{ClusterState, PodRecord};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode};
use model::resources::NODES;
use model::{
    CapacityType, ClaimName, InstanceTypeName, Labels, LaunchOption, MicroUsd, Millis, NodePool, NodeStage, PodShape,
    PoolName, Resources, Text, Timestamp, VolumeAlternatives, Zone,
};

/// How long empty nodes are kept for a plan in progress that may use them. A plan has bounded steps
/// and takes seconds; if it waits longer in a queue, the nodes may be gone, and it is computed
/// again for their pods.
pub const KEEP_NODES_FOR: Millis = Millis::from_mins(5);

/// A requested plan without answer.
#[derive(Debug)]
pub(super) struct PendingPlan {
    /// When it was requested.
    since: Timestamp,
    /// When the batch window of its pods was opened.
    opened: Option<Timestamp>,
    due: Timestamp,
    /// Version of the cluster state in the request.
    version: u64,
    /// Pods for which guardrails have no machine launched.
    backed_off: BackedOffPods,
    /// Number of pods in the request.
    pods: usize,
    /// NodeClaims whose drain waits for the plan.
    drains: Vec<ClaimName>,
    relied_on: PlanAssumptions,
}

/// State of pods and NodePools at the time of the request.
#[derive(Debug)]
struct PlanAssumptions {
    /// Facts of each pod, in the order of the input.
    pods: Vec<Option<PodFacts>>,
    /// Facts of each NodePool, by name.
    pools: BTreeMap<PoolName, PoolFacts>,
}

/// The parts of a pod that planning reads. Records share them, so most comparisons compare
/// addresses.
#[derive(Debug)]
struct PodFacts {
    uid: Text,
    shape: Arc<PodShape>,
    labels: Arc<Labels>,
    volumes: Option<Arc<VolumeAlternatives>>,
}

#[derive(Debug)]
struct PoolFacts {
    revision: Text,
    used: Resources,
}

impl PodFacts {
    fn of(pod: &PodRecord) -> Self {
        let PodRecord { uid, shape, labels, volumes, .. } = pod;
        Self { uid: uid.clone(), shape: shape.clone(), labels: labels.clone(), volumes: volumes.clone() }
    }

    fn matches(&self, pod: &PodRecord) -> bool {
        self.uid == pod.uid && self.shape == pod.shape && self.labels == pod.labels && self.volumes == pod.volumes
    }
}

impl PendingPlan {
    /// A plan that is requested at `now`, and what it assumes about `state`.
    pub fn of(
        state: &ClusterState,
        input: &PlanningInput,
        (due, opened): (Timestamp, Option<Timestamp>),
        backed_off: BackedOffPods,
        drains: Vec<ClaimName>,
        now: Timestamp,
    ) -> Self {
        let (version, pods, relied_on) = (state.version(), input.pods.len(), PlanAssumptions::of(state, input));
        Self { since: now, opened, due, version, backed_off, pods, drains, relied_on }
    }

    /// When it was requested.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// When the batch window of its pods was opened.
    pub fn opened(&self) -> Option<Timestamp> {
        self.opened
    }

    /// Number of pods in the request.
    pub fn pods(&self) -> usize {
        self.pods
    }

    /// Pods for which guardrails have no machine launched, NodeClaims whose drain waits for the plan, when it was due, and
    /// the version of the cluster state in the request.
    pub fn into_parts(self) -> (BackedOffPods, Vec<ClaimName>, Timestamp, u64) {
        (self.backed_off, self.drains, self.due, self.version)
    }

    /// Until when empty nodes are kept for it.
    pub fn keeps_nodes_until(&self) -> Timestamp {
        self.since + KEEP_NODES_FOR
    }

    /// Drops the parts of a plan that do not hold any more; returns whether there were any.
    pub fn drop_outdated_parts(
        &self,
        input: &PlanningInput,
        (plan, report): (&mut Plan, &mut PlanReport),
        view: &LaunchView<'_>,
    ) -> bool {
        let kept: Vec<bool> =
            (0..input.pods.len()).map(|at| self.relied_on.still_needs_node(input, at, view)).collect();
        let keeps = |pod: &u32| kept.get(*pod as usize).copied().unwrap_or(false);
        let count = |plan: &Plan| {
            let pods = plan.nodes.iter().map(|node| node.pods.len()).sum::<usize>() + plan.unschedulable.len();
            (plan.nodes.len(), plan.static_nodes.len(), plan.placements.len(), pods)
        };
        let before = count(plan);
        plan.unschedulable.retain(keeps);
        report.unschedulable.retain(|entry| keeps(&entry.pod));
        plan.placements.retain(|(pod, node)| keeps(pod) && is_node_still_usable(input, *node, view.state));
        let mut limits =
            RemainingLimits { used: used_of_pools(view.state), added: BTreeMap::new(), probed: BTreeSet::new() };
        // Nodes are checked in the order of the plan, which is the order in which they use up
        // limits.
        plan.nodes.retain_mut(|node| {
            node.pods.retain(keeps);
            !node.pods.is_empty() && self.relied_on.may_still_launch(input, node, &mut limits, view)
        });
        plan.static_nodes.retain(|node| self.relied_on.may_still_launch(input, node, &mut limits, view));
        let dropped = count(plan) != before;
        if dropped {
            report.new_cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
            report.lower_bound = MicroUsd(0);
            report.realised_cost = None;
            report.first_cost = None;
        }
        dropped
    }
}

impl PlanAssumptions {
    fn of(state: &ClusterState, input: &PlanningInput) -> Self {
        let pods = input.pods.iter().map(|pod| state.pod(&pod.key()).map(PodFacts::of));
        let mut used = used_of_pools(state);
        let pools = state.pools().map(|record| {
            let used = used.remove(&record.pool.name).unwrap_or_default();
            (record.pool.name.clone(), PoolFacts { revision: record.revision.clone(), used })
        });
        Self { pods: pods.collect(), pools: pools.collect() }
    }

    /// Whether the pod is unchanged and still needs a node.
    fn still_needs_node(&self, input: &PlanningInput, at: usize, view: &LaunchView<'_>) -> bool {
        let Some(pod) = view.state.pod(&input.pods[at].key()) else { return false };
        let facts = self.pods.get(at).and_then(Option::as_ref);
        facts.is_some_and(|facts| facts.matches(pod)) && view.state.is_demand(pod, view.now)
    }

    /// Whether the NodePool is unchanged, may launch, has an available offering, and is within its
    /// limits.
    fn may_still_launch(
        &self,
        input: &PlanningInput,
        node: &PlannedNode,
        limits: &mut RemainingLimits,
        view: &LaunchView<'_>,
    ) -> bool {
        let pool = &input.pools[node.pool as usize];
        let Some(facts) = self.pools.get(&pool.name) else { return false };
        view.launchable_pool(&pool.name, &facts.revision).is_some()
            && limits.try_probe(&order::launch_options(pool, node), node.capacity_type, view)
            && limits.try_reserve(pool, node, &facts.used)
    }
}

/// Whether an existing node of a plan may still get the pods that it gives it.
pub(crate) fn is_node_still_usable(input: &PlanningInput, node: u32, state: &ClusterState) -> bool {
    let node = &input.nodes[node as usize];
    match node.stage {
        NodeStage::InFlight => {
            let claim = state.claim(&ClaimName::from(node.name.as_text()));
            claim.is_some_and(|claim| !claim.deleting && !state.is_marked_for_deletion(&claim.name))
        }
        _ => state.node(&node.name).is_some() && !state.is_node_outgoing(&node.name),
    }
}

/// Resources that the NodeClaims of each NodePool use of its limits.
fn used_of_pools(state: &ClusterState) -> BTreeMap<PoolName, Resources> {
    let mut used: BTreeMap<PoolName, Resources> = BTreeMap::new();
    for claim in state.claims() {
        let used = used.entry(claim.pool.clone()).or_default();
        used.add(&claim.capacity);
        used.add(&Resources::from_iter([(NODES, 1)]));
    }
    used
}

/// Whether the limits of the NodePools have room for the nodes of `plan` beside everything that is there.
pub(crate) fn have_limits_room(state: &ClusterState, input: &PlanningInput, plan: &Plan) -> bool {
    let mut limits = RemainingLimits { used: used_of_pools(state), added: BTreeMap::new(), probed: BTreeSet::new() };
    let nobody = Resources::new();
    plan.nodes.iter().all(|node| limits.try_reserve(&input.pools[node.pool as usize], node, &nobody))
}

/// Current usage of the NodePools' limits, what the plan adds, and the probes that its nodes take.
struct RemainingLimits {
    used: BTreeMap<PoolName, Resources>,
    added: BTreeMap<PoolName, Resources>,
    probed: BTreeSet<(InstanceTypeName, Zone, CapacityType)>,
}

impl RemainingLimits {
    /// Whether an option of the node is available beside the probes that earlier nodes of the plan take.
    fn try_probe(&mut self, options: &[LaunchOption], capacity_type: CapacityType, view: &LaunchView<'_>) -> bool {
        let mut is_available = false;
        for option in
            options.iter().filter(|option| view.has_available(std::slice::from_ref(*option), capacity_type, None))
        {
            let is_probe = view.offerings.is_probe(option, capacity_type, view.now);
            let key = || (option.instance_type.clone(), option.zone.clone(), capacity_type);
            is_available |= !is_probe || self.probed.insert(key());
        }
        is_available
    }

    /// Reserves one machine within the NodePool's limits, if possible. The plan respected the
    /// limits for usage `used_then`; only if the usage has changed is it computed again, with the
    /// maximum over the machine's options.
    fn try_reserve(&mut self, pool: &NodePool, node: &PlannedNode, used_then: &Resources) -> bool {
        let used = self.used.get(&pool.name).cloned().unwrap_or_default();
        if pool.replicas.is_some() {
            return used.get(NODES) == used_then.get(NODES);
        }
        if used == *used_then {
            return true;
        }
        let mut with = self.added.get(&pool.name).cloned().unwrap_or_default();
        with.add(&order::max_capacity(pool, node));
        with.add(&Resources::from_iter([(NODES, 1)]));
        let mut all = used;
        all.add(&with);
        let within = pool.limits.iter().all(|(name, limit)| all.get(name) <= limit);
        if within {
            self.added.insert(pool.name.clone(), with);
        }
        within
    }
}
