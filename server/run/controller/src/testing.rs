//! Several clusters of one region, and their plans, step by step on one thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::guardrails::DisabledGuards;
use super::{
    ClusterController, ClusterEvent, ClusterView, DisruptionRequest, Effect, Event, PlanError, PlanJob, PlanOutcome,
    PlanRequest, PlanWorker, Planner, RegionEvent, RegionState, Settings,
};
use crate::node_report::NodeReport;
use crate::pod_report::PodReport;
use cluster::ClusterState;
use model::disruption_plan::DisruptionPlan;
use model::input::PlanningInput;
use model::{ClusterName, PodKey, Timestamp};

/// What clusters of one region get. An event that names no cluster is of the cluster `c`.
#[derive(Debug)]
pub(crate) enum Input {
    Cluster(ClusterEvent),
    Region(RegionEvent),
    Tick,
}

impl From<Event> for Input {
    fn from(event: Event) -> Self {
        match event {
            Event::Tick => Self::Tick,
            event => Self::Cluster(event.of("c")),
        }
    }
}

impl From<ClusterEvent> for Input {
    fn from(event: ClusterEvent) -> Self {
        Self::Cluster(event)
    }
}

impl From<RegionEvent> for Input {
    fn from(event: RegionEvent) -> Self {
        Self::Region(event)
    }
}

/// Clusters with their planner. A cluster exists from its first event on.
#[derive(Debug)]
pub(crate) struct SynchronousController {
    region: Arc<RegionState>,
    clusters: BTreeMap<ClusterName, ClusterController>,
    now: Timestamp,
    worker: PlanWorker,
    /// Requested plans are queued and not computed.
    pub stalled: bool,
    /// Requested plans of disruption are queued and not computed.
    pub stalled_disruption: bool,
    /// Requests queued while `stalled` or `stalled_disruption`.
    pub waiting: VecDeque<PlanRequest>,
}

impl SynchronousController {
    pub fn new(settings: Settings, planner: impl FnMut(&PlanningInput) -> PlanOutcome + Send + 'static) -> Self {
        Self::with_disabled_guards(settings, planner, DisabledGuards::default())
    }

    /// The same without `disabled_guards`.
    pub(crate) fn with_disabled_guards(
        settings: Settings,
        planner: impl FnMut(&PlanningInput) -> PlanOutcome + Send + 'static,
        disabled_guards: DisabledGuards,
    ) -> Self {
        let region = Arc::new(RegionState::with_disabled_guards(settings, disabled_guards));
        let disruption = Box::new(|_: &PlanningInput, _: &DisruptionRequest| Ok(DisruptionPlan::default()));
        let worker = PlanWorker::new(Planner { pods: Box::new(planner), disruption });
        let (clusters, now) = (BTreeMap::new(), Timestamp::default());
        Self { region, clusters, now, worker, stalled: false, stalled_disruption: false, waiting: VecDeque::new() }
    }

    /// The same for an account in the region of this name. No cluster has been stepped yet.
    pub(crate) fn in_region(self, region: &str) -> Self {
        let state = Arc::try_unwrap(self.region).expect("no cluster holds the region");
        Self { region: Arc::new(state.in_region(region.into())), ..self }
    }

    /// Handles an event, and the plans that it requests. On a tick, every cluster that is due
    /// takes a step.
    pub fn handle(&mut self, input: impl Into<Input>, now: Timestamp) -> Vec<Effect> {
        self.handle_each(input, now).into_iter().map(|(_, effect)| effect).collect()
    }

    /// The same, with the cluster of each effect.
    pub fn handle_each(&mut self, input: impl Into<Input>, now: Timestamp) -> Vec<(ClusterName, Effect)> {
        let mut done = Vec::new();
        let mut effects = VecDeque::from(self.step(input.into(), now));
        while let Some((cluster, effect)) = effects.pop_front() {
            match effect {
                Effect::Plan(job) if self.is_stalled(&job) => self.waiting.push_back(job.into_request()),
                Effect::Plan(job) => {
                    let planned = self.plan(job.into_request());
                    for effect in self.step(planned, now).into_iter().rev() {
                        effects.push_front(effect);
                    }
                }
                other => done.push((cluster, other)),
            }
        }
        done
    }

