//! What one server process does about its clusters, without I/O: what happened goes in with the moment, what somebody has
//! to do comes out. The loop around it has tasks and sockets; a simulation has a virtual clock and many replicas.
//!
//! Deciding is the controller's, order and retries are the executor's. What is here: which lease covers which call, and
//! whether an agent is welcome, and when ([`admission`], [`doorstep`]).

mod admission;
mod doorstep;
mod overruling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use cloud::provider::{CloudEvent, Instance};
use engine::cluster::Observation;
use engine::control::unavailable_offerings::UnavailableOffering;
use engine::control::{
    ClusterId, Event, Instruction, InstructionId, Listing, PlanAnswer, PlanRequest, RegionController,
};
use engine::model::{Text, Timestamp};
use executor::{Command, CommandId, Executor, Outcome, Step};
use tracing::{debug, error, info, warn};

use self::admission::Admission;
use self::doorstep::Doorstep;
use super::exchange::{CounterSync, CounterUpdate};
use super::intents;
use super::region::{self, ByCluster, Region};
use crate::session::{Greeting, SessionEvent};
use crate::store::StoreError;
use crate::store::lease::{Lease, LeaseAnswer, Renewal, Scope};
use crate::store::listing::KeptListing;
use crate::store::rails::{AuditEntry, FreezeScope};
use crate::store::shares::RemoteCounters;
use crate::store::undertaking::PastAttempt;

/// An instruction that no agent has taken up after this has failed, and the controller thinks again.
const INSTRUCTION_MS: i64 = 10 * 60_000;

/// Drains wait for pods, as long as their budgets make them.
const DRAIN_MS: i64 = 24 * 3_600_000;

/// How long a cluster's agent must have been gone before its lease is handed to a replica that asks for it, in milliseconds.
/// That replica asks because the agent has come to it, and forgets the wish when the lease is taken anew; so this is for an
/// agent that has gone from there as well and is on its way back.
const HAND_OVER_MS: i64 = 500;

/// After a renewal another one that follows from wishes comes after so long at the earliest, in milliseconds: a thousand
/// wishes that come one after the other are heard in a few renewals.
const WISHES_MS: i64 = 250;

/// Clusters that hear of a listing in one step. What a thousand make of one takes tenths of a second, in which no other is
/// decided for.
const HEARD_AT_ONCE: usize = 8;

/// Something that happened to this process.
#[derive(Debug)]
pub(crate) enum Input {
    /// A session tells.
    Heard(SessionEvent),
    /// The store answered [`Call::TakeLease`].
    Leased {
        cluster: ClusterId,
        answer: Result<LeaseAnswer, StoreError>,
        /// What was launched there lately, if the lease was granted.
        past: Vec<PastAttempt>,
    },
    /// A plan that was asked for by [`Output::Plan`] is there.
    Planned(Box<PlanAnswer>),
    /// A command came to an end.
    Ran { id: CommandId, outcome: Outcome },
    /// The cloud answered [`Call::AskCloud`].
    CloudTold(Vec<CloudEvent>),
    /// The store answered [`Call::Renew`].
    Renewed(Renewal),
    /// The store answered [`Call::TakeRegion`].
    RegionTaken(Result<LeaseAnswer, StoreError>),
    /// The cloud answered [`Call::List`], which was asked at that moment, or why it was not asked.
    Listed { asked: Timestamp, answer: Result<Vec<Instance>, String> },
    /// The store answered [`Call::ReadListing`], which was asked at that moment about these clusters.
    Overheard { asked: Timestamp, clusters: Vec<ClusterId>, answer: Result<Option<KeptListing>, StoreError> },
    /// The store answered [`Call::CounterSync`]: what it took, and what other processes told it.
    Exchanged { taken: Option<CounterUpdate>, answer: Result<RemoteCounters, StoreError> },
    /// A call came to its end that nobody waits for.
    Told,
    /// It is time to ask the cloud.
    CloudPoll,
    /// It is time to hear what came and went in clusters of other replicas.
    ExchangeDue,
    /// It is time to prolong every lease.
    RenewalDue,
    /// Some replica may want a lease of somebody's, or have given one back.
    Wished,
    /// It is time to have the cloud list its machines.
    ListingDue,
    /// Time passed.
    Time,
}

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Somebody outside has to answer.
    Call(Call),
    /// A plan has to be made, which may take long; answered by [`Input::Planned`].
    Plan(Box<PlanRequest>),
    /// The agent that greeted is welcome under this epoch.
    Accept { cluster: ClusterId, epoch: u64 },
    /// The agent is not wanted.
    Refuse { cluster: ClusterId, reason: String },
    /// Have the agent do something.
    Instruct { cluster: ClusterId, id: InstructionId, instruction: Box<Instruction>, deadline: Timestamp },
    /// Have the agent of a cluster send a snapshot.
    Resync { cluster: ClusterId, reason: Text },
    /// What people see of this cluster has changed.
    Show(ClusterId),
}

