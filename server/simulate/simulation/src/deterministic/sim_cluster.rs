//! A simulated cluster and its agent: the real link, on top of a simulated API server.

use std::collections::{BTreeMap, BTreeSet};

use crate::kube::SimulatedCluster;
use crate::kube::cluster::{Answer, Change};
use agent::link::{AgentIdentity, Link, Output};
use agent::{Done, Record};
use cloud::provider::InstanceState;
use cloud::simulated::LedgerEntry;
use cluster::{ClusterSnapshot, Key, NodeRecord, Object, Observation, PoolRecord};
use controller::Instruction;
use fleetwright_proto::v1;
use model::labels::INITIALIZED;
use model::{ClaimName, ClusterName, Millis, Text, Timestamp};

use super::environment::ProcessId;
use super::event_queue::{AgentMessage, EventQueue, ProcessMessage};
use super::fault::ListGap;
use super::guard::Guard;
use super::spread_record::SpreadBefore;
use super::violation::Violation;
use crate::demo::agent::{decode, encode};

/// Tick interval of an agent: half a heartbeat.
const TICK_MS: i64 = 5_000;
/// Delay from an instruction's arrival to its execution.
pub(super) const EXECUTE_MS: (i64, i64) = (5, 250);
const CONNECT_TIMEOUT_MS: i64 = 5_000;

/// More NodeClaims than this removed by force look like an agent's fault and need the operator's
/// release.
const RELEASE_THRESHOLD: usize = 2;
/// The operator releases a cluster only if its agent has shown the true state for this long: a
/// snapshot in flight may be older.
pub(super) const VIEW_SETTLED_AFTER: Millis = Millis::from_mins(4);

/// Ground truth of one cluster for the checkers.
#[derive(Debug, Default)]
pub struct ClusterLedger {
    /// Highest epoch of an executed instruction.
    pub(super) highest_epoch: u64,
    /// Executed instructions of an expired epoch.
    pub(super) outdated: Vec<(Text, u64, u64)>,
    /// Senders of instructions by epoch.
    pub(super) owners: BTreeMap<u64, BTreeSet<ProcessId>>,
    /// Start times of drains of instances that were not interrupted.
    pub(super) drains: Vec<Timestamp>,
    /// NodeClaims being drained whose instances were not interrupted.
    pub(super) leaving: BTreeSet<ClaimName>,
    /// NodeClaims hidden by a list gap when their drain began.
    pub(super) hidden_drains: BTreeSet<ClaimName>,
    /// NodeClaims being drained because they had expired.
    pub(super) expiring: BTreeSet<ClaimName>,
    /// What voluntary drains violated when they began.
    pub(super) drain_violations: Vec<Violation>,
    /// Workloads on Nodes that voluntary drains remove.
    pub(super) spread: Vec<SpreadBefore>,
    /// When the cluster last lost capacity that no voluntary drain took.
    pub(super) capacity_lost: Option<Timestamp>,
    /// When the templates of its NodePools last changed.
    pub(super) templates_changed: Option<Timestamp>,
    /// NodeClaims whose drain began without a known cause while pods ran on their Nodes.
    pub(super) drained_in_use: BTreeSet<ClaimName>,
    /// NodeClaims removed by force, and when.
    pub(super) removed_claims: BTreeMap<ClaimName, Timestamp>,
    /// NodeClaims deleted while their instances ran on.
    pub(super) orphaned: BTreeSet<ClaimName>,
    /// NodeClaims deleted while pods ran on their instances.
    pub(super) removed_in_use: BTreeSet<ClaimName>,
    pub(super) instructions: u64,
}

struct Agent {
    link: Link,
    connection: Option<usize>,
    /// Instructions waiting for the end of a drain, by NodeClaim.
    drains: BTreeMap<ClaimName, Vec<String>>,
}

