//! From the NodeClaim to the initialized Node: each step is taken when an answer or an observation
//! permits it.
//!
//! Registration and initialization follow the observed state, never the instructions sent: a lost
//! instruction is sent again, and one that is executed twice changes nothing (Karpenter: NodeClaim
//! lifecycle).

use std::collections::BTreeSet;

use super::{DrainTerms, LaunchOutcome, LaunchedInstance, ManagedClaim, StageKind, TerminationReason};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::decision_recorder::new_decision;
use crate::disruption::replacements::replacements_waiting_for;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::enforcement::count_launch_attempts;
use crate::guardrails::removal_gate::drop_stale_blocks;
use crate::history::History;
use crate::launch_evidence::ReadyNode;
use crate::launch_template::launch_template;
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::termination::keep_occupied_machine;
use crate::nodeclaim::termination_calls::{delete_claim, retry_cloud_call, retry_later, terminate_instance};
use crate::nomination::NominationView;
use crate::provisioning::Provisioner;
use crate::provisioning::probing::{close_launch, options_without_capacity, probe_holder, report_offerings};
use crate::status_reporter::StatusReporter;
use crate::{
    ClusterCall, DecidedLaunch, Decision, DecisionId, DecisionReason, Instruction, InstructionId, Launched,
    PlannedMachine, order,
};
use cluster::assignments::NOMINATION_WINDOW;
use cluster::planning::{UNREGISTERED, is_ephemeral};
use cluster::{ClaimRecord, ClusterState, NodeRecord};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::{
    CapacityType, ClaimName, InstanceTypeName, LaunchFailure, LaunchOption, LaunchOrder, Millis, ProviderId, Text,
    Timestamp, Zone,
};

/// Maximum launch attempts for one NodeClaim, each with its own token.
const MAX_ATTEMPTS: u32 = 3;
/// How long the controller waits to observe the effect of an acknowledged instruction before it
/// sends the instruction again.
const OBSERVATION_WAIT: Millis = Millis::from_secs(5);

impl ClusterController {
    /// Advances all machines as far as the observed state permits. Initialized machines, the large
    /// majority, are skipped unless their deletion was requested.
    pub(crate) fn advance_machines(&mut self, ctx: &mut Context<'_>) {
        let view = NominationView { state: &self.state, claims: &self.claims, now: ctx.now };
        self.nominator.update_registration_gate(ctx.settings.open_together, &view);
        let deleted = self.state.claims_being_deleted();
        let moves =
            |machine: &ManagedClaim| machine.stage() != StageKind::Initialized || deleted.contains(machine.name());
        let moving = self.claims.iter().filter(|machine| moves(machine));
        let claims: Vec<ClaimName> = moving.map(|machine| machine.name().clone()).collect();
        let deleted: BTreeSet<ClaimName> = deleted.into_iter().cloned().collect();
        self.handle_deletions(&deleted, ctx);
        for claim in &claims {
            self.advance_machine(claim, ctx);
        }
        drop_stale_blocks(&mut self.guardrails, &self.claims);
    }

    fn advance_machine(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        let Some(machine) = self.claims.get(claim) else { return };
        let elapsed = ctx.now.duration_since(machine.since());
        let free = machine.may_be_instructed(ctx.now);
        match machine.stage() {
            StageKind::Launching
                if machine.termination_reason().is_none() && elapsed >= ctx.settings.launch_timeout =>
            {
                let minutes = ctx.settings.launch_timeout.as_mins();
                ctx.guardrails.circuit_breaker.record_failure(&self.cluster, ctx.now);
                record_join_result(claim, false, &mut self.status_reporter, &self.claims, &self.state);
                let failed = replacements_waiting_for(claim, "the launch took too long", &self.claims, &self.state);
                self.fail_replacements(failed, ctx);
                let reason = TerminationReason::LaunchTimeout { minutes };
                self.begin_termination(claim, reason, DrainTerms::default(), ctx);
            }
            StageKind::Launched | StageKind::Registered
                if free && complete_facts(claim, ctx, &mut self.claims, &self.state) => {}
            StageKind::Launched => self.advance_launched(claim, elapsed, free, ctx),
            StageKind::Registered => advance_registered(claim, free, ctx, &mut self.claims, &mut self.state),
            StageKind::Draining if free => self.drain_node(claim, ctx),
            StageKind::Deleting if free => {
                delete_claim(claim, None, ctx, &mut self.claims, &mut self.history, &mut self.state)
            }
            StageKind::Launching | StageKind::Terminating => retry_cloud_call(claim, ctx, &mut self.claims),
            _ => {}
        }
    }