/// A question to the store or the cloud, answered by an [`Input`].
#[derive(Debug)]
pub(crate) enum Call {
    /// Take the lease of a cluster above the epoch that its agent has `seen`, unless its name belongs to another than `uid`.
    TakeLease { cluster: ClusterId, seen: u64, uid: Text },
    /// Prolong leases, all at once.
    Renew(Vec<Lease>),
    /// Give leases back.
    Release(Vec<Lease>),
    /// Tell whoever holds the lease of this cluster or region that it is wanted here.
    AskFor(Scope),
    /// Take the lease of the region.
    TakeRegion(Scope),
    /// Ask the cloud what has happened by itself.
    AskCloud,
    /// Have the cloud list its machines, and keep the list for the other replicas.
    List { asked: Timestamp, lease: Lease },
    /// Read what another replica has had listed about these clusters.
    ReadListing { asked: Timestamp, scope: Scope, clusters: Vec<ClusterId> },
    /// Write down what a person has had done.
    Audit(AuditEntry),
    /// Let every replica of this region know that these offerings are refused.
    Remember { region: String, refusals: Vec<UnavailableOffering> },
    /// Tell the others what this life of this process saw come and go, and hear what they saw.
    CounterSync { life: u64, telling: Option<CounterUpdate>, within: Duration },
    /// Carry a command out, under the lease of its cluster if this process holds it, and give it up at `answer_by`.
    Run { id: CommandId, command: Command, lease: Option<Lease>, answer_by: Timestamp },
}

impl Call {
    /// When the call is to be dropped, and what is known then; `None` for calls that may take as long as they need.
    pub(crate) fn limit(&self) -> Option<(Timestamp, Input)> {
        let Self::Run { id, answer_by, .. } = self else { return None };
        let outcome = Outcome::TryAgain { after_ms: None, why: "no answer in time".to_owned() };
        Some((*answer_by, Input::Ran { id: *id, outcome }))
    }
}

/// One server process, as far as its clusters are concerned.
#[derive(Debug)]
pub(crate) struct Replica {
    controller: RegionController,
    executor: Executor,
    leases: BTreeMap<ClusterId, Lease>,
    region: Region,
    /// What the cloud has listed and clusters have not heard yet.
    listings: VecDeque<(ClusterId, Box<Listing>)>,
    /// When these were listed.
    listed_at: Timestamp,
    /// The command that waits for an agent's answer to an instruction.
    instructed: BTreeMap<InstructionId, CommandId>,
    /// For which UID the lease of each cluster was last asked for.
    asked: BTreeMap<ClusterId, Text>,
    /// What the last agent of each cluster said.
    hellos: BTreeMap<ClusterId, Said>,
    /// Clusters of which this process has written down that a person says that no Karpenter is there.
    overruled: BTreeSet<ClusterId>,
    /// Clusters of ours without an agent, since when.
    silent: BTreeMap<ClusterId, Timestamp>,
    /// Clusters of ours that another replica wants.
    wanted: BTreeMap<ClusterId, Lease>,
    /// When the first of them may be handed over, if its agent has gone.
    hand_over_at: Option<Timestamp>,
    /// Whether the cloud is still thinking about the last question.
    asking: bool,
    renewing: Renewing,
    exchange: CounterSync,
    /// What tells this life of the process from all others.
    life: u64,
    /// When leases are to be renewed because of wishes.
    renew_at: Option<Timestamp>,
    /// When they were renewed last.
    renewed_at: Option<Timestamp>,
    admission: Admission,
    doorstep: Doorstep,
}

