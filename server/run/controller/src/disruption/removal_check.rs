//! The verifier's check of removals before they are recorded.
//!
//! [`verify_removals`] converts what is observed of the removed nodes into the
//! verifier's input. It reads these nodes, the nodes of the cluster once for the budgets of their
//! NodePools, and all pods only if a removed node has replicas of a workload that no
//! PodDisruptionBudget protects.
//!
//! The agent does not report workloads: the number of replicas is the number of their pods.

use std::collections::{BTreeMap, BTreeSet};

use super::selection::RemovalCheck;
use crate::context::Context;
use crate::disruption::DecisionQueue;
use crate::disruption::opt_in::opt_in_pools;
use crate::guardrails::Guard;
use crate::nodeclaim::NodeClaims;
use crate::step_view::StepView;
use crate::{Finding, Removal};
use cluster::{ClaimRecord, ClusterState, NodeRecord, PodRecord, removal_pod};
use model::removal::{
    ClusterBudget, NodeRemoval, RemovalInput, RemovalNode, RemovalPlan, RemovalPool, RemovalReason, ReplicaCount,
};
use model::{BudgetLimit, ClaimName, NodeName, NodeStage, PodKey, PoolName, Text, Timestamp};
use verifier::check_removals;

/// Those of `removals` that the verifier accepts, and what it judged them by. The others are counted and
/// reported: what selected them is wrong. `deadline` is when their drains end regardless of budgets, unless
/// the NodeClaim's grace period ends earlier.
pub(crate) fn verify_removals(
    mut removals: Vec<Removal>,
    reason: RemovalReason,
    deadline: Option<Timestamp>,
    view: &StepView<'_>,
    ctx: &mut Context<'_>,
) -> (Vec<Removal>, RemovalCheck) {
    let StepView { state, claims, decisions, .. } = *view;
    if removals.is_empty() {
        return (removals, RemovalCheck::default());
    }
    let removal = |removal: &Removal| {
        let grace = state.claim(&removal.claim).and_then(|claim| claim.termination_grace_period);
        let deadline = deadline.into_iter().chain(grace.map(|grace| ctx.now + grace)).min();
        NodeRemoval { claim: removal.claim.clone(), reason, deadline }
    };
    let placements = if reason.is_forceful() { BTreeMap::new() } else { placements_of(&removals, ctx, state) };
    let plan = RemovalPlan { removals: removals.iter().map(removal).collect(), placements };
    let mut rejected: BTreeSet<ClaimName> = BTreeSet::new();
    let mut input = removal_input(&plan, ctx.now, claims, state, decisions);
    if let Some(limit) = ctx.settings.disruption.max_unavailable_nodes.filter(|_| !reason.is_forceful()) {
        input.cluster_budget = Some(cluster_budget(limit, &input, state, decisions));
    }
    for violation in check_removals(&input, &plan) {
        if rejected.insert(violation.claim.clone()) {
            ctx.report_finding(Finding::RemovalRejected { violation });
        }
    }
    removals.retain(|removal| !rejected.contains(&removal.claim));
    (removals, RemovalCheck { input, plan })
}

/// The facts that `plan` is judged by. A plan with forceful removals only is judged by the
/// NodeClaims alone.
fn removal_input(
    plan: &RemovalPlan,
    now: Timestamp,
    claims: &NodeClaims,
    state: &ClusterState,
    decisions: &DecisionQueue,
) -> RemovalInput {
    let decided = decisions.claims_being_removed();
    let voluntary = plan.removals.iter().any(|removal| !removal.reason.is_forceful());
    let mut input = RemovalInput { now, ..RemovalInput::default() };
    for removal in &plan.removals {
        input.nodes.extend(removal_node(&removal.claim, &decided, claims, state));
    }
    // A node that leaves as well is no place; the verifier looks for the removed ones itself.
    let stays = |node: &&NodeName| {
        let claim = state.node(node).and_then(|node| state.claim_of_node(node));
        !state.is_node_terminating(node) && claim.is_none_or(|claim| !decided.contains(&claim.name))
    };
    input.destinations = plan.placements.values().filter(stays).cloned().collect();
    if voluntary {
        add_pools(&mut input, &decided, state);
        input.opt_in = opt_in_pools(&input.nodes.iter().map(|node| &node.claim).collect(), state, decisions);
        add_pods(&mut input, state);
        add_replicas_elsewhere(&mut input, &decided, state);
    }
    input
}

/// Counts the other pods of the workloads on the removed nodes that no PodDisruptionBudget
/// protects. Their nodes, unless they leave too, keep those that are ready.
fn add_replicas_elsewhere(input: &mut RemovalInput, decided: &BTreeSet<ClaimName>, state: &ClusterState) {
    let pods = input.nodes.iter().flat_map(|node| &node.pods);
    let judged = pods.filter(|pod| pod.ready && !pod.node_bound && pod.pod_budgets.is_empty());
    let mut elsewhere: BTreeMap<(Text, Text), ReplicaCount> =
        judged.map(|pod| ((pod.key.namespace.clone(), pod.workload.clone()), ReplicaCount::default())).collect();
    if elsewhere.is_empty() {
        return;
    }
    let removed: BTreeSet<&NodeName> = input.nodes.iter().map(|node| &node.node).collect();
    let stays = |node: &NodeRecord| {
        let claim = state.claim_of_node(node);
        !state.is_node_terminating(&node.name) && claim.is_none_or(|claim| !decided.contains(&claim.name))
    };
    for pod in state.pods().filter(|pod| !pod.is_terminal() && !pod.terminating) {
        let Some(count) = elsewhere.get_mut(&(pod.key.namespace.clone(), pod.workload.clone())) else { continue };
        if pod.node.as_ref().is_some_and(|node| removed.contains(node)) {
            continue;
        }
        let node = pod.node.as_ref().and_then(|name| state.node(name));
        count.pods += 1;
        count.ready += usize::from(pod.ready && node.is_some_and(stays));
    }
    input.elsewhere = elsewhere;
}

