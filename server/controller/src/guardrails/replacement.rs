//! Replacement before removal: a machine whose pods need other capacity is drained once that
//! capacity is planned. Planning takes a batch window; if it fails, the drain waits no longer than
//! the setting allows.
//!
//! The capacity stays assigned to those pods until the drain has ended, which a PodDisruptionBudget
//! may delay for days: a machine launched as a replacement is not treated as an empty node. Neither
//! is any node while pods wait for a plan that may use it. After a takeover the new owner restores
//! the assignments of the same plan.

use super::disabled_guards::Guard;
use crate::cluster_controller::{ClusterController, Context};
use crate::nodeclaim::{ManagedClaim, StageKind};
use model::{ClaimName, Millis, Timestamp};

impl ClusterController {
    /// Drains the machine of `claim` now, or as soon as its pods are planned.
    pub(crate) fn drain_when_replaced(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        let wait = ctx.settings.guardrails.replacement_wait;
        if wait <= Millis::ZERO || !self.is_ready() || !self.has_demand_on(claim, ctx) {
            return self.drain_node(claim, ctx);
        }
        let until = ctx.now + wait;
        if let Some(machine) = self.claims.get_mut(claim) {
            machine.postpone(until);
        }
    }

    /// Expires assignments, except those of pods on draining nodes.
    pub(crate) fn expire_assignments(&mut self, ctx: &mut Context<'_>) {
        if ctx.disabled_guards.is_enabled(Guard::Replacement) {
            self.state.extend_assignments(ctx.now);
        } else {
            self.state.clear_successors();
        }
        if self.state.expire_assignments(ctx.now) {
            self.provisioner.replan_displaced_pods(ctx.now);
            self.disruption.mark_changed();
        }
    }

    /// When pending pods are planned, or the plan in progress is abandoned; until then it is
    /// unknown which empty nodes they need.
    pub(crate) fn pending_plan_due(&self, ctx: &Context<'_>) -> Option<Timestamp> {
        if !ctx.disabled_guards.is_enabled(Guard::Replacement) {
            return None;
        }
        self.provisioner.needs_nodes_until(&self.state, ctx.settings, ctx.now)
    }

    fn has_demand_on(&self, claim: &ClaimName, ctx: &Context<'_>) -> bool {
        let Some(node) = self.state.node_of_claim(claim) else { return false };
        self.state.pods_on(&node.name).any(|pod| self.state.is_demand(pod, ctx.now))
    }

    /// NodeClaims of machines that wait for a plan of their pods before they are drained.
    pub(crate) fn waiting_drains(&self, now: Timestamp) -> Vec<ClaimName> {
        let waits = |machine: &&ManagedClaim| machine.stage() == StageKind::Draining && machine.waits_for_time(now);
        let waiting = self.claims.iter().filter(waits);
        waiting.map(|machine| machine.name().clone()).collect()
    }

    /// Begins the drains of `planned` that still wait for their plan.
    pub(crate) fn begin_replaced_drains(&mut self, planned: &[ClaimName], ctx: &mut Context<'_>) {
        for claim in self.waiting_drains(ctx.now).into_iter().filter(|claim| planned.contains(claim)) {
            self.drain_node(&claim, ctx);
        }
    }
}
