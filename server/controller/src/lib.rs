//! The controller: a single-threaded state machine that turns [`Event`]s into [`Effect`]s.
//!
//! [`RegionController::handle`] is the only entry point. It updates the observed state
//! ([`crate::cluster`]), decides when a plan is due, requests it (`provisioning`) and turns the
//! answer into effects. The caller executes the effects and reports the results as further events.
//! The controller never calls the planner itself, so the plan of one cluster does not delay events
//! of another. The order of a launch is fixed: record the decision, create the
//! NodeClaim in the cluster, launch the instance. An event may trigger planning; it never restricts
//! what planning considers.
//!
//! Reading order: [`event`] and [`effect`] (the interface), `route` (dispatch of events),
//! `provisioning` (pending pods, plans) and [`order`] (from a plan to NodeClaims),
//! [`decision_input`] (input of a plan, for replay), `nodeclaim` (lifecycle of NodeClaims, recovery,
//! garbage collection), `nomination` (pod nominations and the registration gate), [`disruption`]
//! (empty nodes, interruptions, the verifier's check of removals), `external_autoscalers` (other
//! autoscalers), [`guardrails`] (safety limits), [`unavailable_offerings`] (insufficient capacity),
//! [`status`] and `status_reporter` (conditions and events), [`view`] (read model for users),
//! [`executor`] (effects in flight).

pub mod cluster;
mod cluster_controller;
mod conditions;
pub mod decision_input;
pub mod disruption;
pub mod effect;
pub mod event;
pub mod executor;
mod external_autoscalers;
pub mod guardrails;
mod nodeclaim;
mod nomination;
pub mod order;
mod provisioning;
mod route;
pub mod status;
mod status_reporter;
pub mod unavailable_offerings;
pub mod view;

pub use decision_input::DecisionInput;
pub use effect::{
    ClaimOrder, Decision, DecisionReason, Effect, Instruction, InstructionId, MethodReason, PlannedMachine,
    PodNomination, Removal, UnplacedPod,
};
pub use event::{Event, Inspection, Launched};
pub use nodeclaim::{
    DecidedLaunch, Finding, LaunchState, LaunchedInstance, ListedInstance, Listing, OpenLaunch, StageKind,
};
pub use provisioning::{PlanAnswer, PlanError, PlanNumber, PlanOutcome, PlanRequest, PlanWorker};
pub use status::{Condition, ConditionStatus, EventOrder, ObjectRef, StatusOrder, StatusPatch};
pub use view::{ClusterView, MachineView};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cluster::ClusterState;
use cluster_controller::{ClusterController, Context};
use guardrails::{DisabledGuards, GuardrailSettings, Guardrails};
use model::input::{PlanningInput, Policy};
use model::{ClusterName, LaunchOption, LaunchOrder, Millis, Timestamp};
use unavailable_offerings::{UnavailableOffering, UnavailableOfferings};

/// Number of a decision, unique and increasing within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub u64);

/// Computes plans, one after another. It may cache what it compiled for the next input, which changes the running
/// time and never the result. An error rejects the whole plan with a reason.
pub type Planner = Box<dyn FnMut(&PlanningInput) -> PlanOutcome + Send>;

/// Makes a planner, one for each planning thread.
pub type NewPlanner = fn() -> Planner;

/// Source of the subnets, images, security groups and instance profiles that EC2NodeClasses select.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassFacts {
    /// They are not looked up.
    #[default]
    Unresolved,
    /// The cloud is simulated: it has one subnet in each zone and needs no other resource.
    Simulated,
}

