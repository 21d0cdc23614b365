//! Lifecycle steps of machines: each step is taken when an answer or an observation permits it.
//!
//! Registration and initialization follow the observed state, never the instructions sent: a lost
//! instruction is sent again, and one that is executed twice changes nothing (Karpenter: NodeClaim
//! lifecycle).

use std::collections::BTreeSet;

use super::cluster_controller::{ClusterController, Context};
use super::machine::{LaunchedInstance, Machine, Stage, TerminationReason};
use super::{DecidedLaunch, Effect, Instruction, InstructionId, LaunchFailure, Launched, order};
use crate::cluster::assignments::NOMINATION_WINDOW;
use crate::cluster::planning::is_ephemeral;
use crate::cluster::{ClaimRecord, NodeRecord};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::{CapacityType, ClaimName, InstanceTypeName, Millis, ProviderId, Text, Timestamp, Zone};

/// Maximum launch attempts for one NodeClaim, each with its own token.
const MAX_ATTEMPTS: u32 = 3;
/// How long the controller waits to observe the effect of an acknowledged instruction before it
/// sends the instruction again.
const OBSERVATION_WAIT: Millis = Millis::from_secs(5);

impl ClusterController {
    /// Adds machines for launched NodeClaims of this server that the cluster shows.
    pub fn adopt_claims(&mut self, now: Timestamp) {
        let unknown: Vec<&ClaimRecord> = (self.state.claims())
            .filter(|claim| claim.ours && !claim.provider_id.is_empty() && !self.machines.contains_key(&claim.name))
            .filter(|claim| !self.state.is_marked_for_deletion(&claim.name))
            .collect();
        let found: Vec<Machine> = unknown.into_iter().map(|claim| self.machine_of_claim(claim, now)).collect();
        for machine in found {
            self.machines.insert(machine.claim.clone(), machine);
        }
    }

    /// A machine for an observed or synthesized NodeClaim.
    pub fn machine_of_claim(&self, claim: &ClaimRecord, now: Timestamp) -> Machine {
        let label = |key: &str| claim.labels.get(key).cloned();
        let instance = label(INSTANCE_TYPE).zip(label(ZONE)).zip(label(CAPACITY_TYPE)).map(|((kind, zone), paid)| {
            let (kind, zone) = (InstanceTypeName::from(kind), Zone::from(zone));
            let capacity_type = capacity_type(&paid);
            let pool = self.state.pool(&claim.pool).map(|record| &record.pool);
            let (_, price) = order::launched_facts(pool, &claim.provider_id, &kind, &zone, capacity_type);
            LaunchedInstance { instance_type: kind, zone, capacity_type, price }
        });
        Machine::from_claim(claim, instance, now)
    }

    /// Advances all machines as far as the observed state permits. Initialized machines, the large
    /// majority, are skipped unless their deletion was requested.
    pub fn advance_machines(&mut self, ctx: &mut Context<'_>) {
        self.update_registration_gate(ctx.settings.open_together, ctx.now);
        let deleted = self.state.claims_being_deleted();
        let moves = |machine: &Machine| machine.stage != Stage::Initialized || deleted.contains(&machine.claim);
        let moving = self.machines.iter().filter(|(_, machine)| moves(machine));
        let claims: Vec<ClaimName> = moving.map(|(claim, _)| claim.clone()).collect();
        let deleted: BTreeSet<ClaimName> = deleted.into_iter().cloned().collect();
        self.handle_deletions(&deleted, ctx);
        for claim in &claims {
            self.advance_machine(claim, ctx);
        }
        self.drop_stale_holds();
    }

