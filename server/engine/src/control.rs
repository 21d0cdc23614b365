//! WHEN: one loop, one owner. Events go in with the time they happened; effects come out.
//!
//! [`RegionController::handle`] is the only door. It changes what is believed ([`crate::cluster`]), decides when a decision is
//! due ([`batch`]), has it planned elsewhere ([`planning`]), and turns the answer into [`Effect`]s that somebody else carries out
//! and answers with further events. It calls no planner itself, so that no cluster's plan keeps another cluster's events waiting. The order of a purchase never varies: the decision is recorded, the NodeClaim is created in the
//! cluster, the machine is launched. An event may wake planning; it never tells planning what to look at.
//!
//! Reading order: [`event`] and [`effect`] (the doors), `route` (what follows from an event), [`batch`] (when pending pods
//! are planned), [`planning`] (who plans them, and how many at a time), `provision` and [`order`] (from a plan to NodeClaims), [`decision_input`] (what a plan was made from), [`machine`]
//! and `lifecycle` (one machine from intent to grave), `nomination` (which pods its Node is for, and when it opens), `termination` (empty nodes,
//! interruptions), `external_autoscalers` (other autoscalers), [`guardrails`] (what no decision may do), [`recovery`] (what a former process
//! left), [`gc`] (garbage), `witness` (machines that a listing lacks), `orphans` (machines whose NodeClaim was taken away), [`unavailable_offerings`] (what is sold out), [`status`] and `status_reporter` (what is said about objects),
//! [`view`] (what people see).

pub mod batch;
mod cluster_controller;
mod conditions;
pub mod decision_input;
pub mod effect;
pub mod event;
mod external_autoscalers;
pub mod gc;
pub mod guardrails;
mod lifecycle;
pub mod machine;
mod nomination;
pub mod order;
mod orphans;
pub mod planning;
mod provision;
pub mod recovery;
mod route;
pub mod status;
mod status_reporter;
mod termination;
pub mod unavailable_offerings;
pub mod view;
mod witness;

pub use decision_input::DecisionInput;
pub use effect::{
    ClaimOrder, Decision, DecisionKind, Effect, Instruction, InstructionId, LaunchOption, LaunchOrder, PlannedMachine,
    PodNomination, Removal, UnplacedPod,
};
pub use event::{Event, Inspection, LaunchFailure, Launched};
pub use gc::{GarbageCollectionSettings, ListedInstance, Listing};
pub use machine::{LaunchedInstance, Stage};
pub use planning::{PlanAnswer, PlanNumber, PlanOutcome, PlanRequest, PlanWorker};
pub use recovery::{DecidedLaunch, Finding, LaunchState, OpenLaunch};
pub use status::{Condition, ConditionStatus, EventOrder, ObjectRef, StatusOrder, StatusPatch};
pub use view::{ClusterView, MachineView};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cluster::ClusterState;
use crate::input::{PlanningInput, Policy};
use crate::model::{Text, Timestamp};
use crate::plan::{Plan, PlanReport};
use crate::schedule::CompileCache;
use cluster_controller::{ClusterController, Context};
use guardrails::{GuardrailSettings, Guardrails};
use unavailable_offerings::{UnavailableOffering, UnavailableOfferings};

/// Name of a cluster, unique in the fleet.
pub type ClusterId = Text;

/// Number of a decision, unique and increasing within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub u64);

/// What turns an input into a plan; it may use the memo, and never answers otherwise for it. An error refuses the whole
/// plan and says why.
pub type Planner = fn(&PlanningInput, &mut CompileCache) -> Result<(Plan, PlanReport), String>;

/// What is known of the subnets, images, security groups and profiles that EC2NodeClasses select.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassFacts {
    /// Nothing: they are not looked up.
    #[default]
    Unresolved,
    /// The cloud is simulated: it has a subnet in each of its zones, and needs nothing else.
    Simulated,
}