    fn advance_launched(&mut self, claim: &ClaimName, elapsed: Millis, free: bool, ctx: &mut Context<'_>) {
        let node = self.state.node_of_claim(claim);
        match node {
            Some(node) if node.is_registered() => {
                record_join_result(claim, true, &mut self.status_reporter, &self.claims, &self.state);
                if let Some(machine) = self.claims.get_mut(claim) {
                    machine.complete_registration(ctx.now);
                    // Nothing is left to be observed.
                    machine.postpone(ctx.now);
                }
                self.nominator.schedule_nominations(ctx.now);
                // A machine found in the cluster is no evidence about launches.
                if self.claims.get(claim).is_some_and(|machine| machine.planned().is_some()) {
                    ctx.guardrails.circuit_breaker.record_success(&self.cluster, ctx.now);
                }
                self.advance_machine(claim, ctx);
            }
            Some(node) if free && self.nominator.may_register(claim) => {
                if let Some(machine) = self.claims.get(claim).filter(|_| !has_unregistered_taint(node)) {
                    self.status_reporter.note_missing_taint(machine);
                }
                let node = node.name.clone();
                let Some(record) = self.state.claim(claim) else { return };
                let (labels, mut taints) = (record.labels.clone(), record.taints.clone());
                taints.extend(record.startup_taints.iter().cloned());
                let view = NominationView { state: &self.state, claims: &self.claims, now: ctx.now };
                let nominations = self.nominator.begin_registration(claim, &view);
                self.claims.instruct(
                    Instruction::RegisterNode { claim: claim.clone(), node, labels, taints, nominations },
                    ctx,
                );
            }
            // A registered Node that is not observed any more is no registration timeout.
            None if elapsed >= ctx.settings.registration_timeout => {
                if self.claims.get(claim).is_some_and(|machine| machine.is_postponed(ctx.now)) {
                    return;
                }
                if !self.may_terminate_without_node(claim, ctx) {
                    return retry_later(claim, ctx, &mut self.claims);
                }
                let minutes = ctx.settings.registration_timeout.as_mins();
                ctx.guardrails.circuit_breaker.record_failure(&self.cluster, ctx.now);
                record_join_result(claim, false, &mut self.status_reporter, &self.claims, &self.state);
                let failed = replacements_waiting_for(claim, "its Node did not join", &self.claims, &self.state);
                self.fail_replacements(failed, ctx);
                let reason = TerminationReason::RegistrationTimeout { minutes };
                self.begin_termination(claim, reason, DrainTerms::default(), ctx);
            }
            _ => {}
        }
    }

