//! The region controller: which clusters an event advances, and what they share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cluster::ClusterState;
use crate::cluster_controller::{ClusterController, Context};
use crate::effect::Effect;
use crate::event::Event;
use crate::guardrails::fleet_counters::CounterSnapshot;
use crate::guardrails::{DisabledGuards, Guardrails, is_allowed_by_mode};
use crate::settings::Settings;
use crate::unavailable_offerings::{UnavailableOffering, UnavailableOfferings};
use crate::view::ClusterView;
use model::{ClusterName, Timestamp};

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
    pub(crate) fn with_disabled_guards(settings: Settings, disabled_guards: DisabledGuards) -> Self {
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
        effects.retain(|effect| is_allowed_by_mode(&self.settings.guardrails, effect));
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
    pub fn counter_snapshot(&self) -> CounterSnapshot {
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
