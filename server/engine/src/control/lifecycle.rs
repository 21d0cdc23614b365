//! The steps of each machine's life, taken when an answer or an observation allows the next one.
//!
//! Registration and initialisation follow what the cluster shows, never what was asked of it: an instruction that was
//! lost is given again, one that was carried out twice changes nothing (Karpenter: NodeClaim lifecycle).

use std::collections::BTreeSet;

use super::cluster_controller::{ClusterController, Context};
use super::machine::{LaunchedInstance, Machine, Stage};
use super::{DecidedLaunch, Effect, Instruction, InstructionId, LaunchFailure, Launched, order};
use crate::cluster::assignments::NOMINATION_MS;
use crate::cluster::planning::is_ephemeral;
use crate::cluster::{ClaimRecord, NodeRecord};
use crate::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use crate::model::{CapacityType, Text, Timestamp};

/// LaunchBackoff for one NodeClaim, each under a token of its own.
const MAX_ATTEMPTS: u32 = 3;
/// How long the cluster is given to show what an agent has acknowledged, in milliseconds, before it is asked again.
const SHOW_MS: i64 = 5_000;
/// Why a machine ends that the cloud does not sell.
pub(super) const NO_CAPACITY: &str = "the cloud has no capacity for any launch option";

impl ClusterController {
    /// Takes machines into care that the cluster shows and that are ours and launched.
    pub fn adopt_claims(&mut self, now: Timestamp) {
        let strangers: Vec<&ClaimRecord> = (self.state.claims())
            .filter(|claim| claim.ours && !claim.provider_id.is_empty() && !self.machines.contains_key(&claim.name))
            .filter(|claim| !self.state.is_going(&claim.name))
            .collect();
        let found: Vec<Machine> = strangers.into_iter().map(|claim| self.found(claim, now)).collect();
        for machine in found {
            self.machines.insert(machine.claim.clone(), machine);
        }
    }

    /// A machine in the care that its NodeClaim, as it is shown or imagined, tells of.
    pub fn found(&self, claim: &ClaimRecord, now: Timestamp) -> Machine {
        let label = |key: &str| claim.labels.get(key).cloned();
        let bought = label(INSTANCE_TYPE).zip(label(ZONE)).zip(label(CAPACITY_TYPE)).map(|((kind, zone), paid)| {
            let capacity_type = capacity_type(&paid);
            let pool = self.state.pool(&claim.pool).map(|record| &record.pool);
            let (_, price) = order::facts_of(pool, &claim.provider_id, &kind, &zone, capacity_type);
            LaunchedInstance { instance_type: kind, zone, capacity_type, price }
        });
        Machine::found(claim, bought, now)
    }

    /// Takes every step that what is believed allows. Nothing is to be done about machines in service, of which there are many,
    /// unless somebody deletes them.
    pub fn step_machines(&mut self, desk: &mut Context<'_>) {
        self.watch_doors(desk.settings.open_together_ms, desk.now);
        let deleted = self.state.claims_being_deleted();
        let moves = |machine: &Machine| machine.stage != Stage::Initialized || deleted.contains(&machine.claim);
        let moving = self.machines.iter().filter(|(_, machine)| moves(machine));
        let claims: Vec<Text> = moving.map(|(claim, _)| claim.clone()).collect();
        let deleted: BTreeSet<Text> = deleted.into_iter().cloned().collect();
        self.heed_deletions(&deleted, desk);
        for claim in &claims {
            self.step(claim, desk);
        }
        self.forget_waiting();
    }

    fn step(&mut self, claim: &Text, desk: &mut Context<'_>) {
        let Some(machine) = self.machines.get(claim) else { return };
        let elapsed = desk.now.millis_since(machine.since);
        let free = machine.waits_for.is_none() && machine.not_before <= desk.now;
        match machine.stage {
            Stage::Launching if machine.leaves.is_none() && elapsed >= desk.settings.launch_timeout_ms => {
                let minutes = desk.settings.launch_timeout_ms / 60_000;
                let reason = format!("no machine was launched within {minutes} minutes");
                desk.rails.brake.failed(&self.cluster, desk.now);
                self.note_joined(claim, false);
                self.dismiss(claim, &Text::from(reason), None, desk);
            }
            Stage::Launched => self.step_joining(claim, elapsed, free, desk),
            Stage::Registered => self.step_registered(claim, free, desk),
            Stage::Draining if free => self.drain(claim, desk),
            Stage::Deleting if free => self.finalise(claim, &Text::default(), desk),
            Stage::Launching | Stage::Terminating => self.ask_again(claim, desk),
            _ => {}
        }
    }