    /// Has disruption planned as servers do.
    pub fn plan_disruption(&mut self, planner: impl FnMut(&PlanningInput) -> PlanOutcome + Send + 'static) {
        let plan = |input: &PlanningInput, request: &DisruptionRequest| {
            let mut cache = planner::CompileCache::default();
            disruption::plan(input, &request.running, &request.settings, &mut cache).map_err(PlanError::Rejected)
        };
        self.worker = PlanWorker::new(Planner { pods: Box::new(planner), disruption: Box::new(plan) });
    }

    fn is_stalled(&self, job: &PlanJob) -> bool {
        if matches!(job, PlanJob::Disruption(_)) { self.stalled_disruption } else { self.stalled }
    }

    fn step(&mut self, input: Input, now: Timestamp) -> Vec<(ClusterName, Effect)> {
        self.now = now;
        self.region.advance(now);
        let mut effects = Vec::new();
        let mut add = |cluster: &ClusterName, more: Vec<Effect>| {
            effects.extend(more.into_iter().map(|effect| (cluster.clone(), effect)));
        };
        match input {
            Input::Cluster(ClusterEvent { cluster, event: Event::Planned(_) })
                if !self.clusters.contains_key(&cluster) =>
            {
                return Vec::new();
            }
            Input::Cluster(ClusterEvent { cluster, event }) => {
                let controller = self.controller(cluster);
                add(&controller.cluster.clone(), controller.handle(event, now));
            }
            Input::Region(event) => self.region.apply(event, now),
            Input::Tick => {}
        }
        for controller in self.clusters.values_mut() {
            if controller.is_outdated() || controller.next_wakeup().is_some_and(|at| at <= now) {
                add(&controller.cluster.clone(), controller.handle(Event::Tick, now));
            }
        }
        effects
    }

    /// Ends the ownership of a cluster, as the loss of its lease does.
    pub fn release(&mut self, cluster: &ClusterName) {
        self.clusters.remove(cluster);
        self.region.forget_cluster(cluster);
    }

    pub fn region(&self) -> &RegionState {
        &self.region
    }

    fn controller(&mut self, cluster: ClusterName) -> &mut ClusterController {
        let region = &self.region;
        self.clusters.entry(cluster.clone()).or_insert_with(|| ClusterController::new(cluster, Arc::clone(region)))
    }

    fn plan(&mut self, request: PlanRequest) -> Input {
        let answer = self.worker.answer(request);
        let cluster = answer.request.cluster.clone();
        Event::Planned(Box::new(answer)).of(cluster).into()
    }

    /// Computes the first queued plan.
    pub fn plan_waiting(&mut self, now: Timestamp) -> Vec<Effect> {
        let request = self.waiting.pop_front().expect("a plan was asked for");
        let planned = self.plan(request);
        self.handle(planned, now)
    }

    pub fn view(&self, cluster: &ClusterName) -> Option<ClusterView> {
        self.clusters.get(cluster).map(|controller| controller.step_view(self.now).cluster_view())
    }

    pub fn pod_report(&self, cluster: &ClusterName, pod: &PodKey) -> Option<PodReport> {
        self.clusters.get(cluster).map(|controller| controller.step_view(self.now).pod_report(pod))
    }

    pub fn node_report(&self, cluster: &ClusterName, node: &str) -> Option<NodeReport> {
        self.clusters.get(cluster).map(|controller| controller.step_view(self.now).node_report(node))
    }

    pub fn state(&self, cluster: &ClusterName) -> Option<&ClusterState> {
        self.clusters.get(cluster).map(|controller| &*controller.state)
    }

    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.clusters.keys()
    }

    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let clusters = self.clusters.values().filter_map(ClusterController::next_wakeup);
        clusters.chain(self.region.next_change()).min()
    }
}
