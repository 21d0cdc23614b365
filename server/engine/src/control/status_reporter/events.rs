//! What people are told as it happens: Kubernetes Events with Karpenter's reasons.
//!
//! The same is not said twice within two minutes (five for pods without a place), and a cluster hears at most ten events at
//! once and five a second after that, so that a burst of pods does not flood its API server (Karpenter: event rates). What is
//! too much is not said at all: the decision log has it.

use std::collections::BTreeMap;

use crate::cluster::PodKey;
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::guardrails::removal::Cause;
use crate::control::lifecycle::NO_CAPACITY;
use crate::control::machine::Stage;
use crate::control::status::{EventOrder, ObjectRef};
use crate::control::{Decision, Effect, Instruction, InstructionId};
use crate::model::{Text, Timestamp};

const REPEAT_MS: i64 = 120_000;
const UNPLACED_REPEAT_MS: i64 = 300_000;
/// Events at once.
const BURST: i64 = 10;
/// Between two events at length, in milliseconds.
const PACE_MS: i64 = 200;
/// Removals that wait and that events tell of at one time.
const WAITING_TOLD: usize = 5;
/// Longest message that an API server takes (Kubernetes: events).
const MOST_CHARS: usize = 1_000;

/// Remembers what was told, and bounds how much is.
#[derive(Debug, Default)]
pub(in crate::control) struct EventRecorder {
    told: BTreeMap<(ObjectRef, &'static str, Text), Timestamp>,
    /// When the whole burst is to be had again.
    full_at: Timestamp,
}

impl EventRecorder {
    /// Whether this may be told now; it counts as told then.
    fn may(&mut self, event: &EventOrder, now: Timestamp) -> bool {
        self.told.retain(|_, until| *until > now);
        let key = (event.subject.clone(), event.reason, event.message.clone());
        let base = self.full_at.0.max(now.0);
        if self.told.contains_key(&key) || base.saturating_add(PACE_MS) > now.0.saturating_add(BURST * PACE_MS) {
            return false;
        }
        self.full_at = Timestamp(base.saturating_add(PACE_MS));
        let repeat = if event.reason == "FailedScheduling" { UNPLACED_REPEAT_MS } else { REPEAT_MS };
        self.told.insert(key, Timestamp(now.0.saturating_add(repeat)));
        true
    }
}

impl ClusterController {
    /// Tells what has happened since the last time.
    pub(super) fn cry(&mut self, desk: &mut Context<'_>) {
        let mut events = self.machine_events();
        events.extend(self.drain_events(desk.now));
        events.extend(self.held_events());
        events.extend(self.waiting_events());
        events.extend(self.class_events());
        events.extend(self.decision_events());
        for event in events {
            if self.clerk.crier.may(&event, desk.now) {
                let id = InstructionId(desk.number());
                let (cluster, instruction) = (self.cluster.clone(), Box::new(Instruction::RecordEvent(event)));
                desk.effects.push(Effect::Instruct { cluster, id, instruction });
            }
        }
    }

    /// Steps that machines have taken.
    fn machine_events(&mut self) -> Vec<EventOrder> {
        let mut events = Vec::new();
        if self.clerk.stages.len() > self.machines.len() {
            self.clerk.stages.retain(|claim, _| self.machines.contains_key(claim));
        }
        for machine in self.machines.values() {
            let known = self.clerk.stages.get_mut(&machine.claim);
            let earlier = known.map(|stage| std::mem::replace(stage, machine.stage));
            if earlier.is_none() {
                self.clerk.stages.insert(machine.claim.clone(), machine.stage);
            }
            // A machine that is met for the first time has told of its earlier steps to an earlier process.
            let Some(earlier) = earlier.filter(|stage| *stage != machine.stage) else { continue };
            let claim = ObjectRef::Claim(machine.claim.clone());
            let why = machine.leaves.clone().unwrap_or_default();
            events.extend(match machine.stage {
                Stage::Launched => {
                    Some(normal(claim, "Launched", format!("machine {} is launched", machine.provider_id)))
                }
                Stage::Registered => Some(normal(claim, "Registered", "its Node has joined".to_owned())),
                Stage::Initialized => Some(normal(claim, "Initialized", "its Node is in service".to_owned())),
                Stage::Deleting if *why == *NO_CAPACITY => {
                    Some(warning(claim, "InsufficientCapacityError", why.to_string()))
                }
                _ if machine.stage.is_leaving() && !earlier.is_leaving() => {
                    Some(normal(claim, "DisruptionTerminating", format!("the machine goes: {why}")))
                }
                _ => None,
            });
        }
        self.clerk.reasons.retain(|claim, _| self.machines.contains_key(claim));
        events
    }

    fn drain_events(&self, now: Timestamp) -> Vec<EventOrder> {
        let draining = self.machines.values().filter(|machine| machine.stage == Stage::Draining);
        let nodes = draining.filter_map(|machine| self.state.node_of_claim(&machine.claim));
        let barred = nodes.filter_map(|node| Some((node, barred(&self.state.drain_barred(&node.name, now))?)));
        barred.map(|(node, why)| warning(ObjectRef::Node(node.name.clone()), "FailedDraining", why)).collect()
    }

