//! Controller of one cluster: its observed state, its machines, and the operations in progress.

use super::disruption::{DecisionQueue, Disruption};
use super::guardrails::{ClusterGuardrails, DisabledGuards, Guardrails};
use super::nodeclaim::{GarbageCollector, NodeClaims, PendingRecovery};
use super::nomination::{NominationView, Nominator};
use super::provisioning::{PlanNumber, Provisioner};
use super::status_reporter::StatusReporter;
use super::unavailable_offerings::UnavailableOfferings;
use super::{Effect, Finding, Instruction, InstructionId, Settings};
use crate::cluster::ClusterState;
use model::{ClaimName, ClusterName, ProviderId, Text, Timestamp};

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
    pub recovery: PendingRecovery,
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
}