/// What an agent said when it came.
#[derive(Debug)]
struct Said {
    /// What makes the cluster the one that it is.
    uid: Text,
    highest_epoch: u64,
    /// Whether it is here still.
    here: bool,
    /// A person has told it that no Karpenter is at work there.
    karpenter_absent: bool,
}

/// Whether the store is prolonging leases. It is asked by one call at a time: two that are under way at once may each wait for
/// rows that the other holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renewing {
    No,
    UnderWay,
    /// And has to be asked again after that, because somebody wished for a lease meanwhile.
    OnceMore,
}

impl Replica {
    /// A process that has just started and buys in `region`. `seed` spreads its retries, and is another in each of its lives.
    pub(crate) fn new(controller: RegionController, seed: u64, region: Scope) -> Self {
        let executor = Executor::new(seed);
        Self {
            controller,
            executor,
            leases: BTreeMap::new(),
            region: Region::new(region),
            listings: VecDeque::new(),
            listed_at: Timestamp::default(),
            instructed: BTreeMap::new(),
            asked: BTreeMap::new(),
            hellos: BTreeMap::new(),
            overruled: BTreeSet::new(),
            silent: BTreeMap::new(),
            wanted: BTreeMap::new(),
            hand_over_at: None,
            asking: false,
            renewing: Renewing::No,
            exchange: CounterSync::default(),
            life: seed,
            renew_at: None,
            renewed_at: None,
            admission: Admission::default(),
            doorstep: Doorstep::default(),
        }
    }

    /// The same, with so many clusters on their way in at one time.
    pub(crate) fn admitting(self, at_once: usize) -> Self {
        Self { admission: Admission::of(at_once), ..self }
    }

    /// Takes in what happened and says what is to be done, in order.
    pub(crate) fn handle(&mut self, input: Input, now: Timestamp) -> Vec<Output> {
        let mut outputs = self.handled(input, now);
        for (cluster, seen) in self.admission.admit(now) {
            let uid = self.uid_of(&cluster);
            self.asked.insert(cluster.clone(), uid.clone());
            outputs.push(Output::Call(Call::TakeLease { cluster, seen, uid }));
        }
        outputs
    }

    fn handled(&mut self, input: Input, now: Timestamp) -> Vec<Output> {
        match input {
            Input::Heard(SessionEvent::Greeted(greeting)) => {
                self.greeted(greeting);
                Vec::new()
            }
            Input::Heard(SessionEvent::Left { cluster }) => {
                self.gone(&cluster);
                Vec::new()
            }
            Input::Heard(SessionEvent::Happened(event)) => self.happened(event, now),
            Input::Leased { cluster, answer, past } => {
                let past = past.into_iter().map(|attempt| intents::past(attempt, now)).collect();
                let granted = matches!(answer, Ok(LeaseAnswer::Granted { .. }));
                let recalled = granted.then(|| Event::Recalled { cluster: cluster.clone(), past });
                let remembered = intents::remembered(&cluster, &answer);
                let before = recalled.into_iter().chain(remembered);
                let mut outputs: Vec<Output> = before.flat_map(|event| self.happened(event, now)).collect();
                outputs.extend(self.leased(cluster, answer, now));
                outputs
            }
            Input::Planned(answer) => self.happened(Event::Planned(answer), now),
            Input::Ran { id, outcome } => self.ran(id, outcome, now),
            Input::CloudTold(events) => {
                self.asking = false;
                let events = events.into_iter().filter_map(|event| event_of(event, now));
                events.flat_map(|event| self.happened(event, now)).collect()
            }
            Input::Renewed(renewal) => self.renewed(&renewal, now),
            Input::RegionTaken(answer) => self.region.taken(answer).map(Output::Call).into_iter().collect(),
            Input::Listed { asked, answer } => self.listed(asked, answer, now),
            Input::Overheard { asked, clusters, answer } => {
                let heard = self.region.overheard(asked, clusters, answer);
                heard.map(|(asked, machines)| self.collect(asked, true, machines, now)).unwrap_or_default()
            }
            Input::Exchanged { taken, answer } => {
                let heard = self.exchange.done(taken.as_ref(), answer, now);
                heard.map(|event| self.happened(event, now)).unwrap_or_default()
            }
            Input::Told => Vec::new(),
            // What happens to machines of clusters that others decide for is theirs to hear.
            Input::CloudPoll if self.leases.is_empty() => Vec::new(),
            Input::CloudPoll => {
                let asked = std::mem::replace(&mut self.asking, true);
                (!asked).then_some(Output::Call(Call::AskCloud)).into_iter().collect()
            }
            Input::ExchangeDue => {
                let due = self.exchange.due(self.life, &self.controller.told(), now);
                due.map(Output::Call).into_iter().collect()
            }
            Input::RenewalDue => {
                self.renew().into_iter().chain(self.region.renewal_due(now)).map(Output::Call).collect()
            }
            Input::Wished => {
                let earliest = self.renewed_at.map_or(now, |at| Timestamp(at.0.saturating_add(WISHES_MS)).max(now));
                self.renew_at = earlier(self.renew_at, earliest);
                self.region.renewal_due(now).map(Output::Call).into_iter().collect()
            }
            Input::ListingDue => {
                let due = self.region.listing_due(self.leases.keys(), now);
                due.map(Output::Call).into_iter().collect()
            }
            Input::Time => self.time_passed(now),
        }
    }

