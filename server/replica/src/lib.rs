//! The decision logic of one server process, without I/O: an [`Input`] and its time go in,
//! [`Output`]s come out. The control loop adds tasks and sockets; the simulation adds a virtual
//! clock and several replicas.
//!
//! The controller decides; the executor orders and retries commands. This crate decides which
//! lease covers which call, and whether and when an agent is accepted ([`admission`],
//! [`handover_wait`]).

mod admission;
mod call;
pub mod counter_sync;
mod events;
pub mod fence;
mod handover_wait;
mod input;
pub mod intents;
mod overrides;
pub mod region;

pub use self::call::{Call, CounterUpdate};
pub use self::input::{Input, ListingError};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use cloud::provider::Instance;
use controller::cluster::Observation;
use controller::executor::{Command, CommandId, Executor, Outcome};
use controller::{Effect, Event, Instruction, InstructionId, Listing, PlanRequest, RegionController};
use model::{ClusterName, Millis, Text, Timestamp};
use tracing::{debug, error, info, warn};

use self::admission::Admission;
use self::counter_sync::CounterSync;
use self::events::{concerned_cluster, deadline, to_event};
use self::handover_wait::{HANDOVER_DELAY, HandoverWait};
use self::region::{InstancesByCluster, RegionLister};
use agent_session::{AgentHello, SessionEvent};
use store::StoreError;
use store::guardrails::{AuditEntry, FreezeScope};
use store::lease::{Lease, LeaseOutcome, Renewal, Scope};

/// Minimum interval between renewals that are caused by lease requests: a thousand successive
/// requests take a few renewals.
const LEASE_REQUEST_INTERVAL: Millis = Millis::new(250);

/// Clusters that process a listing in one step. A thousand clusters take tenths of a second, in
/// which no other decision is made.
const LISTINGS_PER_STEP: usize = 8;

/// An action that the surrounding loop carries out.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names and types of the fields say what they are")]
pub enum Output {
    /// Call the store or the cloud.
    Call(Call),
    /// Make a plan, which may take long; answered by [`Input::Planned`].
    Plan(Box<PlanRequest>),
    Accept {
        cluster: ClusterName,
        epoch: u64,
    },
    Refuse {
        cluster: ClusterName,
        reason: String,
    },
    /// Send an instruction to the agent.
    Instruct {
        cluster: ClusterName,
        id: InstructionId,
        instruction: Box<Instruction>,
        deadline: Timestamp,
    },
    /// Request a snapshot from the agent.
    Resync {
        cluster: ClusterName,
        reason: Text,
    },
    /// The published view of this cluster is outdated.
    PublishView(ClusterName),
}

/// Leases, agents and decisions of one server process.
#[derive(Debug)]
pub struct Replica {
    controller: RegionController,
    executor: Executor,
    leases: BTreeMap<ClusterName, Lease>,
    region: RegionLister,
    /// Listed instances that are not yet passed to the controller.
    listings: VecDeque<(ClusterName, Box<Listing>)>,
    listed_at: Timestamp,
    /// The UID that each cluster's lease was last requested for.
    requested_uids: BTreeMap<ClusterName, Text>,
    /// The last handshake of each cluster's agent.
    handshakes: BTreeMap<ClusterName, Handshake>,
    /// Clusters whose Karpenter override this process has audited.
    audited_overrides: BTreeSet<ClusterName>,
    /// Owned clusters without an agent, and since when.
    agent_absent_since: BTreeMap<ClusterName, Timestamp>,
    /// Owned clusters whose lease another replica has requested.
    handover_requests: BTreeMap<ClusterName, Lease>,
    /// When the first of them may be handed over if its agent stays disconnected.
    hand_over_at: Option<Timestamp>,
    /// Whether a `PollCloud` call is in flight.
    polling_cloud: bool,
    renewal: RenewalState,
    counter_sync: CounterSync,
    /// Identifies this run of the process among all others.
    generation: u64,
    /// When to renew because of lease requests.
    renew_at: Option<Timestamp>,
    renewed_at: Option<Timestamp>,
    admission: Admission,
    handover_wait: HandoverWait,
}

