//! Termination of machines: of empty nodes by decision, of interrupted ones immediately, all by the
//! same steps: drain the Node, terminate the instance, delete Node and NodeClaim.

use std::collections::BTreeSet;

use super::cluster_controller::{ClusterController, Context};
use super::machine::{Stage, TerminationReason};
use super::recovery::Finding;
use super::{Decision, DecisionId, DecisionKind, Effect, Instruction, Removal};
use crate::disruption::{EmptyNodes, empty_nodes};
use model::removal::RemovalReason;
use model::{CapacityType, ClaimName, MicroUsd, Millis, ProviderId, Text, Timestamp};

/// Time between the announcement and the end of a spot instance (EC2: two minutes).
const INTERRUPTION_NOTICE: Millis = Millis::from_mins(2);
/// For this long a Node on which the API server listed pods does not count as empty, unless the
/// agent observes a pod event there. An agent that misses the pods does so until its watch
/// restarts, and each attempt costs the API server a list.
pub const OCCUPIED_FOR: Millis = Millis::from_mins(10);

impl ClusterController {
    /// Runs the pass for empty nodes when it is due, and decides their removal.
    pub fn remove_empty_nodes(&mut self, ctx: &mut Context<'_>) {
        if self.next_pass.is_none_or(|pass| pass > ctx.now) || !self.is_ready() {
            return;
        }
        if let Some(plan) = self.pending_plan_due(ctx) {
            self.next_pass = Some(plan);
            return;
        }
        let EmptyNodes { removals, next_check, held_by_budget, held_by_pool } =
            empty_nodes(&self.state, &self.claims_being_removed(None), ctx.now);
        self.status_reporter.budget_blocked = held_by_pool;
        self.status_reporter.mark_dirty();
        self.changed_since_pass = false;
        self.last_pass = Some(ctx.now);
        let soon = (held_by_budget > 0).then(|| ctx.now + ctx.settings.disruption_pass_interval);
        self.next_pass = [next_check, soon].into_iter().flatten().min();
        let removals = self.limit_removals(removals, ctx);
        let removals = self.verify_removals(removals, RemovalReason::Empty, None, ctx);
        if self.is_shadow(ctx) {
            return self.record_shadow_removals(DecisionKind::Empty, &removals, ctx);
        }
        if removals.is_empty() {
            return;
        }
        self.count_removals(&removals, ctx);
        let id = DecisionId(ctx.next_id());
        let decision = self.removal_decision(id, DecisionKind::Empty, removals, ctx.now);
        self.record_decision(decision, ctx);
    }

    /// NodeClaims whose removal is decided and not durable yet, without those of decision `but`.
    pub fn claims_being_removed(&self, but: Option<DecisionId>) -> BTreeSet<ClaimName> {
        let others = self.unrecorded_decisions.values().filter(|decision| Some(decision.id) != but);
        others.flat_map(|decision| &decision.removals).map(|removal| removal.claim.clone()).collect()
    }

    fn removal_decision(&self, id: DecisionId, kind: DecisionKind, removals: Vec<Removal>, at: Timestamp) -> Decision {
        Decision {
            id,
            cluster: self.cluster.clone(),
            at,
            due: at,
            kind,
            shadow: false,
            state_version: self.state.version(),
            machines: Vec::new(),
            removals,
            placed: Vec::new(),
            unplaced: Vec::new(),
            new_cost: MicroUsd(0),
            lower_bound: MicroUsd(0),
            would: Vec::new(),
            notes: Vec::new(),
            basis: None,
        }
    }