    /// Handles the acknowledgement of an instruction.
    pub(crate) fn handle_ack(&mut self, id: InstructionId, ctx: &mut Context<'_>) {
        if self.status_reporter.complete_status_write(id, false, ctx.now) {
            return;
        }
        let Some(claim) = self.claims.complete_instruction(id) else { return };
        let Some(machine) = self.claims.get_mut(&claim) else { return };
        // The registration follows what is written into the NodeClaim at once. Its own effect is waited for.
        let is_next = machine.stage() == StageKind::Launched && !self.nominator.is_registering(&claim);
        let wait = if is_next { Millis::ZERO } else { OBSERVATION_WAIT };
        machine.postpone(ctx.now + wait);
        match machine.stage() {
            StageKind::Creating if machine.begin_launch(ctx.now) => launch_available(
                &claim,
                ctx,
                &mut self.claims,
                &mut self.history,
                &mut self.provisioner,
                &mut self.state,
            ),
            StageKind::Creating => {
                delete_claim(&claim, None, ctx, &mut self.claims, &mut self.history, &mut self.state)
            }
            StageKind::Draining if self.may_terminate_without_node(&claim, ctx) => {
                terminate_instance(&claim, None, ctx, &mut self.claims);
            }
            StageKind::Deleting => {
                self.claims.remove(&claim);
                self.state.forget_claim(&claim);
                drop_stale_blocks(&mut self.guardrails, &self.claims);
                close_launch(&claim, ctx, &mut self.recovery);
            }
            _ => {}
        }
    }

    /// Handles the cloud's statement that an instance has ended.
    pub(crate) fn handle_instance_gone(&mut self, provider_id: &ProviderId, ctx: &mut Context<'_>) {
        self.gc.record_ended(provider_id.clone());
        let Some(claim) = self.claims.name_of_instance(provider_id) else { return };
        let Self { claims, history, provisioner, state, .. } = self;
        delete_gone_machine(&claim, ctx, claims, history, provisioner, state);
    }

    /// Handles a failed instruction; `unmet` when the agent has not begun it.
    pub(crate) fn handle_instruction_failure(
        &mut self,
        id: InstructionId,
        reason: &str,
        unmet: bool,
        ctx: &mut Context<'_>,
    ) {
        if self.status_reporter.complete_status_write(id, true, ctx.now) {
            return;
        }
        let Some(claim) = self.claims.complete_instruction(id) else { return };
        let again = ctx.now + ctx.settings.retry_delay;
        let Some(machine) = self.claims.get_mut(&claim) else { return };
        if machine.stage() == StageKind::Creating {
            let decision = machine.decision();
            self.claims.remove(&claim);
            self.state.forget_claim(&claim);
            close_launch(&claim, ctx, &mut self.recovery);
            let decision = refused_claim(&claim, decision, reason, ctx, &self.state);
            self.record_decision(decision, ctx);
            let error = format!("cannot create NodeClaim {claim}: {reason}");
            return self.provisioner.record_failed_launch(error, again);
        }
        machine.postpone(again);
        if unmet && machine.stage() == StageKind::Draining {
            keep_occupied_machine(
                &claim,
                reason,
                ctx,
                &mut self.claims,
                &mut self.provisioner,
                &mut self.state,
                &mut self.status_reporter,
            );
        }
    }

    pub(crate) fn handle_launch_failure(
        &mut self,
        claim: &ClaimName,
        attempt: u32,
        failure: LaunchFailure,
        ctx: &mut Context<'_>,
    ) {
        let now = ctx.now;
        let Some(machine) = self.claims.get_mut(claim) else { return };
        if !machine.is_launching(attempt) {
            return;
        }
        if let Some(planned) = machine.planned() {
            self.history.lifecycle.count_launch_failure(planned.launch.capacity_type, &failure);
        }
        let retryable = matches!(failure, LaunchFailure::Refused { retryable: true, .. });
        let again = (retryable && machine.begin_next_attempt(MAX_ATTEMPTS)).then(|| machine.launch_order(now));
        // Insufficient capacity of one offering is no evidence about others, so it is not counted.
        if !matches!(failure, LaunchFailure::InsufficientCapacity { .. }) {
            ctx.guardrails.circuit_breaker.record_failure(&self.cluster, now);
        }
        if let Some(mut decided) = again {
            if let Some(decided) = &mut decided {
                renew_launch_template(decided, ctx, &self.state);
            }
            return decided.into_iter().for_each(|decided| ctx.call(ClusterCall::Relaunch(Box::new(decided))));
        }
        match failure {
            LaunchFailure::InsufficientCapacity { unavailable } => {
                let all =
                    if unavailable.is_empty() { options_without_capacity(claim, &self.claims) } else { unavailable };
                let reason = TerminationReason::insufficient_capacity(&all);
                report_offerings(claim, all, ctx, &self.claims, &self.state);
                give_up_launch(
                    claim,
                    reason,
                    ctx,
                    &mut self.claims,
                    &mut self.history,
                    &mut self.provisioner,
                    &mut self.state,
                );
            }
            LaunchFailure::Refused { code, message, .. } => {
                ctx.offerings.release_probes(&probe_holder(claim, &self.cluster));
                let reason = TerminationReason::LaunchRejected { code, message: Text::from(message) };
                let failed = replacements_waiting_for(claim, &reason.to_string(), &self.claims, &self.state);
                self.fail_replacements(failed, ctx);
                self.provisioner.record_failed_launch(reason.to_string(), now + ctx.settings.retry_delay);
                delete_claim(claim, Some(reason), ctx, &mut self.claims, &mut self.history, &mut self.state);
            }
        }
    }
}

