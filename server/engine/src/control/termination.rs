//! How machines leave: empty nodes by decision, interrupted ones at once, all of them by the same steps — drain, give the
//! machine back, remove Node and NodeClaim.

use std::collections::BTreeSet;

use super::cluster_controller::{ClusterController, Context};
use super::machine::Stage;
use super::recovery::Finding;
use super::{Decision, DecisionId, DecisionKind, Effect, Instruction, Removal};
use crate::disrupt::{EmptyNodes, empty_nodes};
use crate::model::{CapacityType, MicroUsd, Text, Timestamp};

/// What spot machines are given between warning and end, in milliseconds (EC2: two minutes).
const INTERRUPTION_NOTICE_MS: i64 = 120_000;
/// For so long a Node on which the API server listed pods is not taken to be empty, in milliseconds, unless the agent shows a pod
/// come or go there. An agent that shows none of them does so until its watch begins anew; each attempt costs the API server a list.
pub const OCCUPIED_MS: i64 = 10 * 60_000;

impl ClusterController {
    /// Looks for empty nodes when a look is due, and proposes their removal.
    pub fn look_for_empty_nodes(&mut self, desk: &mut Context<'_>) {
        if self.next_pass.is_none_or(|pass| pass > desk.now) || !self.is_ready() {
            return;
        }
        if let Some(plan) = self.awaited_plan(desk) {
            self.next_pass = Some(plan);
            return;
        }
        let EmptyNodes { removals, again, held, held_pools } = empty_nodes(&self.state, &self.proposed(None), desk.now);
        self.clerk.held = held_pools;
        self.clerk.rouse();
        self.changed = false;
        self.last_pass = Some(desk.now);
        let soon = (held > 0).then(|| desk.after(desk.settings.disruption_pass_ms));
        self.next_pass = [again, soon].into_iter().flatten().min();
        let removals = self.hold_removals(removals, desk);
        if self.is_shadow(desk) {
            return self.say_removals(DecisionKind::Empty, &removals, desk);
        }
        if removals.is_empty() {
            return;
        }
        self.note_removals(&removals, desk);
        let id = DecisionId(desk.number());
        let decision = self.removal_decision(id, DecisionKind::Empty, removals, desk.now);
        self.record(decision, desk);
    }

