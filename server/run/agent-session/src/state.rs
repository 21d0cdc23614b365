//! State machine of one cluster's stream: message order, snapshot synchronisation and epochs.

use std::sync::Arc;

use cluster::{Key, Object, Observation, ProblemRecord};
use controller::{ClusterEvent, Event, Instruction, InstructionId, RegionEvent};
use fleetwright_proto::v1::{self, connect_request, connect_response, snapshot};
use model::{ClusterName, Millis, Text, Timestamp};
use trace::{InstructionContext, Span};

use super::assembly::{Incomplete, SnapshotAssembly};
use super::decode::facts::{self, DecodedFacts};
use super::decode::pools::PoolReader;
use super::decode::{DecodeError, Decoder, Limits};
use super::encode;
use super::intern::Interner;
use super::memory::{RetainedMemory, SessionMemory};
use super::outbox::{AckResult, Outbox};
use super::spans::SentContexts;

/// Resyncs per stream before the server closes it. More attempts would not help the agent, and its
/// reconnect backoff limits the load.
const MAX_RESYNCS_PER_STREAM: u32 = 5;

/// Tolerated clock skew between agent and server before a problem is reported.
/// Lease durations and drain deadlines are of this order. Message delay looks like an agent clock
/// that is behind, but is always far shorter.
const MAX_CLOCK_SKEW: Millis = Millis::from_secs(30);

/// Subject of the problem record for clock skew.
pub const CLOCK_PROBLEM: &str = "the agent's clock";

#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum interval between two messages of an agent, in milliseconds.
    pub heartbeat_ms: u32,
    /// Silence after which an agent counts as disconnected, measured only while the server reads
    /// its messages. Three heartbeats: one may be late, two may be lost while a connection is
    /// replaced.
    pub max_silence: Millis,
    /// Limits on the state that one agent can create.
    pub limits: Limits,
    /// Memory accounting over all sessions of this server.
    pub session_memory: SessionMemory,
    /// Whether agents are asked for spans.
    pub traces: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat_ms: 10_000,
            max_silence: Millis::from_secs(30),
            limits: Limits::default(),
            session_memory: SessionMemory::default(),
            traces: false,
        }
    }
}

/// Action that the caller has to execute.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send this response to the agent.
    Send(Box<v1::ConnectResponse>),
    /// Pass this event to the control loop.
    Notify(SessionEvent),
    /// Export these spans of the agent.
    Export(Vec<Span>),
    /// Close the stream after a protocol violation or a refusal. The agent may reconnect.
    Close(String),
}

/// Event for the control loop, of a session or of what follows changes in the store.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// An agent has sent Hello. The control loop acquires the cluster's lease and answers with
    /// [`Session::accept`] or [`Session::refuse`].
    HelloReceived(AgentHello),
    /// The agent disconnected before the control loop answered its Hello.
    HandshakeAbandoned {
        cluster: ClusterName,
    },
    ClusterEvent(ClusterEvent),
    /// What has changed in the store for all clusters of a region.
    RegionEvent(RegionEvent),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHello {
    /// Cluster name, as configured in the agent.
    pub cluster: ClusterName,
    /// UID of the `kube-system` namespace; distinguishes clusters of the same name.
    pub cluster_uid: String,
    /// Highest epoch that the agent has obeyed. It rejects instructions of lower epochs.
    pub highest_epoch: u64,
    /// Cloud region; empty when the agent does not know it.
    pub region: String,
    pub agent_version: String,
    /// Version of the API server; empty when the agent does not know it.
    pub kubernetes_version: String,
    /// The operator has configured the agent with `karpenter-absent`.
    pub karpenter_absent: bool,
}

#[derive(Debug)]
enum Stream {
    Closed,
    /// `Hello` was received; the control loop has not answered yet.
    AwaitingLease {
        highest_epoch: u64,
        uid: String,
    },
    Open(OpenStream),
}

#[derive(Debug)]
struct OpenStream {
    epoch: u64,
    /// Start of the current silence: last message, or last time that the server did not read.
    silent_since: Timestamp,
    /// Time of the last tick.
    ticked: Timestamp,
    resyncs: u32,
    /// Clock skew that was reported last.
    clock: Option<ProblemRecord>,
    sync: SyncState,
}

