//! The agent's side of the protocol, without I/O: messages and timestamps are inputs, [`Output`]s
//! are outputs.
//!
//! A stream begins with `Hello`; after `Welcome` the agent sends a snapshot, then deltas. Three
//! things outlive a stream: the highest epoch, the results of instructions ([`ledger`]), and the
//! numbers of failed connections and of replacements, which determine the next wait ([`backoff`]). Timestamps are
//! milliseconds since 1970, as are the deadlines of instructions.

pub mod backoff;
pub mod chunk;
pub mod ledger;
pub mod spans;

use fleetwright_proto::v1;
use fleetwright_proto::v1::{connect_request, connect_response, snapshot};

use crate::intern::Interner;
use crate::port::{Done, Record};
use backoff::Backoff;
use ledger::{Dispatch, Ledger};
use spans::Spans;

/// Bounds of the heartbeat interval, regardless of the server's request: the upper one limits the
/// time until the loss of an agent is detected, the lower one the traffic.
const HEARTBEAT_BOUNDS_MS: (i64, i64) = (100, 60_000);

/// Largest accepted jump of the epoch. Lease takeovers cannot explain a larger one. Servers apply
/// the same limit to the epoch that an agent reports.
const MAX_EPOCH_JUMP: u64 = 1 << 32;

/// Maximum time between `Hello` and `Welcome`, in milliseconds. A server that has just started
/// accepts a thousand clusters within a minute or two, and the last ones wait for the others.
const WELCOME_TIMEOUT_MS: i64 = 300_000;

/// Definitions beyond those of the last snapshot after which a new snapshot is cheaper for both
/// sides than storing definitions that no pod uses: every run of a Job has a label set of its own.
/// A definition is about 200 bytes, so this is some 20 MB on either side.
const DEFINITIONS_BEFORE_REFRESH: usize = 100_000;

/// A stream that lasted this long after `Welcome`, in milliseconds, resets the backoff. A shorter
/// one does not: a server that ends the stream as soon as it reads the snapshot would do so again.
const MIN_STABLE_MS: i64 = 3_000;

/// First and longest wait after another agent of the cluster replaced the stream, in milliseconds.
/// Two agents that replace each other's streams make the server restart the cluster's session each
/// time, so these waits are longer than those after a failed connection.
const REPLACED_WAITS_MS: (u64, u64) = (1_000, 60_000);

/// A stream that lasted this long after `Welcome`, in milliseconds, was not replaced during two of
/// the other agent's longest waits: there is no other agent any more.
const MIN_SOLE_MS: i64 = 120_000;

/// Largest clock difference from the server that is not logged, in milliseconds. Deadlines are sent
/// as remaining time, so execution does not depend on it; but timestamps in the cluster and at the
/// server differ.
const MAX_CLOCK_SKEW_MS: i64 = 30_000;

#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    Send(v1::ConnectRequest),
    /// Send these spans, or drop them while other messages wait.
    SendSpans(v1::ConnectRequest),
    /// List the cluster and pass the records to [`Link::send_snapshot`].
    TakeSnapshot,
    /// Store this epoch in the cluster before executing later outputs. Close the stream when that
    /// fails.
    RaiseEpoch(u64),
    /// Execute the instruction and pass the result to [`Link::finish_instruction`].
    Execute(Box<v1::Instruction>),
    /// Log that the agent's clock is this many milliseconds ahead of the server's; negative when it
    /// is behind.
    ClockSkew(i64),
    /// End the stream, for this reason.
    CloseStream(String),
}

/// The data about cluster and agent in `Hello`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentIdentity {
    pub cluster_name: String,
    /// UID of the cluster: that of its `kube-system` namespace.
    pub cluster_uid: String,
    /// Version of the API server; empty when not known.
    pub kubernetes_version: String,
    /// Region; empty when not known.
    pub region: String,
    /// `agent.karpenter-absent`: the operator states that no Karpenter is active, regardless of the
    /// detection.
    pub karpenter_absent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No stream is open.
    Disconnected,
    /// `Hello` was sent, `Welcome` was not received.
    AwaitingWelcome,
    /// `Welcome` was received; the snapshot was not sent.
    AwaitingSnapshot,
    /// The snapshot is sent; changes follow.
    Streaming,
}