pub(crate) fn handle_launched(
    launched: Launched,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    guardrails: &mut ClusterGuardrails,
    state: &mut CopyOnWrite<ClusterState>,
) {
    let Launched { claim, attempt, provider_id, instance_type, zone, capacity_type, unavailable, image } = launched;
    let pool = claims.get(&claim).map(|machine| machine.pool().clone()).unwrap_or_default();
    let pool = state.pool(&pool).map(|record| &record.pool);
    let (mut facts, price) = order::launched_facts(pool, &provider_id, &instance_type, &zone, capacity_type);
    facts.image = image;
    // A NodePool deleted since the order has no catalogue: the expected resources are used.
    if let Some(expected) = state.claim(&claim).filter(|_| facts.capacity.is_empty()) {
        facts.capacity = expected.capacity.clone();
        facts.allocatable = expected.allocatable.clone();
    }
    let instance = LaunchedInstance { instance_type, zone, capacity_type, price };
    let Some(machine) = claims.get_mut(&claim) else { return };
    let Some(outcome) = machine.complete_launch(attempt, provider_id, instance, ctx.now) else { return };
    report_offerings(&claim, unavailable, ctx, claims, state);
    state.record_launch(&claim, &facts);
    count_launch_attempts(&claim, ctx, guardrails, claims, state);
    match outcome {
        LaunchOutcome::Kept => claims.instruct(Instruction::MarkLaunched { claim, facts }, ctx),
        LaunchOutcome::Cancelled(reason) => terminate_instance(&claim, Some(reason), ctx, claims),
    }
}

/// Launches the instance of `claim`, whose NodeClaim has just been created, without the options that were refused since
/// it was ordered. The order of an attempt never changes once it is recorded, so other options are another attempt.
pub(crate) fn launch_available(
    claim: &ClaimName,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    history: &mut History,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
) {
    let Some(decided) = claims.get(claim).and_then(|machine| machine.launch_order(ctx.now)) else { return };
    let LaunchOrder { options, capacity_type, repeats, .. } = decided.machine.launch;
    let holder = probe_holder(claim, &ctx.cluster);
    let is_available =
        |option: &LaunchOption| ctx.offerings.is_available(option, capacity_type, Some(&holder), ctx.now);
    if repeats || options.iter().all(is_available) {
        return launch_instance(claim, ctx, claims, state);
    }
    let available: Vec<LaunchOption> = options.into_iter().filter(is_available).collect();
    if available.is_empty() {
        ctx.offerings.release_probes(&holder);
        return give_up_launch(
            claim,
            TerminationReason::insufficient_capacity(&[]),
            ctx,
            claims,
            history,
            provisioner,
            state,
        );
    }
    let Some(machine) = claims.get_mut(claim) else { return };
    if !machine.begin_next_attempt(MAX_ATTEMPTS) {
        return launch_instance(claim, ctx, claims, state);
    }
    machine.narrow_options(available);
    if let Some(mut decided) = machine.launch_order(ctx.now) {
        renew_launch_template(&mut decided, ctx, state);
        ctx.call(ClusterCall::Relaunch(Box::new(decided)));
    }
}

