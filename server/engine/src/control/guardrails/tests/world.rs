//! A controller with somebody who carries out whatever it wants, at once: decisions are durable, NodeClaims appear,
//! machines are launched and join, drained machines are gone. Time goes from one wakeup to the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::cluster::testing::{claim, node, pool, text};
use crate::cluster::{ClaimRecord, ClusterSnapshot, Key, NodeRecord, Object, Observation, PodRecord};
use crate::control::guardrails::quarantine::Extent;
use crate::control::testing::Planned;
use crate::control::{
    ClaimOrder, Decision, DecisionKind, Effect, Event, Inspection, Instruction, InstructionId, LaunchFailure,
    LaunchOrder, Launched, Planner, Settings,
};
use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, REGISTERED, ZONE};
use crate::model::{CapacityType, Labels, MicroUsd, Resources, Text, Timestamp};
use crate::plan::{Plan, PlanReport, PlannedNode};
use crate::schedule::CompileCache;

/// One machine for every pod, a t.2 at $0.01 an hour from the first pool; no place for anybody while that is not ready.
fn one_each(input: &PlanningInput, _: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
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

/// The planner that servers run.
pub(super) fn real(input: &PlanningInput, memo: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    let decision = crate::decide::plan_with(input, memo).map_err(|violations| format!("{violations:?}"))?;
    Ok((decision.plan, decision.report))
}

/// What has been done so far.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub decisions: Vec<Decision>,
    pub launches: Vec<(Timestamp, LaunchOrder)>,
    /// NodeClaims, in the order in which their drains were ordered.
    pub drained: Vec<(Timestamp, Text)>,
    /// NodeClaims whose machines were given back.
    pub given_back: Vec<(Timestamp, Text)>,
    /// NodeClaims that were removed, in that order.
    pub removed: Vec<(Timestamp, Text)>,
    /// NodeClaims whose machines the cloud was asked about by id.
    pub asked: Vec<(Timestamp, Text)>,
    /// Clusters whose agents were asked for a snapshot.
    pub resyncs: Vec<(Timestamp, Text)>,
    /// How much there was in clusters, as it was written down.
    pub extents: Vec<(Timestamp, Text, Extent)>,
    /// Drains that were not begun because the Node is not empty.
    pub refused: Vec<(Timestamp, Text)>,
    /// Effects of any kind but views and records.
    pub acts: usize,
}

/// The world.
pub(super) struct World {
    pub controller: Planned,
    pub now: i64,
    pub done: Done,
    /// Launches fail for lack of capacity.
    pub no_capacity: bool,
    /// Launches are refused.
    pub refused: bool,
    /// Machines are launched and never join.
    pub never_joins: bool,
    /// Drains of machines whose names begin so do not come to an end before they are let go.
    pub stuck: Option<&'static str>,
    /// NodeClaims on whose Nodes the API server lists pods, whatever the agent shows.
    pub occupied: BTreeSet<Text>,
    /// What the cloud says of a machine when it is asked by its id.
    pub cloud: Inspection,
    /// Decisions are durable when the store is told to answer.
    pub slow_store: bool,
    waiting: Vec<Decision>,
    held: Vec<(Text, InstructionId)>,
    claims: BTreeMap<(Text, Text), ClaimRecord>,
}

impl World {
    /// A world without clusters.
    pub fn new(change: impl FnOnce(&mut Settings)) -> Self {
        Self::planned_by(one_each, change)
    }

    /// A world without clusters, and with this planner.
    pub fn planned_by(planner: Planner, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let controller = Planned::new(settings, planner);
        let (waiting, held, claims) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self {
            controller,
            now: 0,
            done: Done::default(),
            no_capacity: false,
            refused: false,
            never_joins: false,
            stuck: None,
            occupied: BTreeSet::new(),
            cloud: Inspection::Runs,
            slow_store: false,
            waiting,
            held,
            claims,
        }
    }

    /// A world with the cluster `c`, which has the pool `p`, machines `m0` … in service, and these pods.
    pub fn with(machines: usize, pods: Vec<PodRecord>, change: impl FnOnce(&mut Settings)) -> Self {
        let mut world = Self::new(change);
        world.connect("c", snapshot(machines, pods));
        world
    }

    /// The agent of `cluster` connects and shows this.
    pub fn connect(&mut self, cluster: &str, snapshot: ClusterSnapshot) {
        self.tell(Event::AgentConnected { cluster: text(cluster) });
        self.show(cluster, snapshot);
    }

