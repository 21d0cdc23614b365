//! Leases and agents of one server process, without I/O: which clusters it owns, and which input
//! concerns which of them.
//!
//! It decides which lease is acquired, renewed and handed over, and whether and when an agent is
//! accepted ([`admission`](super::admission), [`handover_wait`](super::handover_wait)). What happens
//! in a cluster is decided by its [`OwnedCluster`](super::OwnedCluster).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud::provider::Instance;
use cluster::Observation;
use controller::{ClusterEvent, Event, Listing, RegionState};
use model::{ClusterName, Millis, Text, Timestamp};
use tracing::{debug, error, info, warn};

use super::admission::Admission;
use super::call::{Call, CounterUpdate};
use super::cloud_poll::CloudPoll;
use super::counter_sync::CounterSync;
use super::events::to_event;
use super::handover_wait::{HANDOVER_DELAY, HandoverWait};
use super::input::{Input, ListingError};
use super::intents;
use super::interruptions::Interruptions;
use super::moves;
use super::output::Output;
use super::owned_cluster::ClusterInput;
use super::region::{self, InstancesByCluster, RegionLister};
use super::{holds, replacements};
use agent_session::{AgentHello, SessionEvent};
use store::StoreError;
use store::guardrails::{AuditEntry, FreezeScope};
use store::interruptions::StoredInterruption;
use store::lease::{Lease, LeaseOutcome, OpenOperations, Renewal, Scope};

/// Minimum interval between renewals that are caused by lease requests: a thousand successive
/// requests take a few renewals.
const LEASE_REQUEST_INTERVAL: Millis = Millis::new(250);

/// What follows from an input, in order.
#[derive(Debug)]
pub enum Step {
    /// The surrounding loop carries it out.
    Output(Output),
    /// This process owns the cluster from now on, or has acquired its lease again.
    Own(ClusterName, Lease),
    /// This process does not own the cluster any more.
    Release(ClusterName, Lease),
    /// The cluster handles it.
    Deliver(ClusterName, ClusterInput),
}

impl From<Call> for Step {
    fn from(call: Call) -> Self {
        Self::Output(Output::Call(call))
    }
}

impl From<ClusterEvent> for Step {
    fn from(ClusterEvent { cluster, event }: ClusterEvent) -> Self {
        Self::Deliver(cluster, ClusterInput::Event(event))
    }
}