/// A simulated cluster and its agent.
pub(super) struct SimCluster {
    pub(super) number: usize,
    pub(super) name: ClusterName,
    pub(super) cluster: SimulatedCluster,
    pub(super) pools: Vec<PoolRecord>,
    /// Budget of the cluster over all its NodePools, if it has one.
    pub(super) max_unavailable: Option<u32>,
    agent: Option<Agent>,
    pub(super) generation: u32,
    stored_epoch: u64,
    /// Connections fail before this moment.
    pub(super) cut_off_until: Timestamp,
    pub(super) offset_ms: i64,
    /// The agent's snapshots contain only NodePools.
    pub(super) empty_view: bool,
    /// Active list gaps, one per fault.
    pub(super) list_gaps: Vec<ListGap>,
    /// When a list gap of NodeClaims ended.
    pub(super) claims_listed_since: Timestamp,
    /// Active partitions; while there are any, Nodes are not ready.
    partitions: u32,
    /// Since when the agent's view is unchanged by faults.
    pub(super) view_unchanged_since: Timestamp,
    attempts: u64,
    pub(super) ledger: ClusterLedger,
    pub(super) off: Option<Guard>,
}

impl SimCluster {
    pub(super) fn new(
        number: usize,
        name: ClusterName,
        cluster: SimulatedCluster,
        pools: Vec<PoolRecord>,
        off: Option<Guard>,
    ) -> Self {
        Self {
            number,
            name,
            cluster,
            pools,
            max_unavailable: None,
            agent: None,
            generation: 0,
            stored_epoch: 0,
            cut_off_until: Timestamp::from_millis(0),
            offset_ms: 0,
            empty_view: false,
            list_gaps: Vec::new(),
            claims_listed_since: Timestamp::from_millis(0),
            partitions: 0,
            view_unchanged_since: Timestamp::from_millis(0),
            attempts: 0,
            ledger: ClusterLedger::default(),
            off,
        }
    }

    fn clock(&self, now: Timestamp) -> i64 {
        (now + Millis::new(self.offset_ms)).as_millis()
    }

    pub(super) fn connection(&self) -> Option<usize> {
        self.agent.as_ref()?.connection
    }

    /// Starts the agent with the epoch stored in the cluster.
    pub(super) fn start(&mut self, events: &mut EventQueue) {
        self.generation += 1;
        let epoch = if self.off == Some(Guard::AgentEpoch) { 0 } else { self.stored_epoch };
        let identity = AgentIdentity {
            cluster_name: self.name.to_string(),
            cluster_uid: format!("simulated-{}", self.name),
            ..AgentIdentity::default()
        };
        let seed = (self.number as u64) << 32 | u64::from(self.generation);
        self.agent = Some(Agent { link: Link::new(identity, epoch, seed), connection: None, drains: BTreeMap::new() });
        events.send_agent(10, self.number, self.generation, AgentMessage::Connect);
        events.send_agent(TICK_MS, self.number, self.generation, AgentMessage::Tick);
    }

    pub(super) fn stop(&mut self, events: &mut EventQueue) {
        if let Some(connection) = self.agent.take().and_then(|agent| agent.connection) {
            events.close_connection(connection, None, Some(5));
        }
        self.generation += 1;
    }

