//! A controller whose effects are carried out at once: decisions are durable, NodeClaims appear,
//! machines are launched and join, drained machines are removed. Time advances from one wakeup to
//! the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cost::CostInterval;

use crate::guardrails::ObjectCounts;
use crate::guardrails::{DisabledGuards, Freeze};
use crate::holds::{HoldId, HoldStatus};
use crate::testing::{Input, SynchronousController};
use crate::unavailable_offerings::{PROBE_LEASE, ProbeAnswer};
use crate::{
    ClaimOrder, ClusterCall, Decision, DecisionReason, Effect, Event, EventOrder, Inspection, Instruction,
    InstructionId, Launched, NoticeAnswer, PlanError, PlanOutcome, Settings,
};
use cluster::replacement::ReplacementWait;
use cluster::testing::{bound_to, claim, node, pod, pool, text};
use cluster::{ClaimRecord, ClusterSnapshot, Key, NodeRecord, Object, Observation, PodRecord};
use model::input::PlanningInput;
use model::interruption::InterruptionKind;
use model::labels::{CAPACITY_TYPE, INITIALIZED, REGISTERED, ZONE};
use model::node_class::NodeClassQuery;
use model::plan::{Plan, PlanReport, PlannedNode};
use model::{
    CapacityType, ClaimName, ClusterName, Labels, LaunchFailure, LaunchOrder, MicroUsd, NodeName, PodKey, PoolName,
    ProviderId, RefusedOption, Resources, Timestamp,
};

/// One machine for every pod, a t.2 at $0.01 an hour from the first pool; no placement while that
/// is not ready.
pub(super) fn one_node_per_pod(input: &PlanningInput) -> PlanOutcome {
    let pods: Vec<u32> = (0..u32::try_from(input.pods.len()).unwrap_or(0)).collect();
    if input.pools.first().is_none_or(|pool| pool.not_ready.is_some()) {
        return Ok((Plan { unschedulable: pods, ..Plan::default() }, PlanReport::default()));
    }
    let node = |pod: &u32| PlannedNode {
        name: text("p-1"),
        pool: 0,
        capacity_type: CapacityType::Spot,
        zones: Arc::from([text("z")]),
        types: Arc::from([0]),
        price: MicroUsd(10_000),
        credits: MicroUsd(0),
        reservation: None,
        pods: vec![*pod],
        labels: Arc::new(Labels::new()),
        taints: Arc::from([]),
        requests: Resources::new(),
    };
    let nodes: Vec<PlannedNode> = pods.iter().map(node).collect();
    let report = PlanReport { new_cost: MicroUsd(10_000 * pods.len() as i64), ..PlanReport::default() };
    Ok((Plan { nodes, order: pods, ..Plan::default() }, report))
}

pub(super) fn real(input: &PlanningInput) -> PlanOutcome {
    let decision = planner::plan(input).map_err(PlanError::Rejected)?;
    Ok((decision.plan, decision.report))
}

/// The waits of NodePools that changed.
pub(super) type Waits = Vec<(PoolName, Option<ReplacementWait>)>;

