//! Follows the decisions of one cluster, from the calls, instructions and events of its controller.
//!
//! A decision is followed from its first record until its machines are ready and its removals are
//! done. [`Tracker::take_finished`] returns the spans that have ended; the caller exports them.

mod decision;
mod instruction;
mod launch;
mod pending_pods;
mod removal;
mod steps;

use std::collections::BTreeMap;

use controller::executor::{CommandId, Outcome};
use controller::{
    ClusterCall, DecidedLaunch, Decision, DecisionId, Event, Instruction, InstructionId, Launched, OpenLaunch,
};
use model::{ClaimName, ClusterName, Millis, PodKey, ProviderId, Text, Timestamp};
use rustc_hash::FxHashMap;

use crate::context::SpanContext;
use crate::span::{Attribute, Kind, Span, Value, attribute, int};
use decision::TracedDecision;
use instruction::{OpenInstruction, Step};
use launch::TracedLaunch;
use pending_pods::PendingPods;
use removal::TracedRemoval;

/// A launch is followed for this long: longer than Karpenter's registration timeout of 15 minutes,
/// after which the NodeClaim is deleted.
const GIVE_UP_LAUNCH_AFTER: Millis = Millis::from_mins(20);

/// A removal is followed for this long. Budgets may block a drain for longer; it then has no span.
const GIVE_UP_REMOVAL_AFTER: Millis = Millis::from_mins(6 * 60);

/// Interval between two looks for what is given up.
const SWEEP_INTERVAL: Millis = Millis::from_mins(1);

/// Machines of a cluster that are followed at one time, about 1 KB each. A decision beyond them has no trace.
const MAX_MACHINES: usize = 5_000;

/// The contexts that an instruction carries to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionContext {
    /// The span that the agent's work is part of.
    pub span: SpanContext,
    /// UID of the decision's first pod, and the span that the agent's sight of it is part of. Carried
    /// by one instruction of the decision.
    pub first_pod: Option<(Text, SpanContext)>,
}

/// A call to the store or the cloud that has not ended.
#[derive(Debug)]
struct OpenCall {
    decision: DecisionId,
    /// NodeClaim of the call; `None` for the record of a decision.
    claim: Option<ClaimName>,
    name: &'static str,
    root: SpanContext,
    context: SpanContext,
    begun: Timestamp,
    attempt: u32,
}

#[derive(Debug)]
pub struct Tracker {
    cluster: ClusterName,
    cluster_uid: Text,
    region: Text,
    pending_pods: PendingPods,
    decisions: BTreeMap<DecisionId, TracedDecision>,
    launches: BTreeMap<ClaimName, TracedLaunch>,
    removals: BTreeMap<ClaimName, TracedRemoval>,
    /// The NodeClaim that each pod is planned on. Never iterated.
    planned: FxHashMap<PodKey, ClaimName>,
    /// The NodeClaim of each instance that was launched and is followed.
    instances: BTreeMap<ProviderId, ClaimName>,
    calls: BTreeMap<CommandId, OpenCall>,
    instructions: BTreeMap<InstructionId, OpenInstruction>,
    finished: Vec<Span>,
    sweep_at: Timestamp,
}

impl Tracker {
    /// Follows the decisions of `cluster`, whose machines run in `region`.
    #[must_use]
    pub fn new(cluster: ClusterName, region: Text) -> Self {
        Self {
            cluster,
            cluster_uid: Text::default(),
            region,
            pending_pods: PendingPods::default(),
            decisions: BTreeMap::new(),
            launches: BTreeMap::new(),
            removals: BTreeMap::new(),
            planned: FxHashMap::default(),
            instances: BTreeMap::new(),
            calls: BTreeMap::new(),
            instructions: BTreeMap::new(),
            finished: Vec::new(),
            sweep_at: Timestamp::default(),
        }
    }

