//! The agent's side of the conversation, without I/O: messages and moments go in, [`Output`]s come out.
//!
//! A stream begins with `Hello`; after `Welcome` comes a snapshot, then deltas. What outlives a stream: the highest epoch, the
//! results of instructions ([`ledger`]), and the count of failed connections that the wait before the next one grows with
//! ([`backoff`]). Moments are milliseconds since 1970, because the deadlines of instructions are.

pub mod backoff;
pub mod cut;
pub mod ledger;

use fleetwright_proto::v1;
use fleetwright_proto::v1::{connect_request, connect_response, snapshot};

use crate::intern::Interner;
use crate::port::{Done, Seen};
use backoff::Backoff;
use ledger::{Ledger, Verdict};

/// Heartbeats are never further apart than a minute nor closer than a tenth of a second, whatever the server asks for: the
/// first keeps a dead agent from going unnoticed, the second the wire from filling with signs of life.
const HEARTBEAT_BOUNDS_MS: (i64, i64) = (100, 60_000);

/// An epoch that lies further than this above the highest that was obeyed comes of no change of hands. Servers draw the same line
/// for what an agent says it has obeyed.
const FARTHEST_JUMP: u64 = 1 << 32;

/// A Hello without an answer for so long, in milliseconds, is heard by nobody. A server that has just started takes a thousand
/// clusters in within a minute or two, and those who come last wait for the others.
const UNHEARD_MS: i64 = 300_000;

/// Definitions beyond those of the last snapshot after which a fresh snapshot is cheaper for both sides than remembering
/// what no living pod uses: Jobs bring a label set of their own with each run. A definition is about 200 bytes, so this is some
/// 20 MB on either side.
const DEFINITIONS_BEFORE_REFRESH: usize = 100_000;

/// A conversation that has gone on for so long after `Welcome`, in milliseconds, came about: the next failure is the first again. A
/// server that welcomes an agent and ends the stream as soon as it sees the picture does so again with the next one.
const LIVED_MS: i64 = 3_000;

/// The server's clock may be so far from ours, in milliseconds, before it is told. Moments that bind us come as what is left of
/// them, so nothing is done early or late; but what people read in the cluster and at the server does not agree.
const CLOCK_MAY_DIFFER_MS: i64 = 30_000;

/// What a shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send this message.
    Say(v1::ConnectRequest),
    /// Observe the cluster again and hand the records to [`Link::snapshot`].
    TakeSnapshot,
    /// Store this epoch in the cluster before doing anything that comes after it. Hang up when that fails.
    RaiseEpoch(u64),
    /// Carry this out and hand the result to [`Link::finished`].
    CarryOut(Box<v1::Instruction>),
    /// Tell people that our clock is so many milliseconds ahead of the server's; less than 0 when it is behind.
    ClockDiffers(i64),
    /// End the stream, for this reason.
    HangUp(String),
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Speaker {
    /// Name of the cluster.
    pub cluster_name: String,
    /// What makes the cluster this one.
    pub cluster_uid: String,
    /// Version of the API server; empty when not known.
    pub kubernetes_version: String,
    /// Region; empty when not known.
    pub region: String,
    /// A person has said that no Karpenter is at work in the cluster, whatever is found there.
    pub karpenter_absent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is no stream.
    Apart,
    /// `Hello` is said, `Welcome` is not heard.
    Greeting,
    /// Welcome, but the snapshot has not been taken.
    Welcome,
    /// The snapshot is sent; changes follow.
    Following,
}

/// The conversation.
#[derive(Debug)]
pub struct Link {
    speaker: Speaker,
    phase: Phase,
    highest_epoch: u64,
    ledger: Ledger,
    interner: Interner,
    /// Definitions that the last snapshot told.
    definitions_in_snapshot: usize,
    snapshot_id: u64,
    sequence: u64,
    heartbeat_ms: i64,
    last_said: i64,
    /// When the server said Welcome.
    welcome_at: i64,
    backoff: Backoff,
}

impl Link {
    /// A conversation that has not begun. `highest_epoch` is what the cluster has stored; `seed` makes the waits between
    /// connections differ from agent to agent.
    #[must_use]
    pub fn new(speaker: Speaker, highest_epoch: u64, seed: u64) -> Self {
        Self {
            speaker,
            phase: Phase::Apart,
            highest_epoch,
            ledger: Ledger::default(),
            interner: Interner::new(),
            definitions_in_snapshot: 0,
            snapshot_id: 0,
            sequence: 0,
            heartbeat_ms: HEARTBEAT_BOUNDS_MS.1,
            last_said: 0,
            welcome_at: 0,
            backoff: Backoff::new(seed),
        }
    }

