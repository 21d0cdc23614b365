//! Kubernetes Events with Karpenter's reasons, for what has changed since the last pass.

use std::fmt;

use crate::cluster_controller::{ClusterController, Context};
use crate::disruption::BlockedRepair;
use crate::guardrails::removal::BlockCause;
use crate::nodeclaim::{StageKind, TerminationReason};
use crate::status::{EventOrder, ObjectRef};
use crate::{ClassFacts, Decision, Effect, Instruction, InstructionId, UnplacedPod};
use model::interruption::InterruptionKind;
use model::repair_policy::MAX_UNHEALTHY_PERCENT;
use model::{ClaimName, PodKey, Text, Timestamp};

/// Held removals for which Events are recorded in one pass.
const MAX_WAITING_EVENTS: usize = 5;
/// Longest message that the API server accepts (Kubernetes: events).
const MAX_MESSAGE_CHARS: usize = 1_000;

impl ClusterController {
    /// Records Events for everything since the last pass.
    pub(super) fn record_events(&mut self, ctx: &mut Context<'_>) {
        let mut events = self.machine_events(ctx.settings.class_facts);
        events.extend(self.drain_events(ctx.now));
        events.extend(self.held_events());
        events.extend(self.waiting_events());
        let failed = self.status_reporter.consistency.take_failed();
        let inconsistent = |(claim, why): (ClaimName, Text)| {
            warning(ObjectRef::Claim(claim), "FailedConsistencyCheck", why.to_string())
        };
        events.extend(failed.into_iter().map(inconsistent));
        events.extend(self.class_events());
        events.extend(self.decision_events());
        self.emit_events(events, ctx);
    }

    fn emit_events(&mut self, events: Vec<EventOrder>, ctx: &mut Context<'_>) {
        if !self.may_report_status(ctx) {
            return;
        }
        for event in events {
            if self.status_reporter.event_recorder.allow(&event, ctx.now) {
                let id = InstructionId(ctx.next_id());
                let (cluster, instruction) = (self.cluster.clone(), Box::new(Instruction::RecordEvent(event)));
                ctx.effects.push(Effect::Instruct { cluster, id, instruction });
            }
        }
    }

    /// Records what the cloud says about a machine, on its NodeClaim and Node.
    pub(crate) fn record_notice_events(&mut self, claim: &ClaimName, kind: InterruptionKind, ctx: &mut Context<'_>) {
        let node = self.state.node_of_claim(claim).map(|node| ObjectRef::Node(node.name.clone()));
        let subjects = [ObjectRef::Claim(claim.clone())].into_iter().chain(node);
        let events = subjects.map(|subject| warning(subject, kind.event_reason(), kind.to_string())).collect();
        self.emit_events(events, ctx);
    }

    /// Records that a machine is removed for what the cloud says.
    pub(crate) fn record_interrupted_event(
        &mut self,
        claim: &ClaimName,
        kind: InterruptionKind,
        ctx: &mut Context<'_>,
    ) {
        if self.claims.get(claim).is_some_and(|machine| machine.termination_reason().is_some()) {
            let message = format!("the machine is being removed: {kind}");
            let event = warning(ObjectRef::Claim(claim.clone()), "TerminatingOnInterruption", message);
            self.emit_events(vec![event], ctx);
        }
    }

    /// Events for stage changes of machines.
    fn machine_events(&mut self, facts: ClassFacts) -> Vec<EventOrder> {
        let mut events = Vec::new();
        if self.status_reporter.reported_stages.len() > self.claims.len() {
            self.status_reporter.reported_stages.retain(|claim, _| self.claims.contains(claim));
        }
        for machine in self.claims.iter() {
            let known = self.status_reporter.reported_stages.get_mut(machine.name());
            let earlier = known.map(|stage| std::mem::replace(stage, machine.stage()));
            if earlier.is_none() {
                self.status_reporter.reported_stages.insert(machine.name().clone(), machine.stage());
            }
            // For a newly discovered machine, the previous process has recorded the earlier stages.
            let Some(earlier) = earlier.filter(|stage| *stage != machine.stage()) else { continue };
            let claim = ObjectRef::Claim(machine.name().clone());
            let why = machine.termination_message();
            events.extend(match machine.stage() {
                StageKind::Launched => Some(normal(claim, "Launched", launched_message(machine.provider_id(), facts))),
                StageKind::Registered => Some(normal(claim, "Registered", "its Node has joined".to_owned())),
                StageKind::Initialized => Some(normal(claim, "Initialized", "its Node is initialized".to_owned())),
                StageKind::Deleting
                    if matches!(machine.termination_reason(), Some(TerminationReason::InsufficientCapacity { .. })) =>
                {
                    Some(warning(claim, "InsufficientCapacityError", why.to_string()))
                }
                _ if machine.stage().is_terminating() && !earlier.is_terminating() => {
                    Some(normal(claim, "DisruptionTerminating", format!("the machine is being terminated: {why}")))
                }
                _ => None,
            });
        }
        self.status_reporter.disruption_reasons.retain(|claim, _| self.claims.contains(claim));
        events
    }

    fn drain_events(&self, now: Timestamp) -> Vec<EventOrder> {
        let draining = self.claims.iter().filter(|machine| machine.stage() == StageKind::Draining);
        let nodes = draining.filter_map(|machine| self.state.node_of_claim(machine.name()));
        let blocked =
            nodes.filter_map(|node| Some((node, drain_blocked_message(&self.state.drain_blockers(&node.name, now))?)));
        blocked.map(|(node, why)| warning(ObjectRef::Node(node.name.clone()), "FailedDraining", why)).collect()
    }