/// What the operator and the shell decide for the whole controller. Durations are in milliseconds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What planning is told.
    pub policy: Policy,
    /// A window closes this long after the last pod that it has not seen before (`BATCH_IDLE_DURATION`).
    pub batch_idle_ms: i64,
    /// A window closes this long after it opened (`BATCH_MAX_DURATION`).
    pub batch_max_ms: i64,
    /// Pods that one plan takes at most, 0 for all: the others are planned next, at once.
    pub plan_pods: usize,
    /// Pods without a place are planned again after this long, whatever happens.
    pub retry_ms: i64,
    /// Between two looks for empty nodes.
    pub disruption_pass_ms: i64,
    /// From NodeClaim to machine (Karpenter: launch timeout).
    pub launch_timeout_ms: i64,
    /// From machine to Node (Karpenter: registration timeout).
    pub registration_timeout_ms: i64,
    /// How long a Node that could be let in waits for the others of its decision: machines of one order differ by some seconds in how
    /// long they take to boot. With 0 every Node is let in as soon as it can be.
    pub open_together_ms: i64,
    /// What no decision may do.
    pub rails: GuardrailSettings,
    /// How long an offering that was refused is left alone.
    pub sold_out_ms: i64,
    /// When garbage is collected.
    pub collect: GarbageCollectionSettings,
    /// How long a pod is left to Cluster Autoscaler once that has said that it buys a node for it.
    pub hold_after_foreign_scale_up_ms: i64,
    /// What is known of what EC2NodeClasses select.
    pub class_facts: ClassFacts,
    /// First number of decisions and instructions; above all numbers of earlier processes.
    pub first_number: u64,
    /// Differs from process to process, so that names of NodeClaims do.
    pub identity: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            batch_idle_ms: 1_000,
            batch_max_ms: 10_000,
            plan_pods: PLAN_PODS,
            retry_ms: 10_000,
            disruption_pass_ms: 10_000,
            launch_timeout_ms: 5 * 60_000,
            registration_timeout_ms: 15 * 60_000,
            open_together_ms: 10_000,
            rails: GuardrailSettings::default(),
            sold_out_ms: unavailable_offerings::SOLD_OUT_MS,
            collect: GarbageCollectionSettings::default(),
            hold_after_foreign_scale_up_ms: crate::cluster::around::FOREIGN_SCALE_UP_MS,
            class_facts: ClassFacts::default(),
            first_number: 1,
            identity: 0,
        }
    }
}

/// Pods that one plan takes at most, unless the settings say otherwise: what one planning thread does in about a second when the
/// pods are diverse.
const PLAN_PODS: usize = 5_000;

/// Clusters that one [`Event::Tick`] looks at, at most, when for none of them a plan is asked for: some milliseconds' work.
const LOOKS: usize = 16;

/// The owner of what is believed and what is under way, for all clusters that this process decides for. All of them buy
/// from one account and region.
#[derive(Debug)]
pub struct RegionController {
    settings: Settings,
    wards: BTreeMap<ClusterId, ClusterController>,
    /// When each cluster needs attention although nothing happens; follows `wards`, so that the next of a thousand clusters
    /// is found without asking the others.
    wakes: BTreeSet<(Timestamp, ClusterId)>,
    /// Those whose time has come, in the order in which it came. One that wants attention again lines up again, so that none
    /// keeps another waiting for ever.
    line: VecDeque<ClusterId>,
    offerings: UnavailableOfferings,
    rails: Guardrails,
    next_number: u64,
    next_plan: u64,
    /// The moment of the last event.
    now: Timestamp,
}