    /// A stream is open: the first message.
    pub fn connected(&mut self, now: i64) -> v1::ConnectRequest {
        self.phase = Phase::Greeting;
        self.snapshot_id = 0;
        self.heartbeat_ms = HEARTBEAT_BOUNDS_MS.1;
        let hello = v1::Hello {
            cluster_name: self.speaker.cluster_name.clone(),
            cluster_uid: self.speaker.cluster_uid.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            highest_epoch: self.highest_epoch,
            region: self.speaker.region.clone(),
            kubernetes_version: self.speaker.kubernetes_version.clone(),
            karpenter_absent: self.speaker.karpenter_absent,
        };
        self.say(connect_request::Message::Hello(hello), now)
    }

    /// The stream is gone, or could not be opened: how many milliseconds to wait before the next attempt.
    pub fn disconnected(&mut self) -> u64 {
        self.phase = Phase::Apart;
        self.backoff.next_wait_ms()
    }

    /// The server said something.
    pub fn heard(&mut self, response: v1::ConnectResponse, now: i64) -> Vec<Output> {
        match response.message {
            Some(connect_response::Message::Welcome(welcome)) => self.welcomed(&welcome, now),
            Some(connect_response::Message::Instruction(instruction)) => self.instructed(instruction, now),
            Some(connect_response::Message::Resync(_)) if self.is_welcome() => {
                self.phase = Phase::Welcome;
                vec![Output::TakeSnapshot]
            }
            Some(connect_response::Message::Resync(_)) | None => Vec::new(),
        }
    }

    /// The picture of the cluster, asked for by [`Output::TakeSnapshot`]. Results that the server may not have seen follow it.
    pub fn snapshot(&mut self, records: Vec<Seen>, now: i64) -> Vec<Output> {
        if !self.is_welcome() {
            return Vec::new();
        }
        self.interner.forget();
        self.snapshot_id += 1;
        self.sequence = 0;
        let changes = self.changes_of(records);
        self.definitions_in_snapshot = self.interner.len();
        self.phase = Phase::Following;
        let parts = cut::snapshot(changes, now);
        let mut outputs: Vec<Output> = parts.into_iter().map(|part| self.say_part(part, now)).collect();
        let results = self.ledger.results();
        outputs.extend(results.into_iter().map(|ack| self.say_ack(ack, now)));
        outputs
    }

    /// Changes since the picture was taken. They are dropped while no snapshot is out, because one will follow that has them.
    pub fn changed(&mut self, seen: Vec<Seen>, now: i64) -> Vec<Output> {
        if self.phase != Phase::Following {
            return Vec::new();
        }
        let changes = self.changes_of(seen);
        let mut outputs = Vec::new();
        for changes in cut::lists(changes) {
            self.sequence += 1;
            let delta = v1::Delta { sequence: self.sequence, changes };
            outputs.push(Output::Say(self.say(connect_request::Message::Delta(delta), now)));
        }
        if self.interner.len() > 2 * self.definitions_in_snapshot + DEFINITIONS_BEFORE_REFRESH {
            self.phase = Phase::Welcome;
            outputs.push(Output::TakeSnapshot);
        }
        outputs
    }

    /// The cluster's changes have ended: the picture has to be taken again.
    pub fn lost_sight(&mut self) -> Vec<Output> {
        if self.phase != Phase::Following {
            return Vec::new();
        }
        self.phase = Phase::Welcome;
        vec![Output::TakeSnapshot]
    }