    /// The agent of `cluster` shows everything.
    pub fn show(&mut self, cluster: &str, snapshot: ClusterSnapshot) {
        self.observe(cluster, Observation::Snapshot(Box::new(snapshot)));
    }

    pub fn see(&mut self, cluster: &str, object: Object) {
        self.observe(cluster, Observation::upsert(object));
    }

    pub fn lose(&mut self, cluster: &str, key: Key) {
        self.observe(cluster, Observation::Delete(key));
    }

    /// A pod ends as pods do: it is terminating, and then gone.
    pub fn end(&mut self, cluster: &str, pod: PodRecord) {
        let key = Key::Pod(pod.key.clone());
        self.see(cluster, Object::Pod(PodRecord { terminating: true, ..pod }));
        self.lose(cluster, key);
    }

    fn observe(&mut self, cluster: &str, observation: Observation) {
        self.tell(Event::Observed { cluster: text(cluster), observation });
    }

    /// Lets time pass until `end`, in milliseconds.
    pub fn run_to(&mut self, end: i64) {
        // Of several clusters that are due at one moment, each may take a tick of its own.
        let mut ticks = 0;
        while let Some(next) = self.controller.next_wakeup().filter(|next| next.0 <= end) {
            ticks = if next.0 > self.now { 0 } else { ticks + 1 };
            self.now = self.now.max(next.0);
            self.tell(Event::Tick);
            assert!(ticks <= 2 * self.controller.clusters().count(), "stuck at {next:?}");
        }
        self.now = end;
        self.tell(Event::Tick);
    }

    /// The store answers for every decision that it was slow about.
    pub fn store_answers(&mut self) {
        for decision in std::mem::take(&mut self.waiting) {
            self.tell(Event::Recorded { decision: decision.id });
        }
    }

    /// The agent answers drains that were held up: the Nodes are not empty.
    pub fn find_occupied(&mut self) {
        for (cluster, instruction) in std::mem::take(&mut self.held) {
            let reason = "the API server lists pod default/web-1 on it".to_owned();
            self.tell(Event::InstructionFailed { cluster, instruction, reason, unmet: true });
        }
    }

    /// Drains that were held up come to their end.
    pub fn let_drains_go(&mut self) {
        for (cluster, instruction) in std::mem::take(&mut self.held) {
            self.tell(Event::InstructionAcked { cluster, instruction });
        }
    }