    fn advance_machine(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        let Some(machine) = self.machines.get(claim) else { return };
        let elapsed = ctx.now.duration_since(machine.since);
        let free = machine.pending_instruction.is_none() && machine.not_before <= ctx.now;
        match machine.stage {
            Stage::Launching if machine.termination_reason.is_none() && elapsed >= ctx.settings.launch_timeout => {
                let minutes = ctx.settings.launch_timeout.as_mins();
                ctx.guardrails.circuit_breaker.record_failure(&self.cluster, ctx.now);
                self.record_join_result(claim, false);
                self.begin_termination(claim, TerminationReason::LaunchTimeout { minutes }, None, ctx);
            }
            Stage::Launched => self.advance_launched(claim, elapsed, free, ctx),
            Stage::Registered => self.advance_registered(claim, free, ctx),
            Stage::Draining if free => self.drain_node(claim, ctx),
            Stage::Deleting if free => self.delete_claim(claim, None, ctx),
            Stage::Launching | Stage::Terminating => self.retry_cloud_call(claim, ctx),
            _ => {}
        }
    }

    fn advance_launched(&mut self, claim: &ClaimName, elapsed: Millis, free: bool, ctx: &mut Context<'_>) {
        let node = self.state.node_of_claim(claim);
        match node {
            Some(node) if node.is_registered() => {
                self.record_join_result(claim, true);
                self.enter_stage(claim, Stage::Registered, ctx.now);
                self.nomination_retries.schedule(ctx.now);
                // A machine found in the cluster is no evidence about launches.
                if self.machines.get(claim).is_some_and(|machine| machine.planned.is_some()) {
                    ctx.guardrails.circuit_breaker.record_success(&self.cluster, ctx.now);
                }
                self.advance_machine(claim, ctx);
            }
            Some(node) if free && !self.registration_gate.contains_key(claim) => {
                let node = node.name.clone();
                let Some(record) = self.state.claim(claim) else { return };
                let (labels, mut taints) = (record.labels.clone(), record.taints.clone());
                taints.extend(record.startup_taints.iter().cloned());
                let nominations = self.nominations(claim);
                self.record_registration(claim, ctx.now);
                self.instruct(
                    Instruction::RegisterNode { claim: claim.clone(), node, labels, taints, nominations },
                    ctx,
                );
            }
            // A registered Node that is not observed any more is no registration timeout.
            None if elapsed >= ctx.settings.registration_timeout => {
                if self.machines.get(claim).is_some_and(|machine| machine.not_before > ctx.now) {
                    return;
                }
                if !self.may_terminate_without_node(claim, ctx) {
                    return self.retry_later(claim, ctx);
                }
                let minutes = ctx.settings.registration_timeout.as_mins();
                ctx.guardrails.circuit_breaker.record_failure(&self.cluster, ctx.now);
                self.record_join_result(claim, false);
                self.begin_termination(claim, TerminationReason::RegistrationTimeout { minutes }, None, ctx);
            }
            _ => {}
        }
    }

    fn advance_registered(&mut self, claim: &ClaimName, free: bool, ctx: &mut Context<'_>) {
        let Some(node) = self.state.node_of_claim(claim) else { return };
        if node.is_initialized() {
            self.enter_stage(claim, Stage::Initialized, ctx.now);
            self.state.assignments.expire_claim_at(claim, ctx.now + NOMINATION_WINDOW);
        } else if free && self.state.claim(claim).is_some_and(|record| is_complete(node, record)) {
            let node = node.name.clone();
            self.instruct(Instruction::InitializeNode { claim: claim.clone(), node }, ctx);
        }
    }

    /// Records for the health of the NodePool whether a machine launched by this server joined in
    /// time.
    fn record_join_result(&mut self, claim: &ClaimName, joined: bool) {
        let planned = self.machines.get(claim).filter(|machine| machine.planned.is_some());
        if let Some(pool) = planned.and_then(|machine| self.state.pool(&machine.pool)) {
            self.status_reporter.health.record_outcome(pool, joined);
        }
    }

