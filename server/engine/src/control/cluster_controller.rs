//! One cluster in the controller's care: what is believed of it, its machines, and what is under way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::batch::Window;
use super::gc::GarbageCollection;
use super::guardrails::{ClusterGuardrails, Guardrails, GuardrailsView};
use super::machine::{Machine, Stage};
use super::nomination::{NominationRetries, RegistrationGate};
use super::planning::PlanNumber;
use super::planning::portion::Portion;
use super::planning::under_way::UnderWay;
use super::recovery::{Finding, Recovery};
use super::status_reporter::{StatusReporter, barred};
use super::unavailable_offerings::UnavailableOfferings;
use super::view::{Astray, ClusterView, EXPECTED_SHOWN, MachineView, PlanningView};
use super::{ClusterId, Decision, DecisionId, Effect, Instruction, InstructionId, Settings};
use crate::cluster::{ClusterState, PodKey, Target};
use crate::model::{MicroUsd, Text, Timestamp};

/// Decisions that are kept for people to look at.
const RECENT_DECISIONS: usize = 20;

/// What the whole controller shares with the cluster at hand.
pub(super) struct Context<'c> {
    pub settings: &'c Settings,
    pub offerings: &'c mut UnavailableOfferings,
    pub rails: &'c mut Guardrails,
    pub next_number: &'c mut u64,
    pub next_plan: &'c mut u64,
    pub effects: &'c mut Vec<Effect>,
    /// A plan was asked for: everything about the cluster was looked at, which takes far longer than anything else.
    pub planned: bool,
    pub now: Timestamp,
}

impl Context<'_> {
    pub fn number(&mut self) -> u64 {
        let number = *self.next_number;
        *self.next_number += 1;
        number
    }

    pub fn plan_number(&mut self) -> PlanNumber {
        let number = *self.next_plan;
        *self.next_plan += 1;
        PlanNumber(number)
    }

    pub fn after(&self, millis: i64) -> Timestamp {
        Timestamp(self.now.0.saturating_add(millis))
    }
}

/// One cluster in our care.
#[derive(Debug, Default)]
pub(super) struct ClusterController {
    pub cluster: ClusterId,
    /// What makes the cluster this one; empty until its lease is taken.
    pub uid: Text,
    pub connected: bool,
    /// What is taken up when the cluster shows itself.
    pub legacy: Recovery,
    /// Until when a person vouches for what the agent shows.
    pub vouched_until: Option<Timestamp>,
    /// What was last said against believing that machines are gone.
    pub doubt: Option<Finding>,
    /// What was odd in listings of the cloud.
    pub collection: GarbageCollection,
    pub state: ClusterState,
    pub window: Window,
    /// What the rails know of it.
    pub rails: ClusterGuardrails,
    /// Machines of ours, by NodeClaim.
    pub machines: BTreeMap<Text, Machine>,
    /// Nodes that wait for others before they are let in.
    pub doors: RegistrationGate,
    /// Hints apart from letting Nodes in.
    pub nudges: NominationRetries,
    /// Decisions that are not durable yet.
    pub undecided: BTreeMap<DecisionId, Arc<Decision>>,
    /// Instructions that are not answered yet, with their NodeClaim.
    pub asked: BTreeMap<InstructionId, Text>,
    /// The last decisions, latest first.
    pub recent: VecDeque<Arc<Decision>>,
    /// Pods that the last plans found no place for, and why, one text for each plan of a round; a plan that says the same is not
    /// recorded again.
    pub last_unplaced: Vec<String>,
    /// The plan that is being made.
    pub under_way: Option<UnderWay>,
    /// Which pods the next plan takes.
    pub portion: Portion,
    /// Why the last plan was refused.
    pub refused: Option<String>,
    /// When pods without a place are planned again.
    pub retry: Option<Timestamp>,
    /// When empty nodes are looked for next.
    pub next_pass: Option<Timestamp>,
    /// When they were looked for last.
    pub last_pass: Option<Timestamp>,
    /// Whether the next pass may find something: set by every change of the state.
    pub changed: bool,
    /// What has been said about objects.
    pub clerk: StatusReporter,
    /// When the next pod that was left to Cluster Autoscaler is planned.
    pub held_until: Option<Timestamp>,
    /// When this cluster needs attention although nothing happens.
    pub wake: Option<Timestamp>,
}