    /// The spans that have ended since the last call.
    #[must_use]
    pub fn take_finished(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.finished)
    }

    /// A call begins; returns the span that it runs in.
    pub fn begin_call(&mut self, id: CommandId, call: &ClusterCall, now: Timestamp) -> Option<SpanContext> {
        match call {
            ClusterCall::RecordDecision(decision) => {
                self.begin_decision(decision, now)?;
                self.begin_record(id, decision.id, now)
            }
            ClusterCall::Launch(order) => self.begin_launch(id, &order.claim, order.attempt, now),
            ClusterCall::Relaunch(decided) => {
                let order = &decided.machine.launch;
                self.begin_launch(id, &order.claim, order.attempt, now)
            }
            ClusterCall::Terminate { claim, provider_id, .. } => {
                Some(self.removals.get_mut(claim)?.begin_termination(provider_id, now))
            }
            _ => None,
        }
    }

    pub fn end_call(&mut self, id: CommandId, outcome: &Outcome, now: Timestamp) {
        if let Some(call) = self.calls.remove(&id) {
            self.finish_call(call, outcome, now);
        }
        match outcome {
            Ok(Some(Event::Launched(launched))) => self.note_launched(launched, now),
            Ok(Some(Event::InstanceGone(provider_id))) => self.end_termination(provider_id, now),
            _ => {}
        }
    }

    /// An instruction is sent, or sent again; returns what it carries.
    pub fn instruct(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        now: Timestamp,
    ) -> Option<InstructionContext> {
        let (step, claim) = Step::of(instruction)?;
        let (decision, root) = self.followed(step, claim)?;
        match instruction {
            Instruction::RegisterNode { node, .. } => {
                self.launches.get_mut(claim).iter_mut().for_each(|launch| launch.set_node(node));
            }
            Instruction::Drain { provider_id, .. } => {
                self.removals.get_mut(claim).iter_mut().for_each(|removal| removal.set_instance(provider_id));
            }
            _ => {}
        }
        let open = self.instructions.entry(id).or_insert_with(|| OpenInstruction::new(id, step, claim, &root, now));
        let span = open.context;
        let traced = self.decisions.get_mut(&decision).filter(|_| step == Step::Create);
        Some(InstructionContext { span, first_pod: traced.and_then(TracedDecision::take_first_pod) })
    }

    /// An event that the controller is about to handle.
    pub fn observe(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::Observed(observation) => self.observe_objects(observation, now),
            Event::InstructionAcked(instruction) => self.finish_instruction(*instruction, None, now),
            Event::InstructionFailed { instruction, reason, .. } => {
                self.finish_instruction(*instruction, Some(reason.clone()), now);
            }
            Event::InstanceGone(provider_id) => self.end_termination(provider_id, now),
            Event::LeaseAcquired { uid, launches } => {
                self.cluster_uid = uid.clone();
                launches.iter().for_each(|launch| self.recover(launch, now));
            }
            _ => {}
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_INTERVAL;
            self.give_up(now);
        }
    }

    /// The cluster is released, or the process stops: nothing more is seen of its decisions.
    pub fn close(&mut self) {
        for (_, decision) in std::mem::take(&mut self.decisions) {
            self.finished.extend(decision.finish());
        }
    }

    /// Begins to follow a decision with the first try of its record.
    fn begin_decision(&mut self, decision: &Decision, now: Timestamp) -> Option<()> {
        if self.decisions.contains_key(&decision.id) {
            return Some(());
        }
        let machines = decision.launches.len() + decision.removals.len();
        if machines == 0 || self.launches.len() + self.removals.len() + machines > MAX_MACHINES {
            return None;
        }
        let root = SpanContext::of_decision(&self.cluster, decision.id.0, decision.at);
        let names = self.names_of(decision.id);
        let pods = decision.launches.iter().flat_map(|machine| &machine.pods);
        let first_pod = self.pending_pods.first_of(pods);
        for machine in &decision.launches {
            let traced = TracedLaunch::new(decision.id, root, &names, &machine.claim, &machine.pods, now);
            self.follow_launch(machine.claim.name.clone(), traced, &machine.pods);
        }
        for removal in &decision.removals {
            self.removals.insert(removal.claim.clone(), TracedRemoval::new(decision.id, root, &names, removal, now));
        }
        let place = [attribute("k8s.cluster.uid", &self.cluster_uid), attribute("cloud.region", &self.region)];
        let attributes =
            names.into_iter().chain(place.into_iter().filter(|place| place.value != Value::Text(String::new())));
        let (traced, spans) = TracedDecision::new(root, decision, attributes.collect(), first_pod, machines);
        self.decisions.insert(decision.id, traced);
        self.finished.extend(spans);
        Some(())
    }

    /// Follows what is left of a launch that an earlier owner of the cluster has recorded.
    fn recover(&mut self, launch: &OpenLaunch, now: Timestamp) {
        let Some(DecidedLaunch { machine, decision, at }) = launch.planned.as_deref() else { return };
        if self.launches.len() >= MAX_MACHINES || self.launches.contains_key(&launch.claim) {
            return;
        }
        let root = SpanContext::of_decision(&self.cluster, decision.0, *at);
        let names = self.names_of(*decision);
        self.decisions.entry(*decision).or_insert_with(|| TracedDecision::of_an_earlier_owner(root)).add_machine();
        let traced = TracedLaunch::new(*decision, root, &names, &machine.claim, &machine.pods, now);
        self.follow_launch(launch.claim.clone(), traced, &machine.pods);
    }

    fn follow_launch(&mut self, claim: ClaimName, traced: TracedLaunch, pods: &[PodKey]) {
        for pod in pods {
            if let Some(earlier) = self.planned.insert(pod.clone(), claim.clone()) {
                self.release_pod(&earlier, pod);
            }
        }
        self.launches.insert(claim, traced);
    }

    /// The attributes that each span of a decision has.
    fn names_of(&self, decision: DecisionId) -> [Attribute; 2] {
        [attribute("k8s.cluster.name", &self.cluster), int("fleetwright.decision", decision.0)]
    }

    fn begin_record(&mut self, id: CommandId, decision: DecisionId, now: Timestamp) -> Option<SpanContext> {
        let traced = self.decisions.get_mut(&decision)?;
        let attempt = traced.count_record();
        let root = traced.root();
        let context = root.child("record", &attempt.to_string());
        self.calls.insert(id, OpenCall { decision, claim: None, name: "record", root, context, begun: now, attempt });
        Some(context)
    }

    fn begin_launch(&mut self, id: CommandId, claim: &ClaimName, attempt: u32, now: Timestamp) -> Option<SpanContext> {
        let launch = self.launches.get_mut(claim)?;
        let (decision, root, tries) = (launch.decision(), launch.root(), launch.count_call());
        let context = root.child("launch", &format!("{claim}/{tries}"));
        let claim = Some(claim.clone());
        self.calls.insert(id, OpenCall { decision, claim, name: "launch", root, context, begun: now, attempt });
        Some(context)
    }

    fn finish_call(&mut self, call: OpenCall, outcome: &Outcome, now: Timestamp) {
        let OpenCall { decision, claim, name, root, context, begun, attempt } = call;
        let error = match outcome {
            Err(retry) => Some(retry.why.clone()),
            Ok(Some(Event::LaunchFailed { failure, .. })) => Some(format!("{failure:?}")),
            Ok(_) => None,
        };
        let attributes = match claim.as_ref().and_then(|claim| self.launches.get(claim)) {
            Some(launch) => launch.attributes().to_vec(),
            None => self.names_of(decision).to_vec(),
        };
        let launched = match outcome {
            Ok(Some(Event::Launched(launched))) => launch::instance_attributes(launched).to_vec(),
            _ => Vec::new(),
        };
        let span = Span::part_of(&root, context, name, (begun, now))
            .with_kind(Kind::Client)
            .with_attributes(attributes)
            .with_attributes([int("fleetwright.attempt", u64::from(attempt))])
            .with_attributes(launched)
            .with_error(error);
        self.finish_span(decision, span);
    }

    fn note_launched(&mut self, launched: &Launched, now: Timestamp) {
        if let Some(launch) = self.launches.get_mut(&launched.claim) {
            launch.set_instance(launched, now);
            self.instances.insert(launched.provider_id.clone(), launched.claim.clone());
        }
    }
}

#[cfg(test)]
mod tests;