    /// Handles the acknowledgement of an instruction.
    pub fn handle_ack(&mut self, id: InstructionId, ctx: &mut Context<'_>) {
        if self.complete_status_write(id, false, ctx) {
            return;
        }
        let Some(claim) = self.pending_instructions.remove(&id) else { return };
        let Some(machine) = self.machines.get_mut(&claim).filter(|machine| machine.pending_instruction == Some(id))
        else {
            return;
        };
        machine.pending_instruction = None;
        let wait = if machine.stage == Stage::Launched { Millis::ZERO } else { OBSERVATION_WAIT };
        machine.not_before = ctx.now + wait;
        let (stage, terminating) = (machine.stage, machine.termination_reason.is_some());
        match stage {
            Stage::Creating if terminating => self.delete_claim(&claim, None, ctx),
            Stage::Creating => {
                self.enter_stage(&claim, Stage::Launching, ctx.now);
                self.launch_instance(&claim, ctx);
            }
            Stage::Draining if self.may_terminate_without_node(&claim, ctx) => self.terminate_instance(&claim, ctx),
            Stage::Deleting => {
                self.machines.remove(&claim);
                self.state.forget_claim(&claim);
                self.drop_stale_holds();
                self.close_launch(&claim, ctx);
            }
            _ => {}
        }
    }

    /// Handles a failed instruction; `unmet` when the agent has not begun it.
    pub fn handle_instruction_failure(&mut self, id: InstructionId, reason: &str, unmet: bool, ctx: &mut Context<'_>) {
        if self.complete_status_write(id, true, ctx) {
            return;
        }
        let Some(claim) = self.pending_instructions.remove(&id) else { return };
        let again = ctx.now + ctx.settings.retry_delay;
        let Some(machine) = self.machines.get_mut(&claim).filter(|machine| machine.pending_instruction == Some(id))
        else {
            return;
        };
        if machine.stage == Stage::Creating {
            self.machines.remove(&claim);
            self.state.forget_claim(&claim);
            self.close_launch(&claim, ctx);
            self.last_error = Some(format!("cannot create NodeClaim {claim}: {reason}"));
            self.retry_at = Some(again);
            return;
        }
        machine.pending_instruction = None;
        machine.not_before = again;
        if unmet && machine.stage == Stage::Draining {
            self.keep_occupied_machine(&claim, reason, ctx);
        }
    }

    /// Launches the instance of `claim`, or repeats the call to learn its outcome.
    pub fn launch_instance(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        if let Some(decided) = self.launch_attempt(claim, ctx.now) {
            ctx.effects.push(Effect::Launch(Box::new(decided.machine.launch)));
        }
    }

    /// The launch of `claim` in its current attempt.
    fn launch_attempt(&self, claim: &ClaimName, at: Timestamp) -> Option<DecidedLaunch> {
        let machine = self.machines.get(claim)?;
        let mut planned = machine.planned.clone()?;
        if planned.launch.attempt != machine.attempt {
            // A new token permits a different request, so the recorded settings are discarded.
            planned.launch.terms = Text::default();
            planned.launch.repeats = false;
        }
        planned.launch.attempt = machine.attempt;
        planned.launch.token = order::launch_token(claim, machine.attempt);
        Some(DecidedLaunch { machine: planned, decision: machine.decision?, at })
    }

    /// Handles a launched instance.
    pub fn handle_launched(&mut self, launched: Launched, ctx: &mut Context<'_>) {
        let Launched { claim, attempt, provider_id, instance_type, zone, capacity_type, unavailable, .. } = launched;
        let pool = self.machines.get(&claim).map(|machine| machine.pool.clone()).unwrap_or_default();
        let pool = self.state.pool(&pool).map(|record| &record.pool);
        let (mut facts, price) = order::launched_facts(pool, &provider_id, &instance_type, &zone, capacity_type);
        // A NodePool deleted since the order has no catalogue: the expected resources are used.
        if let Some(expected) = self.state.claim(&claim).filter(|_| facts.capacity.is_empty()) {
            facts.capacity = expected.capacity.clone();
            facts.allocatable = expected.allocatable.clone();
        }
        let Some(machine) = self.machines.get_mut(&claim) else { return };
        if machine.stage != Stage::Launching || machine.attempt != attempt {
            return;
        }
        machine.provider_id = provider_id;
        machine.instance = Some(LaunchedInstance { instance_type, zone, capacity_type, price });
        let unwanted = machine.termination_reason.is_some();
        machine.enter_stage(Stage::Launched, ctx.now);
        if !unavailable.is_empty() {
            self.record_unavailable(&claim, unavailable, ctx);
        }
        self.state.record_launch(&claim, &facts);
        self.count_launch_attempts(&claim, ctx);
        if unwanted {
            self.terminate_instance(&claim, ctx);
        } else {
            self.instruct(Instruction::MarkLaunched { claim, facts }, ctx);
        }
    }