    /// NodeClaims whose removal is decided and not durable yet, those of decision `but` apart.
    fn proposed(&self, but: Option<DecisionId>) -> BTreeSet<Text> {
        let others = self.undecided.values().filter(|decision| Some(decision.id) != but);
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
            notes: Vec::new(),
            basis: None,
        }
    }

    /// The removals are durable: those that may still go, go.
    pub fn carry_out_removals(&mut self, decision: &Decision, desk: &mut Context<'_>) {
        if self.under_way.is_some() && self.awaited_plan(desk).is_some() {
            // The plan may give pods their room; they are proposed again when it is there.
            return decision
                .removals
                .iter()
                .for_each(|removal| desk.rails.removals.forget(&self.cluster, &removal.claim));
        }
        let still = empty_nodes(&self.state, &self.proposed(Some(decision.id)), desk.now);
        let still: BTreeSet<Text> = still.removals.into_iter().map(|removal| removal.claim).collect();
        for removal in &decision.removals {
            if still.contains(&removal.claim) && self.may_remove(&removal.claim, desk) {
                self.clerk.reasons.insert(removal.claim.clone(), "Empty");
                if let Some(machine) = self.machines.get_mut(&removal.claim) {
                    machine.if_empty = Some(machine.stage);
                }
                self.dismiss(&removal.claim, &removal.reason, None, desk);
            } else {
                desk.rails.removals.forget(&self.cluster, &removal.claim);
            }
        }
    }

    /// The cloud takes a machine back: its offering is left alone for a while, and it is drained at once.
    pub fn interrupt(&mut self, provider_id: &Text, reason: &Text, desk: &mut Context<'_>) {
        let Some(claim) = self.claim_of_instance(provider_id) else { return };
        let Some(machine) = self.machines.get_mut(&claim) else { return };
        if machine.stage.is_leaving() {
            // It goes now whether its Node is empty or not.
            machine.if_empty = None;
            return;
        }
        if let Some(bought) = machine.bought.as_ref().filter(|bought| bought.capacity_type == CapacityType::Spot) {
            let until = desk.after(desk.settings.sold_out_ms);
            desk.offerings.refuse(bought.instance_type.clone(), bought.zone.clone(), CapacityType::Spot, until);
        }
        let node = self.state.node_of_claim(&claim).map(|node| node.name.clone()).unwrap_or_default();
        let removals = vec![Removal { claim: claim.clone(), node, reason: reason.clone() }];
        if self.is_shadow(desk) {
            return self.say_removals(DecisionKind::Interruption, &removals, desk);
        }
        let id = DecisionId(desk.number());
        let decision = self.removal_decision(id, DecisionKind::Interruption, removals, desk.now);
        self.record(decision, desk);
        if let Some(machine) = self.machines.get_mut(&claim) {
            machine.interrupted = true;
        }
        self.dismiss(&claim, reason, Some(desk.after(INTERRUPTION_NOTICE_MS)), desk);
    }

    /// Sends the machine of `claim` on its way out, from wherever it stands. `deadline` is when its pods go regardless;
    /// without one the NodeClaim's grace period decides.
    pub fn dismiss(&mut self, claim: &Text, reason: &Text, deadline: Option<Timestamp>, desk: &mut Context<'_>) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        if machine.stage.is_leaving() {
            return;
        }
        machine.leaves = Some(reason.clone());
        let stage = machine.stage;
        let grace = self.state.claim(claim).and_then(|claim| claim.termination_grace_period_ms);
        let by_grace = grace.map(|grace| desk.after(grace));
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.drain_by = [deadline, by_grace].into_iter().flatten().min();
        }
        self.state.mark_going(claim);
        self.window.rouse(desk.now);
        match stage {
            Stage::Planned => {
                self.machines.remove(claim);
                self.state.forget_claim(claim);
            }
            // The answer to what is under way comes first; it leads on from there.
            Stage::Creating | Stage::Launching => {}
            _ if self.state.node_of_claim(claim).is_some()
                || self.doubts_absence(1, 1, desk)
                || !self.may_go_without_node(claim, desk) =>
            {
                self.enter(claim, Stage::Draining, desk.now);
                self.drain_when_replaced(claim, desk);
            }
            _ => self.give_back(claim, desk),
        }
    }

    /// Has the agent drain the Node of `claim`. A machine without a Node is given back, unless it is the picture that lacks it.
    pub fn drain(&mut self, claim: &Text, desk: &mut Context<'_>) {
        let Some(machine) = self.machines.get(claim) else { return };
        let (deadline, reason) = (machine.drain_by, machine.leaves.clone().unwrap_or_default());
        let (provider_id, interruption) = (machine.provider_id.clone(), machine.interrupted);
        let only_if_empty = machine.if_empty.is_some();
        match self.state.node_of_claim(claim).map(|node| node.name.clone()) {
            Some(node) => {
                let claim = claim.clone();
                let drain =
                    Instruction::Drain { claim, node, provider_id, deadline, interruption, only_if_empty, reason };
                self.instruct(drain, desk);
            }
            None if self.doubts_absence(1, 1, desk) => {
                self.look_again(claim, desk);
                self.report_absence(Finding::ClaimsMissing { missing: 1, of: 1 }, desk);
            }
            None if !self.may_go_without_node(claim, desk) => self.look_again(claim, desk),
            None => self.give_back(claim, desk),
        }
    }

    /// The Node of `claim` was to be drained as empty, and the API server lists pods on it: the machine stays in service, and for
    /// a while what the agent shows of its pods is not believed. One that has to go by now in any case is drained all the same.
    pub fn keep_occupied(&mut self, claim: &Text, why: &str, desk: &mut Context<'_>) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        let Some(stage) = machine.if_empty.take() else { return };
        machine.enter(stage, desk.now);
        (machine.leaves, machine.drain_by, machine.occupied_at) = (None, None, Some(desk.now));
        self.state.unmark_going(claim);
        self.clerk.reasons.remove(claim);
        desk.rails.removals.forget(&self.cluster, claim);
        self.window.rouse(desk.now);
        self.report(Finding::NodeOccupied { claim: claim.clone(), why: Text::from(why) }, desk);
    }

    /// What stands in the way is looked at again after a while.
    pub fn look_again(&mut self, claim: &Text, desk: &Context<'_>) {
        let again = desk.after(desk.settings.retry_ms);
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.not_before = again;
        }
    }

    /// Gives the machine of `claim` back to the cloud.
    pub fn give_back(&mut self, claim: &Text, desk: &mut Context<'_>) {
        self.enter(claim, Stage::Terminating, desk.now);
        let Some(machine) = self.machines.get(claim) else { return };
        let (cluster, cluster_uid) = (self.cluster.clone(), self.uid.clone());
        let provider_id = machine.provider_id.clone();
        desk.effects.push(Effect::Terminate { cluster, cluster_uid, claim: claim.clone(), provider_id });
    }

    /// The machine of `claim` is gone, or never was: Node and NodeClaim are removed.
    pub fn finalise(&mut self, claim: &Text, reason: &Text, desk: &mut Context<'_>) {
        let Some(machine) = self.machines.get_mut(claim) else { return };
        let reason = machine.leaves.get_or_insert_with(|| reason.clone()).clone();
        let provider_id = machine.provider_id.clone();
        machine.enter(Stage::Deleting, desk.now);
        self.state.mark_going(claim);
        let node = self.state.node_of_claim(claim).map(|node| node.name.clone());
        self.instruct(Instruction::DeleteClaim { claim: claim.clone(), node, provider_id, reason }, desk);
    }
}