#[derive(Debug, Default)]
pub(super) struct Done {
    pub decisions: Vec<Decision>,
    pub launches: Vec<(Timestamp, LaunchOrder)>,
    /// NodeClaims, in the order in which their drains were ordered.
    pub drained: Vec<(Timestamp, ClaimName)>,
    /// The end of each of these drains.
    pub deadlines: Vec<Option<Timestamp>>,
    /// The reason of each of these drains, as the agent repeats it to pods.
    pub drain_reasons: Vec<String>,
    pub events: Vec<EventOrder>,
    pub terminated: Vec<(Timestamp, ClaimName)>,
    /// NodeClaims that were removed, in that order.
    pub removed: Vec<(Timestamp, ClaimName)>,
    /// NodeClaims whose instances were queried by id.
    pub inspected: Vec<(Timestamp, ClaimName)>,
    /// Clusters whose agents got a request for a snapshot.
    pub resyncs: Vec<(Timestamp, ClusterName)>,
    /// Object counts that were persisted.
    pub persisted_counts: Vec<(Timestamp, ClusterName, ObjectCounts)>,
    /// Nodes whose taint of a removal was to be taken off.
    pub untainted: Vec<(Timestamp, NodeName)>,
    /// Drains that were not begun because the Node is not empty.
    pub refused: Vec<(Timestamp, ClaimName)>,
    /// Replacements whose records were deleted, with the waits that changed.
    pub ended_replacements: Vec<(Timestamp, Vec<ClaimName>, Waits)>,
    /// What was written of the costs of machines.
    pub costs: Vec<CostInterval>,
    pub holds: Vec<(HoldId, HoldStatus)>,
    /// EC2NodeClasses that were to be resolved, for tests that answer.
    pub node_class_queries: Vec<NodeClassQuery>,
    /// Effects of any kind but views and records.
    pub acts: usize,
}

pub(super) struct Fixture {
    pub controller: SynchronousController,
    pub now: i64,
    pub done: Done,
    /// Launches fail for lack of capacity.
    pub no_capacity: bool,
    pub refused: bool,
    /// Launches are not answered.
    pub slow_cloud: bool,
    /// Machines are launched and never join.
    pub never_joins: bool,
    /// Machines join and do not become ready.
    pub never_ready: bool,
    /// Drains of machines with this name prefix do not end before they are finished explicitly.
    pub stuck: Option<&'static str>,
    /// NodeClaims on whose Nodes the API server lists pods, whatever the agent reports.
    pub occupied: BTreeSet<ClaimName>,
    /// Answer of the cloud to a query by id.
    pub cloud: Inspection,
    /// What the cloud says itself about instances that notices name; that they stop, if `None`.
    pub notice_answer: Option<NoticeAnswer>,
    /// Time of each question about notices, and the number of notices.
    pub notice_questions: Vec<(i64, usize)>,
    /// Decisions become durable only when the test records them.
    pub slow_store: bool,
    unrecorded: Vec<Decision>,
    /// Drains that were held up, and whether they are for empty Nodes only.
    stuck_drains: Vec<(ClusterName, InstructionId, bool)>,
    claims: BTreeMap<(ClusterName, ClaimName), ClaimRecord>,
}

impl Fixture {
    /// A world without clusters.
    pub fn new(change: impl FnOnce(&mut Settings)) -> Self {
        Self::planned_by(one_node_per_pod, change)
    }

    /// A world without clusters, and with this planner.
    pub fn planned_by(planner: fn(&PlanningInput) -> PlanOutcome, change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_disabled_guards(planner, DisabledGuards::default(), change)
    }

    /// A world without clusters and without these guards.
    pub fn with_disabled_guards(
        planner: fn(&PlanningInput) -> PlanOutcome,
        disabled_guards: DisabledGuards,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let controller = SynchronousController::with_disabled_guards(settings, planner, disabled_guards);
        let (unrecorded, stuck_drains, claims) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self {
            controller,
            now: 0,
            done: Done::default(),
            no_capacity: false,
            refused: false,
            slow_cloud: false,
            never_joins: false,
            never_ready: false,
            stuck: None,
            occupied: BTreeSet::new(),
            cloud: Inspection::Runs,
            notice_answer: None,
            notice_questions: Vec::new(),
            slow_store: false,
            unrecorded,
            stuck_drains,
            claims,
        }
    }

    /// A world without clusters and without these guards, in which pods and disruption are planned as servers do.
    pub fn consolidating(disabled_guards: DisabledGuards, change: impl FnOnce(&mut Settings)) -> Self {
        let mut world = Self::with_disabled_guards(real, disabled_guards, change);
        world.controller.plan_disruption(real);
        world
    }