    /// Executes durable removals that are still valid.
    pub fn execute_removals(&mut self, decision: &Decision, ctx: &mut Context<'_>) {
        if self.pending_plan.is_some() && self.pending_plan_due(ctx).is_some() {
            // The pending plan may assign pods to these nodes; removals are decided again after it.
            return decision
                .removals
                .iter()
                .for_each(|removal| ctx.guardrails.removals.remove(&self.cluster, &removal.claim));
        }
        let still = empty_nodes(&self.state, &self.claims_being_removed(Some(decision.id)), ctx.now);
        let still: BTreeSet<ClaimName> = still.removals.into_iter().map(|removal| removal.claim).collect();
        for removal in &decision.removals {
            if still.contains(&removal.claim) && self.may_remove(&removal.claim, ctx) {
                self.status_reporter.disruption_reasons.insert(removal.claim.clone(), "Empty");
                if let Some(machine) = self.machines.get_mut(&removal.claim) {
                    machine.stage_if_occupied = Some(machine.stage);
                }
                let reason = TerminationReason::Decided(removal.reason.clone());
                self.begin_termination(&removal.claim, reason, None, ctx);
            } else {
                ctx.guardrails.removals.remove(&self.cluster, &removal.claim);
            }
        }
    }

    /// Handles the interruption of an instance: its offering is excluded for a while, and its Node
    /// is drained immediately.
    pub fn handle_interruption(&mut self, provider_id: &ProviderId, reason: &Text, ctx: &mut Context<'_>) {
        let Some(claim) = self.claim_of_instance(provider_id) else { return };
        let Some(machine) = self.machines.get_mut(&claim) else { return };
        if machine.stage.is_terminating() {
            // An interrupted machine is terminated whether its Node is empty or not.
            machine.stage_if_occupied = None;
            return;
        }
        if let Some(instance) =
            machine.instance.as_ref().filter(|instance| instance.capacity_type == CapacityType::Spot)
        {
            let until = ctx.now + ctx.settings.unavailable_ttl;
            ctx.offerings.mark_unavailable(
                instance.instance_type.clone(),
                instance.zone.clone(),
                CapacityType::Spot,
                until,
            );
        }
        let node = self.state.node_of_claim(&claim).map(|node| node.name.clone()).unwrap_or_default();
        let removals = vec![Removal { claim: claim.clone(), node, reason: reason.clone() }];
        let deadline = Some(ctx.now + INTERRUPTION_NOTICE);
        let removals = self.verify_removals(removals, RemovalReason::Interrupted, deadline, ctx);
        if removals.is_empty() {
            return;
        }
        if self.is_shadow(ctx) {
            return self.record_shadow_removals(DecisionKind::Interruption, &removals, ctx);
        }
        let id = DecisionId(ctx.next_id());
        let decision = self.removal_decision(id, DecisionKind::Interruption, removals, ctx.now);
        self.record_decision(decision, ctx);
        if let Some(machine) = self.machines.get_mut(&claim) {
            machine.interrupted = true;
        }
        let reason = TerminationReason::Decided(reason.clone());
        self.begin_termination(&claim, reason, deadline, ctx);
    }

