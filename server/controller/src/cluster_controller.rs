//! Controller of one cluster: its observed state, its machines, and the operations in progress.

use super::disruption::{DecisionQueue, Disruption};
use super::guardrails::{ClusterGuardrails, DisabledGuards, Guardrails, GuardrailsView};
use super::nodeclaim::gc::GarbageCollector;
use super::nodeclaim::recovery::{Finding, Recovery};
use super::nodeclaim::{ManagedClaim, NodeClaims, StageKind};
use super::nomination::{NominationView, Nominator};
use super::provisioning::{PlanNumber, Provisioner};
use super::status_reporter::{StatusReporter, drain_blocked_message};
use super::unavailable_offerings::UnavailableOfferings;
use super::view::{ClusterView, InstanceAnomalies, MAX_ASSUMED_SHOWN, MachineView};
use super::{DecisionId, Effect, Instruction, InstructionId, Settings};
use crate::cluster::{ClusterState, Target};
use model::{ClaimName, ClusterName, MicroUsd, PodKey, ProviderId, Text, Timestamp};

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
    /// Which pods are planned, and when.
    pub provisioner: Provisioner,
    /// Guardrail state of this cluster.
    pub guardrails: ClusterGuardrails,
    /// NodeClaims of this server and their instructions in flight.
    pub claims: NodeClaims,
    /// When Nodes are registered, and which pods are nominated for them.
    pub nominator: Nominator,
    /// Decisions that are not durable yet, and recent decisions.
    pub decisions: DecisionQueue,
    /// When the disruption methods run.
    pub disruption: Disruption,
    /// Conditions and events already written.
    pub status_reporter: StatusReporter,
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

    /// The nominator, and what it reads.
    pub fn nominator_and_view(&mut self, now: Timestamp) -> (&mut Nominator, NominationView<'_>) {
        (&mut self.nominator, NominationView { state: &self.state, claims: &self.claims, now })
    }

    /// Sends an instruction to the agent; one for a NodeClaim blocks further instructions for it
    /// until answered.
    pub fn instruct(&mut self, instruction: Instruction, ctx: &mut Context<'_>) {
        let id = InstructionId(ctx.next_id());
        if let Some(claim) = instruction.claim() {
            self.claims.record_instruction(id, claim);
        }
        let cluster = self.cluster.clone();
        ctx.effects.push(Effect::Instruct { cluster, id, instruction: Box::new(instruction) });
    }

    /// The NodeClaim of the machine with this provider id.
    pub fn claim_of_instance(&self, provider_id: &ProviderId) -> Option<ClaimName> {
        self.claims.by_provider_id(provider_id).map(|machine| machine.name().clone())
    }

    /// Fingerprint of the view; changes whenever the view does.
    pub fn view_version(&self) -> (u64, bool, usize, Option<DecisionId>, Option<PlanNumber>) {
        let stages = self.claims.stage_fingerprint();
        let plan = self.provisioner.plan_in_progress();
        (self.state.version(), self.connected, stages, self.decisions.last_id(), plan)
    }

    pub fn view(&self, unavailable_offerings: usize, guardrails: GuardrailsView, now: Timestamp) -> ClusterView {
        let machines: Vec<MachineView> = self.claims.iter().map(|machine| self.machine_view(machine, now)).collect();
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
            decisions: self.decisions.recent().cloned().collect(),
            last_error: self.provisioner.last_error().map(str::to_owned),
            planning: self.provisioner.view(),
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
            termination_refused: self.claims.iter().filter(|machine| machine.is_termination_refused()).count(),
        }
    }

    /// What blocks the drain of a machine.
    fn drain_blocker(&self, machine: &ManagedClaim, now: Timestamp) -> Option<Text> {
        let node = self.state.node_of_claim(machine.name()).filter(|_| machine.stage() == StageKind::Draining)?;
        drain_blocked_message(&self.state.drain_blockers(&node.name, now)).map(Text::from)
    }

    fn assumed(&self) -> Vec<(PodKey, Target)> {
        let assignments = self.state.assignments.iter().take(MAX_ASSUMED_SHOWN);
        assignments.map(|(pod, assignment)| (pod.clone(), assignment.target.clone())).collect()
    }

    fn machine_view(&self, machine: &ManagedClaim, now: Timestamp) -> MachineView {
        let node = self.state.node_of_claim(machine.name()).map(|node| node.name.clone());
        let pods = node.as_ref().map_or(0, |node| self.state.non_daemon_pods_on(node));
        MachineView {
            claim: machine.name().clone(),
            pool: machine.pool().clone(),
            stage: machine.stage(),
            since: machine.since(),
            instance: machine.instance().cloned(),
            pods,
            blocked: self.drain_blocker(machine, now),
            node,
            termination_reason: machine.termination_reason().map(|reason| Text::from(reason.to_string())),
        }
    }
}