    /// Connects to the process that `answers` names, if it is reachable.
    pub(super) fn connect(&mut self, answers: impl Fn(u64) -> Option<ProcessId>, events: &mut EventQueue) {
        self.attempts += 1;
        let now = events.now();
        let clock = self.clock(now);
        let (number, generation) = (self.number, self.generation);
        let reached = answers(self.attempts).filter(|_| self.cut_off_until <= now);
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.connection.is_none()) else { return };
        let Some(server) = reached else {
            let wait = CONNECT_TIMEOUT_MS.saturating_add(i64::try_from(agent.link.close_stream()).unwrap_or(i64::MAX));
            let wait = if self.off == Some(Guard::Backoff) { 0 } else { wait };
            return events.send_agent(wait, number, generation, AgentMessage::Connect);
        };
        let connection = events.open_connection(number, generation, server);
        agent.connection = Some(connection);
        let request = agent.link.open_stream(clock);
        if let Some(v1::connect_request::Message::Hello(hello)) = request.message {
            events.send_to_server(connection, ProcessMessage::Opened { connection, hello: Box::new(hello) });
        }
    }

    pub(super) fn handle_message(&mut self, what: AgentMessage, events: &mut EventQueue) {
        let clock = self.clock(events.now());
        let Some(agent) = &mut self.agent else { return };
        match what {
            // Connecting is handled by the simulation, which knows the processes.
            AgentMessage::Connect => {}
            AgentMessage::Received { connection, response } if agent.connection == Some(connection) => {
                self.record_owner(&response, events.connection(connection).server);
                if let Some(agent) = &mut self.agent {
                    let outputs = agent.link.handle_response(*response, clock);
                    self.apply_outputs(outputs, events);
                }
            }
            AgentMessage::ConnectionLost { connection } if agent.connection == Some(connection) => {
                self.handle_disconnect(events)
            }
            AgentMessage::Received { .. } | AgentMessage::ConnectionLost { .. } => {}
            AgentMessage::Execute(instruction) => self.carry_out(*instruction, events),
            AgentMessage::Tick => {
                let outputs = agent.link.tick(clock);
                self.apply_outputs(outputs, events);
                events.send_agent(TICK_MS, self.number, self.generation, AgentMessage::Tick);
            }
        }
    }

    fn record_owner(&mut self, response: &v1::ConnectResponse, by: ProcessId) {
        if let Some(v1::connect_response::Message::Instruction(instruction)) = &response.message {
            self.ledger.owners.entry(instruction.epoch).or_default().insert(by);
        }
    }

    /// Handles the end of the stream.
    fn handle_disconnect(&mut self, events: &mut EventQueue) {
        let Some(agent) = &mut self.agent else { return };
        agent.connection = None;
        let wait = i64::try_from(agent.link.close_stream()).unwrap_or(i64::MAX);
        if self.off == Some(Guard::Reconnect) {
            return;
        }
        events.send_agent(wait, self.number, self.generation, AgentMessage::Connect);
    }

    fn apply_outputs(&mut self, outputs: Vec<Output>, events: &mut EventQueue) {
        // Outputs are applied in order, with those that a snapshot adds, because the link numbers its messages.
        let mut pending = std::collections::VecDeque::from(outputs);
        while let Some(output) = pending.pop_front() {
            match output {
                Output::Send(request) => {
                    if let Some(connection) = self.connection() {
                        let request = Box::new(request);
                        events.send_to_server(connection, ProcessMessage::Received { connection, request });
                    }
                }
                // No server asks for spans.
                Output::SendSpans(_) => {}
                Output::TakeSnapshot => {
                    let (records, clock) = (self.snapshot_records(), self.clock(events.now()));
                    if let Some(agent) = &mut self.agent {
                        pending.extend(agent.link.send_snapshot(records, clock));
                    }
                }
                Output::RaiseEpoch(epoch) => self.stored_epoch = self.stored_epoch.max(epoch),
                Output::Execute(instruction) => {
                    let wait = events.next_rng().between(EXECUTE_MS);
                    events.send_agent(wait, self.number, self.generation, AgentMessage::Execute(instruction));
                }
                Output::ClockSkew(ahead_ms) => {
                    events.trace(|| format!("the agent's clock is {ahead_ms} ms ahead"));
                }
                Output::CloseStream(reason) => {
                    events.trace(|| format!("agent of {} closes the stream: {reason}", self.name));
                    if let Some(connection) = self.connection() {
                        events.close_connection(connection, None, Some(20));
                        self.handle_disconnect(events);
                    }
                }
            }
        }
    }

    /// Switches between complete snapshots and ones that contain only NodePools.
    pub(super) fn set_empty_view(&mut self, empty_view: bool, events: &mut EventQueue) {
        self.empty_view = empty_view;
        self.view_unchanged_since = events.now();
        if let Some(agent) = &mut self.agent {
            let outputs = agent.link.request_snapshot();
            self.apply_outputs(outputs, events);
        }
    }

    /// Restarts the agent's watch with a list that lacks objects, or has them again; the agent
    /// sends the difference.
    pub(super) fn relist(&mut self, gap: ListGap, begins: bool, events: &mut EventQueue) {
        let hidden = std::mem::take(&mut self.list_gaps);
        self.list_gaps.clone_from(&hidden);
        if begins {
            self.list_gaps.push(gap);
        } else if let Some(place) = self.list_gaps.iter().position(|known| *known == gap) {
            self.list_gaps.remove(place);
        }
        self.view_unchanged_since = events.now();
        let covers = |list_gaps: &[ListGap], kind| list_gaps.iter().any(|gap| gap.covers(kind));
        let mut seen = Vec::new();
        for kind in [ListGap::Pools, ListGap::Claims, ListGap::Nodes, ListGap::Pods, ListGap::Workloads] {
            let (was_hidden, is_hidden) = (covers(&hidden, kind), covers(&self.list_gaps, kind));
            if kind == ListGap::Claims && was_hidden && !is_hidden {
                self.claims_listed_since = events.now();
            }
            match (was_hidden, is_hidden) {
                (false, true) => seen.extend(self.objects(kind).into_iter().map(|(key, _)| encode::removal(&key))),
                (true, false) => seen.extend(self.objects(kind).into_iter().map(|(_, seen)| seen)),
                _ => {}
            }
        }
        let clock = self.clock(events.now());
        if let Some(agent) = self.agent.as_mut().filter(|_| !self.empty_view && !seen.is_empty()) {
            let outputs = agent.link.send_changes(seen, clock);
            self.apply_outputs(outputs, events);
        }
    }

    /// Changes the templates of the NodePools; the agent sends them. The revision of a NodePool stands for the
    /// hash of its template.
    pub(super) fn change_templates(&mut self, events: &mut EventQueue) {
        self.ledger.templates_changed = Some(events.now());
        for pool in &mut self.pools {
            pool.revision = Text::from(format!("{}'", pool.revision));
        }
        let seen: Vec<Record> = self.pools.iter().map(manifest).collect();
        let clock = self.clock(events.now());
        if let Some(agent) = self.agent.as_mut().filter(|_| !self.empty_view) {
            let outputs = agent.link.send_changes(seen, clock);
            self.apply_outputs(outputs, events);
        }
    }

    /// Begins or ends a partition of the kubelets; partitions may overlap.
    pub(super) fn set_partitioned(&mut self, partitions: bool, events: &mut EventQueue) {
        self.partitions = if partitions { self.partitions + 1 } else { self.partitions.saturating_sub(1) };
        if let Some(agent) = &mut self.agent {
            let outputs = agent.link.request_snapshot();
            self.apply_outputs(outputs, events);
        }
    }

    fn objects(&self, kind: ListGap) -> Vec<(Key, Record)> {
        let record = |key: Key, object: Object| encode::object(&self.cluster, &object).map(|seen| (key, seen));
        let (pods, nodes, claims) = (self.cluster.pods(), self.cluster.nodes(), self.cluster.claims());
        match kind {
            ListGap::Pods | ListGap::Workloads => {
                let pods = pods.filter(|pod| pod.daemon.is_some() == (kind == ListGap::Pods));
                pods.filter_map(|pod| record(Key::Pod(pod.key.clone()), Object::Pod(pod.clone()))).collect()
            }
            ListGap::Nodes => {
                nodes.filter_map(|node| record(Key::Node(node.name.clone()), Object::Node(node.clone()))).collect()
            }
            ListGap::Claims => claims
                .filter_map(|claim| record(Key::Claim(claim.name.clone()), Object::Claim(claim.clone())))
                .collect(),
            ListGap::Pools => {
                self.pools.iter().map(|pool| (Key::Pool(pool.pool.name.clone()), manifest(pool))).collect()
            }
            ListGap::Everything => Vec::new(),
        }
    }

    /// The object as the API server returns it.
    fn as_served(&self, object: Object) -> Object {
        match object {
            Object::Node(node) if self.partitions > 0 => Object::Node(NodeRecord { ready: false, ..node }),
            Object::Node(mut node) if self.feigns_initialization() => {
                if node.is_registered() {
                    node.labels.insert(Text::from(INITIALIZED), Text::from("true"));
                }
                Object::Node(NodeRecord { ready: true, ..node })
            }
            other => other,
        }
    }

    /// Whether the agent reports Nodes as initialized as soon as they are registered: not before the templates change,
    /// so that the first pods run.
    fn feigns_initialization(&self) -> bool {
        self.off == Some(Guard::Initialization) && self.ledger.templates_changed.is_some()
    }

    pub(super) fn has_claim(&self, claim: &ClaimName) -> bool {
        self.cluster.claims().any(|known| known.name == *claim)
    }

    /// Deletes a NodeClaim after removing its finalizers; returns whether it existed.
    pub(super) fn remove_claim_by_force(&mut self, claim: ClaimName, now: Timestamp) -> bool {
        let was_there = self.cluster.remove_claim(&claim);
        self.ledger.removed_claims.insert(claim, now);
        was_there
    }

    /// Whether so many NodeClaims were removed that servers wait for the operator.
    pub(super) fn needs_release(&self) -> bool {
        self.ledger.removed_claims.len() > RELEASE_THRESHOLD
    }

    /// Whether the agent's view matches the cluster, and has for long enough.
    pub(super) fn agent_view_is_true(&self, now: Timestamp) -> bool {
        !self.empty_view
            && self.list_gaps.is_empty()
            && now.duration_since(self.view_unchanged_since) >= VIEW_SETTLED_AFTER
    }

    /// The records of a snapshot. They include all earlier changes.
    fn snapshot_records(&mut self) -> Vec<Record> {
        if self.empty_view {
            return self.pools.iter().map(manifest).collect();
        }
        let ClusterSnapshot { pods, nodes, mut claims, daemons, namespaces, budgets, .. } = self.cluster.snapshot();
        if self.off == Some(Guard::PodEvents) {
            claims.iter_mut().for_each(|claim| (claim.last_pod_event, claim.initialized_at) = (None, None));
        }
        let objects = namespaces.into_iter().map(Object::Namespace);
        let objects = objects.chain(daemons.into_iter().map(Object::Daemon));
        let objects = objects.chain(nodes.into_iter().map(Object::Node)).chain(claims.into_iter().map(Object::Claim));
        let objects = objects.chain(budgets.into_iter().map(Object::PodBudget));
        let objects = objects.chain(pods.into_iter().map(Object::Pod));
        let objects = objects.filter(|object| kind_of(object).is_none_or(|kind| !self.covers(kind)));
        let objects = objects.map(|object| self.as_served(object));
        let pools = self.pools.iter().filter(|_| !self.covers(ListGap::Pools));
        pools.map(manifest).chain(objects.filter_map(|object| encode::object(&self.cluster, &object))).collect()
    }

    /// Advances the cluster; the agent sends what changed.
    pub(super) fn advance(&mut self, events: &mut EventQueue) {
        let (now, clock) = (events.now(), self.clock(events.now()));
        let mut seen = Vec::new();
        let mut drained_instructions = Vec::new();
        for change in self.cluster.tick(now) {
            match change {
                Change::Drained { claim } => drained_instructions.extend(self.take_drain_waiters(&claim)),
                Change::Observed(Observation::Upsert(object)) => {
                    let shown = kind_of(&object).is_none_or(|kind| !self.covers(kind));
                    seen.extend(shown.then(|| encode::object(&self.cluster, &self.as_served(*object))).flatten());
                }
                // A watch that saw the object before sends its deletion although the list lacked
                // it.
                Change::Observed(Observation::Delete(key)) => seen.push(encode::removal(&key)),
                Change::Observed(Observation::Snapshot(_)) => {}
            }
        }
        let Some(agent) = &mut self.agent else { return };
        let mut outputs =
            if seen.is_empty() || self.empty_view { Vec::new() } else { agent.link.send_changes(seen, clock) };
        for id in drained_instructions.into_iter().filter(|_| self.off != Some(Guard::DrainAnswers)) {
            outputs.extend(agent.link.finish_instruction(&id, Done::ok(), clock));
        }
        self.apply_outputs(outputs, events);
    }

    /// Takes the instructions that waited for this drain.
    fn take_drain_waiters(&mut self, claim: &ClaimName) -> Vec<String> {
        self.agent.as_mut().and_then(|agent| agent.drains.remove(claim)).unwrap_or_default()
    }

    fn carry_out(&mut self, mut message: v1::Instruction, events: &mut EventQueue) {
        let mut was_only_if_empty = false;
        if let Some(v1::instruction::Action::DrainNode(drain)) = &mut message.action {
            was_only_if_empty = drain.only_if_empty;
            drain.only_if_empty &= !self.skips_pod_list();
        }
        let (now, clock) = (events.now(), self.clock(events.now()));
        let id = message.id.clone();
        self.record_instruction(&message, was_only_if_empty, events);
        let record = decode::only_tells(&message);
        let drain = matches!(message.action, Some(v1::instruction::Action::DrainNode(_)));
        let answers = !drain || self.off != Some(Guard::DrainAnswers);
        if let Some((claim, at)) = decode::pod_event(&message) {
            self.cluster.record_pod_event_time(&claim, at);
        }
        let done = match decode::instruction(message) {
            _ if record => Some(Done::ok()),
            Ok(Some(instruction)) => self.execute(&instruction, &id, now),
            Ok(None) => {
                Some(Done::failed(v1::Outcome::Unsupported, "the simulated cluster does not support this instruction"))
            }
            Err(reason) => Some(Done::failed(v1::Outcome::Failed, reason)),
        };
        if let (Some(agent), Some(done)) = (&mut self.agent, done.filter(|_| answers)) {
            let outputs = agent.link.finish_instruction(&id, done, clock);
            self.apply_outputs(outputs, events);
        }
    }

    fn execute(&mut self, instruction: &Instruction, id: &str, now: Timestamp) -> Option<Done> {
        if self.off == Some(Guard::ClaimFirst) && matches!(instruction, Instruction::CreateClaim(_)) {
            return Some(Done::ok());
        }
        match self.cluster.instruct(instruction, now) {
            Err(reason) => Some(Done::failed(v1::Outcome::NotFound, reason)),
            Ok(Answer::Unmet(reason)) => Some(Done::failed(v1::Outcome::PreconditionFailed, reason)),
            Ok(Answer::Done) => Some(Done::ok()),
            Ok(Answer::Later) => {
                let agent = self.agent.as_mut()?;
                let claim = instruction.claim().cloned().unwrap_or_default();
                agent.drains.entry(claim).or_default().push(id.to_owned());
                None
            }
        }
    }

    fn record_instruction(&mut self, message: &v1::Instruction, was_only_if_empty: bool, events: &mut EventQueue) {
        self.ledger.instructions += u64::from(!decode::only_tells(message));
        if message.epoch < self.ledger.highest_epoch {
            let entry = (Text::from(message.id.as_str()), message.epoch, self.ledger.highest_epoch);
            self.ledger.outdated.push(entry);
        }
        self.ledger.highest_epoch = self.ledger.highest_epoch.max(message.epoch);
        match &message.action {
            Some(v1::instruction::Action::DrainNode(drain)) => self.record_drain(drain, was_only_if_empty, events),
            Some(v1::instruction::Action::DeleteNodeClaim(delete)) => {
                let claim = ClaimName::from(delete.node_claim.as_str());
                let up = |_: &LedgerEntry, state| matches!(state, InstanceState::Pending | InstanceState::Running);
                if self.cluster.claims().any(|known| known.name == claim) && self.has_machine(&claim, events, up) {
                    if self.cluster.running_for(&claim).next().is_some() {
                        self.ledger.removed_in_use.insert(claim.clone());
                    }
                    self.ledger.orphaned.insert(claim);
                }
            }
            _ => {}
        }
    }

    /// Whether the agent skips listing a node's pods before a drain: that guard is off, or a guard
    /// that it would stand in for.
    fn skips_pod_list(&self) -> bool {
        matches!(self.off, Some(Guard::EmptyCheck | Guard::Losses | Guard::Extents | Guard::SecondWitness))
    }
}

fn kind_of(object: &Object) -> Option<ListGap> {
    match object {
        Object::Pod(pod) if pod.daemon.is_none() => Some(ListGap::Workloads),
        Object::Pod(_) => Some(ListGap::Pods),
        Object::Node(_) => Some(ListGap::Nodes),
        Object::Claim(_) => Some(ListGap::Claims),
        Object::Pool(_) => Some(ListGap::Pools),
        _ => None,
    }
}

/// The manifest of a NodePool; the reader identifies it by name.
fn manifest(record: &PoolRecord) -> Record {
    Record::plain(v1::change::Change::Manifest(v1::ManifestRecord {
        kind: v1::ObjectKind::NodePool.into(),
        name: record.pool.name.to_string(),
        json: b"{}".to_vec(),
        resource_version: record.revision.to_string(),
    }))
}
