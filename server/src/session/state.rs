//! One cluster's conversation: who may speak, in which order, and what is believed of what is said.

use std::sync::Arc;

use engine::cluster::{Key, Object, Observation, ProblemRecord};
use engine::control::{ClusterId, Event, Instruction, InstructionId};
use engine::model::{Text, Timestamp};
use fleetwright_proto::v1;
use fleetwright_proto::v1::{connect_request, connect_response, snapshot};

use super::account::{Kept, Ledger};
use super::assembly::{Assembly, Incomplete};
use super::decode::pools::ReadPools;
use super::decode::{Decoder, Fault, Limits};
use super::encode;
use super::intern::Interner;
use super::outbox::{Outbox, Settled};

/// Snapshots that are asked for on one stream before it is given up: an agent that cannot put things right in so many tries
/// will not in more, and the wait before its next connection spares both sides.
const RESYNCS_PER_STREAM: u32 = 5;

/// An agent's clock may be so far from this server's, in milliseconds, before people are told: deadlines of Leases and drains are of
/// that order. Messages that wait on their way look like a clock that is behind, and none waits for so long.
const CLOCK_MAY_DIFFER_MS: i64 = 30_000;

/// What people are told of when the clocks differ.
pub const CLOCK: &str = "the agent's clock";

/// What holds for every session. Durations are in milliseconds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Agents say something at least this often.
    pub heartbeat_ms: u32,
    /// An agent that is silent for so long while it is listened to is gone. Three heartbeats: one may be late, two may be lost
    /// with a connection that is just being replaced.
    pub silence_ms: i64,
    /// Bounds on what one agent may make the server remember.
    pub limits: Limits,
    /// What all sessions of the server remember, and may.
    pub ledger: Ledger,
}

impl Default for Settings {
    fn default() -> Self {
        Self { heartbeat_ms: 10_000, silence_ms: 30_000, limits: Limits::default(), ledger: Ledger::default() }
    }
}

/// What a shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send this to the agent.
    Say(Box<v1::ConnectResponse>),
    /// Hand this to the control loop.
    Tell(SessionEvent),
    /// End the stream; the agent broke the protocol or is not wanted. It may connect again.
    HangUp(String),
}

/// What the control loop hears of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// An agent wants to speak. The control loop takes the cluster's lease and answers with [`Session::accept`] or
    /// [`Session::refuse`].
    Greeted(Greeting),
    /// The agent that greeted has gone before it was answered.
    Left {
        /// The cluster that it spoke for.
        cluster: ClusterId,
    },
    /// Something for the controller.
    Happened(Event),
}

/// Who wants to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Name of the cluster.
    pub cluster: ClusterId,
    /// What makes the cluster this one.
    pub cluster_uid: String,
    /// The highest epoch that the cluster has ever obeyed. Instructions under a lower one would be refused.
    pub highest_epoch: u64,
    /// Region; empty when the agent does not know it.
    pub region: String,
    /// Version of the agent.
    pub agent_version: String,
    /// Version of the API server; empty when the agent does not know it.
    pub kubernetes_version: String,
    /// A person has told the agent that no Karpenter is at work there.
    pub karpenter_absent: bool,
}

#[derive(Debug)]
enum Stream {
    Closed,
    /// `Hello` was heard; the control loop has not answered.
    Greeted {
        highest_epoch: u64,
        uid: String,
    },
    Open(Conversation),
}

#[derive(Debug)]
struct Conversation {
    epoch: u64,
    /// Since when there was something to hear if the agent had said it.
    silent_since: Timestamp,
    /// When time was looked at last.
    ticked: Timestamp,
    resyncs: u32,
    /// That the agent's clock differs from ours, and by how much, if it does.
    clock: Option<ProblemRecord>,
    believing: Believing,
}

impl Conversation {
    /// Looks at the clock. Looks are a few seconds apart at most; after a heartbeat without one the process stood still, or its
    /// clock was set.
    fn notice(&mut self, now: Timestamp, heartbeat_ms: u32) {
        let unseen = now.millis_since(self.ticked);
        if unseen > i64::from(heartbeat_ms) {
            self.silent_since = Timestamp(self.silent_since.0.saturating_add(unseen));
        }
        (self.ticked, self.silent_since) = (now, self.silent_since.min(now));
    }
}