/// Leases and agents of one server process.
#[derive(Debug)]
pub struct Coordinator {
    shared: Arc<RegionState>,
    leases: BTreeMap<ClusterName, Lease>,
    region: RegionLister,
    interruptions: Interruptions,
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
    cloud_poll: CloudPoll,
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

impl Coordinator {
    /// A process that has just started and launches in `region`. `seed` differs in
    /// each generation.
    pub fn new(shared: Arc<RegionState>, seed: u64, region: Scope) -> Self {
        Self {
            shared,
            leases: BTreeMap::new(),
            interruptions: Interruptions::new(region.clone()),
            region: RegionLister::new(region),
            requested_uids: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            audited_overrides: BTreeSet::new(),
            agent_absent_since: BTreeMap::new(),
            handover_requests: BTreeMap::new(),
            hand_over_at: None,
            cloud_poll: CloudPoll::default(),
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

    /// Handles `input` and returns what follows, in order.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Vec<Step> {
        let mut steps = self.dispatch(input, now);
        for (cluster, agent_epoch) in self.admission.admit_next(now) {
            let uid = self.uid_of(&cluster);
            self.requested_uids.insert(cluster.clone(), uid.clone());
            let moves_within = self.shared.settings().consolidation.moves_within();
            steps.push(Call::TakeLease { cluster, agent_epoch, uid, moves_within }.into());
        }
        steps
    }

    fn dispatch(&mut self, input: Input, now: Timestamp) -> Vec<Step> {
        match input {
            Input::Session(SessionEvent::HelloReceived(hello)) => self.handle_hello(hello),
            Input::Session(SessionEvent::HandshakeAbandoned { cluster }) => {
                self.mark_agent_absent(&cluster);
                Vec::new()
            }
            Input::Session(SessionEvent::ClusterEvent(event)) | Input::ClusterEvent(event) => {
                self.handle_event(event, now).into_iter().collect()
            }
            Input::Session(SessionEvent::RegionEvent(event)) => {
                self.shared.apply(event, now);
                Vec::new()
            }
            Input::LeaseAnswered { cluster, answer, past, moves } => {
                let past = past.into_iter().map(|attempt| intents::recent_launch(attempt, now)).collect();
                let history = [Event::LaunchHistoryLoaded(past), Event::MovesLoaded(moves::decode(&moves))];
                self.handle_lease_answer(cluster, answer, history, now)
            }
            Input::CommandEnded { cluster, id, outcome } => {
                let owned = self.leases.contains_key(&cluster);
                let ended = owned.then_some(Step::Deliver(cluster, ClusterInput::CommandEnded { id, outcome }));
                ended.into_iter().collect()
            }
            Input::CloudEvents(events) => {
                self.cloud_poll.finish(events.is_some(), now);
                let events = events.unwrap_or_default().into_iter().filter_map(to_event);
                events.filter_map(|event| self.handle_event(event, now)).collect()
            }
            Input::Renewed(renewal) => self.handle_renewal(&renewal, now),
            Input::RegionLeaseAnswered(answer) => {
                self.region.handle_lease_answer(answer).map(Step::from).into_iter().collect()
            }
            Input::Listed { asked, answer } => self.handle_listing(asked, answer, now),
            Input::ListingRead { asked, clusters, answer } => {
                let listing = self.region.finish_reading(asked, clusters, answer);
                listing.map(|(asked, machines)| self.deliver_listings(asked, true, machines)).unwrap_or_default()
            }
            Input::InterruptionsRead(answer) => self.handle_interruptions(answer, now),
            Input::CountersSynced { acknowledged, answer } => {
                if let Some(counters) = self.counter_sync.finish_sync(acknowledged.as_ref(), answer, now) {
                    self.shared.apply(counters, now);
                }
                Vec::new()
            }
            Input::Done => Vec::new(),
            // Instance events of clusters owned by other replicas are theirs to handle.
            Input::CloudPoll if self.leases.is_empty() => Vec::new(),
            Input::CloudPoll => self.cloud_poll.begin(now).then(|| Call::PollCloud.into()).into_iter().collect(),
            Input::CounterSyncDue => {
                let due = self.counter_sync.begin_sync(self.generation, &self.shared.counter_snapshot(), now);
                due.map(Step::from).into_iter().collect()
            }
            Input::RenewalDue => {
                self.renew_leases().into_iter().chain(self.region.try_take_lease(now)).map(Step::from).collect()
            }
            Input::LeaseRequested => self.handle_lease_request(now),
            Input::ListingDue => {
                let due = self.region.begin_listing(self.leases.keys(), now);
                due.map(Step::from).into_iter().collect()
            }
            Input::InstanceStatusPolled(answer) => {
                self.interruptions.finish_poll(answer);
                Vec::new()
            }
            Input::InterruptionsDue => self.begin_interruption_calls(now),
            Input::Time => self.handle_tick(now),
        }
    }

    /// A replica has requested or released a lease: the next renewal, which learns of it, comes soon.
    fn handle_lease_request(&mut self, now: Timestamp) -> Vec<Step> {
        let earliest = self.renewed_at.map_or(now, |at| (at + LEASE_REQUEST_INTERVAL).max(now));
        self.renew_at = earlier(self.renew_at, earliest);
        self.region.try_take_lease(now).map(Step::from).into_iter().collect()
    }

    /// Reads stored notices; the replica that lists the region polls the status of instances too.
    fn begin_interruption_calls(&mut self, now: Timestamp) -> Vec<Step> {
        let poll = self.region.lease().is_some().then(|| self.interruptions.begin_poll(now)).flatten();
        self.interruptions.begin_read().into_iter().chain(poll).map(Step::from).collect()
    }

    /// Latest time of the next [`Input::Time`].
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let arrivals = [self.admission.next_due(), self.handover_wait.next_due()];
        let due = [self.shared.next_change(), self.renew_at, self.hand_over_at];
        due.into_iter().chain(arrivals).flatten().min()
    }

    /// Whether this process owns `cluster`.
    pub fn owns(&self, cluster: &ClusterName) -> bool {
        self.leases.contains_key(cluster)
    }