/// The protocol state of one agent.
#[derive(Debug)]
pub struct Link {
    identity: AgentIdentity,
    facts: Option<v1::ClusterFacts>,
    phase: Phase,
    highest_epoch: u64,
    ledger: Ledger,
    spans: Spans,
    interner: Interner,
    /// Definitions in the last snapshot.
    definitions_in_snapshot: usize,
    snapshot_id: u64,
    sequence: u64,
    heartbeat_ms: i64,
    last_sent_at: i64,
    /// When `Welcome` was received.
    welcome_at: i64,
    backoff: Backoff,
    /// Waits after replacements by another agent, which `backoff` would not bound: each of the two
    /// streams lasts for the other agent's wait.
    replaced_backoff: Backoff,
}

impl Link {
    /// A link without a stream. `highest_epoch` is the epoch that the cluster has stored; `seed`
    /// varies the waits between connections from agent to agent.
    #[must_use]
    pub fn new(identity: AgentIdentity, highest_epoch: u64, seed: u64) -> Self {
        Self {
            identity,
            facts: None,
            phase: Phase::Disconnected,
            highest_epoch,
            ledger: Ledger::default(),
            spans: Spans::default(),
            interner: Interner::new(),
            definitions_in_snapshot: 0,
            snapshot_id: 0,
            sequence: 0,
            heartbeat_ms: HEARTBEAT_BOUNDS_MS.1,
            last_sent_at: 0,
            welcome_at: 0,
            backoff: Backoff::new(seed),
            replaced_backoff: Backoff::between(REPLACED_WAITS_MS.0, REPLACED_WAITS_MS.1, seed),
        }
    }

    /// The highest epoch that was accepted; after `Welcome` that of the server.
    #[must_use]
    pub fn highest_epoch(&self) -> u64 {
        self.highest_epoch
    }

    /// Sets what the next `Hello` says about the cluster for its nodes.
    pub fn set_facts(&mut self, facts: Option<v1::ClusterFacts>) {
        self.facts = facts;
    }

    /// A stream was opened; returns its first message.
    pub fn open_stream(&mut self, now: i64) -> v1::ConnectRequest {
        self.phase = Phase::AwaitingWelcome;
        self.snapshot_id = 0;
        self.heartbeat_ms = HEARTBEAT_BOUNDS_MS.1;
        let hello = v1::Hello {
            cluster_name: self.identity.cluster_name.clone(),
            cluster_uid: self.identity.cluster_uid.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            highest_epoch: self.highest_epoch,
            region: self.identity.region.clone(),
            kubernetes_version: self.identity.kubernetes_version.clone(),
            karpenter_absent: self.identity.karpenter_absent,
            facts: self.facts.clone().map(Box::new),
        };
        self.stamp_message(connect_request::Message::Hello(hello), now)
    }

    /// The stream ended or could not be opened; returns the delay before the next attempt, in
    /// milliseconds.
    pub fn close_stream(&mut self) -> u64 {
        self.phase = Phase::Disconnected;
        self.backoff.next_wait_ms()
    }

    /// The server ended the stream because another agent of the cluster has connected; returns the
    /// delay before the next attempt, in milliseconds.
    pub fn close_replaced_stream(&mut self) -> u64 {
        self.phase = Phase::Disconnected;
        self.replaced_backoff.next_wait_ms()
    }

    /// Handles one message of the server.
    pub fn handle_response(&mut self, response: v1::ConnectResponse, now: i64) -> Vec<Output> {
        match response.message {
            Some(connect_response::Message::Welcome(welcome)) => self.handle_welcome(&welcome, now),
            Some(connect_response::Message::Instruction(instruction)) => self.handle_instruction(instruction, now),
            Some(connect_response::Message::Resync(_)) if self.is_established() => {
                self.phase = Phase::AwaitingSnapshot;
                vec![Output::TakeSnapshot]
            }
            Some(connect_response::Message::Resync(_)) | None => Vec::new(),
        }
    }

    /// Sends the snapshot requested by [`Output::TakeSnapshot`], followed by the results that the
    /// server may not have received.
    pub fn send_snapshot(&mut self, records: Vec<Record>, now: i64) -> Vec<Output> {
        if !self.is_established() {
            return Vec::new();
        }
        self.spans.observe(&records, now);
        self.interner.clear();
        self.snapshot_id += 1;
        self.sequence = 0;
        let changes = self.encode_records(records);
        self.definitions_in_snapshot = self.interner.len();
        self.phase = Phase::Streaming;
        let parts = chunk::snapshot_parts(changes, now);
        let mut outputs: Vec<Output> = parts.into_iter().map(|part| self.snapshot_message(part, now)).collect();
        let results = self.ledger.results();
        outputs.extend(results.into_iter().map(|ack| self.ack_message(ack, now)));
        outputs
    }