    fn held_events(&self) -> Vec<EventOrder> {
        let blocked = self.status_reporter.blocked_repairs.iter().map(|(pool, blocked)| {
            let BlockedRepair { unhealthy, nodes } = blocked;
            let message = format!(
                "{unhealthy} of {nodes} nodes of this NodePool are unhealthy, more than {MAX_UNHEALTHY_PERCENT} %: none is repaired"
            );
            warning(ObjectRef::Pool(pool.clone()), "NodeRepairBlocked", message)
        });
        let held = self.status_reporter.budget_blocked.iter();
        let held = held.map(|(pool, nodes)| {
            let message = format!("disruption budgets or windows keep {nodes} nodes of this NodePool for now");
            normal(ObjectRef::Pool(pool.clone()), "DisruptionBlocked", message)
        });
        blocked.chain(held).collect()
    }

    /// Events for held removals.
    fn waiting_events(&self) -> Vec<EventOrder> {
        let waiting = self.guardrails.waiting_removals().take(MAX_WAITING_EVENTS);
        let events = waiting.map(|(cause, claim, held)| {
            let reason = match cause {
                BlockCause::Foreign => "ForeignInstance",
                BlockCause::ByHand | BlockCause::NodeVanished | BlockCause::Missing => "RemovalHeld",
            };
            let message =
                format!("the removal of the machine waits {}: {}", held.refusal.release(&self.cluster), held.refusal);
            warning(ObjectRef::Claim(claim.clone()), reason, message)
        });
        events.collect()
    }

    fn class_events(&self) -> Vec<EventOrder> {
        let going = self
            .state
            .classes()
            .filter(|class| class.deleting && class.has_finalizer && !self.state.is_karpenter_active());
        let waiting = going.filter_map(|class| {
            let claims: Vec<&ClaimName> =
                self.state.claims().filter(|c| c.node_class == class.name).map(|c| &c.name).collect();
            let first = claims.first()?;
            let message = format!("waits for {} NodeClaims to end, {first} among them", claims.len());
            Some(normal(ObjectRef::Class(class.name.clone()), "WaitingOnNodeClaimTermination", message))
        });
        waiting.collect()
    }

    /// Events for pods of the decisions since the last pass.
    fn decision_events(&mut self) -> Vec<EventOrder> {
        let since = self.status_reporter.last_reported_decision;
        let fresh = self.decisions.recent().filter(|decision| since.is_none_or(|since| decision.id > since));
        let events = fresh.flat_map(|decision| self.pod_events(decision)).collect();
        self.status_reporter.last_reported_decision = self.decisions.last_id().or(since);
        events
    }

    fn pod_events(&self, decision: &Decision) -> Vec<EventOrder> {
        // A pod that runs on a machine which was to be replaced stays there.
        let runs = |unplaced: &&UnplacedPod| {
            let node = self.state.pod(&unplaced.pod).and_then(|pod| pod.node.as_ref());
            node.is_some_and(|node| !self.state.are_pods_moved_from(node))
        };
        let unplaced = decision.unplaced.iter().filter(|unplaced| !runs(unplaced)).filter_map(|unplaced| {
            let reasons: Vec<&str> = unplaced.reasons.iter().map(|reason| reason.message.as_str()).collect();
            self.pod_event(&unplaced.pod, true, "FailedScheduling", reasons.join("; "))
        });
        let launched = decision
            .launches
            .iter()
            .flat_map(|machine| machine.pods.iter().map(|pod| (pod, machine.claim.name.as_text())));
        let assigned = decision.assignments.iter().map(|(pod, node)| (pod, node.as_text()));
        let nominated = launched
            .chain(assigned)
            .filter_map(|(pod, on)| self.pod_event(pod, false, "Nominated", format!("is planned onto {on}")));
        unplaced.chain(nominated).collect()
    }

    /// An Event of a pod; `None` when the pod is gone.
    fn pod_event(&self, pod: &PodKey, is_warning: bool, reason: &'static str, message: String) -> Option<EventOrder> {
        let pod = self.state.pod(pod)?;
        let event = normal(ObjectRef::Pod(pod.key.clone()), reason, message);
        Some(EventOrder { uid: pod.uid.clone(), warning: is_warning, ..event })
    }
}

fn launched_message(provider_id: impl fmt::Display, facts: ClassFacts) -> String {
    match facts {
        ClassFacts::Simulated => {
            format!("machine {provider_id} is launched in the simulated cloud; no instance is bought")
        }
        ClassFacts::Resolved => format!("machine {provider_id} is launched"),
    }
}

/// Sentence: why a drain does not proceed.
pub(crate) fn drain_blocked_message(reasons: &[String]) -> Option<String> {
    let (first, rest) = reasons.split_first()?;
    Some(if rest.is_empty() { first.clone() } else { format!("{first}, and {} more pods cannot leave", rest.len()) })
}

fn normal(subject: ObjectRef, reason: &'static str, message: String) -> EventOrder {
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    EventOrder { subject, uid: Text::default(), warning: false, reason, message: Text::from(message) }
}

fn warning(subject: ObjectRef, reason: &'static str, message: String) -> EventOrder {
    EventOrder { warning: true, ..normal(subject, reason, message) }
}
