//! Steps that the agent carries out: from an instruction until its answer, and what the cluster
//! shows of pods.

use cluster::{Key, NodeRecord, Object, Observation, PodRecord};
use controller::{DecisionId, InstructionId};
use model::{ClaimName, PodKey, ProviderId, Timestamp};

use super::instruction::{OpenInstruction, Step};
use super::launch::TracedLaunch;
use super::{GIVE_UP_LAUNCH_AFTER, GIVE_UP_REMOVAL_AFTER, Tracker};
use crate::context::SpanContext;
use crate::span::{Kind, Span};

impl Tracker {
    /// The decision that a step belongs to, and its first span.
    pub(super) fn followed(&self, step: Step, claim: &ClaimName) -> Option<(DecisionId, SpanContext)> {
        let launch = || self.launches.get(claim).map(|launch| (launch.decision(), launch.root()));
        let removal = || self.removals.get(claim).map(|removal| (removal.decision(), removal.root()));
        match step {
            Step::Drain => removal(),
            // A launch that failed is deleted too.
            Step::Delete => removal().or_else(launch),
            Step::Create | Step::MarkLaunched | Step::Register | Step::Initialize => launch(),
        }
    }

    /// The agent has answered an instruction, or it is given up because of `error`.
    pub(super) fn finish_instruction(&mut self, id: InstructionId, error: Option<String>, now: Timestamp) {
        let Some(open) = self.instructions.remove(&id) else { return };
        let Some((decision, _)) = self.followed(open.step, &open.claim) else { return };
        let failed = error.is_some();
        let launch = self.launches.get(&open.claim);
        let since = match open.step {
            // The instance boots meanwhile. An instruction that repeats it is a call only.
            Step::Register => launch.filter(|launch| !launch.is_registered()).and_then(TracedLaunch::launched_at),
            _ => None,
        };
        let attributes = match (open.step, launch, self.removals.get(&open.claim)) {
            (Step::Drain | Step::Delete, _, Some(removal)) => removal.attributes().to_vec(),
            (_, Some(launch), _) => launch.attributes().to_vec(),
            (_, None, _) => Vec::new(),
        };
        let times = (since.unwrap_or(open.begun).min(open.begun), now);
        let span = Span::part_of(&open.root, open.context, open.step.name(), times)
            .with_kind(Kind::Client)
            .with_attributes(attributes)
            .with_error(error);
        self.finish_span(decision, span);
        if !failed {
            self.advance(&open, now);
        }
    }

    fn advance(&mut self, open: &OpenInstruction, now: Timestamp) {
        match open.step {
            Step::Register => self.update_launch(&open.claim, |launch| launch.set_registered(now)),
            Step::Initialize => self.update_launch(&open.claim, |launch| {
                launch.set_initialized();
                None
            }),
            Step::Delete => {
                self.finish_removal(&open.claim);
                self.finish_launch(&open.claim);
            }
            Step::Create | Step::MarkLaunched | Step::Drain => {}
        }
    }

    /// Changes what is known of a launch, and finishes it if nothing more of it is awaited.
    fn update_launch(&mut self, claim: &ClaimName, update: impl FnOnce(&mut TracedLaunch) -> Option<Span>) {
        let Some(launch) = self.launches.get_mut(claim) else { return };
        let decision = launch.decision();
        let span = update(launch);
        let complete = launch.is_complete();
        self.finished_spans(decision, span);
        if complete {
            self.finish_launch(claim);
        }
    }

    /// What the agent has sent of pods and Nodes.
    pub(super) fn observe_objects(&mut self, observation: &Observation, now: Timestamp) {
        match observation {
            Observation::Upsert(object) => match &**object {
                Object::Pod(pod) => self.observe_pod(pod, now),
                Object::Node(node) => self.observe_node(node, now),
                _ => {}
            },
            Observation::Delete(Key::Pod(pod)) => self.settle_pod(pod, None, now),
            Observation::Delete(_) => {}
            Observation::Snapshot(snapshot) => {
                self.pending_pods.clear();
                snapshot.pods.iter().for_each(|pod| self.observe_pod(pod, now));
                snapshot.nodes.iter().for_each(|node| self.observe_node(node, now));
            }
        }
    }

