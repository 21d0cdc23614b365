//! All stages that a NodeClaim enters: where it begins, and every change after that.
//!
//! A method returns whether the stage permitted the change, or what follows from it; otherwise it
//! changes nothing.

use super::{Decided, LaunchedInstance, ManagedClaim};
use crate::nodeclaim::stage::{NodeProgress, Stage};
use crate::nodeclaim::{DecidedLaunch, DrainTerms, TerminationReason};
use crate::{DecisionId, PlannedMachine};
use cluster::ClaimRecord;
use model::{ClaimName, LaunchOption, PoolName, ProviderId, Text, Timestamp};

/// What follows from a launched instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LaunchOutcome {
    /// Its NodeClaim stays.
    Kept,
    /// The launch was cancelled meanwhile: the instance is terminated.
    Cancelled(TerminationReason),
}

/// First stages.
impl ManagedClaim {
    pub fn from_decision(planned: PlannedMachine, decision: DecisionId, revision: Text, now: Timestamp) -> Self {
        let (name, pool) = (planned.claim.name.clone(), planned.claim.pool.clone());
        let decided = Decided { machine: planned, decision, revision };
        Self { decided: Some(decided), ..Self::in_stage(name, pool, Stage::Planned { attempt: 1 }, now) }
    }

    /// The NodeClaim of a launch that a previous process recorded, in its latest `attempt`.
    pub fn from_launch_record(recorded: DecidedLaunch, revision: Text, attempt: u32, now: Timestamp) -> Self {
        let DecidedLaunch { machine, decision, .. } = recorded;
        Self { stage: Stage::Planned { attempt }, ..Self::from_decision(machine, decision, revision, now) }
    }

    /// A launched NodeClaim found in the cluster.
    pub fn from_claim(claim: &ClaimRecord, instance: Option<LaunchedInstance>, now: Timestamp) -> Self {
        let stage = Stage::Launched { node: NodeProgress::default() };
        let (name, pool) = (claim.name.clone(), claim.pool.clone());
        Self { provider_id: claim.provider_id.clone(), instance, ..Self::in_stage(name, pool, stage, now) }
    }

    fn in_stage(name: ClaimName, pool: PoolName, stage: Stage, now: Timestamp) -> Self {
        Self {
            name,
            pool,
            decided: None,
            recorded_decision: None,
            stage,
            since: now,
            provider_id: ProviderId::default(),
            instance: None,
            in_flight: None,
            not_before: now,
            lost_node: None,
            removal_confirmed: false,
            termination_refused: false,
        }
    }
}

impl ManagedClaim {
    /// Planned → Creating: the decision is durable.
    pub fn begin_creation(&mut self, now: Timestamp) -> bool {
        let Stage::Planned { attempt } = self.stage else { return false };
        self.enter(Stage::Creating { attempt, cancelled: None }, now)
    }

    /// Planned or Creating → Launching: the cluster has the NodeClaim, and it is not cancelled.
    pub fn begin_launch(&mut self, now: Timestamp) -> bool {
        let (Stage::Planned { attempt } | Stage::Creating { attempt, cancelled: None }) = self.stage else {
            return false;
        };
        self.enter(Stage::Launching { attempt, cancelled: None, retry_cloud_at: None }, now)
    }

    /// Launched → Launching: a previous process launched this instance in `attempt` and did not
    /// write it into the NodeClaim.
    pub fn resume_launch(&mut self, attempt: u32, now: Timestamp) -> bool {
        matches!(self.stage, Stage::Launched { .. })
            && self.enter(Stage::Launching { attempt, cancelled: None, retry_cloud_at: None }, now)
    }

    /// Creating or Launching: the NodeClaim is terminated as soon as the call in progress is
    /// answered.
    pub fn cancel_launch(&mut self, reason: TerminationReason) -> bool {
        let (Stage::Creating { cancelled, .. } | Stage::Launching { cancelled, .. }) = &mut self.stage else {
            return false;
        };
        *cancelled = Some(reason);
        true
    }

    /// Launching: the next attempt begins, unless the launch is cancelled or `most` attempts were
    /// made.
    pub fn begin_next_attempt(&mut self, most: u32) -> bool {
        let Stage::Launching { attempt, cancelled: None, .. } = &mut self.stage else { return false };
        let again = *attempt < most;
        *attempt += u32::from(again);
        again
    }

    /// The attempts from here on have only these options.
    pub fn narrow_options(&mut self, options: Vec<LaunchOption>) {
        if let Some(decided) = &mut self.decided {
            decided.machine.launch.options = options;
        }
    }