    /// Sends changes that follow the snapshot. Changes before the snapshot is sent are dropped,
    /// because the snapshot contains them.
    pub fn send_changes(&mut self, records: Vec<Record>, now: i64) -> Vec<Output> {
        if self.phase != Phase::Streaming {
            return Vec::new();
        }
        self.spans.observe(&records, now);
        let changes = self.encode_records(records);
        let mut outputs = Vec::new();
        for changes in chunk::split_changes(changes) {
            self.sequence += 1;
            let delta = v1::Delta { sequence: self.sequence, changes };
            outputs.push(Output::Send(self.stamp_message(connect_request::Message::Delta(delta), now)));
        }
        if self.interner.len() > 2 * self.definitions_in_snapshot + DEFINITIONS_BEFORE_REFRESH {
            self.phase = Phase::AwaitingSnapshot;
            outputs.push(Output::TakeSnapshot);
        }
        outputs
    }

    /// The cluster's change stream has ended: requests a new snapshot.
    pub fn request_snapshot(&mut self) -> Vec<Output> {
        if self.phase != Phase::Streaming {
            return Vec::new();
        }
        self.phase = Phase::AwaitingSnapshot;
        vec![Output::TakeSnapshot]
    }

    /// Records the result of an instruction. Without a stream the result is kept for the next one.
    pub fn finish_instruction(&mut self, instruction_id: &str, done: Done, now: i64) -> Vec<Output> {
        self.spans.finish(instruction_id, &done, now);
        let ack = self.ledger.finish_instruction(instruction_id, done, now);
        match ack {
            Some(ack) if self.is_established() => vec![self.ack_message(ack, now)],
            _ => Vec::new(),
        }
    }

    /// Processes the passage of time: heartbeats and timeouts.
    pub fn tick(&mut self, now: i64) -> Vec<Output> {
        self.ledger.prune_expired(now);
        if self.phase == Phase::AwaitingWelcome && now.saturating_sub(self.last_sent_at) >= WELCOME_TIMEOUT_MS {
            return vec![Output::CloseStream(format!(
                "the server has not answered Hello for {} s",
                WELCOME_TIMEOUT_MS / 1_000
            ))];
        }
        if self.is_established() && now.saturating_sub(self.welcome_at) >= MIN_STABLE_MS {
            self.backoff.reset();
        }
        if self.is_established() && now.saturating_sub(self.welcome_at) >= MIN_SOLE_MS {
            self.replaced_backoff.reset();
        }
        let mut outputs = self.send_spans();
        if self.is_established() && now.saturating_sub(self.last_sent_at) >= self.heartbeat_ms {
            let heartbeat = v1::Heartbeat { last_sequence: self.sequence, sent_at_ms: now };
            outputs.push(Output::Send(self.stamp_message(connect_request::Message::Heartbeat(heartbeat), now)));
        }
        outputs
    }

    /// Spans that wait. As they may be dropped, they are no sign of life: heartbeats go on.
    fn send_spans(&mut self) -> Vec<Output> {
        let message = if self.phase == Phase::Streaming { self.spans.take_message() } else { None };
        let request = |spans| v1::ConnectRequest { message: Some(connect_request::Message::Spans(spans)) };
        message.map(|spans| Output::SendSpans(request(spans))).into_iter().collect()
    }

    /// Maximum interval between calls of [`tick`](Self::tick), in milliseconds, so that heartbeats
    /// are on time.
    #[must_use]
    pub fn tick_interval_ms(&self) -> u64 {
        u64::try_from(self.heartbeat_ms / 2).unwrap_or(1).max(1)
    }