    fn held_events(&self) -> Vec<EventOrder> {
        let held = self.clerk.held.iter();
        held.map(|(pool, nodes)| {
            let message = format!("disruption budgets keep {nodes} empty nodes of this NodePool for now");
            normal(ObjectRef::Pool(pool.clone()), "DisruptionBlocked", message)
        })
        .collect()
    }

    /// Removals that wait for a person, or for the cloud.
    fn waiting_events(&self) -> Vec<EventOrder> {
        let waiting = self.rails.waiting.all().take(WAITING_TOLD);
        let told = waiting.map(|(cause, claim, held)| {
            let reason = match cause {
                Cause::Foreign => "ForeignInstance",
                Cause::ByHand | Cause::NodeVanished | Cause::Missing => "RemovalHeld",
            };
            let message = format!("the removal of the machine waits {}: {}", held.release, held.reason);
            warning(ObjectRef::Claim(claim.clone()), reason, message)
        });
        told.collect()
    }

    fn class_events(&self) -> Vec<EventOrder> {
        let going = self.state.classes().filter(|class| class.deleting && class.held && !self.state.karpenter_lives());
        let waiting = going.filter_map(|class| {
            let claims: Vec<&str> =
                self.state.claims().filter(|c| c.node_class == class.name).map(|c| c.name.as_ref()).collect();
            let first = claims.first()?;
            let message = format!("waits for {} NodeClaims to end, {first} among them", claims.len());
            Some(normal(ObjectRef::Class(class.name.clone()), "WaitingOnNodeClaimTermination", message))
        });
        waiting.collect()
    }

    /// Pods of decisions that were made since the last time.
    fn decision_events(&mut self) -> Vec<EventOrder> {
        let since = self.clerk.told;
        let fresh = self.recent.iter().filter(|decision| since.is_none_or(|since| decision.id > since));
        let events = fresh.flat_map(|decision| self.pod_events(decision)).collect();
        self.clerk.told = self.recent.front().map(|decision| decision.id).or(since);
        events
    }

    fn pod_events(&self, decision: &Decision) -> Vec<EventOrder> {
        let unplaced = decision.unplaced.iter().filter_map(|unplaced| {
            let reasons: Vec<&str> = unplaced.reasons.iter().map(|reason| reason.message.as_str()).collect();
            self.of_pod(&unplaced.pod, true, "FailedScheduling", reasons.join("; "))
        });
        let bought =
            decision.machines.iter().flat_map(|machine| machine.pods.iter().map(|pod| (pod, &machine.claim.name)));
        let placed = decision.placed.iter().map(|(pod, node)| (pod, node));
        let nominated = bought
            .chain(placed)
            .filter_map(|(pod, on)| self.of_pod(pod, false, "Nominated", format!("is planned onto {on}")));
        unplaced.chain(nominated).collect()
    }

    /// `None` when the pod is gone.
    fn of_pod(&self, pod: &str, is_warning: bool, reason: &'static str, message: String) -> Option<EventOrder> {
        let (namespace, name) = pod.split_once('/')?;
        let pod = self.state.pod(&PodKey { namespace: namespace.into(), name: name.into() })?;
        let event = normal(ObjectRef::Pod(pod.key.clone()), reason, message);
        Some(EventOrder { uid: pod.uid.clone(), warning: is_warning, ..event })
    }
}

/// What keeps a drain, in one sentence.
pub(in crate::control) fn barred(reasons: &[String]) -> Option<String> {
    let (first, rest) = reasons.split_first()?;
    Some(if rest.is_empty() { first.clone() } else { format!("{first}, and {} more pods cannot leave", rest.len()) })
}

fn normal(subject: ObjectRef, reason: &'static str, message: String) -> EventOrder {
    let message: String = message.chars().take(MOST_CHARS).collect();
    EventOrder { subject, uid: Text::default(), warning: false, reason, message: Text::from(message) }
}

fn warning(subject: ObjectRef, reason: &'static str, message: String) -> EventOrder {
    EventOrder { warning: true, ..normal(subject, reason, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, message: &str) -> EventOrder {
        normal(ObjectRef::Node(Text::from(name)), "FailedDraining", message.to_owned())
    }

    #[test]
    fn the_same_is_told_once_in_two_minutes_and_something_else_at_once() {
        let mut crier = EventRecorder::default();
        let mut may = |message: &str, at: i64| crier.may(&event("n", message), Timestamp(at));
        assert_eq!([may("a", 0), may("a", 119_999), may("b", 119_999), may("a", 120_000)], [true, false, true, true]);
    }

    #[test]
    fn ten_at_once_and_one_every_fifth_of_a_second_after_that() {
        let mut crier = EventRecorder::default();
        let mut many = |from: usize, at: i64| {
            (from..from + 100).filter(|name| crier.may(&event(&name.to_string(), "m"), Timestamp(at))).count()
        };
        assert_eq!([many(0, 0), many(100, 199), many(200, 200), many(300, 1_200)], [10, 0, 1, 5]);
    }
}
