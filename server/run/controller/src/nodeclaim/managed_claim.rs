//! One NodeClaim of this server, with its instance.

mod transitions;

pub(crate) use transitions::LaunchOutcome;

use model::{
    CapacityType, ClaimName, InstanceTypeName, MicroUsd, Millis, NodeName, PoolName, ProviderId, Text, Timestamp, Zone,
};

use super::stage::{Stage, StageKind};
use super::{DecidedLaunch, DrainTerms, TerminationReason};
use crate::{DecisionId, InstructionId, PlannedMachine, order};

/// A NodeClaim of this server with its instance. Data that has a meaning in some stages only is
/// part of the stage.
#[derive(Debug, Clone)]
pub(crate) struct ManagedClaim {
    name: ClaimName,
    pool: PoolName,
    /// The decided launch; `None` for NodeClaims found in the cluster.
    decided: Option<Decided>,
    /// The decision of the launch, if a previous process recorded it and the NodeClaim was found in the cluster.
    recorded_decision: Option<DecisionId>,
    stage: Stage,
    /// When it entered the stage.
    since: Timestamp,
    /// Provider id of the instance; empty until launched.
    provider_id: ProviderId,
    instance: Option<LaunchedInstance>,
    in_flight: Option<InstructionId>,
    /// Earliest time of the next instruction, after a failed one.
    not_before: Timestamp,
    /// Its former Node, which is not observed any more.
    lost_node: Option<LostNode>,
    removal_confirmed: bool,
    /// The cloud refused to terminate the instance.
    termination_refused: bool,
}

/// A launch as decided.
#[derive(Debug, Clone)]
struct Decided {
    machine: PlannedMachine,
    decision: DecisionId,
    /// Revision of the NodePool at the time of the decision.
    revision: Text,
}

/// A former Node of a NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostNode {
    /// Name, by which pods are bound to it.
    pub name: NodeName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedInstance {
    pub instance_type: InstanceTypeName,
    pub zone: Zone,
    pub capacity_type: CapacityType,
    /// Price per hour; zero when the catalogue lacks it.
    pub price: MicroUsd,
}

/// A cloud call that was refused or unanswerable, to be repeated now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloudRetry {
    /// Describe the instance of this launch attempt.
    Describe {
        attempt: u32,
    },
    Terminate,
}

/// What the NodeClaim is and where it stands.
impl ManagedClaim {
    pub fn name(&self) -> &ClaimName {
        &self.name
    }

    pub fn pool(&self) -> &PoolName {
        &self.pool
    }

    pub fn stage(&self) -> StageKind {
        self.stage.kind()
    }

    /// When it entered the stage.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Provider id of the instance; empty until launched.
    pub fn provider_id(&self) -> &ProviderId {
        &self.provider_id
    }

    pub fn instance(&self) -> Option<&LaunchedInstance> {
        self.instance.as_ref()
    }

    /// Whether it is to be drained because its NodeClaim disappeared, and the agent has no instruction yet.
    pub fn is_drained_without_claim(&self) -> bool {
        matches!(self.stage, Stage::Draining { if_claimed: Some(_), .. })
    }

    /// The planned machine; `None` for NodeClaims found in the cluster.
    pub fn planned(&self) -> Option<&PlannedMachine> {
        self.decided.as_ref().map(|decided| &decided.machine)
    }

    /// The decision that planned it; `None` for NodeClaims found in the cluster.
    pub fn decision(&self) -> Option<DecisionId> {
        self.decided.as_ref().map(|decided| decided.decision)
    }

    /// The decision that launched it, also for NodeClaims found in the cluster if the launch record names it.
    pub fn launch_decision(&self) -> Option<DecisionId> {
        self.decision().or(self.recorded_decision)
    }

    /// Revision of the NodePool at the time of the decision.
    pub fn revision(&self) -> Option<&Text> {
        self.decided.as_ref().map(|decided| &decided.revision)
    }

    /// Why it is terminated, or will be once it is created or launched; `None` while it stays.
    pub fn termination_reason(&self) -> Option<&TerminationReason> {
        self.stage.termination_reason()
    }

    /// The same as a sentence; empty while it stays.
    pub fn termination_message(&self) -> Text {
        self.termination_reason().map(|reason| Text::from(reason.to_string())).unwrap_or_default()
    }

    /// Its former Node, which is not observed any more.
    pub fn lost_node(&self) -> Option<&LostNode> {
        self.lost_node.as_ref()
    }

    /// Whether an operator confirmed its removal.
    pub fn is_removal_confirmed(&self) -> bool {
        self.removal_confirmed
    }

    /// Whether the cloud refused to terminate the instance.
    pub fn is_termination_refused(&self) -> bool {
        self.termination_refused
    }

