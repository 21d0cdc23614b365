//! Room before removal: a machine that has to go although pods on it need a place is drained when their room is planned,
//! not before. Planning takes a batch window; when it cannot be done at all, the drain waits no longer than the setting
//! says.
//!
//! That room stays theirs until the drain has ended, which a PodDisruptionBudget may hold up for days: a machine that was bought
//! for it and stands empty meanwhile is no empty node. Nor is any node while pods wait for a plan that may give them its room;
//! a process that takes a cluster over promises anew what its predecessor had promised by the same plan.

use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::machine::Stage;
use crate::model::{Text, Timestamp};

impl ClusterController {
    /// Drains the machine of `claim` now, or as soon as its pods are planned.
    pub fn drain_when_replaced(&mut self, claim: &Text, desk: &mut Context<'_>) {
        let wait = desk.settings.rails.replacement_wait_ms;
        if wait <= 0 || !self.is_ready() || !self.has_demand_on(claim, desk) {
            return self.drain(claim, desk);
        }
        let until = desk.after(wait);
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.not_before = until;
        }
    }

    /// Assignments lapse by now, those to pods of drains apart.
    pub fn lapse_promises(&mut self, desk: &mut Context<'_>) {
        if desk.settings.rails.keep_replacements {
            self.state.extend_promises(desk.now);
        } else {
            self.state.promises.expect_no_successors();
        }
        if self.state.promises.lapse(desk.now) {
            self.window.rouse(desk.now);
            self.changed = true;
        }
    }

    /// When pods are planned that wait for it, or the plan that is being made is given up: until then nobody knows which of the
    /// empty nodes they need.
    pub fn awaited_plan(&self, desk: &Context<'_>) -> Option<Timestamp> {
        let settings = desk.settings;
        if let Some(plan) = self.under_way.as_ref().filter(|_| settings.rails.keep_replacements) {
            return Some(plan.awaited_until()).filter(|until| *until > desk.now);
        }
        let plan = self.window.due(settings.batch_idle_ms, settings.batch_max_ms)?;
        let awaited = settings.rails.keep_replacements && !self.state.demand(desk.now).is_empty();
        awaited.then_some(plan)
    }

    fn has_demand_on(&self, claim: &Text, desk: &Context<'_>) -> bool {
        let Some(node) = self.state.node_of_claim(claim) else { return false };
        self.state.pods_on(&node.name).any(|pod| self.state.is_demand(pod, desk.now))
    }

    /// NodeClaims of machines that have to go and wait for their pods to be planned.
    pub fn drains_that_wait(&self, now: Timestamp) -> Vec<Text> {
        let waiting = self.machines.values().filter(|machine| {
            machine.stage == Stage::Draining && machine.waits_for.is_none() && machine.not_before > now
        });
        waiting.map(|machine| machine.claim.clone()).collect()
    }

    /// The pods of these machines are planned: their drains begin, if they still wait for it.
    pub fn drain_replaced(&mut self, planned: &[Text], desk: &mut Context<'_>) {
        for claim in self.drains_that_wait(desk.now).into_iter().filter(|claim| planned.contains(claim)) {
            self.drain(&claim, desk);
        }
    }
}