/// Settings of the region controller, from the operator and the process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Policy passed to planning.
    pub policy: Policy,
    /// The batch window closes this long after the last new pod (`BATCH_IDLE_DURATION`).
    pub batch_idle: Millis,
    /// The batch window closes at the latest this long after it opened (`BATCH_MAX_DURATION`).
    pub batch_max: Millis,
    /// Maximum number of pods in one plan, 0 for no limit; further pods are planned immediately
    /// afterwards.
    pub plan_pods: usize,
    /// Unplaced pods are planned again after this time at the latest.
    pub retry_delay: Millis,
    /// Minimum time between two passes that look for empty nodes.
    pub disruption_pass_interval: Millis,
    /// Maximum time from NodeClaim to instance (Karpenter: launch timeout).
    pub launch_timeout: Millis,
    /// Maximum time from instance to registered Node (Karpenter: registration timeout).
    pub registration_timeout: Millis,
    /// How long the registration of a ready Node waits for the other Nodes of its decision, whose
    /// boot times differ by seconds. 0 registers every Node as soon as it is ready.
    pub open_together: Millis,
    /// Safety limits of all decisions.
    pub guardrails: GuardrailSettings,
    /// How long an offering is excluded after insufficient capacity.
    pub unavailable_ttl: Millis,
    /// Collection period of garbage collection: how long an anomaly must persist before it is
    /// collected; `None` disables collection.
    pub gc_after: Option<Millis>,
    /// How long a pod is not planned after Cluster Autoscaler triggered a scale-up for it.
    pub hold_after_external_scale_up: Millis,
    /// Source of the resources that EC2NodeClasses select.
    pub class_facts: ClassFacts,
    /// First id of decisions and instructions; greater than every id of earlier processes.
    pub first_number: u64,
    /// Seed of NodeClaim names; differs between processes.
    pub identity: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            batch_idle: Millis::from_secs(1),
            batch_max: Millis::from_secs(10),
            plan_pods: PLAN_PODS,
            retry_delay: Millis::from_secs(10),
            disruption_pass_interval: Millis::from_secs(10),
            launch_timeout: Millis::from_mins(5),
            registration_timeout: Millis::from_mins(15),
            open_together: Millis::from_secs(10),
            guardrails: GuardrailSettings::default(),
            unavailable_ttl: unavailable_offerings::UNAVAILABLE_TTL,
            gc_after: Some(Millis::from_mins(1)),
            hold_after_external_scale_up: cluster::external_autoscalers::EXTERNAL_SCALE_UP_HOLD,
            class_facts: ClassFacts::default(),
            first_number: 1,
            identity: 0,
        }
    }
}

/// Default of [`Settings::plan_pods`]: what one planning thread handles in about a second when the
/// pods are diverse.
const PLAN_PODS: usize = 5_000;

/// Maximum number of clusters that one [`Event::Tick`] advances when none of them requests a plan:
/// a few milliseconds of work.
const MAX_CLUSTERS_PER_TICK: usize = 16;

/// Controls all clusters of this process in one account and region, which share the cloud's
/// capacity.
#[derive(Debug)]
pub struct RegionController {
    settings: Settings,
    disabled_guards: DisabledGuards,
    clusters: BTreeMap<ClusterName, ClusterController>,
    /// Next wake-up of each cluster, by time; index of `clusters`.
    wakeups: BTreeSet<(Timestamp, ClusterName)>,
    /// Clusters that are due, in FIFO order. A cluster that is due again is appended, so no cluster
    /// starves.
    due_queue: VecDeque<ClusterName>,
    offerings: UnavailableOfferings,
    guardrails: Guardrails,
    next_number: u64,
    next_plan: u64,
    /// Time of the last event.
    now: Timestamp,
}