    fn step_joining(&mut self, claim: &Text, elapsed: i64, free: bool, desk: &mut Context<'_>) {
        let node = self.state.node_of_claim(claim);
        match node {
            Some(node) if node.is_registered() => {
                self.note_joined(claim, true);
                self.enter(claim, Stage::Registered, desk.now);
                self.nudges.rouse(desk.now);
                // One that was found in the cluster says nothing about launches.
                if self.machines.get(claim).is_some_and(|machine| machine.planned.is_some()) {
                    desk.rails.brake.joined(&self.cluster, desk.now);
                }
                self.step(claim, desk);
            }
            Some(node) if free && !self.doors.contains_key(claim) => {
                let node = node.name.clone();
                let Some(record) = self.state.claim(claim) else { return };
                let (labels, mut taints) = (record.labels.clone(), record.taints.clone());
                taints.extend(record.startup_taints.iter().cloned());
                let hints = self.hints(claim);
                self.note_let_in(claim, desk.now);
                self.instruct(Instruction::RegisterNode { claim: claim.clone(), node, labels, taints, hints }, desk);
            }
            // A Node that had joined, and is not shown, is no machine that did not join.
            None if elapsed >= desk.settings.registration_timeout_ms => {
                if self.machines.get(claim).is_some_and(|machine| machine.not_before > desk.now) {
                    return;
                }
                if !self.may_go_without_node(claim, desk) {
                    return self.look_again(claim, desk);
                }
                let minutes = desk.settings.registration_timeout_ms / 60_000;
                let reason = format!("the machine did not join the cluster within {minutes} minutes");
                desk.rails.brake.failed(&self.cluster, desk.now);
                self.note_joined(claim, false);
                self.dismiss(claim, &Text::from(reason), None, desk);
            }
            _ => {}
        }
    }

    fn step_registered(&mut self, claim: &Text, free: bool, desk: &mut Context<'_>) {
        let Some(node) = self.state.node_of_claim(claim) else { return };
        if node.is_initialized() {
            self.enter(claim, Stage::Initialized, desk.now);
            self.state.promises.limit(claim, desk.after(NOMINATION_MS));
        } else if free && self.state.claim(claim).is_some_and(|record| is_complete(node, record)) {
            let node = node.name.clone();
            self.instruct(Instruction::InitializeNode { claim: claim.clone(), node }, desk);
        }
    }

    /// A machine has joined for the first time, or has not in time. Those found in the cluster had joined before.
    fn note_joined(&mut self, claim: &Text, joined: bool) {
        let planned = self.machines.get(claim).filter(|machine| machine.planned.is_some());
        if let Some(pool) = planned.and_then(|machine| self.state.pool(&machine.pool)) {
            self.clerk.health.note(pool, joined);
        }
    }

    /// An agent carried an instruction out.
    pub fn acked(&mut self, id: InstructionId, desk: &mut Context<'_>) {
        if self.written(id, false, desk) {
            return;
        }
        let Some(claim) = self.asked.remove(&id) else { return };
        let Some(machine) = self.machines.get_mut(&claim).filter(|machine| machine.waits_for == Some(id)) else {
            return;
        };
        machine.waits_for = None;
        let show_ms = if machine.stage == Stage::Launched { 0 } else { SHOW_MS };
        machine.not_before = Timestamp(desk.now.0.saturating_add(show_ms));
        let (stage, leaves) = (machine.stage, machine.leaves.is_some());
        match stage {
            Stage::Creating if leaves => self.finalise(&claim, &Text::default(), desk),
            Stage::Creating => {
                self.enter(&claim, Stage::Launching, desk.now);
                self.launch(&claim, desk);
            }
            Stage::Draining if self.may_go_without_node(&claim, desk) => self.give_back(&claim, desk),
            Stage::Deleting => {
                self.machines.remove(&claim);
                self.state.forget_claim(&claim);
                self.forget_waiting();
                self.close(&claim, desk);
            }
            _ => {}
        }
    }

    /// An agent could not carry an instruction out; `unmet` when it has not begun to.
    pub fn failed(&mut self, id: InstructionId, reason: &str, unmet: bool, desk: &mut Context<'_>) {
        if self.written(id, true, desk) {
            return;
        }
        let Some(claim) = self.asked.remove(&id) else { return };
        let again = desk.after(desk.settings.retry_ms);
        let Some(machine) = self.machines.get_mut(&claim).filter(|machine| machine.waits_for == Some(id)) else {
            return;
        };
        if machine.stage == Stage::Creating {
            self.machines.remove(&claim);
            self.state.forget_claim(&claim);
            self.close(&claim, desk);
            self.refused = Some(format!("NodeClaim {claim} could not be created: {reason}"));
            self.retry = Some(again);
            return;
        }
        machine.waits_for = None;
        machine.not_before = again;
        if unmet && machine.stage == Stage::Draining {
            self.keep_occupied(&claim, reason, desk);
        }
    }

    /// Has the machine of `claim` bought, or asks again what came of it.
    pub fn launch(&mut self, claim: &Text, desk: &mut Context<'_>) {
        if let Some(decided) = self.attempt_of(claim, desk.now) {
            desk.effects.push(Effect::Launch(Box::new(decided.machine.launch)));
        }
    }