    /// Launching → Launched: the cloud launched the instance in `attempt`. `None` for the answer to
    /// another attempt.
    pub fn complete_launch(
        &mut self,
        attempt: u32,
        provider_id: ProviderId,
        instance: LaunchedInstance,
        now: Timestamp,
    ) -> Option<LaunchOutcome> {
        let Stage::Launching { attempt: current, cancelled, .. } = &mut self.stage else { return None };
        if *current != attempt {
            return None;
        }
        let outcome = cancelled.take().map_or(LaunchOutcome::Kept, LaunchOutcome::Cancelled);
        (self.provider_id, self.instance) = (provider_id, Some(instance));
        self.enter(Stage::Launched { node: NodeProgress::default() }, now);
        Some(outcome)
    }

    /// Launched → Registered: the Node is registered.
    pub fn complete_registration(&mut self, now: Timestamp) -> bool {
        let Stage::Launched { node } = self.stage else { return false };
        self.enter(Stage::Registered { node }, now)
    }

    /// Registered → Initialized: the Node is initialized.
    pub fn complete_initialization(&mut self, now: Timestamp) -> bool {
        let Stage::Registered { node } = self.stage else { return false };
        self.enter(Stage::Initialized { node }, now)
    }
}

impl ManagedClaim {
    /// Launched, Registered or Initialized → Draining.
    pub fn begin_drain(&mut self, reason: TerminationReason, terms: DrainTerms, now: Timestamp) -> bool {
        if self.stage.node().is_none() {
            return false;
        }
        let DrainTerms { deadline, interrupted, only_if_empty } = terms;
        let earlier = || Box::new(self.stage.clone());
        let if_occupied = only_if_empty.then(earlier);
        let if_claimed = (reason == TerminationReason::ClaimRemoved).then(earlier);
        self.enter(Stage::Draining { reason, deadline, interrupted, if_occupied, if_claimed }, now)
    }

    /// Draining: the agent gets the instruction.
    pub fn record_drain_instruction(&mut self) {
        if let Stage::Draining { if_claimed, .. } = &mut self.stage {
            *if_claimed = None;
        }
    }

    /// Draining → the earlier stage: the NodeClaim, which had disappeared, is there again.
    pub fn cancel_drain_of_claimed(&mut self, now: Timestamp) -> bool {
        let Stage::Draining { if_claimed, .. } = &mut self.stage else { return false };
        let Some(stage) = if_claimed.take() else { return false };
        self.enter(*stage, now)
    }

    /// Draining: the Node is drained whether it is empty or not.
    pub fn require_drain(&mut self) -> bool {
        let Stage::Draining { if_occupied, .. } = &mut self.stage else { return false };
        if_occupied.take().is_some()
    }

    /// Draining: the cloud interrupts the instance, and the drain ends by `deadline`. Returns whether that
    /// changes the drain.
    pub fn hasten_drain(&mut self, by: Option<Timestamp>) -> bool {
        let Stage::Draining { deadline, interrupted, .. } = &mut self.stage else { return false };
        let earlier = deadline.iter().copied().chain(by).min();
        let changes = earlier != *deadline;
        *interrupted |= changes;
        *deadline = earlier;
        changes
    }

    /// Draining → the earlier stage: the Node was to be drained only if it is empty, and is not.
    pub fn cancel_drain(&mut self, now: Timestamp) -> bool {
        let Stage::Draining { if_occupied, .. } = &mut self.stage else { return false };
        let Some(mut stage) = if_occupied.take() else { return false };
        if let Some(node) = stage.node_mut() {
            node.occupied_at = Some(now);
        }
        self.enter(*stage, now)
    }

    /// Launched, Registered, Initialized or Draining → Terminating, and Terminating once more: the
    /// instance is terminated. `reason` is needed for a NodeClaim that is not terminating.
    pub fn begin_instance_termination(&mut self, reason: Option<TerminationReason>, now: Timestamp) -> bool {
        let permitted =
            self.stage.node().is_some() || matches!(self.stage, Stage::Draining { .. } | Stage::Terminating { .. });
        let Some(reason) = self.termination_reason().cloned().or(reason).filter(|_| permitted) else { return false };
        self.enter(Stage::Terminating { reason, retry_cloud_at: None }, now)
    }

    /// Any stage → Deleting: the instance is gone, or was never launched. `reason` is needed for a
    /// NodeClaim that is not terminating.
    pub fn begin_deletion(&mut self, reason: Option<TerminationReason>, now: Timestamp) -> bool {
        let Some(reason) = self.termination_reason().cloned().or(reason) else { return false };
        self.enter(Stage::Deleting { reason }, now)
    }
}

impl ManagedClaim {
    /// Enters a stage, which discards the pending instruction; returns `true`.
    fn enter(&mut self, stage: Stage, now: Timestamp) -> bool {
        self.stage = stage;
        self.since = now;
        self.in_flight = None;
        true
    }
}

#[cfg(test)]
mod tests;