    /// When the API server listed pods on the Node, which the snapshot showed as empty.
    pub fn occupied_at(&self) -> Option<Timestamp> {
        self.stage.node().and_then(|node| node.occupied_at)
    }

    /// How the Node is drained; `None` in other stages.
    pub fn drain_terms(&self) -> Option<DrainTerms> {
        match &self.stage {
            Stage::Draining { deadline, interrupted, if_occupied, .. } => Some(DrainTerms {
                deadline: *deadline,
                interrupted: *interrupted,
                only_if_empty: if_occupied.is_some(),
            }),
            _ => None,
        }
    }

    /// Whether this launch attempt is in progress.
    pub fn is_launching(&self, attempt: u32) -> bool {
        matches!(self.stage, Stage::Launching { attempt: current, .. } if current == attempt)
    }

    /// The launch in its current attempt; `None` in other stages.
    pub fn launch_order(&self, at: Timestamp) -> Option<DecidedLaunch> {
        let Stage::Launching { attempt, .. } = self.stage else { return None };
        let Decided { machine, decision, .. } = self.decided.as_ref()?;
        let mut machine = machine.clone();
        if machine.launch.attempt != attempt {
            // A new token permits a different request, so the recorded settings are discarded.
            machine.launch.terms = Text::default();
            machine.launch.repeats = false;
        }
        machine.launch.attempt = attempt;
        machine.launch.token = order::launch_token(&self.name, attempt);
        Some(DecidedLaunch { machine, decision: *decision, at })
    }
}

impl ManagedClaim {
    pub fn has_instruction_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether the next instruction may be sent.
    pub fn may_be_instructed(&self, now: Timestamp) -> bool {
        self.in_flight.is_none() && !self.is_postponed(now)
    }

    /// Whether the next instruction waits for a time, and for no answer.
    pub fn waits_for_time(&self, now: Timestamp) -> bool {
        self.in_flight.is_none() && self.is_postponed(now)
    }

    /// Earliest time of the next instruction.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Whether the next instruction is postponed.
    pub fn is_postponed(&self, now: Timestamp) -> bool {
        self.not_before > now
    }

    pub fn postpone(&mut self, until: Timestamp) {
        self.not_before = until;
    }

    /// Records the instruction in flight, which replaces an earlier one.
    pub(super) fn record_instruction(&mut self, id: InstructionId) {
        self.in_flight = Some(id);
    }

    /// Records the answer to an instruction; returns whether it was the one in flight.
    pub(super) fn complete_instruction(&mut self, id: InstructionId) -> bool {
        let current = self.in_flight == Some(id);
        if current {
            self.in_flight = None;
        }
        current
    }

    /// When it has to be advanced without an event.
    pub fn next_wakeup(
        &self,
        launch_timeout: Millis,
        registration_timeout: Millis,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let waits = self.waits_for_time(now) && !matches!(self.stage, Stage::Initialized { .. });
        let limit = match &self.stage {
            Stage::Launching { cancelled: None, .. } => Some(self.since + launch_timeout),
            Stage::Launched { .. } => Some(self.since + registration_timeout).filter(|limit| *limit > now),
            _ => None,
        };
        [waits.then_some(self.not_before), limit, self.stage.cloud_retry()].into_iter().flatten().min()
    }

    /// Schedules a retry of the cloud call; returns whether the stage has one.
    pub(super) fn schedule_cloud_retry(&mut self, at: Timestamp) -> bool {
        self.stage.set_cloud_retry(Some(at))
    }

    /// The retry of a cloud call that is due, once.
    pub(super) fn take_cloud_retry(&mut self, now: Timestamp) -> Option<CloudRetry> {
        self.stage.cloud_retry().filter(|at| *at <= now)?;
        self.stage.set_cloud_retry(None);
        match &self.stage {
            Stage::Terminating { .. } => Some(CloudRetry::Terminate),
            Stage::Launching { attempt, .. } if !self.provider_id.is_empty() => {
                Some(CloudRetry::Describe { attempt: *attempt })
            }
            _ => None,
        }
    }
}

impl ManagedClaim {
    /// Records the decision by which a previous process launched it.
    pub fn record_launch_decision(&mut self, decision: DecisionId) {
        self.recorded_decision = Some(decision);
    }

    /// Records that its Node is not observed any more.
    pub fn record_lost_node(&mut self, node: LostNode) {
        self.lost_node = Some(node);
    }

    /// Records that an operator confirmed its removal, which is retried at once.
    pub fn confirm_removal(&mut self, now: Timestamp) {
        self.removal_confirmed = true;
        self.not_before = self.not_before.min(now);
    }

    /// Records that the cloud refused to terminate the instance.
    pub(super) fn record_termination_refusal(&mut self) {
        self.termination_refused = true;
    }
}
