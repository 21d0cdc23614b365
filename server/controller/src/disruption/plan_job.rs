//! What a plan of disruption is made from, as the controller has it: a snapshot of the observed state, and what it knows
//! beside that. Whoever makes the plan builds the input, which reads every pod of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::candidates::Candidates;
use super::method::DisruptionView;
use super::running_cluster::running_cluster;
use crate::cluster::ClusterState;
use crate::provisioning::{DisruptionRequest, PlanNumber, PlanRequest};
use model::disruption_plan::{DisruptionPlanSettings, SEARCHES};
use model::disruption_policy::{Budget, BudgetLimit, DisruptionReason};
use model::input::{PlanningInput, Policy};
use model::offering::SharedCatalogue;
use model::removal::DoNotDisrupt;
use model::resources::NODES;
use model::running::RunningCluster;
use model::{ClaimName, ClusterName, NodeStage, NotReady, PoolName, Resources, Text, Timestamp};

/// A plan of disruption to make.
#[derive(Debug, Clone)]
pub struct DisruptionJob {
    pub(super) number: PlanNumber,
    pub(super) cluster: ClusterName,
    pub(super) facts: DisruptionFacts,
    pub(super) settings: DisruptionPlanSettings,
    /// Steps that each search for groups of nodes may take.
    pub(super) search_steps: u64,
    /// Whether nothing is left of the limits of the NodePools.
    pub(super) are_limits_exhausted: bool,
}

/// What the controller knows of a cluster at one time, for a plan of disruption.
#[derive(Debug, Clone)]
pub(super) struct DisruptionFacts {
    pub state: Arc<ClusterState>,
    pub now: Timestamp,
    pub policy: Policy,
    /// NodeClaims whose removal is decided.
    pub leaving: BTreeSet<ClaimName>,
    pub pools: BTreeMap<PoolName, PoolFacts>,
    /// The budget of the cluster.
    pub max_unavailable_nodes: Option<BudgetLimit>,
}

/// What the controller knows of a NodePool.
#[derive(Debug, Clone)]
pub(super) struct PoolFacts {
    /// Its catalogue without unavailable offerings.
    pub catalogue: SharedCatalogue,
    /// The freeze that stops its launches.
    pub freeze: Option<Text>,
    /// Whether its nodes stay: voluntary disruption is frozen, or it waits after a failed replacement.
    pub keeps_nodes: bool,
}

/// Jobs are equal if they are the same request: numbers are unique within a process, and a snapshot is its own.
impl PartialEq for DisruptionJob {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
            && self.cluster == other.cluster
            && Arc::ptr_eq(&self.facts.state, &other.facts.state)
    }
}

impl Eq for DisruptionJob {}

impl DisruptionJob {
    /// Number of the plan request.
    #[must_use]
    pub fn number(&self) -> PlanNumber {
        self.number
    }

    /// The cluster to plan for.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Number of pods and nodes.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.facts.nodes() + self.facts.state.pod_count()
    }

    /// The request, with its input.
    #[must_use]
    pub fn build(self) -> PlanRequest {
        let (mut input, running) = self.facts.build();
        for pool in input.pools.iter_mut().filter(|pool| self.are_limits_exhausted && !pool.limits.is_empty()) {
            pool.limits = Resources::from_iter([(NODES, 0)]);
        }
        input.policy.search_steps = self.search_steps;
        let disruption = Some(Box::new(DisruptionRequest { running, settings: self.settings }));
        PlanRequest { number: self.number, cluster: self.cluster, input, disruption }
    }

    /// The request without its input, for an answer without a plan.
    #[must_use]
    pub fn without_input(self) -> PlanRequest {
        let policy = Policy { search_steps: self.search_steps, ..self.facts.policy };
        let input = PlanningInput { policy, now: self.facts.now, ..PlanningInput::default() };
        let disruption = DisruptionRequest { running: RunningCluster::default(), settings: self.settings };
        PlanRequest { number: self.number, cluster: self.cluster, input, disruption: Some(Box::new(disruption)) }
    }

    /// Steps that all its searches may take.
    pub(super) fn grant(&mut self, steps: u64) {
        self.search_steps = steps / SEARCHES;
    }
}

impl DisruptionFacts {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        let (nodes, ..) = self.state.counts();
        nodes
    }

    /// What a plan of disruption is made from. Nodes whose removal is decided leave; nodes that are not
    /// initialized take no pod; nodes of NodePools that are frozen or wait after a failure stay.
    pub fn build(&self) -> (PlanningInput, RunningCluster) {
        let mut policy = self.policy.clone();
        policy.search_steps = 0;
        let mut input = self.state.planning_input(&policy, self.now);
        for pool in &mut input.pools {
            let Some(facts) = self.pools.get(&pool.name) else { continue };
            pool.catalogue = SharedCatalogue::clone(&facts.catalogue);
            if let Some(freeze) = &facts.freeze {
                pool.not_ready = Some(NotReady::NodePool(freeze.clone()));
            }
        }
        let mut running = running_cluster(&self.state, &mut input);
        self.limit_by_cluster_budget(&mut running);
        for running in &mut running.nodes {
            let node = &mut input.nodes[running.node as usize];
            node.unschedulable |= matches!(node.stage, NodeStage::InFlight | NodeStage::Registered);
            let Some(claim) = running.claim.as_ref().map(|claim| &claim.name) else { continue };
            if self.leaving.contains(claim) {
                node.stage = NodeStage::Deleting;
            }
            let of_claim = self.state.claim(claim).map(|claim| &claim.pool);
            let keeps = |pool: &PoolName| self.pools.get(pool).is_some_and(|pool| pool.keeps_nodes);
            if node.pool.iter().chain(of_claim).any(keeps) {
                running.do_not_disrupt = Some(DoNotDisrupt::Always);
            }
        }
        (input, running)
    }

    /// Adds what the budget of the cluster leaves to the budgets of each NodePool; the sum over NodePools is
    /// checked with the answer.
    fn limit_by_cluster_budget(&self, running: &mut RunningCluster) {
        if self.max_unavailable_nodes.is_none() {
            return;
        }
        let candidates = self.candidates();
        let left = candidates.cluster_allowance(DisruptionReason::Underutilized);
        for (pool, policy) in running.policies.iter_mut().filter(|_| left < usize::MAX) {
            let nodes = candidates.nodes_of(pool).unavailable.saturating_add(left);
            let limit = BudgetLimit::Nodes(u32::try_from(nodes).unwrap_or(u32::MAX));
            policy.budgets.push(Budget { limit, reasons: None, window: None });
        }
    }

    /// The nodes that may be removed within the budget of the cluster.
    pub fn candidates(&self) -> Candidates<'_> {
        Candidates::collect(&DisruptionView {
            being_removed: self.leaving.clone(),
            max_unavailable_nodes: self.max_unavailable_nodes,
            ..DisruptionView::of(&self.state, self.now)
        })
    }
}