    /// A world with the cluster `c`, which has the pool `p`, machines `m0` … in service, and these
    /// pods.
    pub fn with(machines: usize, pods: Vec<PodRecord>, change: impl FnOnce(&mut Settings)) -> Self {
        let mut world = Self::new(change);
        world.connect("c", snapshot(machines, pods));
        world
    }

    /// The Nodes of the machines that were launched in `cluster` join it.
    pub fn join_launched(&mut self, cluster: &str) {
        self.never_joins = false;
        let launched = self.claims.iter().filter(|((of, _), claim)| *of == cluster && claim.is_launched());
        let nodes: Vec<NodeRecord> = launched.map(|(_, claim)| joined(claim)).collect();
        for node in nodes {
            self.observe(cluster, Object::Node(node));
        }
    }

    /// `shown` with the machines that were launched in the cluster `c`, and their Nodes.
    pub fn with_launched(&self, shown: ClusterSnapshot) -> ClusterSnapshot {
        let mut shown = shown;
        for claim in self.claims.values() {
            shown.nodes.push(joined(claim));
            shown.claims.push(claim.clone());
        }
        shown
    }

    /// Connects the agent of `cluster` and sends this snapshot.
    pub fn connect(&mut self, cluster: &str, snapshot: ClusterSnapshot) {
        self.handle(Event::AgentConnected.of(cluster));
        self.send_snapshot(cluster, snapshot);
    }

    /// Sends a snapshot from the agent of `cluster`.
    pub fn send_snapshot(&mut self, cluster: &str, snapshot: ClusterSnapshot) {
        self.apply_observation(cluster, Observation::Snapshot(Box::new(snapshot)));
    }

    pub fn observe(&mut self, cluster: &str, object: Object) {
        self.apply_observation(cluster, Observation::upsert(object));
    }

    pub fn delete(&mut self, cluster: &str, key: Key) {
        self.apply_observation(cluster, Observation::Delete(key));
    }

    /// Ends a pod with announcement: it is terminating, and then deleted.
    pub fn end_pod(&mut self, cluster: &str, pod: PodRecord) {
        let key = Key::Pod(pod.key.clone());
        self.observe(cluster, Object::Pod(PodRecord { terminating: true, ..pod }));
        self.delete(cluster, key);
    }

    fn apply_observation(&mut self, cluster: &str, observation: Observation) {
        self.handle(Event::Observed(observation).of(cluster));
    }

    /// Ends the pod of each drained machine after the first `moved`, and binds its successor to the machine of the launch
    /// with the same number. Returns how many were drained.
    pub fn move_drained_pods(&mut self, mut moved: usize) -> usize {
        while let Some((_, claim)) = self.done.drained.get(moved).cloned() {
            let new = self.done.launches[moved].1.claim.clone();
            let number = claim.trim_start_matches('m').to_owned();
            self.end_pod("c", bound_to(&claim, pod(&format!("p{number}"), 1_800)));
            self.observe("c", Object::Pod(bound_to(&new, pod(&format!("q{number}"), 1_800))));
            moved += 1;
        }
        moved
    }

    /// Lets time pass until `end`, in milliseconds.
    pub fn run_to(&mut self, end: i64) {
        // Of several clusters that are due at one time, each may need a tick of its own.
        let mut ticks = 0;
        while let Some(next) = self.controller.next_wakeup().filter(|next| next.as_millis() <= end) {
            ticks = if next.as_millis() > self.now { 0 } else { ticks + 1 };
            self.now = self.now.max(next.as_millis());
            self.handle(Event::Tick);
            assert!(ticks <= 2 * self.controller.clusters().count(), "stuck at {next:?}");
        }
        self.now = end;
        self.handle(Event::Tick);
    }

    /// The store answers for every decision that it was slow about.
    pub fn record_decisions(&mut self) {
        for decision in std::mem::take(&mut self.unrecorded) {
            self.handle(Event::Recorded(decision.id).of(decision.cluster));
        }
    }