    /// When [`Input::Time`] is due at the latest.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        let listings = (!self.listings.is_empty()).then_some(self.listed_at);
        let arrivals = [self.admission.next_due(), self.doorstep.next_due()];
        let due = [self.controller.next_wakeup(), self.executor.next_wakeup(), listings];
        due.into_iter().chain(arrivals).chain([self.renew_at, self.hand_over_at]).flatten().min()
    }

    /// What is believed and decided.
    pub(crate) fn controller(&self) -> &RegionController {
        &self.controller
    }

    /// The leases that this process takes itself to hold.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values().chain(self.region.lease())
    }

    /// What is left to tell the others when this process ends.
    pub(crate) fn last_words(&mut self, now: Timestamp) -> Option<CounterUpdate> {
        self.exchange.last_words(&self.controller.told(), now)
    }

    /// What tells this life of the process from all others.
    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// An agent wants to speak: whoever decides for its cluster must hold its lease, which is taken when it is its turn.
    fn greeted(&mut self, greeting: Greeting) {
        let Greeting { cluster, cluster_uid, highest_epoch, karpenter_absent, .. } = greeting;
        self.doorstep.over(&cluster);
        let uid = Text::from(cluster_uid);
        self.hellos.insert(cluster.clone(), Said { uid, highest_epoch, here: true, karpenter_absent });
        self.admission.greeted(cluster, highest_epoch);
    }

    fn uid_of(&self, cluster: &ClusterId) -> Text {
        self.hellos.get(cluster).map(|said| said.uid.clone()).unwrap_or_default()
    }

    /// The agent of another cluster of that name has taken the place of the one for whom the lease was taken: the store is asked
    /// whose name it is.
    fn ask_anew(&mut self, cluster: ClusterId) -> Vec<Output> {
        let seen = self.hellos.get(&cluster).filter(|said| said.here).map(|said| said.highest_epoch);
        if let Some(seen) = seen {
            self.admission.left(&cluster);
            self.admission.greeted(cluster, seen);
        }
        Vec::new()
    }

    /// The agent has left, or is turned away.
    fn gone(&mut self, cluster: &ClusterId) {
        if let Some(said) = self.hellos.get_mut(cluster) {
            said.here = false;
        }
        self.admission.left(cluster);
        self.doorstep.over(cluster);
    }

    fn leased(&mut self, cluster: ClusterId, answer: Result<LeaseAnswer, StoreError>, now: Timestamp) -> Vec<Output> {
        match answer {
            Ok(LeaseAnswer::Granted { lease, open }) => {
                info!(%cluster, epoch = lease.epoch, open_launches = open.intents.len(), "deciding for this cluster");
                let epoch = lease.epoch;
                self.leases.insert(cluster.clone(), lease);
                self.silent.insert(cluster.clone(), now);
                // Who takes a lease takes back what was wished of it.
                self.wanted.remove(&cluster);
                self.doorstep.over(&cluster);
                let uid = self.uid_of(&cluster);
                if self.asked.remove(&cluster).is_some_and(|asked| asked != uid) {
                    return self.ask_anew(cluster);
                }
                let launches = open.intents.into_iter().map(intents::decode).collect();
                let mut outputs = self.happened(Event::Adopted { cluster: cluster.clone(), uid, launches }, now);
                outputs.extend(self.audit_overruling(&cluster, now));
                outputs.push(Output::Accept { cluster, epoch });
                outputs
            }
            Ok(LeaseAnswer::Held { owner, expires_in }) => self.held(cluster, &owner, expires_in, now),
            Err(error) => {
                error!(%cluster, %error, "the lease of a cluster could not be taken");
                self.gone(&cluster);
                let reason = match error {
                    // What its own cluster can do about it.
                    StoreError::NameTaken { .. } => error.to_string(),
                    _ => "its lease could not be taken; connect again later".to_owned(),
                };
                vec![Output::Refuse { cluster, reason }]
            }
        }
    }

    /// Another replica decides for the cluster, and is told that its agent has come here.
    fn held(&mut self, cluster: ClusterId, owner: &str, expires_in: Duration, now: Timestamp) -> Vec<Output> {
        self.admission.left(&cluster);
        let Some(seen) = self.hellos.get(&cluster).filter(|said| said.here).map(|said| said.highest_epoch) else {
            return Vec::new();
        };
        let mut outputs = vec![Output::Call(Call::AskFor(Scope::cluster(&cluster)))];
        let reason = format!("the replica {owner} decides for it");
        if self.doorstep.held(&cluster, seen, expires_in, now) {
            info!(%cluster, reason, "an agent waits until this replica may decide for its cluster");
        } else {
            self.gone(&cluster);
            outputs.push(Output::Refuse { cluster, reason });
        }
        outputs
    }

    /// Has every lease prolonged, which tells what was lost and who wants what.
    fn renew(&mut self) -> Option<Call> {
        if self.renewing != Renewing::No {
            self.renewing = Renewing::OnceMore;
            return None;
        }
        let leases: Vec<Lease> = self.leases().cloned().collect();
        let call = (!leases.is_empty()).then_some(Call::Renew(leases))?;
        self.renewing = Renewing::UnderWay;
        Some(call)
    }

    fn renewed(&mut self, renewal: &Renewal, now: Timestamp) -> Vec<Output> {
        let again = std::mem::replace(&mut self.renewing, Renewing::No) == Renewing::OnceMore;
        self.renewed_at = Some(now);
        let mut outputs: Vec<Output> = renewal.lost.iter().flat_map(|lease| self.give_up(lease, now)).collect();
        for (lease, by) in &renewal.wanted {
            self.region.is_wanted(lease);
            let cluster = Text::from(lease.scope.cluster_name().unwrap_or_default());
            if self.leases.get(&cluster) == Some(lease) {
                debug!(%cluster, by, "another replica would decide for the cluster");
                self.wanted.insert(cluster, lease.clone());
            }
        }
        outputs.extend(self.hand_over(now));
        outputs.extend(again.then(|| self.renew()).flatten().map(Output::Call));
        outputs
    }

    /// Gives back the clusters that another replica wants and whose agents have gone.
    fn hand_over(&mut self, now: Timestamp) -> Vec<Output> {
        let (mut due, mut next) = (Vec::new(), None);
        for (cluster, lease) in &self.wanted {
            let Some(since) = self.silent.get(cluster) else { continue };
            let at = Timestamp(since.0.saturating_add(HAND_OVER_MS));
            if at > now {
                next = earlier(next, at);
            } else {
                info!(%cluster, "its agent has gone to another replica: the cluster is handed over");
                due.push(lease.clone());
            }
        }
        self.hand_over_at = next;
        let mut outputs: Vec<Output> = due.iter().flat_map(|lease| self.give_up(lease, now)).collect();
        if !due.is_empty() {
            outputs.push(Output::Call(Call::Release(due)));
        }
        outputs
    }

    /// Nothing when the lease has been taken again since.
    fn give_up(&mut self, lease: &Lease, now: Timestamp) -> Vec<Output> {
        let cluster = Text::from(lease.scope.cluster_name().unwrap_or_default());
        if self.region.lost(lease) || self.leases.get(&cluster) != Some(lease) {
            return Vec::new();
        }
        warn!(%cluster, epoch = lease.epoch, "this replica decides for the cluster no more");
        self.leases.remove(&cluster);
        self.silent.remove(&cluster);
        self.wanted.remove(&cluster);
        self.executor.forget(&cluster);
        let executor = &self.executor;
        self.instructed.retain(|_, command| executor.awaits(*command));
        let mut outputs = self.happened(Event::Released { cluster: cluster.clone() }, now);
        outputs.push(Output::Refuse { cluster, reason: "another replica decides for it".to_owned() });
        outputs
    }

    /// A listing that failed is heard as one that is not complete.
    fn listed(&mut self, asked: Timestamp, answer: Result<Vec<Instance>, String>, now: Timestamp) -> Vec<Output> {
        let complete = answer.is_ok();
        let given_up = self.region.listed(complete, now).map(Output::Call);
        let all = answer.unwrap_or_else(|why| {
            warn!(why, "the cloud does not list its machines; nothing is concluded from that");
            Vec::new()
        });
        let machines = region::sorted(self.leases.keys(), all);
        given_up.into_iter().chain(self.collect(asked, complete, machines, now)).collect()
    }

    /// Each cluster hears of its own machines, [`HEARD_AT_ONCE`] of them now and as many whenever time is looked at. What was
    /// listed before and not heard is older than this.
    fn collect(&mut self, asked: Timestamp, complete: bool, machines: ByCluster, now: Timestamp) -> Vec<Output> {
        self.listed_at = now;
        self.listings = machines
            .into_iter()
            .map(|(cluster, instances)| (cluster, Box::new(Listing { asked, complete, instances })))
            .collect();
        self.hear_listings(now)
    }

    fn hear_listings(&mut self, now: Timestamp) -> Vec<Output> {
        let mut outputs = Vec::new();
        for _ in 0..HEARD_AT_ONCE {
            let Some((cluster, listing)) = self.listings.pop_front() else { break };
            if self.leases.contains_key(&cluster) {
                outputs.extend(self.happened(Event::Listed { cluster, listing }, now));
            }
        }
        outputs
    }

    /// Takes in what a session or the cloud tells. The answer to an instruction ends its command first.
    fn happened(&mut self, event: Event, now: Timestamp) -> Vec<Output> {
        self.note_agent(&event, now);
        if told_of(&event).is_some_and(|cluster| !self.leases.contains_key(cluster)) {
            return Vec::new();
        }
        let steps = match &event {
            Event::InstructionAcked { instruction, .. } => self.answered(*instruction, Outcome::Done, now),
            Event::InstructionFailed { instruction, reason, unmet, .. } => {
                let outcome = if *unmet { Outcome::Unmet } else { Outcome::Refused };
                self.answered(*instruction, outcome(reason.clone()), now)
            }
            _ => None,
        };
        let steps = steps.unwrap_or_else(|| {
            self.executor.heard(&event);
            self.decide(event, now)
        });
        self.follow(steps, now)
    }

    fn note_agent(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::AgentConnected { cluster } => {
                self.silent.remove(cluster);
                self.admission.welcomed(cluster, now);
            }
            Event::AgentDisconnected { cluster } => {
                if self.leases.contains_key(cluster) {
                    self.silent.insert(cluster.clone(), now);
                }
                if self.wanted.contains_key(cluster) {
                    self.hand_over_at = earlier(self.hand_over_at, Timestamp(now.0.saturating_add(HAND_OVER_MS)));
                }
                self.gone(cluster);
            }
            Event::Observed { cluster, observation: Observation::Snapshot(_) } => self.admission.arrived(cluster),
            _ => {}
        }
    }

    /// `None` when no command waits for that answer.
    fn answered(&mut self, instruction: InstructionId, outcome: Outcome, now: Timestamp) -> Option<Vec<Step>> {
        let command = self.instructed.remove(&instruction)?;
        Some(self.executor.outcome(command, outcome, now))
    }

    fn decide(&mut self, event: Event, now: Timestamp) -> Vec<Step> {
        let effects = self.controller.handle(event, now);
        effects.into_iter().flat_map(|effect| self.executor.start(effect, now)).collect()
    }

    fn ran(&mut self, id: CommandId, outcome: Outcome, now: Timestamp) -> Vec<Output> {
        if let Outcome::TryAgain { why, .. } = &outcome {
            debug!(command = id.0, why, "a command will be sent again");
        }
        let steps = self.executor.outcome(id, outcome, now);
        self.follow(steps, now)
    }

    fn time_passed(&mut self, now: Timestamp) -> Vec<Output> {
        let mut steps = self.executor.tick(now);
        steps.extend(self.decide(Event::Tick, now));
        let mut outputs = self.follow(steps, now);
        outputs.extend(self.hear_listings(now));
        for (cluster, seen) in self.doorstep.due(now) {
            self.admission.greeted(cluster, seen);
        }
        if self.hand_over_at.is_some_and(|at| at <= now) {
            outputs.extend(self.hand_over(now));
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            self.renew_at = None;
            outputs.extend(self.renew().map(Output::Call));
        }
        outputs
    }

    fn follow(&mut self, steps: Vec<Step>, now: Timestamp) -> Vec<Output> {
        let mut queue = VecDeque::from(steps);
        let mut outputs = Vec::new();
        let refusals = self.controller.take_refusals();
        if !refusals.is_empty() {
            outputs.push(Output::Call(Call::Remember { region: self.region.key(), refusals }));
        }
        while let Some(step) = queue.pop_front() {
            match step {
                Step::Run { id, command: Command::Instruct { cluster, id: number, instruction }, .. } => {
                    self.instructed.insert(number, id);
                    let deadline = deadline(&instruction, now);
                    outputs.push(Output::Instruct { cluster, id: number, instruction, deadline });
                }
                Step::Run { id, command, answer_by } => {
                    let lease = self.lease_for(&command);
                    outputs.push(Output::Call(Call::Run { id, command, lease, answer_by }));
                }
                Step::Plan(request) => outputs.push(Output::Plan(request)),
                Step::Tell(event) => queue.extend(self.decide(*event, now)),
                Step::Resync { cluster, reason } => outputs.push(Output::Resync { cluster, reason }),
                Step::Report { cluster, finding } => warn!(%cluster, "{finding}"),
                Step::Publish { cluster } => outputs.push(Output::Show(cluster)),
            }
        }
        outputs
    }

    fn lease_for(&self, command: &Command) -> Option<Lease> {
        self.leases.get(command.cluster()).cloned()
    }
}