    /// Begins the termination of `claim` in any stage. `deadline` is when its pods are deleted
    /// regardless of budgets; the NodeClaim's grace period applies as well.
    pub fn begin_termination(
        &mut self,
        claim: &ClaimName,
        reason: TerminationReason,
        deadline: Option<Timestamp>,
        ctx: &mut Context<'_>,
    ) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        if machine.stage.is_terminating() {
            return;
        }
        machine.termination_reason = Some(reason);
        let stage = machine.stage;
        let grace = self.state.claim(claim).and_then(|claim| claim.termination_grace_period);
        let by_grace = grace.map(|grace| ctx.now + grace);
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.drain_deadline = [deadline, by_grace].into_iter().flatten().min();
        }
        self.state.mark_for_deletion(claim);
        self.window.extend(ctx.now);
        match stage {
            Stage::Planned => {
                self.machines.remove(claim);
                self.state.forget_claim(claim);
            }
            // The pending call or instruction is answered first; its answer continues the
            // termination.
            Stage::Creating | Stage::Launching => {}
            _ if self.state.node_of_claim(claim).is_some()
                || self.snapshot_suspicious(1, 1, ctx)
                || !self.may_terminate_without_node(claim, ctx) =>
            {
                self.enter_stage(claim, Stage::Draining, ctx.now);
                self.drain_when_replaced(claim, ctx);
            }
            _ => self.terminate_instance(claim, ctx),
        }
    }

    /// Instructs the agent to drain the Node of `claim`. Without a Node the instance is terminated,
    /// unless the snapshot is suspicious.
    pub fn drain_node(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        let Some(machine) = self.machines.get(claim) else { return };
        let (deadline, reason) = (machine.drain_deadline, machine.termination_message());
        let (provider_id, interruption) = (machine.provider_id.clone(), machine.interrupted);
        let only_if_empty = machine.stage_if_occupied.is_some();
        match self.state.node_of_claim(claim).map(|node| node.name.clone()) {
            Some(node) => {
                let claim = claim.clone();
                let drain =
                    Instruction::Drain { claim, node, provider_id, deadline, interruption, only_if_empty, reason };
                self.instruct(drain, ctx);
            }
            None if self.snapshot_suspicious(1, 1, ctx) => {
                self.retry_later(claim, ctx);
                self.report_missing_claims(Finding::ClaimsMissing { missing: 1, of: 1 }, ctx);
            }
            None if !self.may_terminate_without_node(claim, ctx) => self.retry_later(claim, ctx),
            None => self.terminate_instance(claim, ctx),
        }
    }

    /// Cancels the termination of `claim`: its Node was to be drained as empty, and the API server
    /// lists pods on it. For a while its observed pods are not trusted. A machine that has to be
    /// terminated for another reason by now is drained all the same.
    pub fn keep_occupied_machine(&mut self, claim: &ClaimName, why: &str, ctx: &mut Context<'_>) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        let Some(stage) = machine.stage_if_occupied.take() else { return };
        machine.enter_stage(stage, ctx.now);
        (machine.termination_reason, machine.drain_deadline, machine.occupied_at) = (None, None, Some(ctx.now));
        self.state.unmark_for_deletion(claim);
        self.status_reporter.disruption_reasons.remove(claim);
        ctx.guardrails.removals.remove(&self.cluster, claim);
        self.window.extend(ctx.now);
        self.report_finding(Finding::NodeOccupied { claim: claim.clone(), why: Text::from(why) }, ctx);
    }

    /// Checks the obstacle again after the retry time.
    pub fn retry_later(&mut self, claim: &ClaimName, ctx: &Context<'_>) {
        let again = ctx.now + ctx.settings.retry_delay;
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.not_before = again;
        }
    }

    /// Terminates the instance of `claim`.
    pub fn terminate_instance(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        self.enter_stage(claim, Stage::Terminating, ctx.now);
        let Some(machine) = self.machines.get(claim) else { return };
        let (cluster, cluster_uid) = (self.cluster.clone(), self.uid.clone());
        let provider_id = machine.provider_id.clone();
        ctx.effects.push(Effect::Terminate { cluster, cluster_uid, claim: claim.clone(), provider_id });
    }

    /// Deletes Node and NodeClaim of a machine whose instance is gone, or was never launched.
    /// `reason` is needed for a machine that is not terminating.
    pub fn delete_claim(&mut self, claim: &ClaimName, reason: Option<TerminationReason>, ctx: &mut Context<'_>) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        machine.termination_reason = machine.termination_reason.take().or(reason);
        let reason = machine.termination_message();
        let provider_id = machine.provider_id.clone();
        machine.enter_stage(Stage::Deleting, ctx.now);
        self.state.mark_for_deletion(claim);
        let node = self.state.node_of_claim(claim).map(|node| node.name.clone());
        self.instruct(Instruction::DeleteClaim { claim: claim.clone(), node, provider_id, reason }, ctx);
    }
}
