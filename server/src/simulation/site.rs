//! A simulated cluster and its agent: the real link, and what an API server would do for a real agent.

use std::collections::{BTreeMap, BTreeSet};

use agent::link::{Link, Output, Speaker};
use agent::{Done, Seen};
use cloud::provider::InstanceState;
use cloud::simulated::LedgerEntry;
use engine::cluster::{ClusterSnapshot, Key, NodeRecord, Object, Observation, PodRecord, PoolRecord};
use engine::control::{ClusterId, Instruction};
use engine::model::{Text, Timestamp};
use fleetwright_proto::v1;
use simulator::SimulatedCluster;
use simulator::cluster::{Answer, Change};

use super::fault::Lacks;
use super::guard::Guard;
use super::outside::Incarnation;
use super::stage::{ForAgent, ForProcess, Stage};
use crate::demo::agent::{decode, encode};

/// Between two looks of an agent at the clock: half a heartbeat.
const BEAT_MS: i64 = 5_000;
/// From an instruction's coming to its being carried out.
const HANDS_MS: (i64, i64) = (5, 250);
/// A connection that does not come about is given up after this long (the agent's own limit).
const CONNECT_TIMEOUT_MS: i64 = 5_000;

/// So many NodeClaims may be taken away by force before it looks like an agent's fault, and somebody has to vouch for it.
const FEW: usize = 2;
/// Nobody vouches for a cluster that its agent has not seen for so long, in milliseconds: a picture that is on its way may be
/// from before.
const SEEN_MS: i64 = 4 * 60_000;

/// A pod that has run for so long, in milliseconds, ran when the drain of its node was decided: an instruction may be held up
/// for that long.
const SETTLED_MS: i64 = 3 * 60_000;

/// What was done in the cluster, for those who check.
#[derive(Debug, Default)]
pub(super) struct SiteLedger {
    /// The highest epoch under which anything was done.
    pub(super) highest_epoch: u64,
    /// Instructions that were carried out under an epoch that was over.
    pub(super) outdated: Vec<(Text, u64, u64)>,
    /// Who spoke in each epoch.
    pub(super) owners: BTreeMap<u64, BTreeSet<Incarnation>>,
    /// When drains of machines that were not taken back were begun.
    pub(super) drains: Vec<Timestamp>,
    /// Nodes that are being drained although their machines were not taken back, by NodeClaim.
    pub(super) leaving: BTreeSet<Text>,
    /// NodeClaims that were not shown when their machines began to be drained.
    by_hand: BTreeSet<Text>,
    /// NodeClaims whose Nodes began to be drained for no reason that the books know while pods ran on them.
    pub(super) drained_in_use: BTreeSet<Text>,
    /// NodeClaims that somebody took away by force, and when.
    pub(super) taken: BTreeMap<Text, Timestamp>,
    /// NodeClaims that were removed while their machines ran on.
    pub(super) orphaned: BTreeSet<Text>,
    /// NodeClaims that were removed while pods ran on their machines.
    pub(super) removed_in_use: BTreeSet<Text>,
    pub(super) instructions: u64,
}

/// An agent's process.
struct Agent {
    link: Link,
    wire: Option<usize>,
    /// Instructions that wait for the end of a drain, by NodeClaim.
    drains: BTreeMap<Text, Vec<String>>,
}

/// A cluster and its agent.
pub(super) struct Site {
    pub(super) number: usize,
    pub(super) name: ClusterId,
    pub(super) cluster: SimulatedCluster,
    pub(super) pools: Vec<PoolRecord>,
    agent: Option<Agent>,
    /// Counts the agent's processes.
    pub(super) life: u32,
    stored_epoch: u64,
    /// No connection comes about before this.
    pub(super) cut_off_until: Timestamp,
    pub(super) offset_ms: i64,
    /// The agent sees nothing but NodePools.
    blind: bool,
    /// What the agent's lists lack at the moment, once for each fault.
    lacking: Vec<Lacks>,
    /// So many partitions keep kubelets from reporting: Nodes are shown as not ready.
    silent: u32,
    /// Since when it sees what there is.
    sees_since: Timestamp,
    attempts: u64,
    pub(super) book: SiteLedger,
    off: Option<Guard>,
}