/// How much of what the agent says can be believed.
#[derive(Debug)]
enum Believing {
    /// A snapshot has to come; deltas are from before it and are passed over.
    Nothing,
    /// A snapshot is coming in.
    Assembling(Box<Assembly>),
    /// A snapshot is complete; deltas up to `sequence` have been taken.
    Following { decoder: Box<Decoder>, sequence: u64 },
}

/// One cluster's conversation.
#[derive(Debug)]
pub struct Session {
    cluster: ClusterId,
    /// UID of the cluster whose agent was welcome; another cluster of that name is turned away. Who only asks has no name yet:
    /// the control loop knows whose it is.
    uid: Option<String>,
    settings: Settings,
    interner: Arc<Interner>,
    read_pools: ReadPools,
    stream: Stream,
    outbox: Outbox,
    /// What is believed of the cluster since a stream that has ended, or from before the snapshot that comes in.
    kept: Option<Kept>,
}

impl Session {
    /// A session that nobody has connected to yet.
    #[must_use]
    pub fn new(cluster: ClusterId, settings: Settings, interner: Arc<Interner>, read_pools: ReadPools) -> Self {
        let outbox = Outbox::new(cluster.clone());
        Self { cluster, uid: None, settings, interner, read_pools, stream: Stream::Closed, outbox, kept: None }
    }