    /// The orders of `claim` for its present attempt.
    fn attempt_of(&self, claim: &Text, at: Timestamp) -> Option<DecidedLaunch> {
        let machine = self.machines.get(claim)?;
        let mut planned = machine.planned.clone()?;
        if planned.launch.attempt != machine.attempt {
            // A new token may stand for another request.
            planned.launch.terms = Text::default();
            planned.launch.repeats = false;
        }
        planned.launch.attempt = machine.attempt;
        planned.launch.token = order::token(claim, machine.attempt);
        Some(DecidedLaunch { machine: planned, decision: machine.decision?, at })
    }

    /// A machine was launched.
    pub fn launched(&mut self, launched: Launched, desk: &mut Context<'_>) {
        let Launched { claim, attempt, provider_id, instance_type, zone, capacity_type, sold_out, .. } = launched;
        let pool = self.machines.get(&claim).map(|machine| machine.pool.clone()).unwrap_or_default();
        let pool = self.state.pool(&pool).map(|record| &record.pool);
        let (mut facts, price) = order::facts_of(pool, &provider_id, &instance_type, &zone, capacity_type);
        // A pool that was taken away since the order names no types: what the order expected stands.
        if let Some(expected) = self.state.claim(&claim).filter(|_| facts.capacity.is_empty()) {
            facts.capacity = expected.capacity.clone();
            facts.allocatable = expected.allocatable.clone();
        }
        let Some(machine) = self.machines.get_mut(&claim) else { return };
        if machine.stage != Stage::Launching || machine.attempt != attempt {
            return;
        }
        machine.provider_id = provider_id;
        machine.bought = Some(LaunchedInstance { instance_type, zone, capacity_type, price });
        let unwanted = machine.leaves.is_some();
        machine.enter(Stage::Launched, desk.now);
        if !sold_out.is_empty() {
            self.note_sold_out(&claim, sold_out, desk);
        }
        self.state.note_launch(&claim, &facts);
        self.note_attempts(&claim, desk);
        if unwanted {
            self.give_back(&claim, desk);
        } else {
            self.instruct(Instruction::MarkLaunched { claim, facts }, desk);
        }
    }

    /// A launch failed for good.
    pub fn launch_failed(&mut self, claim: &Text, attempt: u32, failure: LaunchFailure, desk: &mut Context<'_>) {
        let now = desk.now;
        let Some(machine) = self.machines.get_mut(claim) else { return };
        if machine.stage != Stage::Launching || machine.attempt != attempt {
            return;
        }
        // That an offering is not to be had says nothing about the next one.
        if !matches!(failure, LaunchFailure::NoCapacity { .. }) {
            desk.rails.brake.failed(&self.cluster, now);
        }
        match failure {
            LaunchFailure::NoCapacity { sold_out } => {
                self.note_sold_out(claim, sold_out, desk);
                self.finalise(claim, &Text::from(NO_CAPACITY), desk);
                self.window.rouse(now);
            }
            LaunchFailure::Refused { retryable: true, .. } if machine.leaves.is_none() && attempt < MAX_ATTEMPTS => {
                machine.attempt += 1;
                let again = self.attempt_of(claim, now).map(|decided| Effect::Relaunch(Box::new(decided)));
                desk.effects.extend(again);
            }
            LaunchFailure::Refused { code, message, .. } => {
                let reason = format!("the cloud refuses the launch: {code}: {message}");
                self.finalise(claim, &Text::from(reason.as_str()), desk);
                self.refused = Some(reason);
                self.retry = Some(desk.after(desk.settings.retry_ms));
            }
        }
    }

    fn note_sold_out(&self, claim: &Text, sold_out: Vec<(Text, Text)>, desk: &mut Context<'_>) {
        let Some(planned) = self.machines.get(claim).and_then(|machine| machine.planned.as_ref()) else { return };
        let order = &planned.launch;
        let all = || order.options.iter().map(|option| (option.instance_type.clone(), option.zone.clone())).collect();
        let sold_out = if sold_out.is_empty() { all() } else { sold_out };
        let until = desk.after(desk.settings.sold_out_ms);
        for (instance_type, zone) in sold_out {
            desk.offerings.refuse(instance_type, zone, order.capacity_type, until);
        }
    }

    /// The cloud states that a machine has ended.
    pub fn instance_gone(&mut self, provider_id: &Text, desk: &mut Context<'_>) {
        self.collection.note_ended(provider_id.clone());
        let Some(claim) = self.claim_of_instance(provider_id) else { return };
        self.machine_gone(&claim, desk);
    }

    /// The machine of `claim` is gone, and the gate for removals believes it.
    pub fn machine_gone(&mut self, claim: &Text, desk: &mut Context<'_>) {
        if self.machines.get(claim).is_some_and(|machine| machine.stage != Stage::Deleting) {
            self.finalise(claim, &Text::from("the machine is gone"), desk);
            self.window.rouse(desk.now);
        }
    }
}

/// Whether a Node has all that its pods will look for: ready, its startup and ephemeral taints gone, and everything that
/// was asked for reported.
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