    /// Handles a definitive launch failure.
    pub fn handle_launch_failure(
        &mut self,
        claim: &ClaimName,
        attempt: u32,
        failure: LaunchFailure,
        ctx: &mut Context<'_>,
    ) {
        let now = ctx.now;
        let Some(machine) = self.machines.get_mut(claim) else { return };
        if machine.stage != Stage::Launching || machine.attempt != attempt {
            return;
        }
        // Insufficient capacity of one offering is no evidence about others, so it is not counted.
        if !matches!(failure, LaunchFailure::InsufficientCapacity { .. }) {
            ctx.guardrails.circuit_breaker.record_failure(&self.cluster, now);
        }
        match failure {
            LaunchFailure::InsufficientCapacity { unavailable } => {
                self.record_unavailable(claim, unavailable, ctx);
                self.delete_claim(claim, Some(TerminationReason::InsufficientCapacity), ctx);
                self.window.extend(now);
            }
            LaunchFailure::Refused { retryable: true, .. }
                if machine.termination_reason.is_none() && attempt < MAX_ATTEMPTS =>
            {
                machine.attempt += 1;
                let again = self.launch_attempt(claim, now).map(|decided| Effect::Relaunch(Box::new(decided)));
                ctx.effects.extend(again);
            }
            LaunchFailure::Refused { code, message, .. } => {
                let reason = TerminationReason::LaunchRejected { code, message: Text::from(message) };
                self.last_error = Some(reason.to_string());
                self.delete_claim(claim, Some(reason), ctx);
                self.retry_at = Some(ctx.now + ctx.settings.retry_delay);
            }
        }
    }

    fn record_unavailable(&self, claim: &ClaimName, unavailable: Vec<(InstanceTypeName, Zone)>, ctx: &mut Context<'_>) {
        let Some(planned) = self.machines.get(claim).and_then(|machine| machine.planned.as_ref()) else { return };
        let order = &planned.launch;
        let all = || order.options.iter().map(|option| (option.instance_type.clone(), option.zone.clone())).collect();
        let unavailable = if unavailable.is_empty() { all() } else { unavailable };
        let until = ctx.now + ctx.settings.unavailable_ttl;
        for (instance_type, zone) in unavailable {
            ctx.offerings.mark_unavailable(instance_type, zone, order.capacity_type, until);
        }
    }

    /// Handles the cloud's statement that an instance has ended.
    pub fn handle_instance_gone(&mut self, provider_id: &ProviderId, ctx: &mut Context<'_>) {
        self.gc.record_ended(provider_id.clone());
        let Some(claim) = self.claim_of_instance(provider_id) else { return };
        self.delete_gone_machine(&claim, ctx);
    }

    /// Deletes Node and NodeClaim of an instance that is gone, after the removal gate accepted the
    /// evidence.
    pub fn delete_gone_machine(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        if self.machines.get(claim).is_some_and(|machine| machine.stage != Stage::Deleting) {
            self.delete_claim(claim, Some(TerminationReason::InstanceGone), ctx);
            self.window.extend(ctx.now);
        }
    }
}

/// Whether a Node can be initialized: ready, without startup and ephemeral taints, and with all
/// requested resources reported.
fn is_complete(node: &NodeRecord, claim: &ClaimRecord) -> bool {
    let waits = |taint| is_ephemeral(taint) || claim.startup_taints.contains(taint);
    let reported = claim.requests.iter().all(|(name, amount)| amount == 0 || node.allocatable.get(name) != 0);
    node.ready && !node.taints.iter().any(waits) && reported
}

fn capacity_type(label: &str) -> CapacityType {
    match label {
        "spot" => CapacityType::Spot,
        "reserved" => CapacityType::Reserved,
        _ => CapacityType::OnDemand,
    }
}
