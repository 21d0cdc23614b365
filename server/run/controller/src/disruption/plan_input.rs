//! What a plan of disruption is made from: the input, and what runs, from what the controller knows.

use super::candidates::Candidates;
use super::method::DisruptionView;
use crate::provisioning::DisruptionFacts;
use cluster::{PodRecord, running_cluster};
use model::disruption_policy::{Budget, BudgetLimit, DisruptionReason};
use model::input::PlanningInput;
use model::offering::SharedCatalogue;
use model::removal::DoNotDisrupt;
use model::running::RunningCluster;
use model::{NodeStage, NotReady, PoolName, Text};

/// What a plan of disruption is made from. Nodes whose removal is decided leave; nodes that are not
/// initialized take no pod; nodes of NodePools that guardrails hold or that wait after a failure stay.
pub(super) fn build(facts: &DisruptionFacts) -> (PlanningInput, RunningCluster) {
    let mut policy = facts.policy.clone();
    policy.search_steps = 0;
    let mut input = facts.state.planning_input(&policy, facts.now);
    for pool in &mut input.pools {
        let Some(known) = facts.pools.get(&pool.name) else { continue };
        pool.catalogue = SharedCatalogue::clone(&known.catalogue);
        if let Some(held) = &known.closed {
            pool.not_ready = Some(NotReady::NodePool(held.clone()));
        }
    }
    let mut running = running_cluster(&facts.state, &mut input, facts.move_interval);
    limit_by_cluster_budget(facts, &mut running);
    for running in &mut running.nodes {
        // A pod without an owner is planned elsewhere like any other, as in each drain. A plan from files lets it go.
        for pod in running.pods.iter_mut().filter(|pod| pod.facts.workload.starts_with("Pod/")) {
            pod.facts.workload = Text::from(format!("Unowned/{}", pod.facts.key.name));
        }
        let node = &mut input.nodes[running.node as usize];
        // Its successor has the same name and is planned once the pod has ended.
        let returns = |pod: &PodRecord| pod.terminating && pod.is_reschedulable();
        if facts.state.pods_on(&node.name).any(returns) {
            running.do_not_disrupt = Some(DoNotDisrupt::Always);
        }
        node.unschedulable |= matches!(node.stage, NodeStage::InFlight | NodeStage::Registered);
        let Some(claim) = running.claim.as_ref().map(|claim| &claim.name) else { continue };
        if facts.leaving.contains(claim) {
            node.stage = NodeStage::Deleting;
        }
        let of_claim = facts.state.claim(claim).map(|claim| &claim.pool);
        let keeps = |pool: &PoolName| facts.pools.get(pool).is_some_and(|pool| pool.keeps_nodes);
        if node.pool.iter().chain(of_claim).any(keeps) {
            running.do_not_disrupt = Some(DoNotDisrupt::Always);
        }
    }
    (input, running)
}

/// Adds what the budget of the cluster leaves to the budgets of each NodePool; the sum over NodePools is
/// checked with the answer.
fn limit_by_cluster_budget(facts: &DisruptionFacts, running: &mut RunningCluster) {
    if facts.max_unavailable_nodes.is_none() {
        return;
    }
    let candidates = candidates(facts);
    let left = candidates.cluster_allowance(DisruptionReason::Underutilized);
    for (pool, policy) in running.policies.iter_mut().filter(|_| left < usize::MAX) {
        let nodes = candidates.nodes_of(pool).unavailable.saturating_add(left);
        let limit = BudgetLimit::Nodes(u32::try_from(nodes).unwrap_or(u32::MAX));
        policy.budgets.push(Budget { limit, reasons: None, window: None });
    }
}

/// The nodes that may be removed within the budget of the cluster.
pub(super) fn candidates(facts: &DisruptionFacts) -> Candidates<'_> {
    Candidates::collect(&DisruptionView {
        being_removed: facts.leaving.clone(),
        max_unavailable_nodes: facts.max_unavailable_nodes,
        ..DisruptionView::of(&facts.state, facts.now)
    })
}