    /// The leases of this process, as far as it knows.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values().chain(self.region.lease())
    }

    /// The last counter update before shutdown.
    pub fn final_counters(&mut self, now: Timestamp) -> Option<CounterUpdate> {
        self.counter_sync.final_update(&self.shared.counter_snapshot(), now)
    }

    /// Identifies this run of the process among all others.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Queues an agent's handshake: the replica that decides for a cluster must hold its lease,
    /// which is acquired when admission allows it. An agent of another region is refused: machines
    /// of this region would be launched for its pods.
    fn handle_hello(&mut self, hello: AgentHello) -> Vec<Step> {
        let AgentHello { cluster, cluster_uid, highest_epoch, karpenter_absent, region, .. } = hello;
        self.handover_wait.cancel(&cluster);
        let served = self.region.name();
        if !region.is_empty() && region != served {
            warn!(%cluster, region, served, "refused agent of another region");
            let reason = format!(
                "the agent's cluster.region is {region}, and this server launches machines in {served} (its cloud.region, or the \
                 region of the cluster's entry in its cloud.accounts-file); connect the agent to a server of its region, or correct \
                 the setting that is wrong"
            );
            return vec![Step::Output(Output::Refuse { cluster, reason })];
        }
        let uid = Text::from(cluster_uid);
        self.handshakes.insert(cluster.clone(), Handshake { uid, highest_epoch, connected: true, karpenter_absent });
        self.admission.enqueue(cluster, highest_epoch);
        Vec::new()
    }

    fn uid_of(&self, cluster: &ClusterName) -> Text {
        self.handshakes.get(cluster).map(|handshake| handshake.uid.clone()).unwrap_or_default()
    }

    /// An agent with another UID has replaced the one that the lease was requested for: requests
    /// the lease again, so that the store checks which UID the name is bound to.
    fn request_lease_again(&mut self, cluster: ClusterName) {
        let agent_epoch = self
            .handshakes
            .get(&cluster)
            .filter(|handshake| handshake.connected)
            .map(|handshake| handshake.highest_epoch);
        if let Some(agent_epoch) = agent_epoch {
            self.admission.remove(&cluster);
            self.admission.enqueue(cluster, agent_epoch);
        }
    }

    /// Handles an agent that disconnected or was refused.
    fn mark_agent_absent(&mut self, cluster: &ClusterName) {
        if let Some(handshake) = self.handshakes.get_mut(cluster) {
            handshake.connected = false;
        }
        self.admission.remove(cluster);
        self.handover_wait.cancel(cluster);
    }