    /// Whether the server has admitted the present stream.
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.phase, Phase::AwaitingSnapshot | Phase::Streaming)
    }

    fn handle_welcome(&mut self, welcome: &v1::Welcome, now: i64) -> Vec<Output> {
        if self.phase != Phase::AwaitingWelcome {
            return vec![Output::CloseStream("the server sent Welcome twice".to_owned())];
        }
        if welcome.epoch < self.highest_epoch {
            return vec![Output::CloseStream(format!(
                "the server has epoch {}, but epoch {} was seen: another server owns this cluster",
                welcome.epoch, self.highest_epoch
            ))];
        }
        if self.is_too_high(welcome.epoch) {
            return vec![self.epoch_refusal(welcome.epoch)];
        }
        let (least, most) = HEARTBEAT_BOUNDS_MS;
        self.heartbeat_ms = i64::from(welcome.heartbeat_interval_ms).clamp(least, most);
        self.phase = Phase::AwaitingSnapshot;
        self.spans.set_enabled(welcome.traces);
        self.welcome_at = now;
        let mut outputs = self.raise_epoch(welcome.epoch);
        let ahead = now.saturating_sub(welcome.sent_at_ms);
        if welcome.sent_at_ms != 0 && ahead.saturating_abs() > MAX_CLOCK_SKEW_MS {
            outputs.push(Output::ClockSkew(ahead));
        }
        outputs.push(Output::TakeSnapshot);
        outputs
    }

    fn handle_instruction(&mut self, instruction: v1::Instruction, now: i64) -> Vec<Output> {
        if !self.is_established() {
            return vec![Output::CloseStream("the server sent an instruction before Welcome".to_owned())];
        }
        if self.is_too_high(instruction.epoch) {
            return vec![self.epoch_refusal(instruction.epoch)];
        }
        let instruction = with_local_deadlines(instruction, now);
        match self.ledger.check_instruction(&instruction, self.highest_epoch, now) {
            Dispatch::Reply(ack) => vec![self.ack_message(ack, now)],
            Dispatch::InProgress => Vec::new(),
            Dispatch::Execute => {
                self.spans.begin(&instruction, now);
                let mut outputs = self.raise_epoch(instruction.epoch);
                outputs.push(Output::Execute(Box::new(instruction)));
                outputs
            }
        }
    }

    fn is_too_high(&self, epoch: u64) -> bool {
        epoch.saturating_sub(self.highest_epoch) > MAX_EPOCH_JUMP
    }

    fn epoch_refusal(&self, epoch: u64) -> Output {
        Output::CloseStream(format!(
            "the server has epoch {epoch}, and the highest epoch accepted by this cluster is {}: lease takeovers cannot explain \
             the jump, and storing it would lock out every other server. If this server is the right one, set the annotation \
             fleetwright.dev/highest-epoch of the agent's epoch Lease to \"{epoch}\" and restart the agent",
            self.highest_epoch
        ))
    }

    fn raise_epoch(&mut self, epoch: u64) -> Vec<Output> {
        if epoch <= self.highest_epoch {
            return Vec::new();
        }
        self.highest_epoch = epoch;
        vec![Output::RaiseEpoch(epoch)]
    }

    fn encode_records(&mut self, records: Vec<Record>) -> Vec<v1::Change> {
        let mut changes = Vec::with_capacity(records.len());
        for record in records {
            self.interner.write_record(record, &mut changes);
        }
        changes
    }

    fn snapshot_message(&mut self, part: snapshot::Part, now: i64) -> Output {
        let snapshot = v1::Snapshot { id: self.snapshot_id, part: Some(part) };
        Output::Send(self.stamp_message(connect_request::Message::Snapshot(snapshot), now))
    }

    fn ack_message(&mut self, ack: v1::Ack, now: i64) -> Output {
        Output::Send(self.stamp_message(connect_request::Message::Ack(ack), now))
    }

    fn stamp_message(&mut self, message: connect_request::Message, now: i64) -> v1::ConnectRequest {
        self.last_sent_at = now;
        v1::ConnectRequest { message: Some(message) }
    }
}

/// Converts the deadlines of an instruction to the agent's clock, which shows `now`. Without
/// remaining times the server's own deadlines apply.
fn with_local_deadlines(mut instruction: v1::Instruction, now: i64) -> v1::Instruction {
    if let Some(remaining) = instruction.remaining_ms {
        instruction.deadline_ms = now.saturating_add(remaining);
    }
    if let Some(v1::instruction::Action::DrainNode(drain)) = &mut instruction.action
        && let Some(left) = drain.force_in_ms
    {
        drain.force_at_ms = Some(now.saturating_add(left));
    }
    instruction
}

#[cfg(test)]
mod tests;