/// The last handshake of a cluster's agent.
#[derive(Debug)]
struct Handshake {
    uid: Text,
    highest_epoch: u64,
    connected: bool,
    /// The operator states that no Karpenter controller runs in the cluster.
    karpenter_absent: bool,
}

/// State of lease renewal. At most one call is in flight: two concurrent ones may deadlock on each
/// other's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RenewalState {
    Idle,
    InFlight,
    /// In flight, and to be repeated because a request arrived meanwhile.
    InFlightThenAgain,
}

impl Replica {
    /// A process that has just started and launches in `region`. `seed` spreads its retries and
    /// differs in each generation.
    pub fn new(controller: RegionController, seed: u64, region: Scope) -> Self {
        let executor = Executor::new(seed);
        Self {
            controller,
            executor,
            leases: BTreeMap::new(),
            region: RegionLister::new(region),
            listings: VecDeque::new(),
            listed_at: Timestamp::default(),
            requested_uids: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            audited_overrides: BTreeSet::new(),
            agent_absent_since: BTreeMap::new(),
            handover_requests: BTreeMap::new(),
            hand_over_at: None,
            polling_cloud: false,
            renewal: RenewalState::Idle,
            counter_sync: CounterSync::default(),
            generation: seed,
            renew_at: None,
            renewed_at: None,
            admission: Admission::default(),
            handover_wait: HandoverWait::default(),
        }
    }

    /// Limits how many clusters are admitted at one time.
    pub fn with_admission_limit(self, at_once: usize) -> Self {
        Self { admission: Admission::with_limit(at_once), ..self }
    }