    pub fn tell(&mut self, event: Event) {
        let mut effects = VecDeque::from(self.controller.handle(event, Timestamp(self.now)));
        while let Some(effect) = effects.pop_front() {
            for answer in self.carry_out(effect) {
                effects.extend(self.controller.handle(answer, Timestamp(self.now)));
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Vec<Event> {
        let now = Timestamp(self.now);
        self.done.acts += usize::from(!is_word(&effect));
        match effect {
            Effect::Plan(_)
            | Effect::PublishView { .. }
            | Effect::Close { .. }
            | Effect::Settle { .. }
            | Effect::Report { .. } => Vec::new(),
            Effect::KeepExtent { cluster, extent } => {
                self.done.extents.push((now, cluster, extent));
                Vec::new()
            }
            Effect::Relaunch(decided) => {
                self.done.launches.push((now, decided.machine.launch.clone()));
                vec![self.launch(&decided.machine.launch)]
            }
            Effect::Describe { cluster, provider_id, .. } => vec![Event::InstanceGone { cluster, provider_id }],
            Effect::Inspect { cluster, provider_id, claim, .. } => {
                self.done.asked.push((now, claim));
                vec![Event::Inspected { cluster, provider_id, found: self.cloud }]
            }
            Effect::Resync { cluster, .. } => {
                self.done.resyncs.push((now, cluster));
                Vec::new()
            }
            Effect::Record(decision) => {
                self.done.decisions.push(*decision.clone());
                if self.slow_store {
                    self.waiting.push(*decision);
                    return Vec::new();
                }
                vec![Event::Recorded { decision: decision.id }]
            }
            Effect::Launch(order) => {
                self.done.launches.push((now, *order.clone()));
                vec![self.launch(&order)]
            }
            Effect::Terminate { cluster, provider_id, claim, .. } => {
                self.done.given_back.push((now, claim));
                vec![Event::InstanceGone { cluster, provider_id }]
            }
            Effect::Instruct { cluster, id, instruction } => self.instruct(cluster, id, *instruction),
        }
    }

    fn launch(&self, order: &LaunchOrder) -> Event {
        let (cluster, claim, attempt) = (order.cluster.clone(), order.claim.clone(), order.attempt);
        if self.refused {
            let failure = LaunchFailure::Refused { code: text("No"), message: "no".to_owned(), retryable: false };
            return Event::LaunchFailed { cluster, claim, attempt, failure };
        }
        if self.no_capacity {
            let sold_out = vec![(text("t.none"), text("z"))];
            return Event::LaunchFailed { cluster, claim, attempt, failure: LaunchFailure::NoCapacity { sold_out } };
        }
        Event::Launched(Box::new(Launched {
            provider_id: Text::from(format!("aws:///z/i-{claim}")),
            instance_type: text("t.2"),
            zone: text("z"),
            capacity_type: CapacityType::Spot,
            sold_out: Vec::new(),
            cluster,
            claim,
            attempt,
        }))
    }

    fn instruct(&mut self, cluster: Text, instruction: InstructionId, what: Instruction) -> Vec<Event> {
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
                    seen.push(Observation::upsert(Object::Claim(record.clone())));
                    if !self.never_joins {
                        seen.push(Observation::upsert(Object::Node(joined(record))));
                    }
                }
            }
            Instruction::Drain { claim, only_if_empty: true, .. } if self.occupied.contains(&claim) => {
                self.done.refused.push((Timestamp(self.now), claim));
                let reason = "the API server lists pod default/web-1 on it".to_owned();
                return vec![Event::InstructionFailed { cluster, instruction, reason, unmet: true }];
            }
            Instruction::Drain { claim, .. } => {
                let empty = self.stuck.is_none_or(|stuck| !claim.starts_with(stuck));
                self.done.drained.push((Timestamp(self.now), claim));
                if !empty {
                    self.held.push((cluster, instruction));
                    return Vec::new();
                }
            }
            Instruction::DeleteClaim { claim, node, .. } => {
                self.done.removed.push((Timestamp(self.now), claim.clone()));
                seen.push(Observation::Delete(Key::Claim(claim)));
                seen.extend(node.map(|node| Observation::Delete(Key::Node(node))));
            }
            Instruction::RegisterNode { .. }
            | Instruction::InitializeNode { .. }
            | Instruction::HintPods { .. }
            | Instruction::WriteStatus(_)
            | Instruction::RecordEvent(_) => {}
        }
        let acked = Event::InstructionAcked { cluster: cluster.clone(), instruction };
        let seen = seen.into_iter().map(|observation| Event::Observed { cluster: cluster.clone(), observation });
        seen.chain([acked]).collect()
    }

    /// Why the pods of the last decision about pods have no place, by pod.
    pub fn unplaced(&self) -> BTreeMap<Text, String> {
        let last = self.done.decisions.iter().rfind(|decision| decision.kind == DecisionKind::Provision);
        let unplaced = last.map_or(&[][..], |decision| &decision.unplaced);
        unplaced.iter().map(|pod| (pod.pod.clone(), pod.reasons.iter().map(|r| r.message.clone()).collect())).collect()
    }

    /// NodeClaims that were drained.
    pub fn drained(&self) -> BTreeSet<Text> {
        self.done.drained.iter().map(|(_, claim)| claim.clone()).collect()
    }
}

/// Whether nothing is done but written down or shown.
fn is_word(effect: &Effect) -> bool {
    matches!(effect, Effect::Record(_) | Effect::PublishView { .. } | Effect::Close { .. } | Effect::KeepExtent { .. })
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
        provider_id: Text::default(),
        created: Some(Timestamp(now)),
        ..claim("x")
    }
}

fn joined(claim: &ClaimRecord) -> NodeRecord {
    let mut labels = claim.labels.clone();
    for (key, value) in
        [(REGISTERED, "true"), (INITIALIZED, "true"), (INSTANCE_TYPE, "t.2"), (ZONE, "z"), (CAPACITY_TYPE, "spot")]
    {
        labels.insert(text(key), text(value));
    }
    let name = Text::from(format!("n-{}", claim.name));
    NodeRecord { name, provider_id: claim.provider_id.clone(), labels, ..node("x") }
}