/// No option of the machine has capacity: its pods are planned again.
pub(crate) fn give_up_launch(
    claim: &ClaimName,
    reason: TerminationReason,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    history: &mut History,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
) {
    delete_claim(claim, Some(reason), ctx, claims, history, state);
    provisioner.replan_displaced_pods(ctx.now);
}

/// Deletes Node and NodeClaim of an instance that is gone, after the removal gate accepted the
/// evidence.
pub(crate) fn delete_gone_machine(
    claim: &ClaimName,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    history: &mut History,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
) {
    if claims.get(claim).is_some_and(|machine| machine.stage() != StageKind::Deleting) {
        delete_claim(claim, Some(TerminationReason::InstanceGone), ctx, claims, history, state);
        provisioner.replan_displaced_pods(ctx.now);
    }
}

/// A decision which says that nothing is launched for a NodeClaim of another one, so that the decision log says what became
/// of it.
fn refused_claim(
    claim: &ClaimName,
    of: Option<DecisionId>,
    reason: &str,
    ctx: &mut Context<'_>,
    state: &ClusterState,
) -> Decision {
    let of = of.map_or_else(String::new, |DecisionId(number)| format!(" of decision {number}"));
    let refused = vec![format!("nothing is launched for NodeClaim {claim}{of}, which was refused: {reason}")];
    Decision { refused, ..new_decision(DecisionReason::Provision, ctx, state) }
}

fn advance_registered(
    claim: &ClaimName,
    free: bool,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    state: &mut CopyOnWrite<ClusterState>,
) {
    let Some(node) = state.node_of_claim(claim) else { return };
    if node.is_initialized() {
        record_ready_time(claim, ctx, claims, state);
        claims.get_mut(claim).map(|machine| machine.complete_initialization(ctx.now));
        state.expire_assignments_to(claim, ctx.now + NOMINATION_WINDOW);
    } else if free && state.claim(claim).is_some_and(|record| is_complete(node, record)) {
        let node = node.name.clone();
        claims.instruct(Instruction::InitializeNode { claim: claim.clone(), node }, ctx);
    }
}

/// Adds machines for launched NodeClaims of this server that the cluster shows.
pub(crate) fn adopt_claims(now: Timestamp, claims: &mut NodeClaims, state: &ClusterState) {
    let unknown: Vec<&ClaimRecord> = (state.claims())
        .filter(|claim| claim.ours && claim.is_launched() && !claims.contains(&claim.name))
        .filter(|claim| !state.is_marked_for_deletion(&claim.name))
        .collect();
    let found: Vec<ManagedClaim> = unknown.into_iter().map(|claim| machine_of_claim(claim, now, state)).collect();
    for machine in found {
        claims.insert(machine);
    }
}

/// Writes what the catalogue says of the instance into a NodeClaim without capacity; returns whether it does. Its
/// NodePool was not observed when a process that took the cluster over learned of the launch. Without capacity
/// the NodeClaim counts for no limits, and its Node is never initialized.
fn complete_facts(claim: &ClaimName, ctx: &mut Context<'_>, claims: &mut NodeClaims, state: &ClusterState) -> bool {
    let lacks = |record: &&ClaimRecord| record.capacity.is_empty() && state.is_claim_observed(claim);
    let Some(record) = state.claim(claim).filter(lacks) else { return false };
    let Some(instance) = claims.get(claim).and_then(ManagedClaim::instance) else { return false };
    let LaunchedInstance { instance_type, zone, capacity_type, .. } = instance;
    let pool = state.pool(&record.pool).map(|record| &record.pool);
    let (facts, _) = order::launched_facts(pool, &record.provider_id, instance_type, zone, *capacity_type);
    let is_known = !facts.capacity.is_empty();
    if is_known {
        claims.instruct(Instruction::MarkLaunched { claim: claim.clone(), facts }, ctx);
    }
    is_known
}