    /// Handles `input` and returns the actions in order.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Vec<Output> {
        let mut outputs = self.dispatch(input, now);
        for (cluster, agent_epoch) in self.admission.admit_next(now) {
            let uid = self.uid_of(&cluster);
            self.requested_uids.insert(cluster.clone(), uid.clone());
            outputs.push(Output::Call(Call::TakeLease { cluster, agent_epoch, uid }));
        }
        outputs
    }

    fn dispatch(&mut self, input: Input, now: Timestamp) -> Vec<Output> {
        match input {
            Input::Session(SessionEvent::HelloReceived(hello)) => {
                self.handle_hello(hello);
                Vec::new()
            }
            Input::Session(SessionEvent::HandshakeAbandoned { cluster }) => {
                self.mark_agent_absent(&cluster);
                Vec::new()
            }
            Input::Session(SessionEvent::ClusterEvent(event)) => self.handle_event(event, now),
            Input::LeaseAnswered { cluster, answer, past } => {
                let past = past.into_iter().map(|attempt| intents::recent_launch(attempt, now)).collect();
                let granted = matches!(answer, Ok(LeaseOutcome::Granted { .. }));
                let history = granted.then(|| Event::LaunchHistoryLoaded { cluster: cluster.clone(), past });
                let extent = intents::extent_event(&cluster, &answer);
                let before = history.into_iter().chain(extent);
                let mut outputs: Vec<Output> = before.flat_map(|event| self.handle_event(event, now)).collect();
                outputs.extend(self.handle_lease_answer(cluster, answer, now));
                outputs
            }
            Input::Planned(answer) => self.handle_event(Event::Planned(answer), now),
            Input::CommandEnded { id, outcome } => self.handle_outcome(id, outcome, now),
            Input::CloudEvents(events) => {
                self.polling_cloud = false;
                let events = events.into_iter().filter_map(|event| to_event(event, now));
                events.flat_map(|event| self.handle_event(event, now)).collect()
            }
            Input::Renewed(renewal) => self.handle_renewal(&renewal, now),
            Input::RegionLeaseAnswered(answer) => {
                self.region.handle_lease_answer(answer).map(Output::Call).into_iter().collect()
            }
            Input::Listed { asked, answer } => self.handle_listing(asked, answer, now),
            Input::ListingRead { asked, clusters, answer } => {
                let listing = self.region.finish_reading(asked, clusters, answer);
                listing.map(|(asked, machines)| self.queue_listings(asked, true, machines, now)).unwrap_or_default()
            }
            Input::CountersSynced { acknowledged, answer } => {
                let counters = self.counter_sync.finish_sync(acknowledged.as_ref(), answer, now);
                counters.map(|event| self.handle_event(event, now)).unwrap_or_default()
            }
            Input::Done => Vec::new(),
            // Instance events of clusters owned by other replicas are theirs to handle.
            Input::CloudPoll if self.leases.is_empty() => Vec::new(),
            Input::CloudPoll => {
                let asked = std::mem::replace(&mut self.polling_cloud, true);
                (!asked).then_some(Output::Call(Call::PollCloud)).into_iter().collect()
            }
            Input::CounterSyncDue => {
                let due = self.counter_sync.begin_sync(self.generation, &self.controller.counter_snapshot(), now);
                due.map(Output::Call).into_iter().collect()
            }
            Input::RenewalDue => {
                self.renew_leases().into_iter().chain(self.region.try_take_lease(now)).map(Output::Call).collect()
            }
            Input::LeaseRequested => {
                let earliest = self.renewed_at.map_or(now, |at| (at + LEASE_REQUEST_INTERVAL).max(now));
                self.renew_at = earlier(self.renew_at, earliest);
                self.region.try_take_lease(now).map(Output::Call).into_iter().collect()
            }
            Input::ListingDue => {
                let due = self.region.begin_listing(self.leases.keys(), now);
                due.map(Output::Call).into_iter().collect()
            }
            Input::Time => self.handle_tick(now),
        }
    }

    /// Latest time of the next [`Input::Time`].
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let listings = (!self.listings.is_empty()).then_some(self.listed_at);
        let arrivals = [self.admission.next_due(), self.handover_wait.next_due()];
        let due = [self.controller.next_wakeup(), self.executor.next_wakeup(), listings];
        due.into_iter().chain(arrivals).chain([self.renew_at, self.hand_over_at]).flatten().min()
    }

    /// The controller, for views.
    pub fn controller(&self) -> &RegionController {
        &self.controller
    }

    /// The leases of this process, as far as it knows.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values().chain(self.region.lease())
    }

    /// The last counter update before shutdown.
    pub fn final_counters(&mut self, now: Timestamp) -> Option<CounterUpdate> {
        self.counter_sync.final_update(&self.controller.counter_snapshot(), now)
    }

    /// Identifies this run of the process among all others.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Queues an agent's handshake: the replica that decides for a cluster must hold its lease,
    /// which is acquired when admission allows it.
    fn handle_hello(&mut self, hello: AgentHello) {
        let AgentHello { cluster, cluster_uid, highest_epoch, karpenter_absent, .. } = hello;
        self.handover_wait.cancel(&cluster);
        let uid = Text::from(cluster_uid);
        self.handshakes.insert(cluster.clone(), Handshake { uid, highest_epoch, connected: true, karpenter_absent });
        self.admission.enqueue(cluster, highest_epoch);
    }

    fn uid_of(&self, cluster: &ClusterName) -> Text {
        self.handshakes.get(cluster).map(|handshake| handshake.uid.clone()).unwrap_or_default()
    }

    /// An agent with another UID has replaced the one that the lease was requested for: requests
    /// the lease again, so that the store checks which UID the name is bound to.
    fn request_lease_again(&mut self, cluster: ClusterName) -> Vec<Output> {
        let agent_epoch = self
            .handshakes
            .get(&cluster)
            .filter(|handshake| handshake.connected)
            .map(|handshake| handshake.highest_epoch);
        if let Some(agent_epoch) = agent_epoch {
            self.admission.remove(&cluster);
            self.admission.enqueue(cluster, agent_epoch);
        }
        Vec::new()
    }

    /// Handles an agent that disconnected or was refused.
    fn mark_agent_absent(&mut self, cluster: &ClusterName) {
        if let Some(handshake) = self.handshakes.get_mut(cluster) {
            handshake.connected = false;
        }
        self.admission.remove(cluster);
        self.handover_wait.cancel(cluster);
    }

    fn handle_lease_answer(
        &mut self,
        cluster: ClusterName,
        answer: Result<LeaseOutcome, StoreError>,
        now: Timestamp,
    ) -> Vec<Output> {
        match answer {
            Ok(LeaseOutcome::Granted { lease, open }) => {
                info!(%cluster, epoch = lease.epoch, open_launches = open.intents.len(), "acquired cluster lease");
                let epoch = lease.epoch;
                self.leases.insert(cluster.clone(), lease);
                self.agent_absent_since.insert(cluster.clone(), now);
                // Acquiring a lease discards requests for it in the store.
                self.handover_requests.remove(&cluster);
                self.handover_wait.cancel(&cluster);
                let uid = self.uid_of(&cluster);
                if self.requested_uids.remove(&cluster).is_some_and(|asked| asked != uid) {
                    return self.request_lease_again(cluster);
                }
                let launches = open.intents.into_iter().map(intents::decode).collect();
                let mut outputs =
                    self.handle_event(Event::LeaseAcquired { cluster: cluster.clone(), uid, launches }, now);
                outputs.extend(self.audit_karpenter_override(&cluster, now));
                outputs.push(Output::Accept { cluster, epoch });
                outputs
            }
            Ok(LeaseOutcome::Held { owner, expires_in }) => self.handle_lease_held(cluster, &owner, expires_in, now),
            Err(error) => {
                error!(%cluster, %error, "cannot acquire cluster lease");
                self.mark_agent_absent(&cluster);
                let reason = match error {
                    // The agent's operator can fix this one, so it is sent verbatim.
                    StoreError::NameTaken { .. } => error.to_string(),
                    _ => "cannot acquire the cluster's lease; connect again later".to_owned(),
                };
                vec![Output::Refuse { cluster, reason }]
            }
        }
    }

    /// Requests the cluster's lease from the replica that holds it; the agent waits here if it may.
    fn handle_lease_held(
        &mut self,
        cluster: ClusterName,
        owner: &str,
        expires_in: Duration,
        now: Timestamp,
    ) -> Vec<Output> {
        self.admission.remove(&cluster);
        let Some(agent_epoch) = self
            .handshakes
            .get(&cluster)
            .filter(|handshake| handshake.connected)
            .map(|handshake| handshake.highest_epoch)
        else {
            return Vec::new();
        };
        let mut outputs = vec![Output::Call(Call::RequestLease(Scope::cluster(&cluster)))];
        let reason = format!("replica {owner} holds the cluster's lease");
        if self.handover_wait.begin_wait(&cluster, agent_epoch, expires_in, now) {
            info!(%cluster, reason, "agent waiting for handover of cluster lease");
        } else {
            self.mark_agent_absent(&cluster);
            outputs.push(Output::Refuse { cluster, reason });
        }
        outputs
    }

    /// Renews every lease; the result contains lost and requested leases.
    fn renew_leases(&mut self) -> Option<Call> {
        if self.renewal != RenewalState::Idle {
            self.renewal = RenewalState::InFlightThenAgain;
            return None;
        }
        let leases: Vec<Lease> = self.leases().cloned().collect();
        let call = (!leases.is_empty()).then_some(Call::RenewLeases(leases))?;
        self.renewal = RenewalState::InFlight;
        Some(call)
    }

    fn handle_renewal(&mut self, renewal: &Renewal, now: Timestamp) -> Vec<Output> {
        let again = std::mem::replace(&mut self.renewal, RenewalState::Idle) == RenewalState::InFlightThenAgain;
        self.renewed_at = Some(now);
        let mut outputs: Vec<Output> = renewal.lost.iter().flat_map(|lease| self.drop_lease(lease, now)).collect();
        for (lease, by) in &renewal.requested {
            self.region.mark_wanted(lease);
            let cluster = ClusterName::from(lease.scope.cluster_name().unwrap_or_default());
            if self.leases.get(&cluster) == Some(lease) {
                debug!(%cluster, by, "another replica requests cluster lease");
                self.handover_requests.insert(cluster, lease.clone());
            }
        }
        outputs.extend(self.hand_over_clusters(now));
        outputs.extend(again.then(|| self.renew_leases()).flatten().map(Output::Call));
        outputs
    }

    /// Releases clusters that another replica has requested and whose agents have disconnected.
    fn hand_over_clusters(&mut self, now: Timestamp) -> Vec<Output> {
        let (mut due, mut next) = (Vec::new(), None);
        for (cluster, lease) in &self.handover_requests {
            let Some(since) = self.agent_absent_since.get(cluster) else { continue };
            let at = *since + HANDOVER_DELAY;
            if at > now {
                next = earlier(next, at);
            } else {
                info!(%cluster, "handing over cluster: agent connected to another replica");
                due.push(lease.clone());
            }
        }
        self.hand_over_at = next;
        let mut outputs: Vec<Output> = due.iter().flat_map(|lease| self.drop_lease(lease, now)).collect();
        if !due.is_empty() {
            outputs.push(Output::Call(Call::ReleaseLeases(due)));
        }
        outputs
    }

    /// Stops owning a cluster; nothing if its lease has been acquired again since.
    fn drop_lease(&mut self, lease: &Lease, now: Timestamp) -> Vec<Output> {
        let cluster = ClusterName::from(lease.scope.cluster_name().unwrap_or_default());
        if self.region.drop_lease(lease) || self.leases.get(&cluster) != Some(lease) {
            return Vec::new();
        }
        warn!(%cluster, epoch = lease.epoch, "lost cluster lease");
        self.leases.remove(&cluster);
        self.agent_absent_since.remove(&cluster);
        self.handover_requests.remove(&cluster);
        self.executor.forget_cluster(&cluster);
        let mut outputs = self.handle_event(Event::LeaseReleased { cluster: cluster.clone() }, now);
        outputs.push(Output::Refuse { cluster, reason: "another replica holds the cluster's lease".to_owned() });
        outputs
    }

    /// Handles a listing; a failed one counts as incomplete.
    fn handle_listing(
        &mut self,
        asked: Timestamp,
        answer: Result<Vec<Instance>, ListingError>,
        now: Timestamp,
    ) -> Vec<Output> {
        let complete = answer.is_ok();
        let given_up = self.region.finish_listing(complete, now).map(Output::Call);
        let all = answer.unwrap_or_else(|error| {
            warn!(%error, "cannot list instances; skipping this round");
            Vec::new()
        });
        let machines = region::group_by_cluster(self.leases.keys(), all);
        given_up.into_iter().chain(self.queue_listings(asked, complete, machines, now)).collect()
    }

    /// Queues each cluster's instances: [`LISTINGS_PER_STEP`] clusters process them now and at each
    /// tick. A newer listing replaces what is still queued.
    fn queue_listings(
        &mut self,
        asked: Timestamp,
        complete: bool,
        machines: InstancesByCluster,
        now: Timestamp,
    ) -> Vec<Output> {
        self.listed_at = now;
        self.listings = machines
            .into_iter()
            .map(|(cluster, instances)| (cluster, Box::new(Listing { requested_at: asked, complete, instances })))
            .collect();
        self.deliver_listings(now)
    }

    fn deliver_listings(&mut self, now: Timestamp) -> Vec<Output> {
        let mut outputs = Vec::new();
        for _ in 0..LISTINGS_PER_STEP {
            let Some((cluster, listing)) = self.listings.pop_front() else { break };
            if self.leases.contains_key(&cluster) {
                outputs.extend(self.handle_event(Event::Listed { cluster, listing }, now));
            }
        }
        outputs
    }

    /// Handles an event of a session or the cloud. The answer to an instruction first ends its
    /// command.
    fn handle_event(&mut self, event: Event, now: Timestamp) -> Vec<Output> {
        self.track_agent(&event, now);
        if concerned_cluster(&event).is_some_and(|cluster| !self.leases.contains_key(cluster)) {
            return Vec::new();
        }
        let next = self.executor.observe(&event, now);
        self.run_controller(next, event, now)
    }

    fn track_agent(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::AgentConnected { cluster } => {
                self.agent_absent_since.remove(cluster);
                self.admission.mark_accepted(cluster, now);
            }
            Event::AgentDisconnected { cluster } => {
                if self.leases.contains_key(cluster) {
                    self.agent_absent_since.insert(cluster.clone(), now);
                }
                if self.handover_requests.contains_key(cluster) {
                    self.hand_over_at = earlier(self.hand_over_at, now + HANDOVER_DELAY);
                }
                self.mark_agent_absent(cluster);
            }
            Event::Observed { cluster, observation: Observation::Snapshot(_) } => self.admission.mark_synced(cluster),
            _ => {}
        }
    }

    /// Passes `event` to the controller. `due` are commands to send before its effects.
    fn run_controller(&mut self, due: impl IntoIterator<Item = Command>, event: Event, now: Timestamp) -> Vec<Output> {
        let effects = self.controller.handle(event, now);
        let mut outputs = self.publish_unavailable_offerings();
        outputs.extend(self.execute(due, effects, now));
        outputs
    }

    fn handle_outcome(&mut self, id: CommandId, outcome: Outcome, now: Timestamp) -> Vec<Output> {
        if let Err(retry) = &outcome {
            debug!(command = id.0, why = retry.why, "command will be retried");
        }
        // Offerings that this event makes unavailable are published with the next input.
        let mut outputs = self.publish_unavailable_offerings();
        let (event, next) = self.executor.handle_outcome(id, outcome, now);
        let effects = event.map(|event| self.controller.handle(event, now)).unwrap_or_default();
        outputs.extend(self.execute(next, effects, now));
        outputs
    }

    fn handle_tick(&mut self, now: Timestamp) -> Vec<Output> {
        let due = self.executor.tick(now);
        let mut outputs = self.run_controller(due, Event::Tick, now);
        outputs.extend(self.deliver_listings(now));
        for (cluster, agent_epoch) in self.handover_wait.take_due(now) {
            self.admission.enqueue(cluster, agent_epoch);
        }
        if self.hand_over_at.is_some_and(|at| at <= now) {
            outputs.extend(self.hand_over_clusters(now));
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            self.renew_at = None;
            outputs.extend(self.renew_leases().map(Output::Call));
        }
        outputs
    }

    fn publish_unavailable_offerings(&mut self) -> Vec<Output> {
        let refusals = self.controller.take_unavailable_offerings();
        if refusals.is_empty() {
            return Vec::new();
        }
        vec![Output::Call(Call::PublishUnavailableOfferings { region: self.region.key(), refusals })]
    }

    /// Sends `due`, then starts `effects`.
    fn execute(&mut self, due: impl IntoIterator<Item = Command>, effects: Vec<Effect>, now: Timestamp) -> Vec<Output> {
        let mut outputs: Vec<Output> = due.into_iter().map(|command| self.send(command, now)).collect();
        outputs.extend(effects.into_iter().filter_map(|effect| self.start(effect, now)));
        outputs
    }

    fn start(&mut self, effect: Effect, now: Timestamp) -> Option<Output> {
        match effect {
            Effect::Plan(request) => Some(Output::Plan(request)),
            Effect::Resync { cluster, reason } => Some(Output::Resync { cluster, reason }),
            Effect::PublishView { cluster } => Some(Output::PublishView(cluster)),
            Effect::ReportFinding { cluster, finding } => {
                warn!(%cluster, %finding, "controller warning");
                None
            }
            effect => self.executor.start(effect, now).map(|command| self.send(command, now)),
        }
    }

    fn send(&self, command: Command, now: Timestamp) -> Output {
        match command.effect {
            Effect::Instruct { cluster, id, instruction } => {
                let deadline = deadline(&instruction, now);
                Output::Instruct { cluster, id, instruction, deadline }
            }
            _ => {
                let lease = self.leases.get(command.effect.cluster()).cloned();
                Output::Call(Call::RunCommand { command, lease })
            }
        }
    }
}

fn earlier(known: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(at, |known| known.min(at)))
}

#[cfg(test)]
mod tests;
