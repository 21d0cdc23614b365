//! Controller of one cluster: its observed state, its machines, and the operations in progress.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::batch::BatchWindow;
use super::gc::GarbageCollector;
use super::guardrails::{ClusterGuardrails, DisabledGuards, Guardrails, GuardrailsView};
use super::machine::{Machine, Stage};
use super::nomination::{NominationRetries, RegistrationGate};
use super::planning::PlanNumber;
use super::planning::demand_cursor::DemandCursor;
use super::planning::pending_plan::PendingPlan;
use super::recovery::{Finding, Recovery};
use super::status_reporter::{StatusReporter, drain_blocked_message};
use super::unavailable_offerings::UnavailableOfferings;
use super::view::{ClusterView, InstanceAnomalies, MAX_ASSUMED_SHOWN, MachineView, PlanningView};
use super::{Decision, DecisionId, Effect, Instruction, InstructionId, Settings, UnplacedPod};
use crate::cluster::{ClusterState, Target};
use model::{ClaimName, ClusterName, MicroUsd, PodKey, ProviderId, Text, Timestamp};

/// Number of recent decisions kept for the view.
const RECENT_DECISIONS: usize = 20;

/// What all clusters of the region share, and the output of the current event.
pub(super) struct Context<'c> {
    pub settings: &'c Settings,
    pub disabled_guards: &'c DisabledGuards,
    pub offerings: &'c mut UnavailableOfferings,
    pub guardrails: &'c mut Guardrails,
    pub next_number: &'c mut u64,
    pub next_plan: &'c mut u64,
    pub effects: &'c mut Vec<Effect>,
    /// A plan was requested in this step: building its input covers the whole cluster and takes far
    /// longer than anything else.
    pub planned: bool,
    pub now: Timestamp,
}

impl Context<'_> {
    pub fn next_id(&mut self) -> u64 {
        let number = *self.next_number;
        *self.next_number += 1;
        number
    }

    pub fn next_plan_number(&mut self) -> PlanNumber {
        let number = *self.next_plan;
        *self.next_plan += 1;
        PlanNumber(number)
    }
}

/// Controller of one cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterController {
    pub cluster: ClusterName,
    /// UID of the cluster; empty until its lease is acquired.
    pub uid: Text,
    pub connected: bool,
    /// Unfinished launches of the previous owner, until the first accepted snapshot.
    pub recovery: Recovery,
    /// Until when an operator's confirmation of the agent's snapshot is valid.
    pub operator_confirmed_until: Option<Timestamp>,
    /// Last reported finding about missing NodeClaims.
    pub last_absence_finding: Option<Finding>,
    /// Garbage collection state.
    pub gc: GarbageCollector,
    pub state: ClusterState,
    pub window: BatchWindow,
    /// Guardrail state of this cluster.
    pub guardrails: ClusterGuardrails,
    /// Machines of this server, by NodeClaim.
    pub machines: BTreeMap<ClaimName, Machine>,
    /// Nodes whose registration waits for the other Nodes of their decision.
    pub registration_gate: RegistrationGate,
    /// Retries of pod nominations outside Node registration.
    pub nomination_retries: NominationRetries,
    /// Decisions that are not durable yet.
    pub unrecorded_decisions: BTreeMap<DecisionId, Arc<Decision>>,
    /// Unanswered instructions with their NodeClaim.
    pub pending_instructions: BTreeMap<InstructionId, ClaimName>,
    /// Last decisions, latest first.
    pub recent_decisions: VecDeque<Arc<Decision>>,
    /// Unplaced pods with their reasons, for each plan of a planning round; unchanged ones are not
    /// recorded again.
    pub last_unplaced: Vec<Vec<UnplacedPod>>,
    /// The plan in progress.
    pub pending_plan: Option<PendingPlan>,
    /// Position in the demand: which pods the next plan takes.
    pub demand_cursor: DemandCursor,
    /// Why the last plan, NodeClaim creation or launch failed.
    pub last_error: Option<String>,
    /// When unplaced pods are planned again.
    pub retry_at: Option<Timestamp>,
    /// When the next pass for empty nodes is due.
    pub next_pass: Option<Timestamp>,
    /// When the last pass for empty nodes ran.
    pub last_pass: Option<Timestamp>,
    /// Whether the state changed since the last pass for empty nodes.
    pub changed_since_pass: bool,
    /// Conditions and events already written.
    pub status_reporter: StatusReporter,
    /// When the next pod held for Cluster Autoscaler is planned.
    pub next_hold_expiry: Option<Timestamp>,
    /// When this cluster has to be advanced without an event.
    pub next_wakeup: Option<Timestamp>,
}

impl ClusterController {
    pub fn new(cluster: ClusterName) -> Self {
        Self { cluster, ..Self::default() }
    }

    /// Whether decisions are allowed: the agent is connected and the state synced.
    pub fn is_ready(&self) -> bool {
        self.connected && self.state.is_synced()
    }