impl RegionController {
    /// A controller that knows no cluster yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let next_number = settings.first_number;
        let (offerings, rails, now) = (UnavailableOfferings::default(), Guardrails::default(), Timestamp::default());
        let (wards, wakes, line) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Self { settings, wards, wakes, line, offerings, rails, next_number, next_plan: 1, now }
    }

    /// Takes in what happened and says what is to be done, in the order in which it is to be done.
    ///
    /// The passing of time is a small step: for at most one cluster a plan is asked for, which takes in the whole of it, so that
    /// whoever carries out what comes of it, and hears what happened meanwhile, need not wait until a thousand are. [`RegionController::next_wakeup`] tells that more is due.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        if let Event::Released { cluster } = event {
            if let Some(wake) = self.wards.remove(&cluster).and_then(|ward| ward.wake) {
                self.wakes.remove(&(wake, cluster.clone()));
            }
            self.rails.machines.remove(&cluster);
            return vec![Effect::PublishView { cluster }];
        }
        if let Event::Planned(answer) = &event
            && !self.wards.contains_key(&answer.request.cluster)
        {
            return Vec::new();
        }
        let mut effects = Vec::new();
        self.now = now;
        self.offerings.forget_past(now);
        let event = match event {
            Event::OfferingsRefused { refusals } => {
                self.offerings.learn(refusals);
                Event::Tick
            }
            Event::RemoteCounters { machines, parts } => {
                self.rails.hear(machines, &parts);
                Event::Tick
            }
            event => event,
        };
        let stirred = self.settle_rails(&event, now);
        let touched = cluster_of(&event, &self.wards);
        let mut due = self.due(touched, stirred, now);
        let mut event = Some(event);
        while let Some(cluster) = due.pop_front() {
            let ward = self.wards.entry(cluster.clone()).or_insert_with(|| ClusterController::new(cluster));
            let mut desk = Context {
                settings: &self.settings,
                offerings: &mut self.offerings,
                rails: &mut self.rails,
                next_number: &mut self.next_number,
                next_plan: &mut self.next_plan,
                effects: &mut effects,
                planned: false,
                now,
            };
            ward.state.hold_after_foreign_scale_up(desk.settings.hold_after_foreign_scale_up_ms);
            let shadow = ward.is_shadow(&desk);
            ward.state.decide_in_shadow(shadow);
            let before = (ward.outline(), ward.rails.outline(), ward.collection.outline());
            let woke = ward.wake;
            if stirred {
                ward.stir(now);
            }
            if let Some(event) = event.take() {
                ward.take_in(event, &mut desk);
            }
            ward.advance(&mut desk);
            let planned = desk.planned;
            if ward.wake != woke {
                woke.map(|at| self.wakes.remove(&(at, ward.cluster.clone())));
                self.wakes.extend(ward.wake.map(|at| (at, ward.cluster.clone())));
            }
            self.rails.machines.insert(ward.cluster.clone(), ward.standing());
            if stirred || (ward.outline(), ward.rails.outline(), ward.collection.outline()) != before {
                effects.push(Effect::PublishView { cluster: ward.cluster.clone() });
            }
            if planned && !stirred {
                due.drain(..).rev().for_each(|cluster| self.line.push_front(cluster));
            }
        }
        effects.retain(|effect| guardrails::passes(&self.settings.rails, effect));
        effects
    }

    /// Lets the rails take time and freezes in; says whether that changes what the whole fleet may do.
    fn settle_rails(&mut self, event: &Event, now: Timestamp) -> bool {
        let settled = self.rails.settle(&self.settings.rails, now);
        match event {
            Event::FreezesChanged { freezes } => self.rails.freezes.replace(freezes.clone(), now) || settled,
            _ => settled,
        }
    }

    /// The clusters to look at: the one that the event is about first; when time has passed, the first of those whose time has
    /// come; when something has changed for all, all of them.
    fn due(&mut self, touched: Option<ClusterId>, stirred: bool, now: Timestamp) -> VecDeque<ClusterId> {
        if stirred {
            let others = self.wards.keys().filter(|cluster| touched.as_ref() != Some(*cluster));
            return touched.iter().chain(others).cloned().collect();
        }
        if touched.is_some() {
            return touched.into_iter().collect();
        }
        if self.line.is_empty() {
            let awake = self.wakes.iter().take_while(|(at, _)| *at <= now).map(|(_, cluster)| cluster);
            self.line.extend(awake.cloned());
        }
        let mut first = VecDeque::new();
        while first.len() < LOOKS {
            let Some(cluster) = self.line.pop_front() else { break };
            // It may have got its attention meanwhile, or be somebody else's.
            let wants = self.wards.get(&cluster).and_then(|ward| ward.wake).is_some_and(|wake| wake <= now);
            first.extend(wants.then_some(cluster));
        }
        first
    }

    /// When [`Event::Tick`] is due at the latest, if nothing else happens; a moment in the past means at once.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let first = self.wakes.first().map(|(at, _)| *at);
        first.into_iter().chain(self.rails.next_change(&self.settings.rails)).min()
    }

    /// What the cloud has refused to this controller since this was last asked, for others who buy in the same place.
    pub fn take_refusals(&mut self) -> Vec<UnavailableOffering> {
        self.offerings.take_news()
    }

    /// What this process saw of its own clusters, for the rails of all others.
    #[must_use]
    pub fn told(&self) -> guardrails::fleet_counters::CounterSnapshot {
        self.rails.told(&self.settings.rails)
    }

    /// What people see of a cluster.
    #[must_use]
    pub fn view(&self, cluster: &str) -> Option<ClusterView> {
        let ward = self.wards.get(cluster)?;
        let rails = ward.rails_view(&self.rails, &self.settings.rails);
        let view = ward.view(self.offerings.len(), rails, self.now);
        Some(ClusterView { pools: ward.pools_view(&self.rails), ..view })
    }

    /// The clusters that this controller knows, by name.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.wards.keys()
    }

    /// What is believed of a cluster.
    #[must_use]
    pub fn state(&self, cluster: &str) -> Option<&ClusterState> {
        self.wards.get(cluster).map(|ward| &ward.state)
    }
}

/// The cluster that an event is about; `None` for the passing of time.
fn cluster_of(event: &Event, wards: &BTreeMap<ClusterId, ClusterController>) -> Option<ClusterId> {
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
        | Event::Recalled { cluster, .. }
        | Event::Remembered { cluster, .. }
        | Event::Adopted { cluster, .. }
        | Event::Released { cluster }
        | Event::Listed { cluster, .. }
        | Event::Interrupted { cluster, .. } => Some(cluster.clone()),
        Event::Launched(launched) => Some(launched.cluster.clone()),
        Event::Planned(answer) => Some(answer.request.cluster.clone()),
        Event::Recorded { decision } => {
            wards.values().find(|ward| ward.undecided.contains_key(decision)).map(|ward| ward.cluster.clone())
        }
        Event::Tick | Event::FreezesChanged { .. } | Event::OfferingsRefused { .. } | Event::RemoteCounters { .. } => {
            None
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