impl RegionController {
    /// A controller without clusters.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_disabled_guards(settings, DisabledGuards::default())
    }

    /// A controller without clusters and without `disabled_guards`, for guard-off tests.
    fn with_disabled_guards(settings: Settings, disabled_guards: DisabledGuards) -> Self {
        let next_number = settings.first_number;
        let (offerings, guardrails, now) =
            (UnavailableOfferings::default(), Guardrails::default(), Timestamp::default());
        let (clusters, wakeups, due_queue) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Self {
            settings,
            disabled_guards,
            clusters,
            wakeups,
            due_queue,
            offerings,
            guardrails,
            next_number,
            next_plan: 1,
            now,
        }
    }

    /// Handles one event and returns its effects in the order of execution.
    ///
    /// A tick is a short step: at most one cluster requests a plan, because building the input
    /// covers the whole cluster. The caller can so execute effects and handle events before all
    /// clusters are advanced; [`RegionController::next_wakeup`] says when the next tick is due.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        if let Event::LeaseReleased { cluster } = event {
            if let Some(wake) = self.clusters.remove(&cluster).and_then(|controller| controller.next_wakeup) {
                self.wakeups.remove(&(wake, cluster.clone()));
            }
            self.guardrails.machines.remove(&cluster);
            return vec![Effect::PublishView { cluster }];
        }
        if let Event::Planned(answer) = &event
            && !self.clusters.contains_key(&answer.request.cluster)
        {
            return Vec::new();
        }
        let mut effects = Vec::new();
        self.now = now;
        self.offerings.expire(now);
        let event = self.merge_remote(event);
        let fleet_changed = self.update_guardrails(&event, now);
        let touched = cluster_of(&event, &self.clusters);
        let mut due = self.due_clusters(touched, fleet_changed, now);
        let mut event = Some(event);
        while let Some(cluster) = due.pop_front() {
            let controller = self.clusters.entry(cluster.clone()).or_insert_with(|| ClusterController::new(cluster));
            let mut ctx = Context {
                settings: &self.settings,
                disabled_guards: &self.disabled_guards,
                offerings: &mut self.offerings,
                guardrails: &mut self.guardrails,
                next_number: &mut self.next_number,
                next_plan: &mut self.next_plan,
                effects: &mut effects,
                planned: false,
                now,
            };
            controller.state.hold_after_external_scale_up(ctx.settings.hold_after_external_scale_up);
            let shadow = controller.is_shadow(&ctx);
            controller.state.set_shadow(shadow);
            let before = view_versions(controller);
            let wakeup_before = controller.next_wakeup;
            if fleet_changed {
                controller.schedule_now(now);
            }
            if let Some(event) = event.take() {
                controller.handle_event(event, &mut ctx);
            }
            controller.advance(&mut ctx);
            let planned = ctx.planned;
            // The index of wake-ups follows every change of a cluster, or its next tick is lost.
            if controller.next_wakeup != wakeup_before {
                wakeup_before.map(|at| self.wakeups.remove(&(at, controller.cluster.clone())));
                self.wakeups.extend(controller.next_wakeup.map(|at| (at, controller.cluster.clone())));
            }
            self.guardrails.machines.insert(controller.cluster.clone(), controller.remaining());
            if fleet_changed || view_versions(controller) != before {
                effects.push(Effect::PublishView { cluster: controller.cluster.clone() });
            }
            if planned && !fleet_changed {
                due.drain(..).rev().for_each(|cluster| self.due_queue.push_front(cluster));
            }
        }
        effects.retain(|effect| guardrails::is_allowed_by_mode(&self.settings.guardrails, effect));
        effects
    }

    /// Merges what other replicas found; the event is a tick afterwards.
    fn merge_remote(&mut self, event: Event) -> Event {
        match event {
            Event::OfferingsUnavailable { refusals } => {
                self.offerings.merge_remote(refusals);
                Event::Tick
            }
            Event::RemoteCounters { machines, parts } => {
                self.guardrails.merge_remote(machines, &parts);
                Event::Tick
            }
            event => event,
        }
    }

    /// Updates time windows and freezes of the guardrails; returns whether that changes the limits
    /// of the whole fleet.
    fn update_guardrails(&mut self, event: &Event, now: Timestamp) -> bool {
        let settled = self.guardrails.advance(&self.settings.guardrails, now);
        match event {
            Event::FreezesChanged { freezes } => self.guardrails.freezes.replace(freezes.clone(), now) || settled,
            _ => settled,
        }
    }

    /// The clusters to advance: the cluster of the event; on a tick, the first due clusters; after
    /// a fleet-wide change, all clusters.
    fn due_clusters(
        &mut self,
        touched: Option<ClusterName>,
        fleet_changed: bool,
        now: Timestamp,
    ) -> VecDeque<ClusterName> {
        if fleet_changed {
            let others = self.clusters.keys().filter(|cluster| touched.as_ref() != Some(*cluster));
            return touched.iter().chain(others).cloned().collect();
        }
        if touched.is_some() {
            return touched.into_iter().collect();
        }
        if self.due_queue.is_empty() {
            let awake = self.wakeups.iter().take_while(|(at, _)| *at <= now).map(|(_, cluster)| cluster);
            self.due_queue.extend(awake.cloned());
        }
        let mut first = VecDeque::new();
        while first.len() < MAX_CLUSTERS_PER_TICK {
            let Some(cluster) = self.due_queue.pop_front() else { break };
            // It may have been advanced or released since it was queued.
            let wants = self
                .clusters
                .get(&cluster)
                .and_then(|controller| controller.next_wakeup)
                .is_some_and(|wake| wake <= now);
            first.extend(wants.then_some(cluster));
        }
        first
    }

    /// When [`Event::Tick`] is due without another event; a time in the past means immediately.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let first = self.wakeups.first().map(|(at, _)| *at);
        first.into_iter().chain(self.guardrails.next_change(&self.settings.guardrails)).min()
    }

    /// Offerings that became unavailable here since the last call, for other replicas in the same
    /// account and region.
    pub fn take_unavailable_offerings(&mut self) -> Vec<UnavailableOffering> {
        self.offerings.take_unpublished()
    }

    /// What this process saw of its own clusters, for the guardrails of all others.
    #[must_use]
    pub fn counter_snapshot(&self) -> guardrails::fleet_counters::CounterSnapshot {
        self.guardrails.counter_snapshot(&self.settings.guardrails)
    }

    /// The view of a cluster, if this controller has it.
    #[must_use]
    pub fn view(&self, cluster: &ClusterName) -> Option<ClusterView> {
        let controller = self.clusters.get(cluster)?;
        let guardrails = controller.guardrails_view(&self.guardrails, &self.settings.guardrails);
        let view = controller.view(self.offerings.len(), guardrails, self.now);
        Some(ClusterView { pools: controller.pools_view(&self.guardrails), ..view })
    }

    /// Names of the clusters of this controller, in order.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.clusters.keys()
    }

    /// Observed state of a cluster.
    #[must_use]
    pub fn state(&self, cluster: &ClusterName) -> Option<&ClusterState> {
        self.clusters.get(cluster).map(|controller| &controller.state)
    }
}