    /// An instruction has come to an end. The result is kept when there is no stream.
    pub fn finished(&mut self, instruction_id: &str, done: Done, now: i64) -> Vec<Output> {
        let ack = self.ledger.finish(instruction_id, done, now);
        match ack {
            Some(ack) if self.is_welcome() => vec![self.say_ack(ack, now)],
            _ => Vec::new(),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: i64) -> Vec<Output> {
        self.ledger.prune(now);
        if self.phase == Phase::Greeting && now.saturating_sub(self.last_said) >= UNHEARD_MS {
            return vec![Output::HangUp(format!("the server has not answered Hello for {} s", UNHEARD_MS / 1_000))];
        }
        if self.is_welcome() && now.saturating_sub(self.welcome_at) >= LIVED_MS {
            self.backoff.succeeded();
        }
        if !self.is_welcome() || now.saturating_sub(self.last_said) < self.heartbeat_ms {
            return Vec::new();
        }
        let heartbeat = v1::Heartbeat { last_sequence: self.sequence, sent_at_ms: now };
        vec![Output::Say(self.say(connect_request::Message::Heartbeat(heartbeat), now))]
    }

    /// How often [`tick`](Self::tick) has to be called for heartbeats to be on time, in milliseconds.
    #[must_use]
    pub fn tick_interval_ms(&self) -> u64 {
        u64::try_from(self.heartbeat_ms / 2).unwrap_or(1).max(1)
    }

    fn is_welcome(&self) -> bool {
        matches!(self.phase, Phase::Welcome | Phase::Following)
    }

    fn welcomed(&mut self, welcome: &v1::Welcome, now: i64) -> Vec<Output> {
        if self.phase != Phase::Greeting {
            return vec![Output::HangUp("the server said Welcome twice".to_owned())];
        }
        if welcome.epoch < self.highest_epoch {
            return vec![Output::HangUp(format!(
                "the server decides under epoch {}, but epoch {} has been seen: another server owns this cluster",
                welcome.epoch, self.highest_epoch
            ))];
        }
        if self.is_too_high(welcome.epoch) {
            return vec![self.refuse_epoch(welcome.epoch)];
        }
        let (least, most) = HEARTBEAT_BOUNDS_MS;
        self.heartbeat_ms = i64::from(welcome.heartbeat_interval_ms).clamp(least, most);
        self.phase = Phase::Welcome;
        self.welcome_at = now;
        let mut outputs = self.raise_epoch(welcome.epoch);
        let ahead = now.saturating_sub(welcome.sent_at_ms);
        if welcome.sent_at_ms != 0 && ahead.saturating_abs() > CLOCK_MAY_DIFFER_MS {
            outputs.push(Output::ClockDiffers(ahead));
        }
        outputs.push(Output::TakeSnapshot);
        outputs
    }

    fn instructed(&mut self, instruction: v1::Instruction, now: i64) -> Vec<Output> {
        if !self.is_welcome() {
            return vec![Output::HangUp("the server instructed before it said Welcome".to_owned())];
        }
        if self.is_too_high(instruction.epoch) {
            return vec![self.refuse_epoch(instruction.epoch)];
        }
        let instruction = by_our_clock(instruction, now);
        match self.ledger.judge(&instruction, self.highest_epoch, now) {
            Verdict::Answer(ack) => vec![self.say_ack(ack, now)],
            Verdict::UnderWay => Vec::new(),
            Verdict::CarryOut => {
                let mut outputs = self.raise_epoch(instruction.epoch);
                outputs.push(Output::CarryOut(Box::new(instruction)));
                outputs
            }
        }
    }

    fn is_too_high(&self, epoch: u64) -> bool {
        epoch.saturating_sub(self.highest_epoch) > FARTHEST_JUMP
    }

    fn refuse_epoch(&self, epoch: u64) -> Output {
        Output::HangUp(format!(
            "the server decides under epoch {epoch}, and the highest that this cluster has obeyed is {}: no change of hands explains \
             such a jump, and storing it would shut every other server out. If this is the right server, set the annotation \
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

    fn changes_of(&mut self, seen: Vec<Seen>) -> Vec<v1::Change> {
        let mut changes = Vec::with_capacity(seen.len());
        for one in seen {
            self.interner.write(one, &mut changes);
        }
        changes
    }

    fn say_part(&mut self, part: snapshot::Part, now: i64) -> Output {
        let snapshot = v1::Snapshot { id: self.snapshot_id, part: Some(part) };
        Output::Say(self.say(connect_request::Message::Snapshot(snapshot), now))
    }

    fn say_ack(&mut self, ack: v1::Ack, now: i64) -> Output {
        Output::Say(self.say(connect_request::Message::Ack(ack), now))
    }

    fn say(&mut self, message: connect_request::Message, now: i64) -> v1::ConnectRequest {
        self.last_said = now;
        v1::ConnectRequest { message: Some(message) }
    }
}

/// The instruction with its moments by our clock, which shows `now`. A server that does not say what is left of them goes by its
/// own, and there is nothing better.
fn by_our_clock(mut instruction: v1::Instruction, now: i64) -> v1::Instruction {
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