    /// The agent answers drains that were held up: the Nodes are not empty.
    pub fn refuse_stuck_drains(&mut self) {
        let (refused, kept) =
            std::mem::take(&mut self.stuck_drains).into_iter().partition(|(_, _, if_empty)| *if_empty);
        self.stuck_drains = kept;
        let refused: Vec<(ClusterName, InstructionId, bool)> = refused;
        for (cluster, instruction, _) in refused {
            let reason = "the API server lists pod default/web-1 on it".to_owned();
            self.handle(Event::InstructionFailed { instruction, reason, unmet: true }.of(cluster));
        }
    }

    /// Finishes the drains that were held up.
    pub fn finish_drains(&mut self) {
        for (cluster, instruction, _) in std::mem::take(&mut self.stuck_drains) {
            self.handle(Event::InstructionAcked(instruction).of(cluster));
        }
    }

    pub fn handle(&mut self, input: impl Into<Input>) {
        let effects = self.controller.handle_each(input, Timestamp::from_millis(self.now));
        self.carry_out_each(effects);
    }

    /// Carries effects of the cluster `c` out, and handles the events that answer them.
    pub fn carry_out(&mut self, effects: Vec<Effect>) {
        self.carry_out_each(effects.into_iter().map(|effect| (text("c"), effect)).collect());
    }

    fn carry_out_each(&mut self, effects: Vec<(ClusterName, Effect)>) {
        let mut effects = VecDeque::from(effects);
        while let Some((cluster, effect)) = effects.pop_front() {
            for answer in self.execute(&cluster, effect) {
                let answer = answer.of(cluster.clone());
                effects.extend(self.controller.handle_each(answer, Timestamp::from_millis(self.now)));
            }
        }
    }

    fn execute(&mut self, cluster: &ClusterName, effect: Effect) -> Vec<Event> {
        let now = Timestamp::from_millis(self.now);
        self.done.acts += usize::from(!is_record_or_view(&effect));
        match effect {
            Effect::Plan(_)
            | Effect::PublishView
            | Effect::Call(ClusterCall::CloseLaunch(_))
            | Effect::Call(ClusterCall::RecordLaunched { .. })
            | Effect::ReportFinding(_) => Vec::new(),
            Effect::Call(ClusterCall::ResolveNodeClass(query)) => {
                self.done.node_class_queries.push(*query);
                Vec::new()
            }
            Effect::ClaimProbes(keys) => {
                let answers = keys.into_iter().map(|key| (key, ProbeAnswer::Granted)).collect();
                vec![Event::ProbesAnswered { answers, until: now + PROBE_LEASE }]
            }
            Effect::Call(ClusterCall::EndReplacements { claims, waits, .. }) => {
                self.done.ended_replacements.push((now, claims, waits));
                Vec::new()
            }
            Effect::Call(ClusterCall::RecordCosts(intervals)) => {
                self.done.costs.extend(intervals);
                vec![Event::CostsRecorded]
            }
            Effect::Call(ClusterCall::WriteHold { hold, status }) => {
                self.done.holds.push((hold, *status));
                Vec::new()
            }
            Effect::Call(ClusterCall::PersistCounts(counts)) => {
                self.done.persisted_counts.push((now, cluster.clone(), counts));
                Vec::new()
            }
            Effect::Call(ClusterCall::Relaunch(decided)) => {
                self.done.launches.push((now, decided.machine.launch.clone()));
                vec![self.launch(&decided.machine.launch)]
            }
            Effect::Call(ClusterCall::Describe { provider_id, .. }) => vec![Event::InstanceGone(provider_id)],
            Effect::Call(ClusterCall::Inspect { provider_id, claim, .. }) => {
                self.done.inspected.push((now, claim));
                vec![Event::Inspected { provider_id, found: self.cloud }]
            }
            Effect::Call(ClusterCall::ConfirmNotices(notices)) => vec![self.answer_notices(notices)],
            Effect::Resync(_) => {
                self.done.resyncs.push((now, cluster.clone()));
                Vec::new()
            }
            Effect::Call(ClusterCall::RecordDecision(decision)) => {
                self.done.decisions.push(*decision.clone());
                if self.slow_store {
                    self.unrecorded.push(*decision);
                    return Vec::new();
                }
                vec![Event::Recorded(decision.id)]
            }
            Effect::Call(ClusterCall::Launch(order)) => {
                self.done.launches.push((now, *order.clone()));
                if self.slow_cloud { Vec::new() } else { vec![self.launch(&order)] }
            }
            Effect::Call(ClusterCall::Terminate { provider_id, claim, .. }) => {
                self.done.terminated.push((now, claim));
                vec![Event::InstanceGone(provider_id)]
            }
            Effect::Instruct { id, instruction } => self.instruct(cluster, id, *instruction),
        }
    }