/// Fingerprint of the view of a cluster, including guardrails and garbage collection.
fn view_versions(controller: &ClusterController) -> impl PartialEq + use<> {
    (controller.view_version(), controller.guardrails.view_fingerprint(), controller.gc.view_version())
}

/// The cluster that an event concerns; `None` for events that concern all.
fn cluster_of(event: &Event, clusters: &BTreeMap<ClusterName, ClusterController>) -> Option<ClusterName> {
    match event {
        Event::Observed { cluster, .. }
        | Event::AgentConnected { cluster }
        | Event::AgentDisconnected { cluster }
        | Event::LaunchFailed { cluster, .. }
        | Event::InstanceGone { cluster, .. }
        | Event::Inspected { cluster, .. }
        | Event::TerminateRefused { cluster, .. }
        | Event::RemovalsConfirmed { cluster }
        | Event::InstructionAcked { cluster, .. }
        | Event::InstructionFailed { cluster, .. }
        | Event::QuarantineReleased { cluster }
        | Event::LaunchHistoryLoaded { cluster, .. }
        | Event::CountsLoaded { cluster, .. }
        | Event::LeaseAcquired { cluster, .. }
        | Event::LeaseReleased { cluster }
        | Event::Listed { cluster, .. }
        | Event::Interrupted { cluster, .. } => Some(cluster.clone()),
        Event::Launched(launched) => Some(launched.cluster.clone()),
        Event::Planned(answer) => Some(answer.request.cluster.clone()),
        Event::Recorded { decision } => clusters
            .values()
            .find(|controller| controller.decisions.contains(*decision))
            .map(|controller| controller.cluster.clone()),
        Event::Tick
        | Event::FreezesChanged { .. }
        | Event::OfferingsUnavailable { .. }
        | Event::RemoteCounters { .. } => None,
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