impl Site {
    pub(super) fn new(
        number: usize,
        name: ClusterId,
        cluster: SimulatedCluster,
        pools: Vec<PoolRecord>,
        off: Option<Guard>,
    ) -> Self {
        Self {
            number,
            name,
            cluster,
            pools,
            agent: None,
            life: 0,
            stored_epoch: 0,
            cut_off_until: Timestamp(0),
            offset_ms: 0,
            blind: false,
            lacking: Vec::new(),
            silent: 0,
            sees_since: Timestamp(0),
            attempts: 0,
            book: SiteLedger::default(),
            off,
        }
    }

    fn clock(&self, now: Timestamp) -> i64 {
        now.0.saturating_add(self.offset_ms)
    }

    pub(super) fn wire(&self) -> Option<usize> {
        self.agent.as_ref()?.wire
    }

    /// The agent starts: it knows what is stored in the cluster.
    pub(super) fn start(&mut self, stage: &mut Stage) {
        self.life += 1;
        let epoch = if self.off == Some(Guard::AgentEpoch) { 0 } else { self.stored_epoch };
        let speaker = Speaker {
            cluster_name: self.name.to_string(),
            cluster_uid: format!("simulated-{}", self.name),
            ..Speaker::default()
        };
        let seed = (self.number as u64) << 32 | u64::from(self.life);
        self.agent = Some(Agent { link: Link::new(speaker, epoch, seed), wire: None, drains: BTreeMap::new() });
        stage.send_agent(10, self.number, self.life, ForAgent::Connect);
        stage.send_agent(BEAT_MS, self.number, self.life, ForAgent::Beat);
    }

    /// The agent's process ends.
    pub(super) fn stop(&mut self, stage: &mut Stage) {
        if let Some(wire) = self.agent.take().and_then(|agent| agent.wire) {
            stage.cut(wire, None, Some(5));
        }
        self.life += 1;
    }