    /// Whether a stream that says this may take the place of the present one.
    ///
    /// # Errors
    /// Why not: it speaks for another cluster of the same name, which must not disturb this one.
    pub fn admits(&self, hello: &v1::Hello) -> Result<(), String> {
        if hello.cluster_uid.is_empty() {
            return Err(format!(
                "the agent of {} says no cluster UID, without which its machines cannot be told from those of another cluster \
                 of that name",
                self.cluster
            ));
        }
        match &self.uid {
            Some(known) if *known != hello.cluster_uid => Err(format!(
                "the name {} belongs to the cluster with UID {known}, and this one has UID {}; give one of them another name",
                self.cluster, hello.cluster_uid
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A stream that is [admitted](Self::admits) has been opened and said this. Another stream of the cluster ends with it.
    pub fn opened(&mut self, hello: v1::Hello) -> Vec<Output> {
        let mut outputs = self.closed();
        self.stream = Stream::Greeted { highest_epoch: hello.highest_epoch, uid: hello.cluster_uid.clone() };
        outputs.push(Output::Tell(SessionEvent::Greeted(Greeting {
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

    /// The control loop holds the cluster's lease at `epoch`, which no other process has ever held: the conversation may
    /// begin, or goes on under a higher epoch. Instructions without an answer are sent again.
    pub fn accept(&mut self, epoch: u64, now: Timestamp) -> Vec<Output> {
        let (highest_epoch, uid) = match &self.stream {
            Stream::Greeted { highest_epoch, uid } => (*highest_epoch, uid.clone()),
            Stream::Open(_) => return self.go_on(epoch, now),
            Stream::Closed => return Vec::new(),
        };
        if epoch < highest_epoch {
            return self.refuse(&format!("its highest epoch is {highest_epoch}, and this server's only {epoch}"));
        }
        self.uid = Some(uid);
        self.stream = Stream::Open(Conversation {
            epoch,
            silent_since: now,
            ticked: now,
            resyncs: 0,
            clock: None,
            believing: Believing::Nothing,
        });
        let welcome = v1::Welcome {
            epoch,
            heartbeat_interval_ms: self.settings.heartbeat_ms,
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            sent_at_ms: now.0,
        };
        let mut outputs = vec![
            say(connect_response::Message::Welcome(welcome)),
            happened(Event::AgentConnected { cluster: self.cluster.clone() }),
        ];
        let open = self.outbox.open(epoch, now);
        outputs.extend(open.into_iter().map(|instruction| say(connect_response::Message::Instruction(instruction))));
        outputs
    }

    /// The lease was taken once more while the agent came in: an agent that greets twice in a row, on two streams, is welcomed
    /// by the first answer that comes, and the second one raises the epoch. Who takes a lease takes up what is under way from
    /// a picture, so the agent shows everything again.
    fn go_on(&mut self, epoch: u64, now: Timestamp) -> Vec<Output> {
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        if epoch <= conversation.epoch {
            return Vec::new();
        }
        conversation.epoch = epoch;
        let mut outputs = vec![happened(Event::AgentConnected { cluster: self.cluster.clone() })];
        let open = self.outbox.open(epoch, now);
        outputs.extend(open.into_iter().map(|instruction| say(connect_response::Message::Instruction(instruction))));
        outputs.extend(self.ask_again(format!("epoch {epoch} has begun")));
        outputs
    }

    /// The control loop does not want this cluster's agent here.
    pub fn refuse(&mut self, reason: &str) -> Vec<Output> {
        let mut outputs = self.closed();
        // Whoever decides now has its own instructions; ours must never be sent under a later epoch.
        self.outbox = Outbox::new(self.cluster.clone());
        self.uid = None;
        outputs.push(Output::HangUp(format!("cluster {} is refused: {reason}", self.cluster)));
        outputs
    }

    /// The stream has ended.
    pub fn closed(&mut self) -> Vec<Output> {
        self.keep();
        match std::mem::replace(&mut self.stream, Stream::Closed) {
            Stream::Open(_) => vec![happened(Event::AgentDisconnected { cluster: self.cluster.clone() })],
            Stream::Greeted { .. } => vec![Output::Tell(SessionEvent::Left { cluster: self.cluster.clone() })],
            Stream::Closed => Vec::new(),
        }
    }

    /// A decoder is about to go: what it told of is believed on, and goes on to be counted.
    fn keep(&mut self) {
        if let Stream::Open(Conversation { believing: Believing::Following { decoder, .. }, .. }) = &self.stream {
            self.kept = Some(decoder.kept());
        }
    }

    /// Whether an agent is connected and welcome.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.stream, Stream::Open(_))
    }

    /// How many instructions wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// The controller wants something done in the cluster. It is sent at once, or when an agent is there, until it is answered or
    /// `deadline` has passed; then it has failed. What it makes needless is not sent any more.
    pub fn instruct(
        &mut self,
        id: InstructionId,
        instruction: Instruction,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Vec<Output> {
        let withdrawn = match self.outbox.add(id, instruction, deadline) {
            Ok(withdrawn) => withdrawn,
            Err(event) => return vec![happened(event)],
        };
        let mut outputs: Vec<Output> = withdrawn.into_iter().map(happened).collect();
        if let Stream::Open(conversation) = &self.stream {
            let message = self.outbox.message(id, conversation.epoch, now);
            outputs.extend(message.map(|message| say(connect_response::Message::Instruction(message))));
        }
        outputs
    }

    /// The controller wants to see everything again.
    pub fn ask_again(&mut self, reason: String) -> Vec<Output> {
        self.keep();
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        // A snapshot that is on its way already shows everything.
        if !matches!(conversation.believing, Believing::Following { .. }) {
            return Vec::new();
        }
        conversation.believing = Believing::Nothing;
        vec![say(connect_response::Message::Resync(v1::Resync { reason }))]
    }

    /// What the agent says is not read at this moment, or waits to be read: its silence counts from here.
    pub fn deaf(&mut self, now: Timestamp) {
        if let Stream::Open(conversation) = &mut self.stream {
            conversation.silent_since = now;
        }
    }

    /// Time has passed. Silence counts from the last word, or from when the agent was listened to again; time that went by
    /// unseen is nobody's silence, because what was said meanwhile may lie unread.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Output> {
        let mut outputs: Vec<Output> = self.outbox.expire(now).into_iter().map(happened).collect();
        if let Stream::Open(conversation) = &mut self.stream {
            conversation.notice(now, self.settings.heartbeat_ms);
            let silence = now.millis_since(conversation.silent_since);
            if silence >= self.settings.silence_ms {
                outputs.extend(self.hang_up(format!("nothing was heard for {silence} ms")));
            }
        }
        outputs
    }

    /// The agent said something.
    pub fn heard(&mut self, request: v1::ConnectRequest, now: Timestamp) -> Vec<Output> {
        let Stream::Open(conversation) = &mut self.stream else {
            return self.hang_up("the agent spoke before it was welcome".to_owned());
        };
        conversation.silent_since = now;
        match request.message {
            Some(connect_request::Message::Hello(_)) => self.hang_up("the agent said Hello twice".to_owned()),
            Some(connect_request::Message::Snapshot(snapshot)) => self.snapshot(snapshot, now),
            Some(connect_request::Message::Delta(delta)) => self.delta(delta),
            Some(connect_request::Message::Ack(ack)) => self.acknowledged(&ack),
            Some(connect_request::Message::Heartbeat(heartbeat)) => self.heartbeat(&heartbeat, now),
            None => Vec::new(),
        }
    }

    fn snapshot(&mut self, snapshot: v1::Snapshot, now: Timestamp) -> Vec<Output> {
        if matches!(snapshot.part, Some(snapshot::Part::Begin(_))) {
            self.keep();
        }
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        match (snapshot.part, &mut conversation.believing) {
            (Some(snapshot::Part::Begin(begin)), believing) => {
                conversation.clock = clock_problem(begin.taken_at_ms, now);
                let Settings { limits, ledger, .. } = &self.settings;
                let decoder = Decoder::new(Arc::clone(&self.interner), self.read_pools.clone(), *limits, ledger);
                *believing = Believing::Assembling(Box::new(Assembly::new(snapshot.id, decoder)));
                Vec::new()
            }
            (Some(snapshot::Part::Chunk(chunk)), Believing::Assembling(assembly)) => {
                match assembly.add(snapshot.id, chunk) {
                    Ok(()) => Vec::new(),
                    Err(incomplete) => self.disbelieve(incomplete),
                }
            }
            (Some(snapshot::Part::End(end)), Believing::Assembling(_)) => self.snapshot_ends(snapshot.id, &end),
            // Parts of a snapshot that was given up, and kinds of parts that this server does not know.
            (Some(snapshot::Part::Chunk(_) | snapshot::Part::End(_)) | None, _) => Vec::new(),
        }
    }

    fn snapshot_ends(&mut self, id: u64, end: &v1::SnapshotEnd) -> Vec<Output> {
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        let believing = std::mem::replace(&mut conversation.believing, Believing::Nothing);
        let Believing::Assembling(assembly) = believing else { return Vec::new() };
        match assembly.finish(id, end) {
            Ok((mut picture, decoder)) => {
                picture.problems.extend(conversation.clock.clone());
                conversation.believing = Believing::Following { decoder: Box::new(decoder), sequence: 0 };
                self.kept = None;
                vec![self.observed(Observation::Snapshot(Box::new(picture)))]
            }
            Err(incomplete) => self.disbelieve(incomplete),
        }
    }

    fn delta(&mut self, delta: v1::Delta) -> Vec<Output> {
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        let Believing::Following { decoder, sequence } = &mut conversation.believing else { return Vec::new() };
        let expected = *sequence + 1;
        if delta.sequence != expected {
            return self.resync(format!("delta {} came where {expected} was due", delta.sequence));
        }
        *sequence = expected;
        match decoder.delta(delta.changes) {
            Ok(observations) => observations.into_iter().map(|one| self.observed(one)).collect(),
            Err(fault) => self.disbelieve(Incomplete::Fault(fault)),
        }
    }

    fn heartbeat(&mut self, heartbeat: &v1::Heartbeat, now: Timestamp) -> Vec<Output> {
        let Stream::Open(conversation) = &self.stream else { return Vec::new() };
        match &conversation.believing {
            Believing::Following { sequence, .. } if *sequence != heartbeat.last_sequence => {
                self.resync(format!("delta {} was sent, {sequence} has come", heartbeat.last_sequence))
            }
            Believing::Following { .. } => self.look_at_clock(heartbeat.sent_at_ms, now),
            Believing::Assembling(_) | Believing::Nothing => Vec::new(),
        }
    }

    /// Tells that the agent's clock differs, or does so no more, when that has changed.
    fn look_at_clock(&mut self, sent_at_ms: i64, now: Timestamp) -> Vec<Output> {
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        if sent_at_ms == 0 {
            return Vec::new();
        }
        let found = clock_problem(sent_at_ms, now);
        if found.is_some() == conversation.clock.is_some() {
            return Vec::new();
        }
        conversation.clock.clone_from(&found);
        let observation = match found {
            Some(problem) => Observation::upsert(Object::Problem(problem)),
            None => Observation::Delete(Key::Problem(Text::from(CLOCK))),
        };
        vec![self.observed(observation)]
    }

    fn acknowledged(&mut self, ack: &v1::Ack) -> Vec<Output> {
        match self.outbox.settle(ack) {
            Settled::Event(event) => vec![happened(event)],
            Settled::Unknown => Vec::new(),
        }
    }

    /// What was received cannot be used. A snapshot may put right what was lost on the way; what breaks the contract would
    /// come again.
    fn disbelieve(&mut self, incomplete: Incomplete) -> Vec<Output> {
        match incomplete {
            Incomplete::Fault(fault @ (Fault::Unreadable { .. } | Fault::TooMuch { .. } | Fault::Memory { .. })) => {
                self.hang_up(fault.to_string())
            }
            other => self.resync(other.to_string()),
        }
    }

    fn resync(&mut self, reason: String) -> Vec<Output> {
        self.keep();
        let Stream::Open(conversation) = &mut self.stream else { return Vec::new() };
        conversation.believing = Believing::Nothing;
        conversation.resyncs += 1;
        if conversation.resyncs > RESYNCS_PER_STREAM {
            return self.hang_up(format!("{RESYNCS_PER_STREAM} fresh snapshots did not help: {reason}"));
        }
        vec![say(connect_response::Message::Resync(v1::Resync { reason }))]
    }

    fn hang_up(&mut self, reason: String) -> Vec<Output> {
        let mut outputs = self.closed();
        outputs.push(Output::HangUp(format!("cluster {}: {reason}", self.cluster)));
        outputs
    }

    fn observed(&self, observation: Observation) -> Output {
        happened(Event::Observed { cluster: self.cluster.clone(), observation })
    }
}

/// That an agent's clock differs from `now`, when it showed `sent_at_ms`; 0 when it did not show it.
fn clock_problem(sent_at_ms: i64, now: Timestamp) -> Option<ProblemRecord> {
    let ahead = sent_at_ms.saturating_sub(now.0);
    if sent_at_ms == 0 || ahead.saturating_abs() <= CLOCK_MAY_DIFFER_MS {
        return None;
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let reason = format!(
        "it is {} s {side} this server's: times in the cluster and here do not agree; set the clocks by NTP",
        ahead.saturating_abs() / 1_000
    );
    tracing::warn!(ahead_ms = ahead, "an agent's clock differs from this server's");
    Some(ProblemRecord { about: Text::from(CLOCK), reason: Text::from(reason) })
}

/// Whether `name` can be the name of a cluster; otherwise why not.
///
/// # Errors
/// The rule that is broken, for people.
pub fn check_cluster_name(name: &str) -> Result<Text, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 100 || !name.chars().all(allowed) {
        let shown: String = name.chars().take(100).collect();
        return Err(format!("{shown:?} cannot be a cluster's name: write 1 to 100 letters, digits, '-', '_' and '.'"));
    }
    Ok(Text::from(name))
}

fn say(message: connect_response::Message) -> Output {
    Output::Say(Box::new(encode::response(message)))
}

fn happened(event: Event) -> Output {
    Output::Tell(SessionEvent::Happened(event))
}

#[cfg(test)]
mod tests;