    fn answer_notices(&mut self, asked: Vec<(ProviderId, InterruptionKind)>) -> Event {
        self.notice_questions.push((self.now, asked.len()));
        let stops = asked.iter().map(|(id, _)| (id.clone(), InterruptionKind::InstanceStopped));
        let answer = self.notice_answer.clone().unwrap_or_else(|| NoticeAnswer::Shown(stops.collect()));
        Event::NoticesAnswered { asked, answer }
    }

    fn launch(&self, order: &LaunchOrder) -> Event {
        let (claim, attempt) = (order.claim.clone(), order.attempt);
        if self.refused {
            let failure = LaunchFailure::Refused { code: text("No"), message: "no".to_owned(), retryable: false };
            return Event::LaunchFailed { claim, attempt, failure };
        }
        if self.no_capacity {
            let unavailable = vec![RefusedOption::without_capacity(text("t.none"), text("z"))];
            let failure = LaunchFailure::InsufficientCapacity { unavailable };
            return Event::LaunchFailed { claim, attempt, failure };
        }
        Event::Launched(Box::new(Launched {
            provider_id: ProviderId::from(format!("aws:///z/i-{claim}")),
            instance_type: order.options.first().map_or_else(|| text("t.2"), |option| option.instance_type.clone()),
            zone: text("z"),
            capacity_type: order.capacity_type,
            unavailable: Vec::new(),
            image: "".into(),
            claim,
            attempt,
        }))
    }

    fn instruct(&mut self, cluster: &ClusterName, instruction: InstructionId, what: Instruction) -> Vec<Event> {
        let mut seen = Vec::new();
        match what {
            Instruction::CreateClaim(order) => {
                let claim = created(&order, self.now);
                self.claims.insert((cluster.clone(), order.name), claim.clone());
                seen.push(Observation::upsert(Object::Claim(claim)));
            }
            Instruction::MarkLaunched { claim, facts } => {
                if let Some(record) = self.claims.get_mut(&(cluster.clone(), claim)) {
                    record.provider_id = facts.provider_id;
                    record.labels.extend(facts.labels);
                    (record.capacity, record.allocatable) = (facts.capacity, facts.allocatable);
                    seen.push(Observation::upsert(Object::Claim(record.clone())));
                    if !self.never_joins {
                        let mut node = joined(record);
                        if self.never_ready {
                            node.ready = false;
                            node.labels.remove(INITIALIZED);
                        }
                        seen.push(Observation::upsert(Object::Node(node)));
                    }
                }
            }
            Instruction::Drain { claim, only_if_empty: true, .. } if self.occupied.contains(&claim) => {
                self.done.refused.push((Timestamp::from_millis(self.now), claim));
                let reason = "the API server lists pod default/web-1 on it".to_owned();
                return vec![Event::InstructionFailed { instruction, reason, unmet: true }];
            }
            Instruction::Drain { claim, deadline, only_if_empty, reason, .. } => {
                self.done.deadlines.push(deadline);
                self.done.drain_reasons.push(reason.to_string());
                let empty = self.stuck.is_none_or(|stuck| !claim.starts_with(stuck));
                self.done.drained.push((Timestamp::from_millis(self.now), claim));
                if !empty {
                    self.stuck_drains.push((cluster.clone(), instruction, only_if_empty));
                    return Vec::new();
                }
            }
            Instruction::DeleteClaim { claim, node, .. } => {
                self.done.removed.push((Timestamp::from_millis(self.now), claim.clone()));
                seen.push(Observation::Delete(Key::Claim(claim)));
                seen.extend(node.map(|node| Observation::Delete(Key::Node(node))));
            }
            Instruction::RegisterNode { .. }
            | Instruction::InitializeNode { .. }
            | Instruction::NominatePods { .. }
            | Instruction::WriteStatus(_) => {}
            Instruction::RemoveDisruptedTaint { node, .. } => {
                self.done.untainted.push((Timestamp::from_millis(self.now), node));
            }
            Instruction::RecordEvent(event) => self.done.events.push(event),
        }
        let acked = Event::InstructionAcked(instruction);
        let seen = seen.into_iter().map(Event::Observed);
        seen.chain([acked]).collect()
    }