    fn observe_pod(&mut self, pod: &PodRecord, now: Timestamp) {
        if pod.node.is_none() && !pod.terminating {
            self.pending_pods.insert(pod, now);
        } else {
            self.settle_pod(&pod.key, Some(pod), now);
        }
    }

    /// A pod is bound, or will never be.
    fn settle_pod(&mut self, key: &PodKey, pod: Option<&PodRecord>, now: Timestamp) {
        self.pending_pods.remove(key);
        let Some(claim) = self.planned.remove(key) else { return };
        self.update_launch(&claim, |launch| {
            launch.settle_pod(key, pod, now);
            None
        });
    }

    /// A pod that was planned on `claim` is planned elsewhere: the machine no longer waits for it.
    pub(super) fn release_pod(&mut self, claim: &ClaimName, pod: &PodKey) {
        self.update_launch(claim, |launch| {
            launch.settle_pod(pod, None, Timestamp::default());
            None
        });
    }

    fn observe_node(&mut self, node: &NodeRecord, now: Timestamp) {
        if node.ready
            && let Some(claim) = self.instances.get(&node.provider_id).cloned()
        {
            self.update_launch(&claim, |launch| launch.set_node_ready(now));
        }
    }

    pub(super) fn end_termination(&mut self, provider_id: &ProviderId, now: Timestamp) {
        let ended = self.removals.values_mut().find(|removal| removal.terminates(provider_id));
        if let Some(removal) = ended {
            let decision = removal.decision();
            let span = removal.end_termination(now);
            self.finished_spans(decision, span);
        }
    }

    fn finish_launch(&mut self, claim: &ClaimName) {
        let Some(launch) = self.launches.remove(claim) else { return };
        for pod in launch.waiting_pods() {
            self.planned.remove(pod);
        }
        self.instances.retain(|_, of| of != claim);
        let decision = launch.decision();
        self.finished_spans(decision, launch.bound_span());
        self.finish_machine(decision);
    }

    fn finish_removal(&mut self, claim: &ClaimName) {
        if let Some(removal) = self.removals.remove(claim) {
            self.finish_machine(removal.decision());
        }
    }

    /// Drops what is followed for too long.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        let late: Vec<ClaimName> = self
            .launches
            .iter()
            .filter(|(_, launch)| now.duration_since(launch.since()) >= GIVE_UP_LAUNCH_AFTER)
            .map(|(claim, _)| claim.clone())
            .collect();
        late.iter().for_each(|claim| self.finish_launch(claim));
        let late: Vec<ClaimName> = self
            .removals
            .iter()
            .filter(|(_, removal)| now.duration_since(removal.since()) >= GIVE_UP_REMOVAL_AFTER)
            .map(|(claim, _)| claim.clone())
            .collect();
        late.iter().for_each(|claim| self.finish_removal(claim));
        let Self { instructions, launches, removals, .. } = self;
        instructions.retain(|_, open| launches.contains_key(&open.claim) || removals.contains_key(&open.claim));
    }

    /// Keeps a span of a decision that has ended.
    pub(super) fn finish_span(&mut self, decision: DecisionId, span: Span) {
        if let Some(traced) = self.decisions.get_mut(&decision) {
            traced.extend_to(span.end);
        }
        self.finished.push(span);
    }

    fn finished_spans(&mut self, decision: DecisionId, spans: impl IntoIterator<Item = Span>) {
        spans.into_iter().for_each(|span| self.finish_span(decision, span));
    }

    fn finish_machine(&mut self, decision: DecisionId) {
        if self.decisions.get_mut(&decision).is_some_and(|traced| traced.remove_machine() == 0)
            && let Some(traced) = self.decisions.remove(&decision)
        {
            self.finished.extend(traced.finish());
        }
    }
}