impl OpenStream {
    /// Records a tick. Ticks are at most a few seconds apart. A gap longer than a heartbeat means
    /// that the process was suspended or its clock was set; the gap does not count as silence of
    /// the agent.
    fn observe_clock(&mut self, now: Timestamp, heartbeat_ms: u32) {
        let unseen = now.duration_since(self.ticked);
        if unseen > Millis::new(i64::from(heartbeat_ms)) {
            self.silent_since = self.silent_since + unseen;
        }
        (self.ticked, self.silent_since) = (now, self.silent_since.min(now));
    }
}

#[derive(Debug)]
enum SyncState {
    /// No snapshot yet; deltas predate it and are ignored.
    AwaitingSnapshot,
    /// Chunks of a snapshot are arriving.
    Assembling(Box<SnapshotAssembly>),
    /// The snapshot is complete and deltas up to `sequence` are applied.
    Synced { decoder: Box<Decoder>, sequence: u64 },
}

#[derive(Debug)]
pub struct Session {
    cluster: ClusterName,
    /// UID of the cluster whose agent was accepted last; a different cluster of the same name is
    /// rejected. Unset until the control loop has accepted an agent.
    uid: Option<String>,
    settings: Settings,
    interner: Arc<Interner>,
    pool_reader: PoolReader,
    stream: Stream,
    /// Facts of the last Hello; `None` when it had none.
    facts: Option<DecodedFacts>,
    outbox: Outbox,
    contexts: SentContexts,
    /// Whether the agent of the last stream said that its API server does not answer.
    api_server_unreachable: bool,
    /// Memory of objects that are still valid without a decoder: from a closed stream, or from
    /// before the snapshot that is arriving.
    retained: Option<RetainedMemory>,
}

impl Session {
    /// A session without a stream.
    #[must_use]
    pub fn new(cluster: ClusterName, settings: Settings, interner: Arc<Interner>, pool_reader: PoolReader) -> Self {
        let (stream, contexts) = (Stream::Closed, SentContexts::default());
        Self {
            cluster,
            uid: None,
            settings,
            interner,
            pool_reader,
            stream,
            facts: None,
            outbox: Outbox::default(),
            contexts,
            api_server_unreachable: false,
            retained: None,
        }
    }