    /// Handles the store's answer. `history` restores what earlier owners counted; it precedes
    /// [`Event::LeaseAcquired`], as what the last one left in the store does.
    fn handle_lease_answer(
        &mut self,
        cluster: ClusterName,
        answer: Result<LeaseOutcome, StoreError>,
        history: [Event; 2],
        now: Timestamp,
    ) -> Vec<Step> {
        match answer {
            Ok(LeaseOutcome::Granted { lease, open }) => {
                info!(%cluster, epoch = lease.epoch, open_launches = open.intents.len(), "acquired cluster lease");
                let epoch = lease.epoch;
                let mut steps = vec![Step::Own(cluster.clone(), lease.clone())];
                let before = history.into_iter().chain(loaded_events(&cluster, &open, now));
                steps.extend(before.map(|event| event.of(cluster.clone()).into()));
                self.leases.insert(cluster.clone(), lease);
                self.interruptions.search_again();
                self.agent_absent_since.insert(cluster.clone(), now);
                // Acquiring a lease discards requests for it in the store.
                self.handover_requests.remove(&cluster);
                self.handover_wait.cancel(&cluster);
                let uid = self.uid_of(&cluster);
                if self.requested_uids.remove(&cluster).is_some_and(|asked| asked != uid) {
                    self.request_lease_again(cluster);
                    return steps;
                }
                let launches = open.intents.into_iter().map(intents::decode).collect();
                steps.push(Event::LeaseAcquired { uid, launches }.of(cluster.clone()).into());
                steps.extend(self.audit_karpenter_override(&cluster, now));
                steps.push(Step::Output(Output::Accept { cluster, epoch }));
                steps
            }
            Ok(LeaseOutcome::Held { owner, expires_in }) => self.handle_lease_held(cluster, &owner, expires_in, now),
            Err(error) => {
                error!(%cluster, %error, "cannot acquire cluster lease");
                self.mark_agent_absent(&cluster);
                let reason = match error {
                    // The agent's operator can fix these, so they are sent verbatim.
                    StoreError::NameTaken { .. } | StoreError::UidTaken { .. } => error.to_string(),
                    _ => "cannot acquire the cluster's lease; connect again later".to_owned(),
                };
                vec![Step::Output(Output::Refuse { cluster, reason })]
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
    ) -> Vec<Step> {
        self.admission.remove(&cluster);
        let Some(agent_epoch) = self
            .handshakes
            .get(&cluster)
            .filter(|handshake| handshake.connected)
            .map(|handshake| handshake.highest_epoch)
        else {
            return Vec::new();
        };
        let mut steps = vec![Step::from(Call::RequestLease(Scope::cluster(&cluster)))];
        let reason = format!("replica {owner} holds the cluster's lease");
        if self.handover_wait.begin_wait(&cluster, agent_epoch, expires_in, now) {
            info!(%cluster, reason, "agent waiting for handover of cluster lease");
        } else {
            self.mark_agent_absent(&cluster);
            steps.push(Step::Output(Output::Refuse { cluster, reason }));
        }
        steps
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

    fn handle_renewal(&mut self, renewal: &Renewal, now: Timestamp) -> Vec<Step> {
        let again = std::mem::replace(&mut self.renewal, RenewalState::Idle) == RenewalState::InFlightThenAgain;
        self.renewed_at = Some(now);
        let mut steps: Vec<Step> = renewal.lost.iter().flat_map(|lease| self.drop_lease(lease)).collect();
        for (lease, by) in &renewal.requested {
            self.region.mark_wanted(lease);
            let cluster = ClusterName::from(lease.scope.cluster_name().unwrap_or_default());
            if self.leases.get(&cluster) == Some(lease) {
                debug!(%cluster, by, "another replica requests cluster lease");
                self.handover_requests.insert(cluster, lease.clone());
            }
        }
        steps.extend(self.hand_over_clusters(now));
        steps.extend(again.then(|| self.renew_leases()).flatten().map(Step::from));
        steps
    }

    /// Releases clusters that another replica has requested and whose agents have disconnected.
    fn hand_over_clusters(&mut self, now: Timestamp) -> Vec<Step> {
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
        let mut steps: Vec<Step> = due.iter().flat_map(|lease| self.drop_lease(lease)).collect();
        if !due.is_empty() {
            steps.push(Call::ReleaseLeases(due).into());
        }
        steps
    }

    /// Stops owning a cluster; nothing if its lease has been acquired again since.
    fn drop_lease(&mut self, lease: &Lease) -> Vec<Step> {
        let cluster = ClusterName::from(lease.scope.cluster_name().unwrap_or_default());
        if self.region.drop_lease(lease) || self.leases.get(&cluster) != Some(lease) {
            return Vec::new();
        }
        warn!(%cluster, epoch = lease.epoch, "lost cluster lease");
        self.leases.remove(&cluster);
        self.interruptions.forget_cluster(&cluster);
        self.agent_absent_since.remove(&cluster);
        self.handover_requests.remove(&cluster);
        let reason = "another replica holds the cluster's lease".to_owned();
        // The cluster takes no further step before its agent is refused.
        vec![
            Step::Release(cluster.clone(), lease.clone()),
            Step::Output(Output::PublishView(cluster.clone())),
            Step::Output(Output::Refuse { cluster, reason }),
        ]
    }

    /// Handles a listing; a failed one counts as incomplete.
    fn handle_listing(
        &mut self,
        asked: Timestamp,
        answer: Result<Vec<Instance>, ListingError>,
        now: Timestamp,
    ) -> Vec<Step> {
        let complete = answer.is_ok();
        let given_up = self.region.finish_listing(complete, now).map(Step::from);
        // Whoever carries the call out logs when the cloud ceases to answer, once.
        let all = answer.unwrap_or_else(|error| {
            debug!(%error, "cannot list instances; skipping this round");
            Vec::new()
        });
        let machines = region::group_by_cluster(self.leases.keys(), all);
        given_up.into_iter().chain(self.deliver_listings(asked, complete, machines)).collect()
    }

    /// Passes each cluster its instances, unless it was lost while they were listed.
    fn deliver_listings(&self, asked: Timestamp, complete: bool, machines: InstancesByCluster) -> Vec<Step> {
        let owned = machines.into_iter().filter(|(cluster, _)| self.owns(cluster));
        let steps = owned.map(|(cluster, instances)| {
            let listing = Box::new(Listing { requested_at: asked, complete, instances });
            Step::from(Event::Listed(listing).of(cluster))
        });
        steps.collect()
    }

    /// Handles the notices that were read, and passes each cluster those about its instances.
    fn handle_interruptions(
        &mut self,
        answer: Result<Vec<StoredInterruption>, StoreError>,
        now: Timestamp,
    ) -> Vec<Step> {
        let more = self.interruptions.finish_read(answer, now).map(Step::from);
        let leases = &self.leases;
        let events = self.interruptions.take_owned(&self.shared, |cluster| leases.contains_key(cluster), now);
        events.into_iter().map(Step::from).chain(more).collect()
    }

    /// Handles an event of a session or the cloud. Operator and cloud events reach every replica,
    /// and an agent's last events may arrive after its cluster was handed over; only the lease
    /// holder may act on them.
    fn handle_event(&mut self, event: ClusterEvent, now: Timestamp) -> Option<Step> {
        self.track_agent(&event, now);
        self.owns(&event.cluster).then(|| event.into())
    }

    fn track_agent(&mut self, ClusterEvent { cluster, event }: &ClusterEvent, now: Timestamp) {
        match event {
            Event::AgentConnected => {
                self.agent_absent_since.remove(cluster);
                self.admission.mark_accepted(cluster, now);
            }
            Event::AgentDisconnected => {
                if self.leases.contains_key(cluster) {
                    self.agent_absent_since.insert(cluster.clone(), now);
                }
                if self.handover_requests.contains_key(cluster) {
                    self.hand_over_at = earlier(self.hand_over_at, now + HANDOVER_DELAY);
                }
                self.mark_agent_absent(cluster);
            }
            Event::Observed(Observation::Snapshot(_)) => self.admission.mark_synced(cluster),
            _ => {}
        }
    }

    /// Audits that the operator has set `agent.karpenter-absent`, which overrides the agent's
    /// detection: once per process that owns the cluster.
    fn audit_karpenter_override(&mut self, cluster: &ClusterName, now: Timestamp) -> Option<Step> {
        let overridden = self.handshakes.get(cluster).is_some_and(|handshake| handshake.karpenter_absent);
        if !overridden {
            self.audited_overrides.remove(cluster);
            return None;
        }
        let entry = AuditEntry {
            at_ms: now.as_millis(),
            who: format!("the agent of {cluster}"),
            what: "karpenter-absent".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_string()).key(),
            detail: "agent.karpenter-absent is set: NodeClaims are created even if a Karpenter controller is detected"
                .to_owned(),
        };
        self.audited_overrides.insert(cluster.clone()).then(|| Call::Audit(entry).into())
    }

    fn handle_tick(&mut self, now: Timestamp) -> Vec<Step> {
        self.shared.advance(now);
        for (cluster, agent_epoch) in self.handover_wait.take_due(now) {
            self.admission.enqueue(cluster, agent_epoch);
        }
        let mut steps = Vec::new();
        if self.hand_over_at.is_some_and(|at| at <= now) {
            steps.extend(self.hand_over_clusters(now));
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            self.renew_at = None;
            steps.extend(self.renew_leases().map(Step::from));
        }
        steps
    }
}

fn earlier(known: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(at, |known| known.min(at)))
}

/// What the previous owner left in the store for the next one.
fn loaded_events(cluster: &ClusterName, open: &OpenOperations, now: Timestamp) -> impl Iterator<Item = Event> + use<> {
    let costs = (!open.costs.is_empty()).then(|| Event::CostsLoaded(open.costs.clone()));
    let holds = holds::loaded_event(cluster, &open.holds, now);
    [intents::extent_event(open), replacements::loaded_event(open, now), holds, costs].into_iter().flatten()
}