    pub fn push_recent_decision(&mut self, decision: &Arc<Decision>) {
        self.recent_decisions.push_front(Arc::clone(decision));
        self.recent_decisions.truncate(RECENT_DECISIONS);
    }

    /// Sends an instruction to the agent; one for a NodeClaim blocks further instructions for it
    /// until answered.
    pub fn instruct(&mut self, instruction: Instruction, ctx: &mut Context<'_>) {
        let id = InstructionId(ctx.next_id());
        if let Some(claim) = instruction.claim() {
            if let Some(machine) = self.machines.get_mut(claim) {
                machine.pending_instruction = Some(id);
            }
            self.pending_instructions.insert(id, claim.clone());
        }
        let cluster = self.cluster.clone();
        ctx.effects.push(Effect::Instruct { cluster, id, instruction: Box::new(instruction) });
    }

    /// The NodeClaim of the machine with this provider id.
    pub fn claim_of_instance(&self, provider_id: &ProviderId) -> Option<ClaimName> {
        let mut machines = self.machines.values();
        machines.find(|machine| machine.provider_id == *provider_id).map(|machine| machine.claim.clone())
    }

    pub fn enter_stage(&mut self, claim: &ClaimName, stage: Stage, now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.enter_stage(stage, now);
        }
    }

    /// Fingerprint of the view; changes whenever the view does.
    pub fn view_version(&self) -> (u64, bool, usize, Option<DecisionId>, Option<PlanNumber>) {
        let stages = self.machines.values().map(|machine| machine.stage as usize + 1).sum();
        let plan = self.pending_plan.as_ref().map(|plan| plan.number);
        (self.state.version(), self.connected, stages, self.recent_decisions.front().map(|decision| decision.id), plan)
    }

    pub fn view(&self, unavailable_offerings: usize, guardrails: GuardrailsView, now: Timestamp) -> ClusterView {
        let machines: Vec<MachineView> =
            self.machines.values().map(|machine| self.machine_view(machine, now)).collect();
        let prices = machines.iter().filter_map(|machine| machine.instance.as_ref());
        ClusterView {
            cluster: self.cluster.clone(),
            connected: self.connected,
            synced: self.state.is_synced(),
            synced_since: self.state.synced_since(),
            version: self.state.version(),
            pods: self.state.live_pods(),
            pending: self.state.unplaced_pods().filter(|pod| pod.is_provisionable()).count(),
            assumed: self.assumed(),
            nodes: self.state.nodes().count(),
            cost: MicroUsd(prices.map(|instance| instance.price.0).sum()),
            pools: Vec::new(),
            machines,
            unavailable_offerings,
            decisions: self.recent_decisions.iter().cloned().collect(),
            last_error: self.last_error.clone(),
            planning: self.planning_view(),
            guardrails,
            anomalies: self.anomalies(),
            autoscalers: self.state.active_autoscalers().cloned().collect(),
            problems: self.state.problems().collect(),
            unmanaged_pools: self.unmanaged_pools(),
        }
    }

    fn anomalies(&self) -> InstanceAnomalies {
        let (orphaned, foreign) = self.gc.counts();
        InstanceAnomalies {
            orphaned,
            foreign,
            termination_refused: self.machines.values().filter(|machine| machine.termination_refused).count(),
        }
    }

    /// What blocks the drain of a machine.
    fn drain_blocker(&self, machine: &Machine, now: Timestamp) -> Option<Text> {
        let node = self.state.node_of_claim(&machine.claim).filter(|_| machine.stage == Stage::Draining)?;
        drain_blocked_message(&self.state.drain_blockers(&node.name, now)).map(Text::from)
    }

    fn planning_view(&self) -> Option<PlanningView> {
        let plan = self.pending_plan.as_ref()?;
        Some(PlanningView { since: plan.since, pods: plan.pods, left: self.demand_cursor.remaining() })
    }

    fn assumed(&self) -> Vec<(PodKey, Target)> {
        let assignments = self.state.assignments.iter().take(MAX_ASSUMED_SHOWN);
        assignments.map(|(pod, assignment)| (pod.clone(), assignment.target.clone())).collect()
    }

    fn machine_view(&self, machine: &Machine, now: Timestamp) -> MachineView {
        let node = self.state.node_of_claim(&machine.claim).map(|node| node.name.clone());
        let pods = node.as_ref().map_or(0, |node| self.state.non_daemon_pods_on(node));
        MachineView {
            claim: machine.claim.clone(),
            pool: machine.pool.clone(),
            stage: machine.stage,
            since: machine.since,
            instance: machine.instance.clone(),
            pods,
            blocked: self.drain_blocker(machine, now),
            node,
            termination_reason: machine.termination_reason.as_ref().map(|reason| Text::from(reason.to_string())),
        }
    }
}