/// Records for the health of the NodePool whether a machine launched by this server joined in
/// time.
fn record_join_result(
    claim: &ClaimName,
    joined: bool,
    status_reporter: &mut StatusReporter,
    claims: &NodeClaims,
    state: &ClusterState,
) {
    let planned = claims.get(claim).filter(|machine| machine.planned().is_some());
    if let Some(pool) = planned.and_then(|machine| state.pool(machine.pool())) {
        status_reporter.record_registration(pool, joined);
    }
}

/// Launches the instance of `claim`, or repeats the call to learn its outcome.
pub(crate) fn launch_instance(claim: &ClaimName, ctx: &mut Context<'_>, claims: &mut NodeClaims, state: &ClusterState) {
    if let Some(mut decided) = claims.get(claim).and_then(|machine| machine.launch_order(ctx.now)) {
        // An order of an earlier process: it may have died before it made the launch templates.
        if decided.machine.launch.template.is_none() {
            renew_launch_template(&mut decided, ctx, state);
        }
        ctx.call(ClusterCall::Launch(Box::new(decided.machine.launch)));
    }
}

/// Gives an order what its launch templates are made from, by the EC2NodeClass of today. Another attempt is another
/// request; the request of a recorded attempt stays as it is, and only templates that it names are made.
fn renew_launch_template(decided: &mut DecidedLaunch, ctx: &Context<'_>, state: &ClusterState) {
    let PlannedMachine { claim, launch, .. } = &mut decided.machine;
    let pool = state.pool(&claim.pool).map(|record| &record.pool);
    let renewed = pool.and_then(|pool| launch_template(state, ctx.settings, pool, claim, &launch.options));
    launch.template = renewed.or_else(|| launch.template.take());
}

/// Records how long a machine that this process launched took to be ready, by the time at which its NodeClaim was
/// created.
fn record_ready_time(claim: &ClaimName, ctx: &Context<'_>, claims: &NodeClaims, state: &ClusterState) {
    let machine = claims.get(claim).filter(|machine| machine.planned().is_some());
    let instance = machine.and_then(ManagedClaim::instance);
    let created = state.claim(claim).and_then(|record| record.created);
    if let (Some(instance), Some(created)) = (instance, created) {
        let LaunchedInstance { instance_type, capacity_type, .. } = instance;
        let (instance_type, capacity_type) = (instance_type.clone(), *capacity_type);
        let took = ctx.now.duration_since(created);
        ctx.offerings.evidence().record_ready(ReadyNode { instance_type, capacity_type, took });
    }
}

/// A machine for an observed or synthesized NodeClaim.
pub(crate) fn machine_of_claim(claim: &ClaimRecord, now: Timestamp, state: &ClusterState) -> ManagedClaim {
    let label = |key: &str| claim.labels.get(key).cloned();
    let instance = label(INSTANCE_TYPE).zip(label(ZONE)).zip(label(CAPACITY_TYPE)).map(|((kind, zone), paid)| {
        let (kind, zone) = (InstanceTypeName::from(kind), Zone::from(zone));
        let capacity_type = capacity_type(&paid);
        let pool = state.pool(&claim.pool).map(|record| &record.pool);
        let (_, price) = order::launched_facts(pool, &claim.provider_id, &kind, &zone, capacity_type);
        LaunchedInstance { instance_type: kind, zone, capacity_type, price }
    });
    ManagedClaim::from_claim(claim, instance, now)
}

/// Whether the Node joined with the taint that keeps pods away until it is registered (Karpenter: registration).
fn has_unregistered_taint(node: &NodeRecord) -> bool {
    node.taints.iter().any(|taint| taint.key.as_ref() == UNREGISTERED)
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