    /// Why the pods of the last decision about pods have no place, by pod.
    pub fn unplaced(&self) -> BTreeMap<PodKey, String> {
        let last = self.done.decisions.iter().rfind(|decision| decision.reason == DecisionReason::Provision);
        let unplaced = last.map_or(&[][..], |decision| &decision.unplaced);
        unplaced.iter().map(|pod| (pod.pod.clone(), pod.reasons.iter().map(|r| r.message.clone()).collect())).collect()
    }

    pub fn drained(&self) -> BTreeSet<ClaimName> {
        self.done.drained.iter().map(|(_, claim)| claim.clone()).collect()
    }
}

/// Whether the effect only records or publishes.
fn is_record_or_view(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::PublishView
            | Effect::Call(
                ClusterCall::RecordDecision(_)
                    | ClusterCall::CloseLaunch(_)
                    | ClusterCall::EndReplacements { .. }
                    | ClusterCall::PersistCounts(_)
                    | ClusterCall::RecordCosts(_)
            )
    )
}

/// The pool `p`, machines in service and pods.
pub(super) fn snapshot(machines: usize, pods: Vec<PodRecord>) -> ClusterSnapshot {
    let names: Vec<String> = (0..machines).map(|n| format!("m{n}")).collect();
    ClusterSnapshot {
        pools: vec![pool()],
        claims: names.iter().map(|name| claim(name)).collect(),
        nodes: names.iter().map(|name| node(name)).collect(),
        pods,
        ..ClusterSnapshot::default()
    }
}

fn created(order: &ClaimOrder, now: i64) -> ClaimRecord {
    ClaimRecord {
        name: order.name.clone(),
        labels: order.labels.clone(),
        taints: order.taints.clone(),
        provider_id: ProviderId::default(),
        created: Some(Timestamp::from_millis(now)),
        drift: order.drift_facts(),
        ..claim("x")
    }
}

fn joined(claim: &ClaimRecord) -> NodeRecord {
    let mut labels = claim.labels.clone();
    for (key, value) in [(REGISTERED, "true"), (INITIALIZED, "true"), (ZONE, "z"), (CAPACITY_TYPE, "spot")] {
        labels.insert(text(key), text(value));
    }
    let name = NodeName::from(format!("n-{}", claim.name));
    let (provider_id, allocatable) = (claim.provider_id.clone(), claim.allocatable.clone());
    NodeRecord { name, provider_id, labels, allocatable, taints: claim.taints.clone(), ..node("x") }
}

/// A freeze of launches and removals.
pub(super) fn freeze(cluster: Option<&str>, pool: Option<&str>, until: Option<i64>) -> Freeze {
    Freeze {
        id: 7,
        cluster: cluster.map(text),
        pool: pool.map(text),
        only_disruption: false,
        by: text("alice"),
        reason: text("the network is being changed"),
        since: Timestamp::from_millis(0),
        until: until.map(Timestamp::from_millis),
    }
}