/// Adds the pods of the removed nodes, and the PodDisruptionBudgets that select them.
fn add_pods(input: &mut RemovalInput, state: &ClusterState) {
    for node in &mut input.nodes {
        for pod in state.pods_on(&node.node) {
            node.pods.push(removal_pod(state, pod, &mut input.pod_budgets));
        }
    }
}

/// The budget of the cluster with the counts of all managed NodePools, by one pass over all
/// nodes.
fn cluster_budget(
    limit: BudgetLimit,
    input: &RemovalInput,
    state: &ClusterState,
    decisions: &DecisionQueue,
) -> ClusterBudget {
    let decided = decisions.claims_being_removed();
    let removed: BTreeSet<&ClaimName> = input.nodes.iter().map(|node| &node.claim).collect();
    let mut budget = ClusterBudget { limit, total: 0, unavailable: 0, not_ready: 0 };
    for node in state.nodes().filter(|node| node.is_initialized()) {
        let claim = state.claim_of_node(node).filter(|claim| claim.ours);
        let is_managed =
            |claim: &&ClaimRecord| state.pool(&claim.pool).is_some_and(|pool| state.unmanaged_reason(pool).is_none());
        let Some(claim) = claim.filter(is_managed) else { continue };
        let leaving = decided.contains(&claim.name) || state.is_node_terminating(&node.name);
        budget.total += 1;
        let stays = !removed.contains(&claim.name);
        budget.unavailable += usize::from(stays && (leaving || !node.ready));
        budget.not_ready += usize::from(stays && !leaving && !node.ready);
    }
    budget
}

/// Adds the managed NodePools of the removed nodes, with one pass over all nodes.
fn add_pools(input: &mut RemovalInput, decided: &BTreeSet<ClaimName>, state: &ClusterState) {
    let removed: BTreeSet<&ClaimName> = input.nodes.iter().map(|node| &node.claim).collect();
    let concerned: BTreeSet<&PoolName> = input.nodes.iter().map(|node| &node.pool).collect();
    let records = concerned.into_iter().filter_map(|name| state.pool(name));
    let managed = records.filter(|record| state.unmanaged_reason(record).is_none());
    let mut pools: BTreeMap<PoolName, RemovalPool> = managed
        .map(|record| {
            let (name, policy) = (record.pool.name.clone(), &record.disruption);
            let (budgets, windows) = (policy.budgets.clone(), policy.windows.clone());
            (name.clone(), RemovalPool { name, budgets, windows, total: 0, unavailable: 0, not_ready: 0 })
        })
        .collect();
    for node in state.nodes().filter(|node| node.is_initialized()) {
        let Some(claim) = state.claim_of_node(node).filter(|claim| claim.ours) else { continue };
        let Some(pool) = pools.get_mut(&claim.pool) else { continue };
        let leaving = decided.contains(&claim.name) || state.is_node_outgoing(&node.name);
        pool.total += 1;
        let stays = !removed.contains(&claim.name);
        pool.unavailable += usize::from(stays && (leaving || !node.ready));
        pool.not_ready += usize::from(stays && !leaving && !node.ready);
    }
    input.pools = pools.into_values().collect();
}

/// The node of `claim`, without its pods; `None` when no such NodeClaim is known.
fn removal_node(
    claim: &ClaimName,
    decided: &BTreeSet<ClaimName>,
    claims: &NodeClaims,
    state: &ClusterState,
) -> Option<RemovalNode> {
    let (record, machine) = (state.claim(claim), claims.get(claim));
    let pool = record.map(|record| &record.pool).or(machine.map(|machine| machine.pool()))?;
    let node = state.node_of_claim(claim);
    let deleting = record.is_some_and(|record| record.deleting) || state.is_marked_for_deletion(claim);
    let stage = match node {
        _ if deleting || decided.contains(claim) => NodeStage::Deleting,
        None => NodeStage::InFlight,
        Some(node) if state.is_node_terminating(&node.name) => NodeStage::Deleting,
        Some(node) if node.is_initialized() => NodeStage::Initialized,
        Some(_) => NodeStage::Registered,
    };
    Some(RemovalNode {
        claim: claim.clone(),
        node: node.map(|node| node.name.clone()).unwrap_or_default(),
        // A machine whose NodeClaim disappeared is still one of this server.
        ours: record.is_none_or(|record| record.ours),
        pool: pool.clone(),
        stage,
        created: node.and_then(|node| node.created),
        do_not_disrupt: node.and_then(|node| node.do_not_disrupt),
        pods: Vec::new(),
    })
}

/// The nodes that the pods of removed nodes are assigned to, as far as they accept pods now.
fn placements_of(removals: &[Removal], ctx: &Context<'_>, state: &ClusterState) -> BTreeMap<PodKey, NodeName> {
    let pods = removals.iter().flat_map(|removal| state.pods_on(&removal.node));
    let place = |pod: &PodRecord| {
        let node = if ctx.disabled_guards.is_enabled(Guard::InitializedReplacement) {
            state.initialized_node_for(&pod.key)
        } else {
            state.assigned_node(&pod.key)
        };
        Some((pod.key.clone(), node?.name.clone()))
    };
    pods.filter_map(place).collect()
}

#[cfg(test)]
mod tests;