    /// A connection to the process that answers, if one does.
    pub(super) fn connect(&mut self, answers: impl Fn(u64) -> Option<Incarnation>, stage: &mut Stage) {
        self.attempts += 1;
        let now = stage.now();
        let clock = self.clock(now);
        let (number, life) = (self.number, self.life);
        let reached = answers(self.attempts).filter(|_| self.cut_off_until <= now);
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.wire.is_none()) else { return };
        let Some(server) = reached else {
            let wait = CONNECT_TIMEOUT_MS.saturating_add(i64::try_from(agent.link.disconnected()).unwrap_or(i64::MAX));
            let wait = if self.off == Some(Guard::Backoff) { 0 } else { wait };
            return stage.send_agent(wait, number, life, ForAgent::Connect);
        };
        let wire = stage.lay(number, life, server);
        agent.wire = Some(wire);
        let request = agent.link.connected(clock);
        if let Some(v1::connect_request::Message::Hello(hello)) = request.message {
            stage.say_to_server(wire, ForProcess::Opened { wire, hello: Box::new(hello) });
        }
    }

    pub(super) fn take(&mut self, what: ForAgent, stage: &mut Stage) {
        let clock = self.clock(stage.now());
        let Some(agent) = &mut self.agent else { return };
        match what {
            // Whoever runs the cluster knows which processes there are.
            ForAgent::Connect => {}
            ForAgent::Heard { wire, response } if agent.wire == Some(wire) => {
                self.note_owner(&response, stage.wire(wire).server);
                if let Some(agent) = &mut self.agent {
                    let outputs = agent.link.heard(*response, clock);
                    self.perform(outputs, stage);
                }
            }
            ForAgent::Lost { wire } if agent.wire == Some(wire) => self.lost(stage),
            ForAgent::Heard { .. } | ForAgent::Lost { .. } => {}
            ForAgent::CarryOut(instruction) => self.carry_out(*instruction, stage),
            ForAgent::Beat => {
                let outputs = agent.link.tick(clock);
                self.perform(outputs, stage);
                stage.send_agent(BEAT_MS, self.number, self.life, ForAgent::Beat);
            }
        }
    }

    fn note_owner(&mut self, response: &v1::ConnectResponse, by: Incarnation) {
        if let Some(v1::connect_response::Message::Instruction(instruction)) = &response.message {
            self.book.owners.entry(instruction.epoch).or_default().insert(by);
        }
    }

    /// The stream has ended.
    fn lost(&mut self, stage: &mut Stage) {
        let Some(agent) = &mut self.agent else { return };
        agent.wire = None;
        let wait = i64::try_from(agent.link.disconnected()).unwrap_or(i64::MAX);
        if self.off == Some(Guard::Reconnect) {
            return;
        }
        stage.send_agent(wait, self.number, self.life, ForAgent::Connect);
    }

    fn perform(&mut self, outputs: Vec<Output>, stage: &mut Stage) {
        let mut queue = std::collections::VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            match output {
                Output::Say(request) => {
                    if let Some(wire) = self.wire() {
                        let request = Box::new(request);
                        stage.say_to_server(wire, ForProcess::Said { wire, request });
                    }
                }
                Output::TakeSnapshot => {
                    let (records, clock) = (self.picture(), self.clock(stage.now()));
                    if let Some(agent) = &mut self.agent {
                        queue.extend(agent.link.snapshot(records, clock));
                    }
                }
                Output::RaiseEpoch(epoch) => self.stored_epoch = self.stored_epoch.max(epoch),
                Output::CarryOut(instruction) => {
                    let wait = stage.die().between(HANDS_MS);
                    stage.send_agent(wait, self.number, self.life, ForAgent::CarryOut(instruction));
                }
                Output::ClockDiffers(ahead_ms) => {
                    stage.tell(|| format!("the agent's clock is {ahead_ms} ms ahead"));
                }
                Output::HangUp(reason) => {
                    stage.tell(|| format!("the agent of {} hangs up: {reason}", self.name));
                    if let Some(wire) = self.wire() {
                        stage.cut(wire, None, Some(20));
                        self.lost(stage);
                    }
                }
            }
        }
    }

    /// From now on the agent sees everything, or nothing but NodePools.
    pub(super) fn turn_blind(&mut self, blind: bool, stage: &mut Stage) {
        self.blind = blind;
        self.sees_since = stage.now();
        if let Some(agent) = &mut self.agent {
            let outputs = agent.link.lost_sight();
            self.perform(outputs, stage);
        }
    }

    /// The agent's watch begins anew, with a list that lacks objects or with one that has them again, and the agent tells the
    /// difference.
    pub(super) fn relist(&mut self, lacks: Lacks, begins: bool, stage: &mut Stage) {
        let hidden = std::mem::take(&mut self.lacking);
        self.lacking.clone_from(&hidden);
        if begins {
            self.lacking.push(lacks);
        } else if let Some(place) = self.lacking.iter().position(|known| *known == lacks) {
            self.lacking.remove(place);
        }
        self.sees_since = stage.now();
        let hides = |lacking: &[Lacks], kind| lacking.iter().any(|lacks| lacks.hides(kind));
        let mut seen = Vec::new();
        for kind in [Lacks::Pools, Lacks::Claims, Lacks::Nodes, Lacks::Pods, Lacks::Workloads] {
            match (hides(&hidden, kind), hides(&self.lacking, kind)) {
                (false, true) => seen.extend(self.objects(kind).into_iter().map(|(key, _)| encode::removal(&key))),
                (true, false) => seen.extend(self.objects(kind).into_iter().map(|(_, seen)| seen)),
                _ => {}
            }
        }
        let clock = self.clock(stage.now());
        if let Some(agent) = self.agent.as_mut().filter(|_| !self.blind && !seen.is_empty()) {
            let outputs = agent.link.changed(seen, clock);
            self.perform(outputs, stage);
        }
    }

    /// From now on kubelets report, or do not; partitions may overlap.
    pub(super) fn silence(&mut self, silent: bool, stage: &mut Stage) {
        self.silent = if silent { self.silent + 1 } else { self.silent.saturating_sub(1) };
        if let Some(agent) = &mut self.agent {
            let outputs = agent.link.lost_sight();
            self.perform(outputs, stage);
        }
    }

    /// What there is of a kind.
    fn objects(&self, kind: Lacks) -> Vec<(Key, Seen)> {
        let told = |key: Key, object: Object| encode::object(&object).map(|seen| (key, seen));
        let (pods, nodes, claims) = (self.cluster.pods(), self.cluster.nodes(), self.cluster.claims());
        match kind {
            Lacks::Pods | Lacks::Workloads => {
                let pods = pods.filter(|pod| pod.daemon.is_some() == (kind == Lacks::Pods));
                pods.filter_map(|pod| told(Key::Pod(pod.key.clone()), Object::Pod(pod.clone()))).collect()
            }
            Lacks::Nodes => {
                nodes.filter_map(|node| told(Key::Node(node.name.clone()), Object::Node(node.clone()))).collect()
            }
            Lacks::Claims => {
                claims.filter_map(|claim| told(Key::Claim(claim.name.clone()), Object::Claim(claim.clone()))).collect()
            }
            Lacks::Pools => self.pools.iter().map(|pool| (Key::Pool(pool.pool.name.clone()), manifest(pool))).collect(),
            Lacks::Everything => Vec::new(),
        }
    }

    /// Whether the agent's lists lack objects of this kind at the moment.
    fn hides(&self, kind: Lacks) -> bool {
        self.lacking.iter().any(|lacks| lacks.hides(kind))
    }

    /// The object as the API server shows it.
    fn shown(&self, object: Object) -> Object {
        match object {
            Object::Node(node) if self.silent > 0 => Object::Node(NodeRecord { ready: false, ..node }),
            other => other,
        }
    }

    /// Whether the cluster has this NodeClaim.
    pub(super) fn has_claim(&self, claim: &Text) -> bool {
        self.cluster.claims().any(|known| known.name == *claim)
    }

    /// Somebody takes the finalizers of a NodeClaim off and deletes it; says whether there was one.
    pub(super) fn lose_claim(&mut self, claim: Text, now: Timestamp) -> bool {
        let was_there = self.cluster.remove_claim(&claim);
        self.book.taken.insert(claim, now);
        was_there
    }

    /// Whether so many NodeClaims were taken away that servers wait for a person's word.
    pub(super) fn needs_a_word(&self) -> bool {
        self.book.taken.len() > FEW
    }

    /// Whether a person who looks at the cluster finds there what its agent has been showing.
    pub(super) fn is_as_shown(&self, now: Timestamp) -> bool {
        !self.blind && self.lacking.is_empty() && now.millis_since(self.sees_since) >= SEEN_MS
    }

    /// Everything that the agent sees. What changed before is part of it.
    fn picture(&mut self) -> Vec<Seen> {
        if self.blind {
            return self.pools.iter().map(manifest).collect();
        }
        let ClusterSnapshot { pods, nodes, mut claims, daemons, namespaces, .. } = self.cluster.snapshot();
        if self.off == Some(Guard::PodEvents) {
            claims.iter_mut().for_each(|claim| (claim.last_pod_event, claim.in_service_since) = (None, None));
        }
        let objects = namespaces.into_iter().map(Object::Namespace);
        let objects = objects.chain(daemons.into_iter().map(Object::Daemon));
        let objects = objects.chain(nodes.into_iter().map(Object::Node)).chain(claims.into_iter().map(Object::Claim));
        let objects = objects.chain(pods.into_iter().map(Object::Pod));
        let objects = objects.filter(|object| kind_of(object).is_none_or(|kind| !self.hides(kind)));
        let objects = objects.map(|object| self.shown(object));
        let pools = self.pools.iter().filter(|_| !self.hides(Lacks::Pools));
        pools.map(manifest).chain(objects.filter_map(|object| encode::object(&object))).collect()
    }

    /// Time passes in the cluster, and the agent sees what changed.
    pub(super) fn live(&mut self, stage: &mut Stage) {
        let (now, clock) = (stage.now(), self.clock(stage.now()));
        let mut seen = Vec::new();
        let mut over = Vec::new();
        for change in self.cluster.tick(now) {
            match change {
                Change::Drained { claim } => over.extend(self.drained(&claim)),
                Change::Observed(Observation::Upsert(object)) => {
                    let shown = kind_of(&object).is_none_or(|kind| !self.hides(kind));
                    seen.extend(shown.then(|| encode::object(&self.shown(*object))).flatten());
                }
                // A watch that saw the object before tells its end although the list lacked it.
                Change::Observed(Observation::Delete(key)) => seen.push(encode::removal(&key)),
                Change::Observed(Observation::Snapshot(_)) => {}
            }
        }
        let Some(agent) = &mut self.agent else { return };
        let mut outputs = if seen.is_empty() || self.blind { Vec::new() } else { agent.link.changed(seen, clock) };
        for id in over.into_iter().filter(|_| self.off != Some(Guard::Answers)) {
            outputs.extend(agent.link.finished(&id, Done::well(), clock));
        }
        self.perform(outputs, stage);
    }

    /// Instructions that waited for this.
    fn drained(&mut self, claim: &Text) -> Vec<String> {
        self.agent.as_mut().and_then(|agent| agent.drains.remove(claim)).unwrap_or_default()
    }

    fn carry_out(&mut self, mut message: v1::Instruction, stage: &mut Stage) {
        if let (Some(v1::instruction::Action::DrainNode(drain)), true) = (&mut message.action, self.lists_nothing()) {
            drain.only_if_empty = false;
        }
        let (now, clock) = (stage.now(), self.clock(stage.now()));
        let id = message.id.clone();
        self.note(&message, stage);
        let told = decode::only_tells(&message);
        let drain = matches!(message.action, Some(v1::instruction::Action::DrainNode(_)));
        let answers = !drain || self.off != Some(Guard::Answers);
        if let Some((claim, at)) = decode::pod_event(&message) {
            self.cluster.note_pod_event(&claim, at);
        }
        let done = match decode::instruction(message) {
            _ if told => Some(Done::well()),
            Ok(Some(instruction)) => self.obey(&instruction, &id, now),
            Ok(None) => Some(Done::not(v1::Outcome::Unsupported, "the simulated cluster does not know this")),
            Err(reason) => Some(Done::not(v1::Outcome::Failed, reason)),
        };
        if let (Some(agent), Some(done)) = (&mut self.agent, done.filter(|_| answers)) {
            let outputs = agent.link.finished(&id, done, clock);
            self.perform(outputs, stage);
        }
    }

    fn obey(&mut self, instruction: &Instruction, id: &str, now: Timestamp) -> Option<Done> {
        if self.off == Some(Guard::Claims) && matches!(instruction, Instruction::CreateClaim(_)) {
            return Some(Done::well());
        }
        match self.cluster.instruct(instruction, now) {
            Err(reason) => Some(Done::not(v1::Outcome::NotFound, reason)),
            Ok(Answer::Unmet(reason)) => Some(Done::not(v1::Outcome::PreconditionFailed, reason)),
            Ok(Answer::Done) => Some(Done::well()),
            Ok(Answer::Later) => {
                let agent = self.agent.as_mut()?;
                let claim = instruction.claim().cloned().unwrap_or_default();
                agent.drains.entry(claim).or_default().push(id.to_owned());
                None
            }
        }
    }

    fn note(&mut self, message: &v1::Instruction, stage: &Stage) {
        self.book.instructions += u64::from(!decode::only_tells(message));
        if message.epoch < self.book.highest_epoch {
            let entry = (Text::from(message.id.as_str()), message.epoch, self.book.highest_epoch);
            self.book.outdated.push(entry);
        }
        self.book.highest_epoch = self.book.highest_epoch.max(message.epoch);
        match &message.action {
            Some(v1::instruction::Action::DrainNode(drain)) => {
                let claim = Text::from(drain.node_claim.as_str());
                let stays = self.has_machine(&claim, stage, |entry, _| entry.interrupted.is_none());
                let used = self.is_in_use(&claim, stage.now()) && !self.book.taken.contains_key(&claim);
                // A NodeClaim that the agent does not show is one that a person removed, for all that the server can know, and
                // a few of those go at once.
                // That drain goes on after a restart, when the NodeClaim may be shown again.
                let by_hand = self.hides(Lacks::Claims);
                let goes_on = self.book.by_hand.contains(&claim);
                self.book.by_hand.extend(by_hand.then(|| claim.clone()));
                let begins = !drain.only_if_empty || self.cluster.occupant(&Text::from(drain.node.as_str())).is_none();
                if stays && begins && !goes_on && (by_hand || self.book.leaving.insert(claim.clone())) {
                    self.book.drains.push(stage.now());
                    self.book.drained_in_use.extend(used.then_some(claim));
                }
            }
            Some(v1::instruction::Action::DeleteNodeClaim(delete)) => {
                let claim = Text::from(delete.node_claim.as_str());
                let up = |_: &LedgerEntry, state| matches!(state, InstanceState::Pending | InstanceState::Running);
                if self.cluster.claims().any(|known| known.name == claim) && self.has_machine(&claim, stage, up) {
                    if self.cluster.running_for(&claim).next().is_some() {
                        self.book.removed_in_use.insert(claim.clone());
                    }
                    self.book.orphaned.insert(claim);
                }
            }
            _ => {}
        }
    }

    /// Whether the agent drains without asking the API server which pods there are: that guard is off, or one is that it would
    /// stand in for.
    fn lists_nothing(&self) -> bool {
        matches!(self.off, Some(Guard::EmptyCheck | Guard::Losses | Guard::Extents | Guard::Witness))
    }

    /// Whether pods have been running for long on the machine of `claim`.
    fn is_in_use(&self, claim: &Text, now: Timestamp) -> bool {
        let settled = |pod: &PodRecord| pod.started.is_some_and(|started| now.millis_since(started) >= SETTLED_MS);
        self.cluster.running_for(claim).any(settled)
    }

    /// Whether the cloud has a machine for `claim` that is not gone and of which `is` holds.
    fn has_machine(&self, claim: &Text, stage: &Stage, is: impl Fn(&LedgerEntry, InstanceState) -> bool) -> bool {
        let cloud = stage.outside.cloud();
        let mine = |entry: &&LedgerEntry| entry.instance.cluster == self.name && entry.instance.claim == *claim;
        cloud
            .book()
            .alive()
            .filter(mine)
            .any(|entry| cloud.describe(&entry.instance.id).is_ok_and(|instance| is(entry, instance.state)))
    }
}

/// What an object is, as far as lists may lack it.
fn kind_of(object: &Object) -> Option<Lacks> {
    match object {
        Object::Pod(pod) if pod.daemon.is_none() => Some(Lacks::Workloads),
        Object::Pod(_) => Some(Lacks::Pods),
        Object::Node(_) => Some(Lacks::Nodes),
        Object::Claim(_) => Some(Lacks::Claims),
        Object::Pool(_) => Some(Lacks::Pools),
        _ => None,
    }
}

/// A NodePool as it travels: its reader knows the pool by its name.
fn manifest(record: &PoolRecord) -> Seen {
    Seen::plain(v1::change::Change::Manifest(v1::ManifestRecord {
        kind: v1::ObjectKind::NodePool.into(),
        name: record.pool.name.to_string(),
        json: b"{}".to_vec(),
        resource_version: record.revision.to_string(),
    }))
}