/// The earlier of the two.
fn earlier(known: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(at, |known| known.min(at)))
}

fn deadline(instruction: &Instruction, now: Timestamp) -> Timestamp {
    let wait = if matches!(instruction, Instruction::Drain { .. }) { DRAIN_MS } else { INSTRUCTION_MS };
    Timestamp(now.0.saturating_add(wait))
}

/// What the cloud told, as the controller hears it; a machine that is up speaks for itself by joining.
fn event_of(event: CloudEvent, now: Timestamp) -> Option<Event> {
    match event {
        CloudEvent::Running(_) => None,
        CloudEvent::Interrupted { instance, at } => Some(Event::Interrupted {
            cluster: instance.cluster,
            provider_id: instance.provider_id,
            reason: Text::from(format!("the cloud takes the machine back in {} s", at.millis_since(now) / 1000)),
        }),
        CloudEvent::Terminated(instance) => {
            Some(Event::InstanceGone { cluster: instance.cluster, provider_id: instance.provider_id })
        }
    }
}

/// Of which cluster somebody else has told something. It is for whoever decides for that cluster: people's word and the cloud's
/// reach every replica, and of a cluster that has passed on the last words of its agent may come late.
fn told_of(event: &Event) -> Option<&ClusterId> {
    match event {
        Event::Observed { cluster, .. }
        | Event::AgentConnected { cluster }
        | Event::AgentDisconnected { cluster }
        | Event::InstructionAcked { cluster, .. }
        | Event::InstructionFailed { cluster, .. }
        | Event::InstanceGone { cluster, .. }
        | Event::Interrupted { cluster, .. }
        | Event::RemovalsConfirmed { cluster }
        | Event::QuarantineReleased { cluster } => Some(cluster),
        Event::Planned(answer) => Some(&answer.request.cluster),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