    /// Checks that a new stream belongs to the same cluster as the present one.
    ///
    /// # Errors
    /// The Hello has no cluster UID, or the UID of another cluster with the same name.
    pub fn check_identity(&self, hello: &v1::Hello) -> Result<(), IdentityError> {
        let cluster = || self.cluster.clone();
        if hello.cluster_uid.is_empty() {
            return Err(IdentityError::MissingUid { cluster: cluster() });
        }
        match &self.uid {
            Some(known) if *known != hello.cluster_uid => Err(IdentityError::NameTaken {
                cluster: cluster(),
                known: known.clone(),
                shown: hello.cluster_uid.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Begins a handshake on a stream that passed [`check_identity`](Self::check_identity). It
    /// replaces the cluster's previous stream.
    pub fn handle_hello(&mut self, hello: v1::Hello) -> Vec<Output> {
        let mut outputs = self.handle_close();
        self.facts = facts::read(&hello);
        self.stream = Stream::AwaitingLease { highest_epoch: hello.highest_epoch, uid: hello.cluster_uid.clone() };
        outputs.push(Output::Notify(SessionEvent::HelloReceived(AgentHello {
            cluster: self.cluster.clone(),
            cluster_uid: hello.cluster_uid,
            highest_epoch: hello.highest_epoch,
            region: hello.region,
            agent_version: hello.agent_version,
            kubernetes_version: hello.kubernetes_version,
            karpenter_absent: hello.karpenter_absent,
        })));
        outputs
    }

    /// Accepts the agent: the control loop holds the cluster's lease at `epoch`, which no other
    /// process has ever held. On an open stream it raises the epoch. Unacknowledged instructions
    /// are sent again.
    pub fn accept(&mut self, epoch: u64, now: Timestamp) -> Vec<Output> {
        let (highest_epoch, uid) = match &self.stream {
            Stream::AwaitingLease { highest_epoch, uid } => (*highest_epoch, uid.clone()),
            Stream::Open(_) => return self.raise_epoch(epoch, now),
            Stream::Closed => return Vec::new(),
        };
        if epoch < highest_epoch {
            return self.refuse(&format!(
                "the agent has obeyed epoch {highest_epoch}, but this server's lease has epoch {epoch}"
            ));
        }
        // Welcome precedes the instructions, which the agent rejects before it knows the epoch.
        self.uid = Some(uid);
        // An agent whose API server still does not answer sends that again.
        self.api_server_unreachable = false;
        self.stream = Stream::Open(OpenStream {
            epoch,
            silent_since: now,
            ticked: now,
            resyncs: 0,
            clock: None,
            sync: SyncState::AwaitingSnapshot,
        });
        let welcome = v1::Welcome {
            epoch,
            heartbeat_interval_ms: self.settings.heartbeat_ms,
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            sent_at_ms: now.as_millis(),
            traces: self.settings.traces,
        };
        let mut outputs = vec![send(connect_response::Message::Welcome(welcome))];
        outputs.extend(self.report_facts());
        outputs.push(self.notify(Event::AgentConnected));
        outputs.extend(self.pending_instruction_messages(epoch, now));
        outputs
    }

    fn pending_instruction_messages(&mut self, epoch: u64, now: Timestamp) -> Vec<Output> {
        let open = self.outbox.pending_messages(epoch, now);
        open.into_iter().map(|message| send_instruction(self.contexts.stamp(message))).collect()
    }

    /// Facts of the cluster for the controller. They precede [`Event::AgentConnected`], after which it decides.
    fn report_facts(&self) -> Option<Output> {
        let DecodedFacts { facts, refused } = self.facts.as_ref()?;
        Some(self.notify(Event::ClusterFactsReported { facts: Arc::clone(facts), refused: refused.clone() }))
    }

    /// Continues an open stream under a higher epoch. This happens when an agent sends Hello on two
    /// streams in a row: the first lease answer opens the stream, the second raises the epoch.
    /// Recovery under a new epoch starts from a snapshot, so a resync is requested.
    fn raise_epoch(&mut self, epoch: u64, now: Timestamp) -> Vec<Output> {
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        if epoch <= stream.epoch {
            return Vec::new();
        }
        stream.epoch = epoch;
        let mut outputs: Vec<Output> = self.report_facts().into_iter().collect();
        outputs.push(self.notify(Event::AgentConnected));
        outputs.extend(self.pending_instruction_messages(epoch, now));
        outputs.extend(self.request_resync(format!("new epoch {epoch}")));
        outputs
    }

    /// Rejects the agent on behalf of the control loop.
    pub fn refuse(&mut self, reason: &str) -> Vec<Output> {
        let mut outputs = self.handle_close();
        // The next lease holder issues its own instructions; these must never be sent under a later
        // epoch.
        self.outbox = Outbox::default();
        self.contexts = SentContexts::default();
        self.uid = None;
        outputs.push(Output::Close(format!("cluster {} rejected: {reason}", self.cluster)));
        outputs
    }

    /// Handles the end of the stream.
    pub fn handle_close(&mut self) -> Vec<Output> {
        self.retain_objects();
        match std::mem::replace(&mut self.stream, Stream::Closed) {
            Stream::Open(_) => vec![self.notify(Event::AgentDisconnected)],
            Stream::AwaitingLease { .. } => {
                vec![Output::Notify(SessionEvent::HandshakeAbandoned { cluster: self.cluster.clone() })]
            }
            Stream::Closed => Vec::new(),
        }
    }

    /// Keeps the memory accounted for a decoder that is dropped while its objects stay valid.
    fn retain_objects(&mut self) {
        if let Stream::Open(OpenStream { sync: SyncState::Synced { decoder, .. }, .. }) = &self.stream {
            self.retained = Some(decoder.retain_memory());
        }
    }

    /// Whether an agent is connected and accepted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.stream, Stream::Open(_))
    }

    /// Whether the agent of the present or the last stream said that its API server does not answer.
    #[must_use]
    pub fn is_api_server_unreachable(&self) -> bool {
        self.api_server_unreachable
    }

    #[must_use]
    pub fn pending_instructions(&self) -> usize {
        self.outbox.len()
    }

    /// Queues an instruction. It is sent now, or on the next stream, until it is acknowledged;
    /// after `deadline` it fails. Older instructions that it supersedes are withdrawn.
    pub fn instruct(
        &mut self,
        id: InstructionId,
        instruction: Instruction,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Vec<Output> {
        let withdrawn = match self.outbox.add(id, instruction, deadline) {
            Ok(withdrawn) => withdrawn,
            Err(event) => return vec![self.notify(event)],
        };
        let mut outputs: Vec<Output> = withdrawn.into_iter().map(|event| self.notify(event)).collect();
        if let Stream::Open(stream) = &self.stream {
            let message = self.outbox.message(id, stream.epoch, now);
            outputs.extend(message.map(|message| send_instruction(self.contexts.stamp(message))));
        }
        outputs
    }

    /// The instruction with this id, which is about to be queued, is part of a trace.
    pub fn trace_instruction(&mut self, id: InstructionId, context: InstructionContext) {
        self.contexts.add(id, context);
    }

    /// Requests a snapshot on behalf of the controller.
    pub fn request_resync(&mut self, reason: String) -> Vec<Output> {
        self.retain_objects();
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        // A snapshot that is awaited or arriving already contains everything.
        if !matches!(stream.sync, SyncState::Synced { .. }) {
            return Vec::new();
        }
        stream.sync = SyncState::AwaitingSnapshot;
        vec![send(connect_response::Message::Resync(v1::Resync { reason }))]
    }

    /// Parses the NodePools again, because their parser has another catalogue. Those of a snapshot that has not arrived are
    /// parsed when it is complete.
    pub fn reread_pools(&mut self) -> Vec<Output> {
        let Stream::Open(OpenStream { sync: SyncState::Synced { decoder, .. }, .. }) = &mut self.stream else {
            return Vec::new();
        };
        let observations = decoder.reread_pools();
        observations.into_iter().map(|one| self.observation(one)).collect()
    }

    /// Restarts silence detection because the server is not reading, or has unread messages of the
    /// agent.
    pub fn reset_silence(&mut self, now: Timestamp) {
        if let Stream::Open(stream) = &mut self.stream {
            stream.silent_since = now;
        }
    }

    /// Expires instructions and detects a silent agent. Silence is measured from the last message
    /// or the last [`reset_silence`](Self::reset_silence); time without ticks is excluded because
    /// unread messages may be queued.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Output> {
        let mut outputs: Vec<Output> = self.outbox.expire(now).into_iter().map(|event| self.notify(event)).collect();
        if let Stream::Open(stream) = &mut self.stream {
            stream.observe_clock(now, self.settings.heartbeat_ms);
            let silence = now.duration_since(stream.silent_since);
            if silence >= self.settings.max_silence {
                outputs.extend(self.close_stream(format!("no message for {} ms", silence.get())));
            }
        }
        outputs
    }

    /// Handles a message of the agent.
    pub fn handle_request(&mut self, request: v1::ConnectRequest, now: Timestamp) -> Vec<Output> {
        let Stream::Open(stream) = &mut self.stream else {
            return self.close_stream("message received before Welcome".to_owned());
        };
        stream.silent_since = now;
        match request.message {
            Some(connect_request::Message::Hello(_)) => self.close_stream("second Hello on one stream".to_owned()),
            Some(connect_request::Message::Snapshot(snapshot)) => self.receive_snapshot(snapshot, now),
            Some(connect_request::Message::Delta(delta)) => self.apply_delta(delta),
            Some(connect_request::Message::Ack(ack)) => self.handle_ack(&ack),
            Some(connect_request::Message::Heartbeat(heartbeat)) => self.handle_heartbeat(&heartbeat, now),
            Some(connect_request::Message::Spans(spans)) => self.handle_spans(spans, now),
            Some(connect_request::Message::ApiServerStatus(status)) => {
                self.api_server_unreachable = status.unreachable;
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn receive_snapshot(&mut self, snapshot: v1::Snapshot, now: Timestamp) -> Vec<Output> {
        if matches!(snapshot.part, Some(snapshot::Part::Begin(_))) {
            self.retain_objects();
        }
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        match (snapshot.part, &mut stream.sync) {
            (Some(snapshot::Part::Begin(begin)), sync) => {
                stream.clock = clock_problem(begin.taken_at_ms, now);
                let Settings { limits, session_memory, .. } = &self.settings;
                let decoder =
                    Decoder::new(Arc::clone(&self.interner), self.pool_reader.clone(), *limits, session_memory);
                *sync = SyncState::Assembling(Box::new(SnapshotAssembly::new(snapshot.id, decoder)));
                Vec::new()
            }
            (Some(snapshot::Part::Chunk(chunk)), SyncState::Assembling(assembly)) => {
                match assembly.add(snapshot.id, chunk) {
                    Ok(()) => Vec::new(),
                    Err(incomplete) => self.resync_after(incomplete),
                }
            }
            (Some(snapshot::Part::End(end)), SyncState::Assembling(_)) => self.finish_snapshot(snapshot.id, &end),
            // Parts of an abandoned snapshot, and part kinds unknown to this version.
            (Some(snapshot::Part::Chunk(_) | snapshot::Part::End(_)) | None, _) => Vec::new(),
        }
    }

    fn finish_snapshot(&mut self, id: u64, end: &v1::SnapshotEnd) -> Vec<Output> {
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        let sync = std::mem::replace(&mut stream.sync, SyncState::AwaitingSnapshot);
        let SyncState::Assembling(assembly) = sync else { return Vec::new() };
        match assembly.finish(id, end) {
            Ok((mut snapshot, decoder)) => {
                snapshot.problems.extend(stream.clock.clone());
                stream.sync = SyncState::Synced { decoder: Box::new(decoder), sequence: 0 };
                self.retained = None;
                vec![self.observation(Observation::Snapshot(Box::new(snapshot)))]
            }
            Err(incomplete) => self.resync_after(incomplete),
        }
    }

    fn apply_delta(&mut self, delta: v1::Delta) -> Vec<Output> {
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        let SyncState::Synced { decoder, sequence } = &mut stream.sync else { return Vec::new() };
        let expected = *sequence + 1;
        if delta.sequence != expected {
            return self.retry_resync(format!("received delta {}, expected {expected}", delta.sequence));
        }
        *sequence = expected;
        match decoder.decode_delta(delta.changes) {
            Ok(observations) => observations.into_iter().map(|one| self.observation(one)).collect(),
            Err(fault) => self.resync_after(Incomplete::DecodeError(fault)),
        }
    }

    fn handle_heartbeat(&mut self, heartbeat: &v1::Heartbeat, now: Timestamp) -> Vec<Output> {
        let Stream::Open(stream) = &self.stream else { return Vec::new() };
        match &stream.sync {
            SyncState::Synced { sequence, .. } if *sequence != heartbeat.last_sequence => {
                self.retry_resync(format!("agent has sent delta {}, received only {sequence}", heartbeat.last_sequence))
            }
            SyncState::Synced { .. } => self.report_clock(heartbeat.sent_at_ms, now),
            SyncState::Assembling(_) | SyncState::AwaitingSnapshot => Vec::new(),
        }
    }

    /// Reports clock skew when it appears or disappears.
    fn report_clock(&mut self, sent_at_ms: i64, now: Timestamp) -> Vec<Output> {
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        if sent_at_ms == 0 {
            return Vec::new();
        }
        let problem = clock_problem(sent_at_ms, now);
        if problem.is_some() == stream.clock.is_some() {
            return Vec::new();
        }
        stream.clock.clone_from(&problem);
        let observation = match problem {
            Some(problem) => Observation::upsert(Object::Problem(problem)),
            None => Observation::Delete(Key::Problem(Text::from(CLOCK_PROBLEM))),
        };
        vec![self.observation(observation)]
    }

    fn handle_spans(&self, message: v1::Spans, now: Timestamp) -> Vec<Output> {
        let spans = self.contexts.decode(&self.cluster, message, now);
        if spans.is_empty() { Vec::new() } else { vec![Output::Export(spans)] }
    }

    fn handle_ack(&mut self, ack: &v1::Ack) -> Vec<Output> {
        match self.outbox.acknowledge(ack) {
            AckResult::Event(event) => vec![self.notify(event)],
            AckResult::Unknown => Vec::new(),
        }
    }

    /// Reacts to an unusable message. Lost data is repaired by a resync; a contract violation would
    /// recur, so it closes the stream.
    fn resync_after(&mut self, incomplete: Incomplete) -> Vec<Output> {
        match incomplete {
            Incomplete::DecodeError(
                fault @ (DecodeError::Unreadable { .. }
                | DecodeError::LimitExceeded { .. }
                | DecodeError::Memory { .. }),
            ) => self.close_stream(fault.to_string()),
            other => self.retry_resync(other.to_string()),
        }
    }

    fn retry_resync(&mut self, reason: String) -> Vec<Output> {
        self.retain_objects();
        let Stream::Open(stream) = &mut self.stream else { return Vec::new() };
        stream.sync = SyncState::AwaitingSnapshot;
        stream.resyncs += 1;
        if stream.resyncs > MAX_RESYNCS_PER_STREAM {
            return self.close_stream(format!("still inconsistent after {MAX_RESYNCS_PER_STREAM} resyncs: {reason}"));
        }
        vec![send(connect_response::Message::Resync(v1::Resync { reason }))]
    }

    fn close_stream(&mut self, reason: String) -> Vec<Output> {
        let mut outputs = self.handle_close();
        outputs.push(Output::Close(format!("cluster {}: {reason}", self.cluster)));
        outputs
    }

    fn observation(&self, observation: Observation) -> Output {
        self.notify(Event::Observed(observation))
    }

    fn notify(&self, event: Event) -> Output {
        Output::Notify(SessionEvent::ClusterEvent(event.of(self.cluster.clone())))
    }
}

/// Problem record when the agent's clock (`sent_at_ms`, 0 if unset) differs too much from `now`.
fn clock_problem(sent_at_ms: i64, now: Timestamp) -> Option<ProblemRecord> {
    let ahead = Timestamp::from_millis(sent_at_ms) - now;
    let skew = Millis::new(ahead.get().saturating_abs());
    if sent_at_ms == 0 || skew <= MAX_CLOCK_SKEW {
        return None;
    }
    let side = if ahead > Millis::ZERO { "ahead of" } else { "behind" };
    let reason = format!("it is {} s {side} the server's clock; synchronise both by NTP", skew.as_secs());
    tracing::warn!(ahead_ms = ahead.get(), "agent clock differs from server clock");
    Some(ProblemRecord { about: Text::from(CLOCK_PROBLEM), reason: Text::from(reason) })
}

/// Validates a cluster name.
///
/// # Errors
/// [`IdentityError::InvalidName`] with the rule.
pub fn check_cluster_name(name: &str) -> Result<ClusterName, IdentityError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 100 || !name.chars().all(allowed) {
        return Err(IdentityError::InvalidName { excerpt: name.chars().take(100).collect() });
    }
    Ok(ClusterName::from(name))
}

/// Why the cluster that an agent names is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The name is empty, too long, or has other characters.
    #[error("{excerpt:?} is not a valid cluster name: use 1 to 100 letters, digits, '-', '_' and '.'")]
    InvalidName {
        /// The first 100 characters of the name.
        excerpt: String,
    },
    #[error(
        "the Hello of cluster {cluster} has no cluster UID; it is required to distinguish clusters of the same name"
    )]
    MissingUid { cluster: ClusterName },
    #[error(
        "cluster name {cluster} belongs to the cluster with UID {known}, but this one has UID {shown}; rename one of \
         them"
    )]
    NameTaken {
        cluster: ClusterName,
        /// UID of the cluster that has the name.
        known: String,
        shown: String,
    },
}

fn send(message: connect_response::Message) -> Output {
    Output::Send(Box::new(encode::response(message)))
}

fn send_instruction(message: v1::Instruction) -> Output {
    send(connect_response::Message::Instruction(message))
}

#[cfg(test)]
mod tests;
