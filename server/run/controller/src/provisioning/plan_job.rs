//! Plans that the controller requests, as planning threads get them. For a plan of disruption that is a snapshot of the
//! observed state and what the controller knows beside that: the search thread builds the input.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::planning::{DisruptionRequest, PlanAnswer, PlanError, PlanNumber, PlanRequest};
use cluster::ClusterState;
use model::disruption_plan::{DisruptionPlanSettings, SEARCHES};
use model::input::{PlanningInput, Policy};
use model::offering::SharedCatalogue;
use model::resources::NODES;
use model::running::RunningCluster;
use model::{BudgetLimit, ClaimName, ClusterName, Millis, PoolName, Resources, Text, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanJob {
    /// Of the pods of an input.
    Pods(Box<PlanRequest>),
    /// Of disruption: the planning thread builds its input.
    Disruption(Box<DisruptionJob>),
}

impl PlanJob {
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        match self {
            Self::Pods(request) => &request.cluster,
            Self::Disruption(job) => job.cluster(),
        }
    }

    /// Whether no pending pod waits for it: it is planned with what plans leave of the processors.
    #[must_use]
    pub fn is_background(&self) -> bool {
        match self {
            Self::Pods(request) => request.is_background(),
            Self::Disruption(_) => true,
        }
    }

    /// Estimated work: see [`PlanRequest::weight`].
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Pods(request) => request.weight(),
            Self::Disruption(job) => job.objects(),
        }
    }

    #[must_use]
    pub fn into_request(self) -> PlanRequest {
        match self {
            Self::Pods(request) => *request,
            Self::Disruption(job) => job.build(),
        }
    }

    /// The answer if it is dropped before it is begun.
    #[must_use]
    pub fn into_dropped(self) -> PlanAnswer {
        let request = match self {
            Self::Pods(request) => *request,
            Self::Disruption(job) => job.without_input(),
        };
        PlanAnswer { request, outcome: Err(PlanError::NotReached), used: Duration::ZERO }
    }
}

/// A plan of disruption to make.
#[derive(Debug, Clone)]
pub struct DisruptionJob {
    pub(crate) number: PlanNumber,
    pub(crate) cluster: ClusterName,
    pub(crate) facts: DisruptionFacts,
    /// Makes the input, which reads every pod of the cluster.
    pub(crate) build: fn(&DisruptionFacts) -> (PlanningInput, RunningCluster),
    pub(crate) settings: DisruptionPlanSettings,
    /// Steps that each search for groups of nodes may take.
    pub(crate) search_steps: u64,
    /// Whether nothing is left of the limits of the NodePools.
    pub(crate) are_limits_exhausted: bool,
}

/// What the controller knows of a cluster at one time, for a plan of disruption.
#[derive(Debug, Clone)]
pub(crate) struct DisruptionFacts {
    pub state: Arc<ClusterState>,
    pub now: Timestamp,
    pub policy: Policy,
    /// How long consolidation leaves a pod that it has moved where it is.
    pub move_interval: Millis,
    pub leaving: BTreeSet<ClaimName>,
    pub pools: BTreeMap<PoolName, PlannedPool>,
    pub max_unavailable_nodes: Option<BudgetLimit>,
}

/// What the controller knows of a NodePool beside its record.
#[derive(Debug, Clone)]
pub(crate) struct PlannedPool {
    /// Its catalogue without unavailable offerings.
    pub catalogue: SharedCatalogue,
    /// Why nothing is launched from it.
    pub closed: Option<Text>,
    /// Whether its nodes stay: guardrails hold voluntary disruption, or it waits after a failed replacement.
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
    #[must_use]
    pub fn number(&self) -> PlanNumber {
        self.number
    }

    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    #[must_use]
    pub fn objects(&self) -> usize {
        self.facts.nodes() + self.facts.state.pod_count()
    }

    /// The request, with its input.
    #[must_use]
    pub fn build(self) -> PlanRequest {
        let (mut input, running) = (self.build)(&self.facts);
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
    pub(crate) fn grant(&mut self, steps: u64) {
        self.search_steps = steps / SEARCHES;
    }
}

impl DisruptionFacts {
    pub fn nodes(&self) -> usize {
        let (nodes, ..) = self.state.counts();
        nodes
    }
}