impl ClusterController {
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, ..Self::default() }
    }

    /// Whether anything may be decided.
    pub fn is_ready(&self) -> bool {
        self.connected && self.state.is_synced()
    }

    pub fn remember(&mut self, decision: &Arc<Decision>) {
        self.recent.push_front(Arc::clone(decision));
        self.recent.truncate(RECENT_DECISIONS);
    }

    /// Gives an instruction about the machine of `claim`; its answer is awaited.
    pub fn instruct(&mut self, instruction: Instruction, desk: &mut Context<'_>) {
        let id = InstructionId(desk.number());
        if let Some(claim) = instruction.claim() {
            if let Some(machine) = self.machines.get_mut(claim) {
                machine.waits_for = Some(id);
            }
            self.asked.insert(id, claim.clone());
        }
        let cluster = self.cluster.clone();
        desk.effects.push(Effect::Instruct { cluster, id, instruction: Box::new(instruction) });
    }

    /// The machine with this provider id.
    pub fn claim_of_instance(&self, provider_id: &Text) -> Option<Text> {
        let mut machines = self.machines.values();
        machines.find(|machine| machine.provider_id == *provider_id).map(|machine| machine.claim.clone())
    }

    pub fn enter(&mut self, claim: &Text, stage: Stage, now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.enter(stage, now);
        }
    }

    /// Changes whenever what people see does.
    pub fn outline(&self) -> (u64, bool, usize, Option<DecisionId>, Option<PlanNumber>) {
        let moves = self.machines.values().map(|machine| machine.stage as usize + 1).sum();
        let plan = self.under_way.as_ref().map(|plan| plan.number);
        (self.state.version(), self.connected, moves, self.recent.front().map(|decision| decision.id), plan)
    }

    pub fn view(&self, sold_out: usize, rails: GuardrailsView, now: Timestamp) -> ClusterView {
        let machines: Vec<MachineView> =
            self.machines.values().map(|machine| self.machine_view(machine, now)).collect();
        let prices = machines.iter().filter_map(|machine| machine.bought.as_ref());
        ClusterView {
            cluster: self.cluster.clone(),
            connected: self.connected,
            synced: self.state.is_synced(),
            synced_since: self.state.synced_since(),
            version: self.state.version(),
            pods: self.state.live_pods(),
            pending: self.state.unplaced_pods().filter(|pod| pod.is_provisionable()).count(),
            expected: self.expected(),
            nodes: self.state.nodes().count(),
            cost: MicroUsd(prices.map(|bought| bought.price.0).sum()),
            pools: Vec::new(),
            machines,
            sold_out,
            decisions: self.recent.iter().cloned().collect(),
            refused: self.refused.clone(),
            planning: self.planning_view(),
            rails,
            astray: self.astray(),
            autoscalers: self.state.live_autoscalers().cloned().collect(),
            problems: self.state.problems().collect(),
            left_pools: self.left_pools(),
        }
    }

    fn astray(&self) -> Astray {
        let (orphaned, foreign) = self.collection.counts();
        Astray { orphaned, foreign, refused: self.machines.values().filter(|machine| machine.refused).count() }
    }

    /// What keeps the pods of a machine that goes.
    fn blocked(&self, machine: &Machine, now: Timestamp) -> Option<Text> {
        let node = self.state.node_of_claim(&machine.claim).filter(|_| machine.stage == Stage::Draining)?;
        barred(&self.state.drain_barred(&node.name, now)).map(Text::from)
    }

    fn planning_view(&self) -> Option<PlanningView> {
        let plan = self.under_way.as_ref()?;
        Some(PlanningView { since: plan.since, pods: plan.pods, left: self.portion.left() })
    }

    fn expected(&self) -> Vec<(PodKey, Text)> {
        let promises = self.state.promises.iter().take(EXPECTED_SHOWN);
        let place = |target: &Target| match target {
            Target::Claim(name) | Target::Node(name) => name.clone(),
        };
        promises.map(|(pod, promise)| (pod.clone(), place(&promise.target))).collect()
    }

    fn machine_view(&self, machine: &Machine, now: Timestamp) -> MachineView {
        let node = self.state.node_of_claim(&machine.claim).map(|node| node.name.clone());
        let pods = node.as_ref().map_or(0, |node| self.state.guests_on(node));
        MachineView {
            claim: machine.claim.clone(),
            pool: machine.pool.clone(),
            stage: machine.stage,
            since: machine.since,
            bought: machine.bought.clone(),
            pods,
            blocked: self.blocked(machine, now),
            node,
            leaves: machine.leaves.clone(),
        }
    }
}
